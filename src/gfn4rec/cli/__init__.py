"""The command `gfn4rec`: parses, calls, prints, without logic of its own."""

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from gfn4rec import __version__
from gfn4rec.cli.data import app as data_app
from gfn4rec.cli.evaluate import evaluate_command
from gfn4rec.cli.help import MainGroup, use_plain_help
from gfn4rec.cli.live import app as live_app
from gfn4rec.cli.output import print_error
from gfn4rec.cli.policy import app as policy_app
from gfn4rec.cli.recommend import recommend_command
from gfn4rec.cli.reproduce import reproduce_command
from gfn4rec.cli.score import score_command
from gfn4rec.cli.search import search_command
from gfn4rec.cli.serve import serve_command
from gfn4rec.cli.simulator import app as simulator_app
from gfn4rec.cli.train import app as train_app
from gfn4rec.errors import RunError, UserError

app = typer.Typer(
    name="gfn4rec",
    help="Listwise (slate) recommendation with generative flow networks.\n\n"
    "Prepare a log of user responses, train a simulator of its users, train a policy (a model that chooses slates), "
    "evaluate it, and recommend. What `train` writes is called a run.",
    epilog="Start with: gfn4rec data list",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(simulator_app, name="simulator")
app.add_typer(policy_app, name="policy")
app.add_typer(train_app, name="train")
app.command("evaluate", epilog="Example: gfn4rec evaluate runs/cf runs/gfn --temperature 1,0.5,0.25 --plot curve.png")(
    evaluate_command
)
app.command("recommend", epilog="Example: gfn4rec recommend runs/gfn --user 42 --slates 3 --greediness 0.5")(
    recommend_command
)
app.command(
    "reproduce", epilog="Example: gfn4rec reproduce online --data data/ml-1m --simulator simulators/ml-1m --out report"
)(reproduce_command)
app.command("score", epilog="Example: gfn4rec score runs/gfn --user 42 --slate 1,2,3,4,5,6")(score_command)
app.command(
    "search", epilog="Example: gfn4rec search gfn cf --data data/ml-1m --simulator simulators/ml-1m --out search"
)(search_command)
app.command("serve", epilog="Example: gfn4rec serve runs/mine --greediness 0.3")(serve_command)
app.add_typer(live_app, name="live")
use_plain_help(app, MainGroup)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"gfn4rec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 for success, 1 for a failed run, 2 for a mistake of the user."""
    try:
        code = app(args=arguments, prog_name="gfn4rec", standalone_mode=False)
    except UserError as error:
        return print_error(str(error))
    except RunError as error:
        print_error(str(error))
        return 1
    except TyperException as error:
        return print_error(_explain(error))
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return print_error(f"{error.filename or 'standard output'}: {error.strerror}")
    return code if isinstance(code, int) else 0


def _explain(error: TyperException) -> str:
    """Return what is wrong with a command line, and where its help is; nothing if help was printed instead."""
    message = error.format_message().replace("Value error, ", "")
    context = getattr(error, "ctx", None)  # only errors of usage have one
    if not message or context is None:
        return message
    return f"{message.rstrip('.')}{'' if message.endswith('?') else '.'} See `{context.command_path} --help`."


def run() -> None:
    """Run the console script. A termination signal ends it like any failing command, with nothing half-written."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an encoding that lacks a character must not cost the output
    sys.exit(main())
