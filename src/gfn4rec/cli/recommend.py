"""`gfn4rec recommend`: slates from a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gfn4rec.cli.compute import DeviceOption, ThreadsOption, choose_device, following
from gfn4rec.cli.decoder import DecoderOption, DecoderSetOption, chosen_decoder
from gfn4rec.cli.output import JsonOption, check_folder, out, print_json, table, tell, working
from gfn4rec.errors import UserError
from gfn4rec.storage import write_whole

if TYPE_CHECKING:
    from gfn4rec.serving.recommender import Answer, Query


def recommend_command(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a trained run.")],
    user: Annotated[
        str | None, typer.Option(help="Id of a user in the log; any other id is an unknown user, who gets slates, too.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            help="Replaces the user's history in the log: items with behaviours, oldest first, as in "
            "50:click+like,110:,318. `110:` has no behaviour, `318` the first one."
        ),
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(help="Ids of the items to choose from, separated by commas; default: all.")
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option("--users", metavar="FILE", help="File of many users: one id or one JSON object per line."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File for the slates of --users, as JSON lines.")
    ] = None,
    slates: Annotated[int, typer.Option(min=1, help="Number of slates per user.")] = 1,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature: lower is greedier, higher more diverse.")
    ] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Choose the most likely item at each step instead of sampling.")
    ] = False,
    greediness: Annotated[
        float | None,
        typer.Option(help="From 0 (sample at temperature 1) to 1 (greedy); replaces --temperature and --greedy."),
    ] = None,
    reward_weight: Annotated[
        float,
        typer.Option(
            help="For policies with a prior: 0 recommends what users choose, 1 is the trained target, and more goes "
            "closer to what they would like best."
        ),
    ] = 1.0,
    decoder: DecoderOption = None,
    decoder_set: DecoderSetOption = None,
    exclude_seen: Annotated[
        bool, typer.Option("--exclude-seen", help="Do not recommend items in the user's log or in --history.")
    ] = False,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data set, if it was moved.")] = None,
    simulator: Annotated[
        Path | None,
        typer.Option("--simulator", metavar="SIM", help="Simulator for --expected-reward; default: that of the run."),
    ] = None,
    expected_reward: Annotated[
        bool, typer.Option("--expected-reward", help="Print the expected reward of each slate in the simulator.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the sampled slates; default: new slates at each call.")
    ] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend slates to a user: items, titles and probabilities.

    With --users and --out, recommend to many users and write a file.
    """
    from gfn4rec.schema import Sampling
    from gfn4rec.serving.recommender import Query, Recommender, as_dict

    if users is None and user is None and history is None:
        raise UserError("no user; give --user, --history, or a file of --users")
    if users is not None and (user is not None or history is not None):
        raise UserError("--users names users and histories; leave out --user and --history")
    if (users is None) != (target is None):
        raise UserError("--users and --out need each other; give both")
    check_folder("--out", target)
    shared = None if candidates is None else split_ids(candidates)
    queries = (
        [Query(user, None if history is None else parse_history(history), shared)]
        if users is None
        else _read_queries(users, shared)
    )
    chosen, made_by = choose_device(device, threads), chosen_decoder(decoder, decoder_set)
    sampling = Sampling(temperature, greedy, greediness, reward_weight=reward_weight)
    with working(f"opening {directory}") as work:
        recommender = Recommender.open(directory, data, simulator, expected_reward, chosen, tell)
        answers, report = [], following(threads, work.advance)
        for answer in recommender.recommend(queries, slates, sampling, exclude_seen, seed, made_by):
            answers.append(answer)
            report("answering", len(answers), len(queries))
    if target is not None:
        write_whole(target, "".join(json.dumps(as_dict(answer), ensure_ascii=False) + "\n" for answer in answers))
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
    if answer.decoder is not None:
        settings = ", ".join(f"{key}={value}" for key, value in answer.decoder.config.model_dump().items())
        out().print(f"made by {answer.decoder.name} ({settings}); probabilities are those of the policy itself")
    for number, slate in enumerate(answer.slates, start=1):
        reward = "" if slate.expected_reward is None else f", expected reward {slate.expected_reward:.3f}"
        out().print(f"slate {number}: log-probability {slate.log_prob:.2f}{reward}", style="bold")
        shown = table("", "item", "title", "probability")
        for place, item in enumerate(slate.items, start=1):
            shown.add_row(str(place), item.id, item.title or "", f"{item.probability:.4f}")
        out().print(shown)


def split_ids(text: str) -> tuple[str, ...]:
    """Return the ids in a text that separates them by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_history(text: str) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    """Return the items of a history with their behaviours, as in `318,50:click+like,110:`."""
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
        raise UserError(f"{path}: not a text file in UTF-8") from None
    queries = [
        _read_query(line, f"{path}, line {number}", shared) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not queries:
        raise UserError(f"{path}: contains no users; write an id or a JSON object per line")
    return queries


def _read_query(line: str, where: str, shared: tuple[str, ...] | None) -> "Query":
    from gfn4rec.config import nearest
    from gfn4rec.schema import MAX_REWARD_WEIGHT
    from gfn4rec.serving.recommender import Query

    if not line.lstrip().startswith("{"):
        return Query(line.strip(), None, shared)
    try:
        values: dict[str, object] = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not valid JSON ({error})") from None
    keys = ["user", "history", "candidates", "greediness", "reward_weight"]
    for key in values:
        if key not in keys:
            raise UserError(f"{where}: unknown key {key!r}; {nearest(key, keys)}")
    history, candidates = values.get("history"), values.get("candidates")
    try:
        return Query(
            None if values.get("user") is None else str(values["user"]),
            None if history is None else tuple(_event(event) for event in _list(history)),
            shared if candidates is None else tuple(str(item) for item in _list(candidates)),
            _number(values.get("greediness"), 1.0),
            _number(values.get("reward_weight"), MAX_REWARD_WEIGHT),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UserError(
            f'{where}: write "history" as a list of ids or of {{"item": id, "behaviours": [...]}}, "candidates" as a '
            f'list of ids, "greediness" as a number from 0 to 1, "reward_weight" as one from 0 to {MAX_REWARD_WEIGHT:g}'
        ) from None


def _number(value: Any, most: float) -> float | None:
    if value is not None and (isinstance(value, bool) or not 0 <= float(value) <= most):
        raise TypeError
    return None if value is None else float(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):  # a string would be read letter by letter
        raise TypeError
    return value


def _event(value: Any) -> tuple[str, tuple[str, ...] | None]:
    if isinstance(value, dict):
        names = value.get("behaviours")
        return str(value["item"]), None if names is None else tuple(str(name) for name in _list(names))
    if isinstance(value, list):
        raise TypeError
    return str(value), None
