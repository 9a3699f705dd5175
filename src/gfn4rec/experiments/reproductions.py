"""What can be reproduced, by name: which runs it needs, and the tables and plots that are made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gfn4rec.experiments import comparisons, figures, frontiers, studies
from gfn4rec.experiments.claims import CLAIM_NEEDS, claims_table
from gfn4rec.experiments.comparisons import (
    AUTHORS_LINES,
    BALANCE_LINES,
    CURVE_LINES,
    OFFLINE_LINES,
    ONLINE_LINES,
    ONLINE_MODELS,
    needs_of,
)
from gfn4rec.experiments.figures import NamedPicture
from gfn4rec.experiments.findings import Findings
from gfn4rec.experiments.models import FAIR
from gfn4rec.experiments.protocol import Need
from gfn4rec.experiments.studies import IN_BOTH, OFFLINE_MODELS, sensitivity_lines
from gfn4rec.experiments.tables import Table


@dataclass(frozen=True)
class Reproduction:
    """A table or a figure of the paper."""

    title: str
    needs: tuple[Need, ...]
    tables: Sequence[Callable[[Findings], Table]] = ()
    pictures: Sequence[Callable[[Findings], NamedPicture]] = ()
    words: str = ""
    needs_ruler: bool = False
    is_of_paper: bool = True
    """Whether `all` means it, too."""


def _sensitivity(parameter: str, where: str) -> Reproduction:
    return Reproduction(
        title=f"Sensitivity to {parameter}",
        needs=needs_of("online", sensitivity_lines(parameter)),
        tables=[partial(studies.sensitivity_table, parameter=parameter)],
        pictures=[partial(figures.sensitivity_figure, parameter=parameter)],
        words=f"{where}. Greedy slates of GFN4Rec with trajectory balance.",
    )


def _variants(study: str, title: str, words: str) -> Reproduction:
    return Reproduction(
        title=title,
        needs=frontiers.variant_needs(study),
        tables=[partial(frontiers.variants_table, study=study, title=title)],
        is_of_paper=False,
        words=f"Not in the paper: {words}.",
    )


REPRODUCTIONS: Final[Mapping[str, Reproduction]] = {
    "data": Reproduction("Data set", (), [comparisons.data_table], words="Table 1 of the paper."),
    "online": Reproduction(
        title="Online learning",
        needs=needs_of("online", ONLINE_LINES),
        tables=[comparisons.online_table, comparisons.last_steps_table, frontiers.equal_coverage_table],
        pictures=[figures.frontier_figure],
        words="Table 2 of the paper, and three models it does not have. All sample while they learn, as in the "
        "authors' code; section A.3 of the paper says that its CF does not explore, so CF, top K, does as it says. "
        "Boltzmann CF, the strong simple rival, and the energy flow, this project's own, learn from batches of "
        "512 at a falling rate, all others from batches of 128 at a constant one, as the paper says. The second "
        "table has means of the last 100 steps of learning, as the paper reports them; the third compares models "
        "that show equally many different items, which the temperature decides. The paper's ILD is that of the "
        "authors' environment, which counts an item's likeness to itself: a column of its own.",
        needs_ruler=True,
    ),
    "offline": Reproduction(
        title="Offline models in the simulator",
        needs=needs_of("offline", OFFLINE_LINES),
        tables=[comparisons.offline_table],
        words="Table 3 of the paper. It leaves ListCVAE out on the smaller data set; here it is run. Its ranking "
        "metrics are computed by another rule and stand beside ours in the next table; so is its ILD, which "
        "has a column of its own here.",
    ),
    "ranking": Reproduction(
        title="Ranking metrics",
        needs=needs_of("offline", OFFLINE_LINES),
        tables=[comparisons.ranking_table],
        words="Table 4 of the paper. The first four columns rank by the model's own order. In the authors' code no "
        "ranking metric uses it; the last four columns do as that code does, and only they can be set beside the "
        "paper's.",
    ),
    "balance": Reproduction(
        title="Trajectory against detailed balance",
        needs=needs_of("offline", BALANCE_LINES),
        tables=[comparisons.balance_table],
        words="Table 5 of the paper; its coverage row repeats the reward row, a misprint.",
    ),
    "curves": Reproduction(
        title="Learning curves",
        needs=needs_of("online", CURVE_LINES),
        tables=[comparisons.curve_ends_table],
        pictures=[figures.curves_figure],
        words="Figure 4 of the paper, and what its curves end with.",
    ),
    "b_f": _sensitivity("b_f", "Table 6 of the paper: b_r = 0.5, b_z = 1"),
    "b_r": _sensitivity("b_r", "Table 7 of the paper: b_f = 1, b_z = 1"),
    "b_z": _sensitivity("b_z", "Section A.2 of the paper says in words that b_z = 1 suffices; here b_r = 0.5, b_f = 1"),
    "time": Reproduction(
        title="Running time",
        needs=tuple(("online", model) for model in ONLINE_MODELS),
        tables=[studies.time_table],
        words="Section A.3 of the paper.",
    ),
    "transfer": Reproduction(
        title="Offline against online",
        needs=tuple((kind, model) for kind in ("online", "offline") for model in IN_BOTH),
        tables=[studies.transfer_table],
        words="Section 4.3.4 of the paper.",
    ),
    "feasibility": Reproduction(
        title="Feasibility of the simulator",
        needs=tuple(("offline", model) for model in OFFLINE_MODELS),
        tables=[studies.feasibility_table],
        words="Section 4.3.3 of the paper.",
    ),
    "objectives": Reproduction(
        title="The energy flow and the paper's objectives",
        needs=tuple(("online", FAIR[name]) for name in frontiers.OBJECTIVE_MODELS),
        tables=[frontiers.objectives_table],
        is_of_paper=False,
        words="Not in the paper: its two objectives and the energy flow, with the same learning batch and schedule.",
    ),
    "frontier": Reproduction(
        title="Reward at equal coverage",
        needs=frontiers.FAIR_NEEDS,
        tables=[frontiers.fair_table],
        pictures=[frontiers.fair_figure],
        is_of_paper=False,
        words="Not in the paper: all models with the same learning batch and schedule. They sample while they learn "
        "and draw one item in a hundred uniformly; CF samples at temperature 0.1, because at 1 it would show almost "
        "anything.",
        needs_ruler=True,
    ),
    "ablations": _variants(
        "ablations", "What each idea is worth", "the energy flow without one of its ideas, or with the paper's way"
    ),
    "alternatives": _variants("alternatives", "What was tried and not kept", "the energy flow with one thing changed"),
    "rates": _variants(
        "rates", "Other learning rates", "the energy flow, run as long as the models of the paper, at other rates"
    ),
    "authors": Reproduction(
        title="The authors' settings",
        needs=needs_of("online", AUTHORS_LINES),
        tables=[comparisons.authors_table],
        is_of_paper=False,
        words="Where the paper's figures may come from: its models of Table 2 with the learning rates and weights of "
        "the scripts that its authors published for ML1M, uniform replay, dropout, and CF's softmax, as their code "
        "has them. What it does besides is in docs/deviations.md.",
    ),
    "claims": Reproduction(
        "The paper's claims", CLAIM_NEEDS, [claims_table], words="Each held against the figures here."
    ),
}
