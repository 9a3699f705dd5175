"""All parts of a running service together: store, versions, service, learner, and what happens by itself."""

import copy
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from gfn4rec.errors import UserError
from gfn4rec.live.clock import steady_clock
from gfn4rec.live.config import LearnerSettings, ServiceConfig
from gfn4rec.live.growth import untrained_policy
from gfn4rec.live.learning import LearnerStatus, read_status
from gfn4rec.live.ownership import claim
from gfn4rec.live.promotion import Promotion
from gfn4rec.live.service import LiveService, probe_requests
from gfn4rec.live.store.decisions import latest_time, newest_sample, samples_after
from gfn4rec.live.store.state import newest_revision, read_property, write_property
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import decisions, events
from gfn4rec.live.store.writer import StoreError
from gfn4rec.live.supervisor import Supervisor, this_command
from gfn4rec.live.versions import VersionManifest, Versions
from gfn4rec.policies.base import Policy
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.process import set_up_process
from gfn4rec.training.threads import Threads

_LOG: Final = logging.getLogger(__name__)
_PAUSE: Final = 0.2  # seconds between closing decisions and taking in versions
_RECENT_SAMPLES: Final = 5000  # whose rewards the page shows after a restart
STORE: Final = "store.db"


@dataclass(frozen=True)
class Place:
    """Where a service lives: its run, its own directory, its store."""

    run: Path
    directory: Path
    store: str

    @classmethod
    def of(cls, run: Path, directory: Path | None, store: str | None) -> "Place":
        """Return the place of a run's service; by default it is inside the run."""
        directory = directory or run / "live"
        return cls(run, directory, store or str(directory / STORE))


