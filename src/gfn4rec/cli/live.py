"""`gfn4rec live`: parts of the live service as commands of their own."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gfn4rec.cli.compute import ThreadsOption, choose_device
from gfn4rec.cli.live_simulate import simulate_command
from gfn4rec.cli.live_status import export_command, status_command
from gfn4rec.cli.serve import (
    BatchOption,
    CheckpointOption,
    DataOption,
    LiveOption,
    PublishOption,
    RateOption,
    SamplesOption,
    StoreOption,
    WarmupOption,
    given_over,
    require_live,
)

app = typer.Typer(help="Parts of the live service (`gfn4rec serve`) as commands of their own.", no_args_is_help=True)
app.command(
    "simulate",
    epilog="Example: gfn4rec live simulate http://127.0.0.1:8000 --simulator simulators/mine --rate 20 --seconds 600",
)(simulate_command)
app.command("status", epilog="Example: gfn4rec live status http://127.0.0.1:8000")(status_command)
app.command("export", epilog="Example: gfn4rec live export runs/mine --out exports/mine")(export_command)


@app.command("learn", epilog="Example: gfn4rec live learn runs/mine --samples-per-step 32")
def learn_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of the run that is served.")],
    live: LiveOption = None,
    store: StoreOption = None,
    samples_per_step: SamplesOption = None,
    warmup_samples: WarmupOption = None,
    publish_seconds: PublishOption = None,
    checkpoint_seconds: CheckpointOption = None,
    learning_batch: BatchOption = None,
    learning_rate: RateOption = None,
    data: DataOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Learn from the feedback of a service, and publish versions for it, until Ctrl-C.

    `gfn4rec serve` runs this beside itself, unless it has --no-learner.
    """
    require_live()
    os.nice(10)  # the service comes first; threads that are started later inherit it
    from gfn4rec.live.config import LearnerSettings
    from gfn4rec.live.host import Place
    from gfn4rec.live.running import learn, log_as_json
    from gfn4rec.training.threads import Threads

    times = {"publish_seconds": publish_seconds, "checkpoint_seconds": checkpoint_seconds}
    steps = {"samples_per_step": samples_per_step, "warmup_samples": warmup_samples, "learning_batch": learning_batch}
    settings = LearnerSettings.parse(given_over({}, {**times, **steps, "learning_rate": learning_rate}), "learn")
    choose_device("cpu", threads)
    log_as_json()
    learn(Place.of(run, live, store), settings, data, threads=Threads.of(threads))
