"""What can be reproduced, by name: the models that it needs, its tables and its figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gfn4rec.config import nearest
from gfn4rec.errors import UserError
from gfn4rec.experiments.paper import analyses, comparisons, figures, frontiers
from gfn4rec.experiments.paper.analyses import IN_BOTH, OFFLINE_MODELS, sensitivity_rows
from gfn4rec.experiments.paper.claims import CLAIM_NEEDS, claims_table, measurements_table
from gfn4rec.experiments.paper.comparisons import (
    AUTHORS_ROWS,
    BALANCE_ROWS,
    CURVE_ROWS,
    OFFLINE_ROWS,
    ONLINE_MODELS,
    ONLINE_ROWS,
    needs_of_rows,
)
from gfn4rec.experiments.paper.figures import CaptionedPicture
from gfn4rec.experiments.paper.models import FAIR
from gfn4rec.experiments.paper.protocol import Need
from gfn4rec.experiments.paper.results import Results
from gfn4rec.experiments.report.tables import Table


@dataclass(frozen=True)
class Reproduction:
    """A section of the report: tables and figures of the paper, or one of this project's own studies."""

    title: str
    needs: tuple[Need, ...]
    tables: Sequence[Callable[[Results], Table]] = ()
    pictures: Sequence[Callable[[Results], CaptionedPicture]] = ()
    text: str = ""
    needs_oracle: bool = False
    is_of_paper: bool = True
    """Whether `all` includes it; `studies` includes the others."""


def _sensitivity(parameter: str, source: str) -> Reproduction:
    return Reproduction(
        title=f"Sensitivity to {parameter}",
        needs=needs_of_rows("online", sensitivity_rows(parameter)),
        tables=[partial(analyses.sensitivity_table, parameter=parameter)],
        pictures=[partial(figures.sensitivity_figure, parameter=parameter)],
        text=f"{source} The slates are greedy ones of GFN4Rec with trajectory balance.",
    )


def _variants(study: str, title: str, text: str) -> Reproduction:
    return Reproduction(
        title=title,
        needs=frontiers.variant_needs(study),
        tables=[partial(frontiers.variants_table, study=study, title=title)],
        is_of_paper=False,
        text=f"This study is not in the paper. {text}",
    )


