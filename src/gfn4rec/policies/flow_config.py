"""The settings of the policies that learn by a flow objective."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from gfn4rec.config import nearest
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.policies.backbone import BackboneConfig


class FlowConfig(BackboneConfig):
    """Settings of a policy that learns by a flow objective; the paper's."""

    objective: str = "tb"
    """The flow objective: tb (trajectory balance), db (detailed balance), subtb (sub-trajectory balance); with each
    item's reward paid at its own step fl-db, fl-subtb, and fl-db-exact, which predicts it."""
    reward: Literal["log", "energy"] = "log"
    """What the probability of a slate follows: log, its reward + b_r; energy, exp(beta * reward)."""
    beta: float = Field(default=60.0, gt=0)
    """Sharpness of the energy reward."""
    relative: bool = False
    """Whether probabilities are taken relative to uniform ones; then b_f is not used."""
    decay: float = Field(default=0.9, gt=0, le=1)
    """How much less a stretch one step longer counts in sub-trajectory balance."""
    penalty: str = "square"
    """How a residual is punished: square or huber."""
    b_z: float = Field(default=1.0, gt=0)
    """Normalising bias: b_z F(u, empty) stands for the sum of all slates' rewards."""
    b_r: float = Field(default=0.3, gt=0)
    """Added to the reward inside the logarithm."""
    b_f: float = Field(default=0.5, ge=0)
    """Added to each step's probability inside the logarithm; 0 makes the flow property exact."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the scores; 1 is the paper's, and starts with a sharp policy."""
    learn_scale: bool = False
    """Whether the factor is learned."""
    normalise_query: bool = True
    """Whether the query is normalised, as in the paper."""

    @field_validator("objective")
    @classmethod
    def _known_objective(cls, name: str) -> str:
        if name not in OBJECTIVES:
            raise ValueError(f"no such objective, {nearest(name, list(OBJECTIVES))}")
        return name

    @field_validator("penalty")
    @classmethod
    def _known_penalty(cls, name: str) -> str:
        if name not in PENALTIES:
            raise ValueError(f"no such penalty, {nearest(name, list(PENALTIES))}")
        return name

    @model_validator(mode="after")
    def _gains_need_energy(self) -> Self:
        if OBJECTIVES[self.objective].gains != "none" and self.reward != "energy":
            raise ValueError(f"objective {self.objective} needs reward = energy: a logarithm has no shares of items")
        return self

    @model_validator(mode="after")
    def _energy_bears_no_shift(self) -> Self:
        """A shift would bend exp(beta * reward): no objective would be exact."""
        if self.reward == "energy" and not self.relative and self.b_f > 0:
            raise ValueError("reward = energy needs relative = true, or b_f = 0")
        return self

    @model_validator(mode="after")
    def _stretches_are_squared(self) -> Self:
        if self.objective in ("subtb", "fl-subtb") and self.penalty != "square":
            raise ValueError(f"objective {self.objective} weighs squares of its stretches; write penalty = square")
        return self
