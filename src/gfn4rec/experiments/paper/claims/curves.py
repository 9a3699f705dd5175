"""Claims about learning curves."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

from gfn4rec.experiments.paper.analyses import PAPER_STEPS
from gfn4rec.experiments.paper.claims.claim import BASELINES, FLAT, MULTIPLE, Claim, judge, online, relative_gain
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.statistics import mean

RISEN = 0.95  # a rise is over at this fraction of the lower of two final rewards
CONVERGED = 0.01  # largest relative change over the last fifth of the steps of a model that has converged
_TOO_FEW = "Too few evaluations"


def _mean_curve(results: Results, model: str, sampling: Literal["greedy", "sampled"], metric: str) -> dict[int, float]:
    """Return the mean over seeds by step, at the evaluations that all seeds have."""
    curves = [
        {point.step: getattr(point, sampling)[metric] for point in run.curve} for run in results.runs[online(model)]
    ]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return {step: mean([curve[step] for curve in curves]) for step in shared}


def _first_at(curve: Mapping[int, float], level: float) -> int:
    """Return the step of the first evaluation with at least this reward, or of the last evaluation."""
    return next((step for step, reward in curve.items() if reward >= level), max(curve))


def greedy_rises_faster(results: Results) -> Claim:
    """Judge section 4.3.2 and Figure 4, with both objectives."""
    statement = "The greedy reward rises faster than that of Explore, and its coverage falls further"
    criterion = (
        f"With both objectives, greedy slates reach {RISEN:.0%} of the lower final reward in fewer steps, and lose "
        f"more than {FLAT:.0%} of their coverage and a larger share than sampled slates."
    )
    conditions, measurements = list[bool](), dict[str, str]()
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        greedy, sampled = (_mean_curve(results, model, sampling, "reward") for sampling in ("greedy", "sampled"))
        coverages = [_mean_curve(results, model, sampling, "coverage") for sampling in ("greedy", "sampled")]
        first, last = min(greedy, default=-1), max(greedy, default=-1)
        if first != 0:
            return Claim(statement, "not judged", f"{model} was not evaluated before training", criterion)
        level = RISEN * min(greedy[last], sampled[last])
        steps = [_first_at(curve, level) for curve in (greedy, sampled)]
        left = [curve[last] / curve[first] for curve in coverages]
        conditions += [steps[0] < steps[1], left[0] < min(1 - FLAT, left[1])]
        measurements |= {
            f"Reward that {model} rises to": f"{level:.3f}",
            f"Steps of {model} to this reward, greedy and sampled": f"{steps[0]:,} and {steps[1]:,}",
            f"Coverage that {model} keeps, greedy and sampled": f"{left[0]:.0%} and {left[1]:.0%}",
        }
    evidence = f"{sum(conditions)} of {len(conditions)} comparisons agree"
    return Claim(statement, judge(*conditions), evidence, criterion, measurements)


def maximum_is_unstable(results: Results) -> Claim:
    """Judge section 4.3.2: how much the maximum changes between evaluations, relative to the mean reward."""
    statement = "The maximum reward is unstable"
    criterion = (
        f"In the second half of training, its relative change between evaluations is at least {MULTIPLE:g} times that "
        "of the average reward."
    )
    late, changes = dict[str, list[list[float]]](), dict[str, list[float]]()
    for metric in ("max_reward", "reward"):
        curves = [run.curve for run in results.runs[online("GFN4Rec")]]
        late[metric] = [[p.greedy[metric] for p in curve if 2 * p.step > curve[-1].step] for curve in curves]
        pairs = [pair for values in late[metric] for pair in pairwise(values)]
        changes[metric] = [abs(after - before) / abs(before) for before, after in pairs if before]
    if not all(changes.values()):
        return Claim(statement, "not judged", _TOO_FEW, criterion)
    maximum, average = mean(changes["max_reward"]), mean(changes["reward"])
    level = mean([mean(values) for values in late["max_reward"]])
    return Claim(
        statement,
        judge(maximum >= MULTIPLE * average),
        f"It changes by {maximum:.2%} between evaluations, the average reward by {average:.2%}",
        criterion,
        {
            "Maximum reward in the second half of training": f"{level:.2f}",
            "Largest possible reward": f"{results.benchmark.data.reward_range[1]:g}",
        },
    )


def converges(results: Results) -> Claim:
    """Judge section 4.1.2."""
    models = (*BASELINES, "GFN4Rec")
    num_steps = results.runs[online(models[0])][0].job.settings.training.num_steps
    statement = f"Most models have converged after about {PAPER_STEPS:,} steps"
    criterion = (
        f"The greedy expected reward of most models changes by at most {CONVERGED:.0%} from the fourth to the last "
        "fifth of the steps."
    )
    if num_steps < PAPER_STEPS:
        return Claim(statement, "not judged", f"Too few steps: {num_steps:,}", criterion)
    changes = {}
    for model in models:
        curve = _mean_curve(results, model, "greedy", "expected_reward")
        fourth, last = (
            [reward for step, reward in curve.items() if start < step / num_steps <= end]
            for start, end in ((0.6, 0.8), (0.8, 1.0))
        )
        if not fourth or not last:
            return Claim(statement, "not judged", _TOO_FEW, criterion)
        changes[model] = relative_gain(mean(last), mean(fourth))
    num_converged = sum(abs(change) <= CONVERGED for change in changes.values())
    return Claim(
        statement,
        judge(num_converged > 0, num_converged > len(models) / 2),
        f"{num_converged} of {len(models)} models have converged",
        criterion,
        {f"Change of the expected reward of {model}": f"{change:+.1%}" for model, change in changes.items()}
        | {"Steps": f"{num_steps:,}"},
    )
