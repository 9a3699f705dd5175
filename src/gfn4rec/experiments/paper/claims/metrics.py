"""Claims about the metrics of trained models."""

from gfn4rec.experiments.paper.analyses import IN_BOTH
from gfn4rec.experiments.paper.claims.claim import (
    BASELINES,
    FLAT,
    MULTIPLE,
    SAME_REWARD,
    Claim,
    gains_over_best_baseline,
    judge,
    judge_gains,
    offline,
    online,
    relative_gain,
    write_range,
)
from gfn4rec.experiments.paper.comparisons import column
from gfn4rec.experiments.paper.models import SENSITIVITY
from gfn4rec.experiments.paper.results import SAMPLED, Results
from gfn4rec.experiments.report.statistics import mean

MANY_ITEMS = 10_000  # the paper's data set has 69,219


def best_in_reward(results: Results) -> Claim:
    """Judge section 4.1."""
    baseline, gains = gains_over_best_baseline(results)
    return Claim(
        "GFN4Rec has the highest average reward online",
        judge_gains(gains),
        f"{mean(gains):+.1%} relative to {baseline}, the best baseline",
        "Above the best of CF, ListCVAE and PRM with every seed.",
        {
            "Average reward of GFN4Rec": f"{results.mean(online('GFN4Rec'), 'reward'):.3f}",
            f"Gain over {baseline}, range over seeds": write_range(gains),
        },
    )


def explores_widely(results: Results) -> Claim:
    """Judge section 4.1."""
    reward, coverage = (results.mean(online("GFN4Rec"), metric, SAMPLED) for metric in ("reward", "coverage"))
    cf_reward = results.mean(online("CF"), "reward")
    factors = {model: coverage / results.mean(online(model), "coverage") for model in ("CF", "PRM")}
    gain, factor = relative_gain(reward, cf_reward), min(factors.values())
    return Claim(
        "GFN4Rec (Explore) has the reward of CF and four times the coverage of CF and PRM",
        judge(gain >= -SAME_REWARD, factor >= 4),
        f"Reward {gain:+.1%} relative to CF; coverage at least {factor:.1f} times theirs",
        f"Reward at most {SAME_REWARD:.0%} below CF's; coverage at least 4 times that of each.",
        {
            "Average reward of GFN4Rec (Explore)": f"{reward:.3f}",
            "Average reward of CF": f"{cf_reward:.3f}",
            "Coverage of GFN4Rec (Explore)": f"{coverage:.1f}",
            **{f"Coverage relative to {model}": f"{factor:.1f} times" for model, factor in factors.items()},
        },
    )


def list_cvae_is_diverse(results: Results) -> Claim:
    """Judge section 4.1."""
    reward, coverage = (results.mean(online("ListCVAE"), metric, SAMPLED) for metric in ("reward", "coverage"))
    rewards = {model: results.mean(online(model), "reward") for model in ("CF", "PRM")}
    coverages = {model: results.mean(online(model), "coverage") for model in ("CF", "PRM")}
    gain, highest = relative_gain(reward, min(rewards.values())), max(coverages.values())
    return Claim(
        "ListCVAE is diverse but low in reward",
        judge(coverage > highest, gain < -SAME_REWARD),
        f"Coverage {coverage / highest:.1f} times the higher of CF's and PRM's; reward {gain:+.1%} against the lower",
        f"Coverage above, and reward more than {SAME_REWARD:.0%} below, that of both CF and PRM.",
        {
            **{
                f"Average reward of {model}": f"{value:.3f}" for model, value in {"ListCVAE": reward, **rewards}.items()
            },
            **{f"Coverage of {model}": f"{value:.1f}" for model, value in {"ListCVAE": coverage, **coverages}.items()},
        },
    )


def ten_percent(results: Results) -> Claim:
    """Judge section 4.1, which claims it for the larger data set."""
    baseline, gains = gains_over_best_baseline(results)
    evidence = f"{mean(gains):+.1%} relative to {baseline}"
    measurements = {f"Gain over {baseline}, range over seeds": write_range(gains)}
    rewards = {model: row["reward"] for model, row in results.paper.online.items()}
    if rewards:
        gain = rewards["GFN4Rec"] / max(rewards[model] for model in BASELINES) - 1
        measurements["Gain in the paper's own table"] = f"{gain:+.1%}"
    is_claimed = results.paper.name == "KR1K"
    return Claim(
        "GFN4Rec earns 10 % more than the best baseline",
        judge(min(gains) > 0, mean(gains) >= 0.1) if is_claimed else "not judged",
        evidence if is_claimed else f"Claimed for KR1K only; here {evidence}",
        "At least 10 % more on average, and more with every seed. The paper claims it for its KR1K.",
        measurements,
    )


