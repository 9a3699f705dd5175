"""The paper's claims, each held against what was found here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from gfn4rec.experiments.comparisons import COLUMNS, ONLINE_LINES
from gfn4rec.experiments.findings import SAMPLED, Findings
from gfn4rec.experiments.models import SENSITIVITY
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.statistics import mean
from gfn4rec.experiments.studies import IN_BOTH, PAPER_STEPS
from gfn4rec.experiments.tables import Column, Row, Table

Verdict: TypeAlias = Literal["holds", "holds in part", "does not hold here", "not judged"]
BASELINES = ("CF", "ListCVAE", "PRM")
WAYS: tuple[Literal["greedy", "sampled"], ...] = ("greedy", "sampled")
SAME_REWARD = 0.97  # of another reward is "the same level"
MORE = 2.0  # times as much is "more"
FLAT = 0.05  # of the best reward is how little a setting may matter to be called unimportant
LIMIT = f"{FLAT:.0%} at most are held to be none"
CONVERGED = 0.01  # of the reward is how little the last fifth of the steps may still change
RISEN = 0.95  # of the lower of two final rewards is where a rise is held to be over
MANY_ITEMS = 10_000  # the paper says it of 69,219
SMALLEST = 1e-9  # reward that something may be a share of


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what was found, and the figures."""

    statement: str
    verdict: Verdict
    figures: str


def _verdict(*conditions: bool) -> Verdict:
    """All of them, some of them, none of them."""
    if all(conditions):
        return "holds"
    return "holds in part" if any(conditions) else "does not hold here"


def _verdict_by_seed(*gains: Sequence[float]) -> Verdict:
    """Each is one comparison, seed by seed: all of them with every seed, or one of them in the mean."""
    if all(min(each) > 0 for each in gains):
        return "holds"
    return "holds in part" if any(mean(each) > 0 for each in gains) else "does not hold here"


def _online(model: str) -> Need:
    return ("online", model)


def _offline(model: str) -> Need:
    return ("offline", model)


def _list(findings: Findings, needs: Sequence[Need], metric: str, decimals: int = 3) -> str:
    return ", ".join(f"{need[1]} {findings.mean(need, metric):.{decimals}f}" for need in needs)


def _best_baseline(findings: Findings) -> tuple[str, tuple[float, ...]]:
    """By the mean of its rewards, of slates as the online table has them."""
    rewards = {name: findings.values(_online(name), "reward", ONLINE_LINES[name].way) for name in BASELINES}
    name = max(rewards, key=lambda each: mean(rewards[each]))
    return name, rewards[name]


def _gains(findings: Findings) -> tuple[str, list[float]]:
    """The best baseline, and what GFN4Rec earns more than it, as a share, seed by seed."""
    name, theirs = _best_baseline(findings)
    ours = findings.values(_online("GFN4Rec"), "reward")
    return name, [_more(one, other) for one, other in zip(ours, theirs, strict=True)]


def _more(one: float, other: float) -> float:
    """As a share of the other; rewards may be negative, or none."""
    return (one - other) / max(abs(other), SMALLEST)


def _spread(gains: Sequence[float]) -> str:
    return f"{mean(gains):+.1%}" + (f" ({min(gains):+.1%} to {max(gains):+.1%})" if len(gains) > 1 else "")


def best_in_reward(findings: Findings) -> Claim:
    """Section 4.1."""
    name, gains = _gains(findings)
    ours = findings.mean(_online("GFN4Rec"), "reward")
    return Claim(
        "GFN4Rec is best in average reward online",
        _verdict_by_seed(gains),
        f"{ours:.3f}, {_spread(gains)} against {name}, the best of the paper's baselines; held to be so if above "
        "it with every seed",
    )


def explores_widely(findings: Findings) -> Claim:
    """Section 4.1."""
    ours = _online("GFN4Rec")
    reward, covered = findings.mean(ours, "reward", SAMPLED), findings.mean(ours, "coverage", SAMPLED)
    others = {model: findings.mean(_online(model), "coverage") for model in ("CF", "PRM")}
    of_cf = findings.mean(_online("CF"), "reward")
    keeps_reward = _more(reward, of_cf) >= SAME_REWARD - 1
    times = ", ".join(f"{covered / each:.1f} times {model}" for model, each in others.items())
    return Claim(
        "Explore has the reward of CF and four times the coverage of CF and PRM",
        _verdict(keeps_reward, all(covered >= 4 * each for each in others.values())),
        f"reward {reward:.3f} against {of_cf:.3f} of CF ({SAME_REWARD:.0%} of it is the same); coverage {covered:.1f}, "
        f"{times}",
    )


def list_cvae_is_diverse(findings: Findings) -> Claim:
    """Section 4.1."""
    needs = [_online(model) for model in BASELINES]
    reward, covered = (findings.mean(needs[1], metric, SAMPLED) for metric in ("reward", "coverage"))
    others = (needs[0], needs[2])
    return Claim(
        "ListCVAE is diverse but low in reward",
        _verdict(
            covered > max(findings.mean(need, "coverage") for need in others),
            _more(reward, min(findings.mean(need, "reward") for need in others)) < SAME_REWARD - 1,
        ),
        f"ListCVAE {reward:.3f} @ {covered:.1f}; reward {_list(findings, others, 'reward')}; "
        f"coverage {_list(findings, others, 'coverage', 1)}; below {SAME_REWARD:.0%} of the lower reward is low",
    )


