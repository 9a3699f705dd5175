"""Settings of the policies that learn by a flow objective."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from gfn4rec.config import nearest
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.policies.backbone import BackboneConfig


class ObjectiveConfig(BackboneConfig):
    """Which flow objective a policy learns by."""

    objective: str = Field(
        default="tb",
        description=f"Flow objective: {', '.join(f'{name} ({row.meaning})' for name, row in OBJECTIVES.items())}.",
    )
    decay: float = Field(default=0.9, gt=0, le=1)
    """In sub-trajectory balance, a sub-trajectory of n steps has the weight decay^n."""
    penalty: str = "square"
    """Loss function of the residuals: square, which fits the mean of noisy rewards, or huber."""

    @field_validator("objective")
    @classmethod
    def _known_objective(cls, name: str) -> str:
        if name not in OBJECTIVES:
            raise ValueError(f"no such objective; {nearest(name, list(OBJECTIVES))}")
        return name

    @field_validator("penalty")
    @classmethod
    def _known_penalty(cls, name: str) -> str:
        if name not in PENALTIES:
            raise ValueError(f"no such penalty; {nearest(name, list(PENALTIES))}")
        return name

    @model_validator(mode="after")
    def _sub_trajectories_are_squared(self) -> Self:
        if OBJECTIVES[self.objective].needs_square and self.penalty != "square":
            raise ValueError(f"objective {self.objective} weights squared residuals; write penalty = square")
        return self


class FlowConfig(ObjectiveConfig):
    """Settings of a policy that learns by a flow objective; the defaults are the paper's."""

    reward: Literal["log", "energy"] = "log"
    """What slate probabilities are proportional to: reward + b_r (log) or exp(beta * reward) (energy)."""
    beta: float = Field(default=60.0, gt=0)
    """Sharpness of the energy reward: larger values favour high rewards, smaller ones diversity."""
    relative: bool = False
    """Whether step probabilities are divided by uniform ones instead of shifted by b_f."""
    b_z: float = Field(default=1.0, gt=0)
    """Normalising bias: b_z times the flow of the empty slate estimates the sum of all slates' rewards."""
    b_r: float = Field(default=0.3, gt=0)
    """Reward bias: added to the reward inside the logarithm; not used with the energy reward."""
    b_f: float = Field(default=0.5, ge=0)
    """Forward probability shift: added to each step's probability inside the logarithm; 0 makes the objective exact."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the scores in the softmax, 1 in the paper; training starts more uniform with a smaller one."""
    learn_scale: bool = False
    """Whether scale is learned; otherwise it is constant."""
    normalise_query: bool = True
    """Whether each step's query is layer-normalised, as in the paper."""

    @model_validator(mode="after")
    def _gains_need_energy(self) -> Self:
        if OBJECTIVES[self.objective].gains != "none" and self.reward != "energy":
            raise ValueError(f"objective {self.objective} needs reward = energy: a logarithm is not a sum over items")
        return self

    @model_validator(mode="after")
    def _energy_needs_no_shift(self) -> Self:
        """Refuse a probability shift with the energy reward: no objective would be exact."""
        if self.reward == "energy" and not self.relative and self.b_f > 0:
            raise ValueError("reward = energy needs relative = true, or b_f = 0")
        return self
