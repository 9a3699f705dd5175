"""A claim of the paper with its verdict, and the rules that verdicts follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gfn4rec.experiments.paper.comparisons import ONLINE_ROWS
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.statistics import mean

Verdict: TypeAlias = Literal["holds", "holds in part", "does not hold", "not judged"]
BASELINES = ("CF", "ListCVAE", "PRM")
SAME_REWARD = 0.03  # a reward at most this fraction below another one is at the same level
MULTIPLE = 2.0  # "more" and "unstable" mean at least this many times as much
FLAT = 0.05  # differences up to this fraction are taken for none
MIN_REWARD = 1e-9  # smallest reward that a gain is relative to


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, the verdict on it, and what the verdict rests on."""

    statement: str
    verdict: Verdict
    evidence: str
    """The deciding comparison, with at most two numbers."""
    criterion: str
    """When the claim holds."""
    measurements: Mapping[str, str] = field(default_factory=dict)
    """All measured values that the verdict rests on, by what they are."""


def judge(*conditions: bool) -> Verdict:
    """Return "holds" if all conditions are met, "holds in part" if some are."""
    if all(conditions):
        return "holds"
    return "holds in part" if any(conditions) else "does not hold"


def judge_gains(*gains: Sequence[float]) -> Verdict:
    """Return "holds" if every gain is positive with every seed, "holds in part" if one is positive on average."""
    if all(min(by_seed) > 0 for by_seed in gains):
        return "holds"
    return "holds in part" if any(mean(by_seed) > 0 for by_seed in gains) else "does not hold"


def online(model: str) -> Need:
    """Return the need for a model that is trained online."""
    return ("online", model)


def offline(model: str) -> Need:
    """Return the need for a model that is trained offline."""
    return ("offline", model)


def relative_gain(value: float, reference: float) -> float:
    """Return the gain as a fraction of the reference, which may be negative or zero."""
    return (value - reference) / max(abs(reference), MIN_REWARD)


def gains_over_best_baseline(results: Results) -> tuple[str, list[float]]:
    """Return the baseline with the highest mean reward in the online table, and GFN4Rec's relative gains by seed."""
    rewards = {name: results.values(online(name), "reward", ONLINE_ROWS[name].sampling) for name in BASELINES}
    best = max(rewards, key=lambda name: mean(rewards[name]))
    ours = results.values(online("GFN4Rec"), "reward")
    return best, [relative_gain(one, other) for one, other in zip(ours, rewards[best], strict=True)]


def write_range(gains: Sequence[float]) -> str:
    """Write the smallest and the largest gain."""
    return f"{min(gains):+.1%} to {max(gains):+.1%}"