class Host:
    """A service with its helpers. `start` begins to answer, `stop` finishes what was begun."""

    def __init__(
        self,
        place: Place,
        config: ServiceConfig,
        learner: LearnerSettings | None = None,
        data: Path | None = None,
        threads: Threads | None = None,
    ) -> None:
        """Open everything; no learner is started without settings, or for a policy that has nothing to learn.

        The number of threads follows the free cores, unless it is given.
        """
        self.place, self.threads = place, threads or Threads.of(None)
        opened = OpenedRun.open(place.run, data)
        self.data, self.policy_name = opened.data, opened.settings.policy
        self.store = Store(place.store)
        try:
            self._open(opened, config)
        except BaseException:
            self.store.close()
            raise
        self._end = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="housekeeping", daemon=True)
        self._keeper_problem: str | None = None
        self._learner = learner
        self.supervisor = None
        if learner is not None and opened.policy.is_learned:
            command = this_command(
                "live", "learn", str(place.run), *_learner_options(place, learner, data, self.threads)
            )
            self.supervisor = Supervisor(command, self.service.clock, _LOG.warning)

    def start(self) -> None:
        """Begin to answer requests, close decisions, take in versions, and run the learner."""
        self.service.batcher.start(self.threads.apply)
        self._keeper.start()
        if self.supervisor is not None:
            self.supervisor.start()

    def stop(self) -> None:
        """End the learner, answer what waits, and close the store."""
        self._end.set()
        if self.supervisor is not None:
            self.supervisor.stop()
        self.service.batcher.close()
        if self._keeper.is_alive():
            self._keeper.join()
        self.store.close()

    def problems(self) -> list[str]:
        """Return why the service is not ready; nothing if it is."""
        return [problem for problem in (self.store.problem, self._keeper_problem) if problem is not None][:1]

    def decision_counts(self) -> dict[str, int]:
        """Return the number of decisions by state."""
        query = sa.select(decisions.c.state, sa.func.count()).group_by(decisions.c.state)
        with self.store.read() as connection:
            return {str(state): count for state, count in connection.execute(query)}

    def learner_body(self) -> dict[str, object] | None:
        """Return what is known of the learner, or None if there has never been one."""
        status = read_status(self.place.directory)
        if self.supervisor is None and status is None:
            return None
        with self.store.read() as connection:
            newest = newest_sample(connection)
        values = asdict(status) if status else dict.fromkeys(field.name for field in fields(LearnerStatus))
        state = "stopped" if self.supervisor is None else self.supervisor.state
        return values | {
            "state": "starting" if state == "running" and status is None else state,
            "lag": newest - (status.cursor if status else 0),
            "restarts": 0 if self.supervisor is None else self.supervisor.restarts,
        }

    def _open(self, opened: OpenedRun, config: ServiceConfig) -> None:
        self._claim(opened)
        with self.store.read() as connection:
            clock = steady_clock(latest_time(connection))
        policy_for = policy_maker(opened, self.store)
        self.promotion = Promotion(
            self.store,
            Versions(self.place.directory / "versions"),
            policy_for,
            probe_requests(self.data),
            clock,
            config.keep_versions,
            config.automatic_promotion,
        )
        policy, version = self.promotion.start(opened.policy)
        seed = opened.settings.seed
        self.service = LiveService(self.data, self.store, policy, version, config, clock, seed)
        self.promotion.on_swap(self.service.swap)
        self._recall()

    def _claim(self, opened: OpenedRun) -> None:
        """Refuse a store that belongs to another run's service."""
        identity = {"policy": self.policy_name, "data": opened.run.manifest.data.model_dump(mode="json")}
        with self.store.read() as connection:
            known = read_property(connection, "run")
        if known is None:
            self.store.write(lambda connection: write_property(connection, "run", identity)).result()
        elif known != identity:
            raise UserError(f"{self.place.store}: belongs to the service of another run; choose another --store")
        claim(self.place.directory, self.store)

    def _recall(self) -> None:
        """Count what the store already holds."""
        statistics = self.service.statistics
        with self.store.read() as connection:
            newest = newest_sample(connection)
            statistics.closed(samples_after(connection, max(0, newest - _RECENT_SAMPLES), _RECENT_SAMPLES))
            query = sa.select(events.c.status, sa.func.count()).group_by(events.c.status)
            for status, count in connection.execute(query):
                statistics.count(f"event/{status}", count)

    def _keep(self) -> None:
        """Close decisions and take in versions until the end; a failing store is tried again."""
        set_up_process(1)  # probing a version takes no second core from the answers
        while not self._end.wait(_PAUSE):
            self.threads.measure()
            try:
                self.service.close_due()
                self.store.check_reading()
                self.promotion.scan()
                self._keeper_problem = None
            except StoreError as error:
                self._keeper_problem = str(error)
            except Exception as error:
                _LOG.exception("housekeeping has failed; it is tried again")
                self._keeper_problem = f"housekeeping fails ({error})"


def policy_maker(opened: OpenedRun, store: Store) -> Callable[[VersionManifest], Policy]:
    """Return what makes the untrained policy of a version."""
    first = model = opened.new_policy()

    def make(manifest: VersionManifest) -> Policy:
        nonlocal model
        with store.read() as connection:
            newest = newest_revision(connection)
        if manifest.revision > newest:
            raise UserError(f"knows revision {manifest.revision} of the catalogue, but the store only {newest}")
        if model.catalogue.num_items != manifest.num_items:
            model = untrained_policy(first, opened.data, manifest.num_items)
        return copy.deepcopy(model)  # takes a fraction of the time of drawing initial weights, beside the answers

    return make


def _learner_options(place: Place, settings: LearnerSettings, data: Path | None, threads: Threads) -> Sequence[str]:
    options = ["--live", str(place.directory), "--store", place.store]
    options += ["--samples-per-step", str(settings.samples_per_step)]
    options += ["--warmup-samples", str(settings.warmup_samples)]
    options += ["--publish-seconds", str(settings.publish_seconds)]
    options += ["--checkpoint-seconds", str(settings.checkpoint_seconds)]
    for name, value in (
        ("--learning-batch", settings.learning_batch),
        ("--learning-rate", settings.learning_rate),
        ("--data", data),
        ("--threads", threads.number if threads.is_fixed else None),
    ):
        options += [] if value is None else [name, str(value)]
    return options
