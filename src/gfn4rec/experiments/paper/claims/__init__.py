"""The paper's claims, and what the results say about each of them."""

from collections.abc import Callable
from typing import Final

from gfn4rec.experiments.paper.analyses import IN_BOTH
from gfn4rec.experiments.paper.claims import curves, metrics
from gfn4rec.experiments.paper.claims.claim import Claim, offline, online
from gfn4rec.experiments.paper.models import SENSITIVITY
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.tables import Column, Row, Table

CLAIMS: Final[tuple[Callable[[Results], Claim], ...]] = (
    metrics.best_in_reward,
    metrics.explores_widely,
    metrics.list_cvae_is_diverse,
    metrics.ten_percent,
    metrics.detailed_balance_offline,
    metrics.offline_is_below_online,
    metrics.rerankers_cover_more_offline,
    metrics.b_z_of_one,
    metrics.flat_in_b_f,
    curves.greedy_rises_faster,
    curves.maximum_is_unstable,
    curves.converges,
)
CLAIM_NEEDS: Final[tuple[Need, ...]] = (
    *(online(model) for model in IN_BOTH),
    *(online(f"{name} = {value}") for name in ("b_f", "b_z") for value in SENSITIVITY[name].values),
    *(offline(model) for model in (*IN_BOTH, "RerankCF")),
)


def claims_table(results: Results) -> Table:
    """Return a row for each claim: the verdict, the deciding evidence and the criterion."""
    claims = [judge_claim(results) for judge_claim in CLAIMS]
    columns = [Column(key, key.capitalize(), is_better="none") for key in ("verdict", "evidence", "criterion")]
    rows = [
        Row(
            f"{number}. {claim.statement}",
            texts={"verdict": claim.verdict, "evidence": claim.evidence, "criterion": claim.criterion},
        )
        for number, claim in enumerate(claims, start=1)
    ]
    note = "A claim holds in part if it meets only some of its conditions, or meets them on average but not always."
    return Table("claims", "The paper's claims", f"{note} {results.caption(*CLAIM_NEEDS)}", columns, rows)


def measurements_table(results: Results) -> Table:
    """Return the measured values behind each verdict, numbered as the claims are."""
    rows = [
        Row(f"{number}. {quantity}", texts={"value": value})
        for number, judge_claim in enumerate(CLAIMS, start=1)
        for quantity, value in judge_claim(results).measurements.items()
    ]
    columns = [Column("value", "Value", is_better="none")]
    caption = "Numbers refer to the claims above; values are means over seeds."
    return Table("claim-measurements", "Measurements behind the claims", caption, columns, rows)
