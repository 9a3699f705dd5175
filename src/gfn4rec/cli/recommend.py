"""`gfn4rec recommend`: slates from a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device
from gfn4rec.cli.output import JsonOption, check_folder, out, print_json, table, tell, working
from gfn4rec.errors import UserError
from gfn4rec.storage import write_whole

if TYPE_CHECKING:
    from gfn4rec.serving.recommender import Answer, Query


def recommend_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run.")],
    user: Annotated[str | None, typer.Option(help="A user's id in the log; an unknown one is served, too.")] = None,
    history: Annotated[
        str | None,
        typer.Option(
            help="Instead of the log's: 318,50:click+like,110: (oldest first; an item alone got the first response)."
        ),
    ] = None,
    candidates: Annotated[str | None, typer.Option(help="Items to choose from, separated by commas.")] = None,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Many at once: JSON lines, or an id per line.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where the answers to --users go, as JSON lines.")
    ] = None,
    slates: Annotated[int, typer.Option(min=1, help="Slates per user.")] = 1,
    temperature: Annotated[float, typer.Option(help="Lower is bolder, higher more diverse.")] = 1.0,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest item at each step.")] = False,
    greediness: Annotated[
        float | None, typer.Option(help="A knob instead: 0, as diverse as what was learned, to 1, greedy.")
    ] = None,
    exclude_seen: Annotated[bool, typer.Option("--exclude-seen", help="Nothing from the user's history.")] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it has moved.")] = None,
    simulator: Annotated[
        Path | None, typer.Option("--simulator", metavar="SIM", help="Who expects the reward, if not the run's users.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other slates.")] = 0,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Slates with titles, the probability of each step, and the expected reward."""
    from gfn4rec.evaluation.protocol import Showing
    from gfn4rec.serving.recommender import Query, Recommender, as_dict

    if users is None and user is None and history is None:
        raise UserError("whom for? name a --user, a --history, or a file of --users")
    if users is not None and (user is not None or history is not None):
        raise UserError("--users has the users and their histories; leave out --user and --history")
    if (users is None) != (target is None):
        raise UserError("--users and --out belong together")
    check_folder("--out", target)
    shared = None if candidates is None else split_ids(candidates)
    queries = (
        [Query(user, None if history is None else parse_history(history), shared)]
        if users is None
        else _read_queries(users, shared)
    )
    chosen = choose_device(device, threads)
    showing = Showing(greedy=greedy, temperature=temperature, greediness=greediness)
    with working(f"opening {directory}") as work:
        recommender = Recommender.open(directory, data, chosen, simulator, tell)
        answers = []
        for answer in recommender.recommend(queries, slates, showing, exclude_seen, seed):
            answers.append(answer)
            work.advance("answering", len(answers), len(queries))
    if target is not None:
        write_whole(target, "".join(json.dumps(as_dict(each), ensure_ascii=False) + "\n" for each in answers))
        if as_json:
            print_json({"out": str(target), "users": len(answers)})
        else:
            out().print(f"{len(answers):,} users written to {target}")
        return
    if as_json:
        print_json(as_dict(answers[0]))
        return
    _print_answer(answers[0])


def _print_answer(answer: "Answer") -> None:
    for note in answer.notes:
        tell(note)
    for number, slate in enumerate(answer.slates, start=1):
        reward = "" if slate.expected_reward is None else f", expected reward {slate.expected_reward:.3f}"
        out().print(f"slate {number}: log-probability {slate.log_prob:.2f}{reward}", style="bold")
        shown = table("", "item", "title", "probability")
        for place, item in enumerate(slate.items, start=1):
            shown.add_row(str(place), item.id, item.title or "", f"{item.probability:.4f}")
        out().print(shown)


def split_ids(text: str) -> tuple[str, ...]:
    """Ids separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_history(text: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    """Items with their behaviours, as in `318,50:click+like,110:`."""
    events = []
    for part in split_ids(text):
        item, separator, behaviours = part.partition(":")
        named = tuple(name for name in behaviours.split("+") if name) if separator else None
        events.append((item, named))
    return tuple(events)


def _read_queries(path: Path, shared: tuple[str, ...] | None) -> list["Query"]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text in UTF-8") from None
    queries = [
        _read_query(line, f"{path}, line {number}", shared) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not queries:
        raise UserError(f"{path}: has no users")
    return queries


def _read_query(line: str, where: str, shared: tuple[str, ...] | None) -> "Query":
    from gfn4rec.config import nearest
    from gfn4rec.serving.recommender import Query

    if not line.lstrip().startswith("{"):
        return Query(line.strip(), None, shared)
    try:
        values: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not valid JSON ({error})") from None
    keys = ["user", "history", "candidates", "greediness"]
    for key in values:
        if key not in keys:
            raise UserError(f"{where}: unknown key {key!r}; {nearest(key, keys)}")
    history, candidates = values.get("history"), values.get("candidates")
    try:
        return Query(
            None if values.get("user") is None else str(values["user"]),
            None if history is None else tuple(_event(each) for each in _list(history)),
            shared if candidates is None else tuple(str(each) for each in _list(candidates)),
            _knob(values.get("greediness")),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UserError(
            f'{where}: write "history" as a list of ids or of {{"item": id, "behaviours": [...]}}, "candidates" as a '
            'list of ids, "greediness" as a number from 0 to 1'
        ) from None


def _knob(value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not 0 <= float(value) <= 1):
        raise TypeError
    return None if value is None else float(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):  # a text would be read letter by letter
        raise TypeError
    return value


def _event(value: Any) -> tuple[str, tuple[str, ...] | None]:
    if isinstance(value, dict):
        behaviours = value.get("behaviours")
        return str(value["item"]), None if behaviours is None else tuple(str(each) for each in _list(behaviours))
    if isinstance(value, list):
        raise TypeError
    return str(value), None