def detailed_balance_offline(findings: Findings) -> Claim:
    """Section 4.3.1."""
    db, tb = _offline("GFN4Rec (DB)"), _offline("GFN4Rec")
    metrics = [metric for metric in ("reward", "test_r_ndcg") if findings.values(db, metric)]
    gains = [
        [one - other for one, other in zip(findings.values(db, each), findings.values(tb, each), strict=True)]
        for each in metrics
    ]
    figures = [f"{COLUMNS[metric].label} {_list(findings, (db, tb), metric)}" for metric in metrics]
    items = findings.world.data.statistics.items
    return Claim(
        "Detailed balance is better than trajectory balance offline where there are many items",
        _verdict_by_seed(*gains) if items >= MANY_ITEMS else "not judged",
        "; ".join([*figures, f"{items:,} items; {MANY_ITEMS:,} are held to be many"]),
    )


def offline_is_below_online(findings: Findings) -> Claim:
    """Section 4.3.4."""
    pairs = {
        model: [findings.values(each, "reward") for each in (_offline(model), _online(model))] for model in IN_BOTH
    }
    losses = [[other - one for one, other in zip(*pair, strict=True)] for pair in pairs.values()]
    told = ", ".join(
        f"{model} {mean(offline):.3f} against {mean(online):.3f}" for model, (offline, online) in pairs.items()
    )
    return Claim(
        "Policies learned offline earn less than those learned online",
        _verdict_by_seed(*losses),
        f"{told}; of other users: what learned offline meets them as they stood before their test slates",
    )


def ten_percent(findings: Findings) -> Claim:
    """Section 4.1, of the larger data set."""
    statement = "GFN4Rec earns 10 % more than the best baseline"
    name, gains = _gains(findings)
    figures = f"{_spread(gains)} against {name}"
    rewards = {model: row["reward"] for model, row in (findings.published.online if findings.published else {}).items()}
    if rewards:
        of_paper = rewards["GFN4Rec"] / max(rewards[each] for each in BASELINES) - 1
        figures += f"; the paper's own table has {of_paper:+.1%}"
    if findings.published is None or findings.published.name != "KR1K":
        return Claim(statement, "not judged", f"{figures}; claimed of KR1K only")
    if not rewards:
        figures += "; claimed of KR1K as the paper prepares it"
    return Claim(statement, _verdict(min(gains) > 0, mean(gains) >= 0.1), figures)


def rerankers_cover_more_offline(findings: Findings) -> Claim:
    """Section 4.3.5."""
    pairs = {"RerankCF offline": _offline("RerankCF"), "PRM offline": _offline("PRM"), "PRM online": _online("PRM")}
    times = {
        label: findings.mean(need, "coverage") / findings.mean((need[0], "CF"), "coverage")
        for label, need in pairs.items()
    }
    *offline, online = (each >= MORE for each in times.values())
    return Claim(
        "RerankCF and PRM cover more than CF offline, and PRM does not online",
        _verdict(*offline, all(offline) and not online),
        ", ".join(f"{label} {each:.1f} times CF" for label, each in times.items()) + f"; {MORE:g} times is more",
    )


def _sweep(findings: Findings, parameter: str) -> tuple[dict[float, float], str]:
    """Mean rewards by value, and the same in words."""
    values = SENSITIVITY[parameter].values
    rewards = {value: findings.mean(_online(f"{parameter} = {value}"), "reward") for value in values}
    return rewards, ", ".join(f"{value:g}: {reward:.3f}" for value, reward in rewards.items())


def normaliser_of_one(findings: Findings) -> Claim:
    """Section A.2."""
    rewards, told = _sweep(findings, "b_z")
    behind = -_more(rewards[1.0], max(rewards.values()))
    return Claim("b_z = 1 suffices", _verdict(behind <= FLAT), f"{told}; 1 is {behind:.1%} behind the best, {LIMIT}")


def flat_in_shift(findings: Findings) -> Claim:
    """Section A.2."""
    rewards, told = _sweep(findings, "b_f")
    spread = -_more(min(rewards.values()), max(rewards.values()))
    return Claim(
        "The reward is flat in b_f (the paper says it of KR1K, and doubts that it is so everywhere)",
        _verdict(spread <= FLAT),
        f"{told}; spread {spread:.1%}, {LIMIT}",
    )


def _mean_curve(findings: Findings, need: Need, way: Literal["greedy", "sampled"], metric: str) -> dict[int, float]:
    """By step, of looks that all seeds have."""
    curves = [{look.step: getattr(look, way)[metric] for look in outcome.curve} for outcome in findings.outcomes[need]]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return {step: mean([curve[step] for curve in curves]) for step in shared}


