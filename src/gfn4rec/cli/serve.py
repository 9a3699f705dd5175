"""`gfn4rec serve`: the live service."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfn4rec.cli.compute import ThreadsOption, choose_device, threads_to_keep
from gfn4rec.cli.output import INTERRUPTED, out, tell, working
from gfn4rec.errors import UserError

if TYPE_CHECKING:
    from gfn4rec.live.demo import Demo

LiveOption = Annotated[
    Path | None,
    typer.Option("--live", metavar="DIR", help="Directory of store, versions and learner; default: RUN/live."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="File of the SQLite store, or postgresql+psycopg://USER@HOST/DATABASE; default: DIR/store.db.",
    ),
]
SamplesOption = Annotated[
    int | None, typer.Option(min=1, help="Closed slates for which one learning step is made; default: 32.")
]
WarmupOption = Annotated[
    int | None, typer.Option(min=0, help="Closed slates before the first learning step; default: 12800.")
]
PublishOption = Annotated[float | None, typer.Option(min=0.1, help="Seconds between published versions; default: 30.")]
CheckpointOption = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds between the learner's checkpoints; default: 30.")
]
BatchOption = Annotated[
    int | None, typer.Option(min=1, help="Slates in the batch of a learning step; default: as in online training.")
]
RateOption = Annotated[
    float | None, typer.Option(help="Adam's learning rate; default: that of the policy's online training.")
]
DataOption = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it was moved.")]


def serve_command(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="Directory of a trained run.")] = None,
    live: LiveOption = None,
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="Address to listen at; without keys, only this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    learner: Annotated[bool, typer.Option("--learner/--no-learner", help="Whether to learn from feedback.")] = True,
    wait: Annotated[
        float | None, typer.Option(help="Seconds for which feedback to a slate is awaited; default: 600.")
    ] = None,
    greediness: Annotated[
        float, typer.Option(help="From 0 (sampled slates) to 1 (the most likely items), unless a request says other.")
    ] = 0.0,
    reward_weight: Annotated[
        float, typer.Option(help="0: what users choose; 1: the trained target; unless a request says other.")
    ] = 1.0,
    epsilon: Annotated[float, typer.Option(help="Probability that an item is drawn uniformly.")] = 0.0,
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Whether new versions that pass their gates are promoted.")
    ] = True,
    samples_per_step: SamplesOption = None,
    warmup_samples: WarmupOption = None,
    publish_seconds: PublishOption = None,
    checkpoint_seconds: CheckpointOption = None,
    learning_batch: BatchOption = None,
    learning_rate: RateOption = None,
    data: DataOption = None,
    threads: ThreadsOption = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="In place of RUN: prepare and train a small example, and simulate its users.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Directory of the demo; default: build/live-demo.")
    ] = None,
) -> None:
    """Recommend slates over HTTP, take feedback, and learn from it while serving.

    The service keeps everything in a directory of its own and goes on there when it is started again. Its page is at
    the printed address.
    """
    require_live()
    from gfn4rec.live.config import LearnerSettings, ServiceConfig
    from gfn4rec.live.demo import LEARNER, SERVICE, serve_demo
    from gfn4rec.live.host import Host, Place
    from gfn4rec.live.running import check_address, log_as_json, serve
    from gfn4rec.training.threads import Threads

    chosen = _demo(run, demo, directory)
    given = {"greediness": greediness, "reward_weight": reward_weight, "epsilon": epsilon, "wait": wait}
    config = ServiceConfig.parse(
        given_over(SERVICE if demo else {}, {**given, "automatic_promotion": promote}), "serve"
    )
    times = {"publish_seconds": publish_seconds, "checkpoint_seconds": checkpoint_seconds}
    steps = {"samples_per_step": samples_per_step, "warmup_samples": warmup_samples, "learning_batch": learning_batch}
    settings = LearnerSettings.parse(
        given_over(LEARNER if demo else {}, {**times, **steps, "learning_rate": learning_rate}), "serve"
    )
    check_address(host, port)
    choose_device("cpu", threads)
    following = Threads.of(threads)
    if chosen is not None:
        choose_device("cpu", threads_to_keep(threads))
        if not chosen.prepare(tell):
            raise typer.Exit(INTERRUPTED)
        run = chosen.run
    assert run is not None
    log_as_json()
    with working(f"opening {run}"):
        opened = Host(Place.of(run, live, store), config, settings if learner else None, data, following)
    shown = f"[{host}]" if ":" in host else host
    tell(f"serving {run} at http://{shown}:{port}; Ctrl-C ends it")
    if chosen is None:
        serve(opened, host, port)
    else:
        serve_demo(chosen, opened, host, port, tell)
    command = f"gfn4rec serve {run}" if chosen is None else f"gfn4rec serve --demo --dir {chosen.directory}"
    out().print(f"ended; `{command}` goes on where it was", highlight=False)


def _demo(run: Path | None, is_demo: bool, directory: Path | None) -> "Demo | None":
    """Return the demo, if it is asked for in place of a run."""
    from gfn4rec.live.demo import DIRECTORY, Demo

    if is_demo == (run is not None):
        raise UserError("serve: give either the directory of a trained run, or --demo")
    if directory is not None and not is_demo:
        raise UserError(f"--dir {directory}: is for --demo; a run's service has --live")
    return Demo(directory or DIRECTORY) if is_demo else None


def given_over(defaults: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Return the options that were given, over defaults."""
    return {**defaults, **{name: value for name, value in given.items() if value is not None}}


def require_live() -> None:
    """Raise a `UserError` unless the libraries of the live service are installed."""
    try:
        import alembic  # noqa: F401
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(f"{error.name} is not installed; `pip install 'gfn4rec[live]'` installs it") from error
