"""A verdict on a policy from its held-out metrics, in plain words."""

from dataclasses import asdict, dataclass
from typing import Final

from gfn4rec.evaluation.held_out import RARE_RECORDS
from gfn4rec.evaluation.held_out_protocol import POPULARITY, PRIOR, HeldOutResults, HeldOutRow

MIN_RELEVANT: Final = 50
"""With fewer test slates that have a relevant item, recall is too uncertain to judge."""
MAX_SAME_FIRST: Final = 1 / 3
"""If more users get the same first item, slates are hardly personal."""
MAX_RARE: Final = 0.5
"""If this share of the shown items is rare, the policy shows what the log says nothing about.

Then the median number of training records of the shown items is that of a rare item, too.
"""


@dataclass(frozen=True)
class Verdict:
    """Reasons not to ship a policy, if there are any, and all reasons in one line."""

    warnings: tuple[str, ...]
    summary: str

    def as_dict(self) -> dict[str, object]:
        """Return the fields, for JSON."""
        return asdict(self)


def judge(row: HeldOutRow, popularity: HeldOutRow, num_relevant: int) -> Verdict:
    """Return the verdict on held-out metrics beside those of popularity.

    >>> row = {"recall": 0.003, "same_first_share": 0.84, "rare_share": 0.1}
    >>> judge(row, {"recall": 0.035}, num_relevant=5000).summary
    "Do not ship: recall is below popularity's (0.003 against 0.035); 84 % of users get the same first item."
    """
    is_recall_known = num_relevant >= MIN_RELEVANT
    number = f"only {num_relevant}" if num_relevant else "no"
    doubt = f"{number} test slates have a liked item to find, and recall needs {MIN_RELEVANT} of them"
    reasons = [*(_recall_warning(row, popularity) if is_recall_known else ()), *_slate_warnings(row)]
    notes = [] if is_recall_known else [doubt]
    if reasons:
        summary = "Do not ship: " + "; ".join([*reasons, *notes])
    elif notes:
        summary = "Too few test slates to judge: " + "; ".join([*notes, *_first_item(row)])
    else:
        summary = "No warning: " + "; ".join([_recall_praise(row, popularity), *_first_item(row)])
    return Verdict(tuple(_sentence(reason) for reason in [*reasons, *notes]), f"{summary}.")


def judge_rows(results: HeldOutResults) -> dict[str, Verdict]:
    """Return the verdict on each row of a policy, except that of its prior, which is a reference."""
    popularity = results.references[POPULARITY]
    return {name: judge(row, popularity, results.num_relevant) for name, row in results.rows.items() if name != PRIOR}


def _recall_warning(row: HeldOutRow, popularity: HeldOutRow) -> list[str]:
    ours, theirs = row["recall"] or 0.0, popularity["recall"] or 0.0
    return [f"recall is below popularity's ({_pair(ours, theirs)})"] if ours < theirs else []


def _recall_praise(row: HeldOutRow, popularity: HeldOutRow) -> str:
    ours, theirs = row["recall"] or 0.0, popularity["recall"] or 0.0
    if theirs == 0:
        return f"recall is {ours:.3f}, popularity's is 0"
    return f"recall is {ours / theirs:.1f} times popularity's ({_pair(ours, theirs)})"


def _slate_warnings(row: HeldOutRow) -> list[str]:
    same_first, rare = row["same_first_share"] or 0.0, row["rare_share"] or 0.0
    warnings = []
    if same_first > MAX_SAME_FIRST:
        warnings.append(f"{_percent(same_first)} of users get the same first item")
    if rare >= MAX_RARE:
        warnings.append(f"{_percent(rare)} of the shown items have fewer than {RARE_RECORDS} training records")
    return warnings


def _first_item(row: HeldOutRow) -> list[str]:
    share = row["same_first_share"]
    return [] if share is None else [f"the most frequent first item goes to {_percent(share)} of users"]


def _pair(ours: float, theirs: float) -> str:
    """Return two values with as many decimals as it takes to tell them apart."""
    decimals = next((places for places in (3, 4, 5) if f"{ours:.{places}f}" != f"{theirs:.{places}f}"), 3)
    return f"{ours:.{decimals}f} against {theirs:.{decimals}f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:]}."
