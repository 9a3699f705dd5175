"""The paper's claims, each held against what was found here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from gfn4rec.experiments.findings import SAMPLED, Findings
from gfn4rec.experiments.models import SENSITIVITY
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.studies import IN_BOTH
from gfn4rec.experiments.tables import Column, Row, Table

Verdict: TypeAlias = Literal["holds", "holds in part", "does not hold here"]
BASELINES = ("CF", "ListCVAE", "PRM")
NEARLY = 0.99  # of the best is still in part the best
SAME_REWARD = 0.97  # of another reward is "the same level"
FLAT = 0.05  # of the best reward is how little a setting may matter to be called unimportant
CONVERGED = 0.01  # of the reward is how little the last fifth of the steps may still add


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


def _online(model: str) -> Need:
    return ("online", model)


def _offline(model: str) -> Need:
    return ("offline", model)


def _list(findings: Findings, needs: Sequence[Need], metric: str, decimals: int = 3) -> str:
    return ", ".join(f"{need[1]} {findings.mean(need, metric):.{decimals}f}" for need in needs)


def best_in_reward(findings: Findings) -> Claim:
    """Section 4.1."""
    needs = [_online(model) for model in (*BASELINES, "GFN4Rec")]
    ours, best = findings.mean(needs[-1], "reward"), max(findings.mean(need, "reward") for need in needs[:-1])
    return Claim(
        "GFN4Rec is best in average reward online",
        _verdict(ours > best, ours > NEARLY * best),
        _list(findings, needs, "reward"),
    )


def explores_widely(findings: Findings) -> Claim:
    """Section 4.1."""
    ours = _online("GFN4Rec")
    reward, covered = findings.mean(ours, "reward", SAMPLED), findings.mean(ours, "coverage", SAMPLED)
    others = {model: findings.mean(_online(model), "coverage") for model in ("CF", "PRM")}
    of_cf = findings.mean(_online("CF"), "reward")
    keeps_reward = reward >= SAME_REWARD * of_cf
    times = ", ".join(f"{covered / each:.1f} times {model}" for model, each in others.items())
    return Claim(
        "Explore has the reward of CF and four times the coverage of CF and PRM",
        _verdict(keeps_reward, all(covered >= 4 * each for each in others.values())),
        f"reward {reward:.3f} against {of_cf:.3f} of CF; coverage {covered:.1f}, {times}",
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
            reward < min(findings.mean(need, "reward") for need in others),
        ),
        f"ListCVAE {reward:.3f} @ {covered:.1f}; reward {_list(findings, others, 'reward')}; "
        f"coverage {_list(findings, others, 'coverage', 1)}",
    )


def detailed_balance_offline(findings: Findings) -> Claim:
    """Section 4.3.1."""
    db, tb = _offline("GFN4Rec (DB)"), _offline("GFN4Rec")
    metrics = ("reward", "test_r_ndcg")
    return Claim(
        "Detailed balance is better than trajectory balance offline where there are many items",
        _verdict(*(findings.mean(db, metric) > findings.mean(tb, metric) for metric in metrics)),
        "; ".join(f"{metric} {_list(findings, (db, tb), metric)}" for metric in metrics)
        + f"; {findings.world.data.statistics.items:,} items",
    )


def offline_is_below_online(findings: Findings) -> Claim:
    """Section 4.3.4."""
    pairs = {model: [findings.mean(each, "reward") for each in (_offline(model), _online(model))] for model in IN_BOTH}
    return Claim(
        "Policies learned offline earn less than those learned online",
        _verdict(*(offline < online for offline, online in pairs.values())),
        ", ".join(f"{model} {offline:.3f} against {online:.3f}" for model, (offline, online) in pairs.items()),
    )


def ten_percent(findings: Findings) -> Claim:
    """Section 4.1, of the larger data set."""
    ours = findings.mean(_online("GFN4Rec"), "reward")
    best = max(BASELINES, key=lambda model: findings.mean(_online(model), "reward"))
    gain = ours / findings.mean(_online(best), "reward") - 1
    return Claim(
        "GFN4Rec earns 10 % more than the best baseline (claimed of KR1K)",
        _verdict(gain > 0, gain >= 0.1),
        f"{gain:+.1%} against {best}",
    )


def rerankers_cover_more_offline(findings: Findings) -> Claim:
    """Section 4.3.5."""
    cf, others = findings.mean(_offline("CF"), "coverage"), [_offline("RerankCF"), _offline("PRM")]
    online = (_online("CF"), _online("PRM"))
    return Claim(
        "RerankCF and PRM cover more than CF offline, and not online",
        _verdict(
            all(findings.mean(need, "coverage") > cf for need in others),
            # "Not so online": less than twice as much there.
            findings.mean(online[1], "coverage") < 2 * findings.mean(online[0], "coverage"),
        ),
        f"offline {_list(findings, [_offline('CF'), *others], 'coverage', 1)}; "
        f"online {_list(findings, online, 'coverage', 1)}",
    )


def _sweep(findings: Findings, parameter: str) -> dict[float, float]:
    values = SENSITIVITY[parameter].values
    return {value: findings.mean(_online(f"{parameter} = {value}"), "reward") for value in values}


def normaliser_of_one(findings: Findings) -> Claim:
    """Section A.2."""
    rewards = _sweep(findings, "b_z")
    share = rewards[1.0] / max(rewards.values())
    figures = ", ".join(f"{value:g}: {reward:.3f}" for value, reward in rewards.items())
    return Claim("b_z = 1 suffices", _verdict(share >= 1 - FLAT / 2), f"average reward by b_z {figures}")


def flat_in_shift(findings: Findings) -> Claim:
    """Section A.2."""
    rewards = _sweep(findings, "b_f")
    spread = 1 - min(rewards.values()) / max(rewards.values())
    figures = ", ".join(f"{value:g}: {reward:.3f}" for value, reward in rewards.items())
    return Claim("The reward is flat in b_f", _verdict(spread <= FLAT), f"{figures}; spread {spread:.1%}")


def _mean_curve(findings: Findings, need: Need, way: Literal["greedy", "sampled"], metric: str) -> list[float]:
    curves = [[getattr(point, way)[metric] for point in outcome.curve] for outcome in findings.outcomes[need]]
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]


def greedy_rises_faster(findings: Findings) -> Claim:
    """Section 4.3.2 and Figure 4."""
    need = _online("GFN4Rec")
    middle = (len(_mean_curve(findings, need, "greedy", "reward")) - 1) // 2
    greedy, sampled = (_mean_curve(findings, need, way, "reward")[middle] for way in ("greedy", "sampled"))
    kept = [_mean_curve(findings, need, way, "coverage") for way in ("greedy", "sampled")]
    shares = [each[-1] / each[0] for each in kept]
    return Claim(
        "Greedy reward rises faster, and the coverage of Explore falls slower",
        _verdict(greedy > sampled, shares[1] > shares[0]),
        f"halfway {greedy:.3f} greedy against {sampled:.3f}; of the first look's coverage {shares[0]:.0%} greedy and "
        f"{shares[1]:.0%} sampled are left",
    )


def maximum_is_unstable(findings: Findings) -> Claim:
    """Section 4.3.2: from look to look the maximum moves more than the mean does."""
    moves = []
    for metric in ("max_reward", "reward"):
        curve = _mean_curve(findings, _online("GFN4Rec"), "greedy", metric)
        second_half = curve[len(curve) // 2 :]
        steps = [abs(after - before) for before, after in pairwise(second_half)]
        moves.append(sum(steps) / max(1, len(steps)))
    return Claim(
        "The maximum reward is unstable",
        _verdict(moves[0] > moves[1]),
        f"in the second half it moves by {moves[0]:.4f} from look to look, the average reward by {moves[1]:.4f}",
    )


def converges(findings: Findings) -> Claim:
    """Section 4.1.2."""
    models = (*BASELINES, "GFN4Rec")
    gains = {}
    for model in models:
        curve = _mean_curve(findings, _online(model), "greedy", "reward")
        gains[model] = curve[-1] / curve[max(0, len(curve) * 4 // 5 - 1)] - 1
    steps = findings.outcomes[_online(models[0])][0].job.settings.training["num_steps"]
    return Claim(
        f"Models have converged near 5,000 steps (here after {steps:,})",
        _verdict(*(gain <= CONVERGED for gain in gains.values())),
        "greedy reward gained in the last fifth: " + ", ".join(f"{model} {gain:+.1%}" for model, gain in gains.items()),
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
    *(
        _online(model)
        for model in (*IN_BOTH, *(f"{name} = {each}" for name in ("b_f", "b_z") for each in SENSITIVITY[name].values))
    ),
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