REPRODUCTIONS: Final[Mapping[str, Reproduction]] = {
    "data": Reproduction(
        "Data set", (), [comparisons.data_table], text="This section reproduces Table 1 of the paper."
    ),
    "online": Reproduction(
        title="Online learning",
        needs=needs_of_rows("online", ONLINE_ROWS),
        tables=[
            comparisons.online_table,
            comparisons.last_steps_table,
            frontiers.equal_coverage_table,
            comparisons.online_held_out_table,
        ],
        pictures=[figures.frontier_figure],
        text="The first table reproduces Table 2 of the paper, with three more models. Boltzmann CF is a strong simple "
        "baseline, and the energy GFN is this project's own method; both learn from batches of 512 with a decaying "
        "learning rate. The other models learn from batches of 128 with a constant learning rate, as in the paper. "
        "All models sample while they train, as in the authors' code. Section A.3 of the paper says that its CF does "
        "not explore, so “CF, top K” shows its top K items while it trains. The second table has means over the last "
        "100 training steps, which the paper reports. The third table compares models at equal coverage, that is with "
        "equally many different items shown, which the temperature controls. The paper's ILD is that of the authors' "
        "environment, which counts the similarity of an item with itself; it has a column of its own. The last table "
        "is not in the paper: it says whether the models find what users liked next in the log.",
        needs_oracle=True,
    ),
    "offline": Reproduction(
        title="Offline models in the simulator",
        needs=needs_of_rows("offline", OFFLINE_ROWS),
        tables=[comparisons.offline_table, comparisons.offline_held_out_table],
        text="This section reproduces Table 3 of the paper. The paper leaves out ListCVAE on the smaller data set; "
        "here it is included. The authors compute ranking metrics and ILD by other rules: their ranking metrics are "
        "compared in the next section, and their ILD has a column of its own. The last table is not in the paper: it "
        "says whether the models find what users liked next in the log.",
    ),
    "ranking": Reproduction(
        title="Ranking metrics",
        needs=needs_of_rows("offline", OFFLINE_ROWS),
        tables=[comparisons.ranking_table],
        text="This section reproduces Table 4 of the paper. The first four columns rank items by the model's order. "
        "The authors' code ignores this order; the last four columns follow that code, and only they are comparable "
        "with the paper.",
    ),
    "balance": Reproduction(
        title="Trajectory against detailed balance",
        needs=needs_of_rows("offline", BALANCE_ROWS),
        tables=[comparisons.balance_table],
        text="This section reproduces Table 5 of the paper. Its coverage row repeats the reward row by mistake, so "
        "coverage is not compared.",
    ),
    "curves": Reproduction(
        title="Learning curves",
        needs=needs_of_rows("online", CURVE_ROWS),
        tables=[comparisons.curve_ends_table],
        pictures=[figures.curves_figure],
        text="This section reproduces Figure 4 of the paper. The table has the values after the last step.",
    ),
    "b_f": _sensitivity("b_f", "This section reproduces Table 6 of the paper, with b_r = 0.5 and b_z = 1."),
    "b_r": _sensitivity("b_r", "This section reproduces Table 7 of the paper, with b_f = 1 and b_z = 1."),
    "b_z": _sensitivity(
        "b_z", "Section A.2 of the paper says without values that b_z = 1 suffices. Here b_r = 0.5 and b_f = 1."
    ),
    "time": Reproduction(
        title="Running time",
        needs=tuple(("online", model) for model in ONLINE_MODELS),
        tables=[analyses.time_table],
        text="This section reproduces the running times in section A.3 of the paper.",
    ),
    "transfer": Reproduction(
        title="Offline against online",
        needs=tuple((mode, model) for mode in ("online", "offline") for model in IN_BOTH),
        tables=[analyses.transfer_table],
        text="This section reproduces the comparison in section 4.3.4 of the paper.",
    ),
    "feasibility": Reproduction(
        title="Feasibility of the simulator",
        needs=tuple(("offline", model) for model in OFFLINE_MODELS),
        tables=[analyses.feasibility_table],
        text="Section 4.3.3 of the paper asks whether the simulator ranks models as the log does.",
    ),
    "objectives": Reproduction(
        title="The energy GFN and the paper's objectives",
        needs=tuple(("online", FAIR[name]) for name in frontiers.OBJECTIVE_MODELS),
        tables=[frontiers.objectives_table],
        is_of_paper=False,
        text="This study is not in the paper. It compares the paper's two objectives with the energy GFN, with the "
        "same learning batch and learning-rate schedule.",
    ),
    "frontier": Reproduction(
        title="Reward at equal coverage",
        needs=frontiers.FAIR_NEEDS,
        tables=[frontiers.fair_table, frontiers.fair_held_out_table],
        pictures=[frontiers.fair_figure],
        is_of_paper=False,
        text="This study is not in the paper. All models have the same learning batch and learning-rate schedule. "
        "While they train, they sample at temperature 1 and draw one item in a hundred uniformly. CF samples at "
        "temperature 0.1, because at 1 it would be almost uniform.",
        needs_oracle=True,
    ),
    "ablations": _variants(
        "ablations",
        "What each idea is worth",
        "Each variant of the energy GFN leaves out one of its ideas, or replaces it by the paper's.",
    ),
    "alternatives": _variants(
        "alternatives",
        "What was tried and not kept",
        "Each variant of the energy GFN changes one design decision.",
    ),
    "rates": _variants(
        "rates",
        "Other learning rates",
        "The energy GFN is trained as long as the paper's models, with other learning rates.",
    ),
    "authors": Reproduction(
        title="The authors' settings",
        needs=needs_of_rows("online", AUTHORS_ROWS),
        tables=[comparisons.authors_table],
        is_of_paper=False,
        text="This study looks for the source of the paper's values. Its models are those of Table 2 with the settings "
        "of the authors' scripts for ML1M: learning rates, loss weights, uniform replay, dropout, and CF's softmax. "
        "docs/deviations.md lists the other differences from the authors' code.",
    ),
    "claims": Reproduction(
        title="The paper's claims",
        needs=CLAIM_NEEDS,
        tables=[claims_table, measurements_table],
        text="The first table has a verdict on each claim, the second one the values that the verdicts rest on.",
    ),
}
GROUPS: Final = {"all": True, "studies": False}
"""Names that stand for all reproductions that are, or are not, of the paper."""


def select(names: Sequence[str]) -> dict[str, Reproduction]:
    """Return the named reproductions in the order of the report; UserError for an unknown name."""
    for name in names:
        if name not in (*REPRODUCTIONS, *GROUPS):
            raise UserError(f"no table {name!r}; {nearest(name, [*REPRODUCTIONS, *GROUPS])}")
    groups = {is_of_paper for group, is_of_paper in GROUPS.items() if group in names}
    return {
        name: reproduction
        for name, reproduction in REPRODUCTIONS.items()
        if name in names or reproduction.is_of_paper in groups
    }


def needs_of(names: Sequence[str]) -> list[Need]:
    """Return the models that reproductions need; none for those that describe the log only."""
    return list(dict.fromkeys(need for reproduction in select(names).values() for need in reproduction.needs))