def detailed_balance_offline(results: Results) -> Claim:
    """Judge section 4.3.1."""
    db, tb = offline("GFN4Rec (DB)"), offline("GFN4Rec")
    metrics = [metric for metric in ("reward", "test_r_ndcg") if results.values(db, metric)]
    gains = {
        column(metric).in_sentence: [
            one - other for one, other in zip(results.values(db, metric), results.values(tb, metric), strict=True)
        ]
        for metric in metrics
    }
    num_items = results.benchmark.data.statistics.items
    differences = "; ".join(f"{label} {mean(by_seed):+.3f}" for label, by_seed in gains.items())
    return Claim(
        "Detailed balance is better than trajectory balance offline if there are many items",
        judge_gains(*gains.values()) if num_items >= MANY_ITEMS else "not judged",
        f"{differences[0].upper()}{differences[1:]}" if num_items >= MANY_ITEMS else f"Too few items; {differences}",
        f"Higher {' and '.join(gains)} with every seed; judged with at least {MANY_ITEMS:,} items.",
        {
            "Number of items": f"{num_items:,}",
            **{
                f"{column(metric).label} of {need[1]}": f"{results.mean(need, metric):.3f}"
                for metric in metrics
                for need in (db, tb)
            },
        },
    )


def offline_is_below_online(results: Results) -> Claim:
    """Judge section 4.3.4."""
    rewards = {
        model: (results.values(offline(model), "reward"), results.values(online(model), "reward")) for model in IN_BOTH
    }
    losses = [[other - one for one, other in zip(*pair, strict=True)] for pair in rewards.values()]
    num_below = sum(min(by_seed) > 0 for by_seed in losses)
    return Claim(
        "Policies trained offline earn less than those trained online",
        judge_gains(*losses),
        f"{num_below} of {len(losses)} models earn less with every seed",
        "All models earn less with every seed. Policies trained offline are measured on users in the state before "
        "their test slates.",
        {
            f"Average reward of {model}, offline and online": f"{mean(low):.3f} and {mean(high):.3f}"
            for model, (low, high) in rewards.items()
        },
    )


def rerankers_cover_more_offline(results: Results) -> Claim:
    """Judge section 4.3.5."""
    needs = {"RerankCF offline": offline("RerankCF"), "PRM offline": offline("PRM"), "PRM online": online("PRM")}
    factors = {
        label: results.mean(need, "coverage") / results.mean((need[0], "CF"), "coverage")
        for label, need in needs.items()
    }
    *both_offline, prm_online = (factor >= MULTIPLE for factor in factors.values())
    lowest = min(factors["RerankCF offline"], factors["PRM offline"])
    return Claim(
        "RerankCF and PRM cover more than CF offline, and PRM does not online",
        judge(*both_offline, all(both_offline) and not prm_online),
        f"At least {lowest:.1f} times CF's coverage offline; PRM {factors['PRM online']:.1f} times online",
        f"At least {MULTIPLE:g} times CF's coverage offline, and less than that online.",
        {f"Coverage of {label} relative to CF": f"{factor:.1f} times" for label, factor in factors.items()},
    )


def _sweep(results: Results, parameter: str) -> tuple[dict[float, float], dict[str, str]]:
    """Return mean rewards by value of a parameter, and the same as measurements."""
    values = SENSITIVITY[parameter].values
    rewards = {value: results.mean(online(f"{parameter} = {value}"), "reward") for value in values}
    return rewards, {f"Average reward with {parameter} = {value:g}": f"{rewards[value]:.3f}" for value in values}


def b_z_of_one(results: Results) -> Claim:
    """Judge section A.2."""
    rewards, measurements = _sweep(results, "b_z")
    loss = -relative_gain(rewards[1.0], max(rewards.values()))
    return Claim(
        "b_z = 1 suffices",
        judge(loss <= FLAT),
        f"Reward {loss:z.1%} below that of the best value",
        f"At most {FLAT:.0%} below.",
        measurements,
    )


def flat_in_b_f(results: Results) -> Claim:
    """Judge section A.2."""
    rewards, measurements = _sweep(results, "b_f")
    spread = -relative_gain(min(rewards.values()), max(rewards.values()))
    return Claim(
        "The reward is flat in b_f",
        judge(spread <= FLAT),
        f"Lowest reward {spread:z.1%} below the highest",
        f"At most {FLAT:.0%} below. The paper says so for KR1K, and doubts it for other data sets.",
        measurements,
    )