def _first_at(curve: Mapping[int, float], level: float) -> int:
    """The step of the first look that has a reward, or of the last one."""
    return next((step for step, reward in curve.items() if reward >= level), max(curve))


def greedy_rises_faster(findings: Findings) -> Claim:
    """Section 4.3.2 and Figure 4, of both objectives: most of the rise and of the fall come early."""
    statement, conditions, figures = "Greedy reward rises faster, and the coverage of Explore falls slower", [], []
    for model in ("GFN4Rec", "GFN4Rec (DB)"):
        need = _online(model)
        rewards, covered = (
            [_mean_curve(findings, need, way, metric) for way in WAYS] for metric in ("reward", "coverage")
        )
        first, last = min(rewards[0], default=-1), max(rewards[0], default=-1)
        if first != 0:
            return Claim(statement, "not judged", f"{model}: nobody looked before it learned")
        level = RISEN * min(curve[last] for curve in rewards)
        steps = [_first_at(curve, level) for curve in rewards]
        left = [curve[last] / curve[first] for curve in covered]
        conditions += [steps[0] < steps[1], left[0] < min(1 - FLAT, left[1])]
        figures.append(
            f"{model}: reward {level:.3f} after {steps[0]:,} steps greedy and {steps[1]:,} sampled; in the end "
            f"{left[0]:.0%} and {left[1]:.0%} of the coverage before learning"
        )
    return Claim(statement, _verdict(*conditions), "; ".join(figures))


def maximum_is_unstable(findings: Findings) -> Claim:
    """Section 4.3.2: from look to look the maximum moves more than the mean does, for its size and seed by seed."""
    statement, late = "The maximum reward is unstable", {}
    for metric in ("max_reward", "reward"):
        curves = [each.curve for each in findings.outcomes[_online("GFN4Rec")]]
        late[metric] = [[look.greedy[metric] for look in curve if 2 * look.step > curve[-1].step] for curve in curves]
    moves = {
        metric: [abs(after - before) / abs(before) for curve in curves for before, after in pairwise(curve) if before]
        for metric, curves in late.items()
    }
    if not all(moves.values()):
        return Claim(statement, "not judged", "too few looks")
    maximum, average = (mean(moves[metric]) for metric in ("max_reward", "reward"))
    stands = mean([mean(curve) for curve in late["max_reward"]])
    return Claim(
        statement,
        _verdict(maximum >= MORE * average),
        f"in the second half it moves by {maximum:.2%} from look to look, the average reward by {average:.2%}; "
        f"it stands at {stands:.2f}, and cannot be above {findings.world.data.reward_range[1]:g}; "
        f"{MORE:g} times as much is unstable",
    )


def converges(findings: Findings) -> Claim:
    """Section 4.1.2."""
    models = (*BASELINES, "GFN4Rec")
    curves = {model: _mean_curve(findings, _online(model), "greedy", "expected_reward") for model in models}
    steps = findings.outcomes[_online(models[0])][0].job.settings.training["num_steps"]
    statement = f"Most models have converged near 5,000 steps (here after {steps:,})"
    if steps < PAPER_STEPS:
        return Claim(statement, "not judged", "too few steps")
    changes = {}
    for model, curve in curves.items():
        before, late = (
            [reward for step, reward in curve.items() if from_share < step / steps <= to_share]
            for from_share, to_share in ((0.6, 0.8), (0.8, 1.0))
        )
        if not before or not late:
            return Claim(statement, "not judged", "too few looks")
        changes[model] = _more(mean(late), mean(before))
    told = ", ".join(f"{model} {each:+.1%}" for model, each in changes.items())
    done = [abs(each) <= CONVERGED for each in changes.values()]
    return Claim(
        statement,
        _verdict(any(done), sum(done) > len(done) / 2),
        f"change of the greedy expected reward from the fourth fifth to the last: {told}; {CONVERGED:.0%} is none",
    )


JUDGES: tuple[Callable[[Findings], Claim], ...] = (
    best_in_reward,
    explores_widely,
    list_cvae_is_diverse,
    ten_percent,
    detailed_balance_offline,
    offline_is_below_online,
    rerankers_cover_more_offline,
    normaliser_of_one,
    flat_in_shift,
    greedy_rises_faster,
    maximum_is_unstable,
    converges,
)
CLAIM_NEEDS: tuple[Need, ...] = (
    *(_online(model) for model in IN_BOTH),
    *(_online(f"{name} = {each}") for name in ("b_f", "b_z") for each in SENSITIVITY[name].values),
    *(_offline(model) for model in (*IN_BOTH, "RerankCF")),
)


def claims_table(findings: Findings) -> Table:
    """A row per claim."""
    claims = [judge(findings) for judge in JUDGES]
    columns = [Column("verdict", "Here", is_better="none"), Column("figures", "Figures", is_better="none")]
    rows = [
        Row(claim.statement, {}, texts={"verdict": claim.verdict, "figures": claim.figures}, is_baseline=False)
        for claim in claims
    ]
    return Table("claims", "The paper's claims", findings.caption(*CLAIM_NEEDS), columns, rows)
