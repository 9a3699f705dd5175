"""The prior-guided GFN: slate probabilities in proportion to pi0(O|u) exp(beta E[R(u, O)]).

The prior pi0 is what users choose, learned from the log. The reward model predicts what they like of what they choose.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.policies.averaging import AVERAGING
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Part, evaluating
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.guided import GuidedConfig, GuidedGFN, LightEncoderConfig
from gfn4rec.policies.log_prior import LogPrior, PriorScores
from gfn4rec.schema import Request


class PriorEncoderConfig(LightEncoderConfig):
    """Sizes of the prior's request encoder, which is wider: it chooses among all items, the others compare a few."""

    dim: int = Field(default=64, ge=1)
    embedding_dim: int = Field(default=32, ge=1)


class PriorGFNConfig(GuidedConfig):
    """Settings of the prior-guided GFN."""

    unknown_item_share: float = Field(default=0.05, ge=0, le=1)
    reward_scale: float | None = Field(default=None, gt=0)
    """s, the scale of the reward against the prior; by default it is chosen on the validation slates."""
    prior_encoder: PriorEncoderConfig = PriorEncoderConfig()
    """Sizes of the prior's request encoders."""

    @property
    @override
    def history_length(self) -> int:
        """Number of latest events of a history that the policy reads."""
        return max(self.encoder.history_length, self.prior_encoder.history_length)


class PriorGFN(GuidedGFN):
    """A flow whose probabilities are relative to a prior that was learned from the log."""

    description: ClassVar = "prior-guided GFN, which weighs what users choose against what they would like best"
    Config: ClassVar = PriorGFNConfig
    config: PriorGFNConfig
    has_prior: ClassVar = True
    parts: ClassVar = {**GuidedGFN.parts, "prior": Part("prior")}
    # Online, what was learned from the log is kept better at a smaller learning rate.
    training_defaults: ClassVar[Mapping[str, object]] = {
        **AVERAGING,
        "learning_batch": 256,
        "learning_rate": 1e-3,
        "log_steps": 4000,
    }
    # Prior and reward model learn more from many small batches of the log than from few large ones.
    offline_defaults: ClassVar[Mapping[str, object]] = {
        "learning_rate": AVERAGING["learning_rate"],
        "num_steps": 4000,
        "num_epochs": 6,
        "learning_batch": 128,
        "evaluate_every": 50,
        "patience": 16,
        "validation_slates": 2048,
    }

    def __init__(self, catalogue: Catalogue, config: PriorGFNConfig) -> None:
        of_prior = BackboneConfig.model_validate(
            {"encoder": config.prior_encoder.model_dump(), "hidden_dims": config.hidden_dims, "scoring": config.scoring}
        )
        prior = LogPrior(catalogue, of_prior, config.num_members)
        super().__init__(catalogue, config, config.prior_encoder.state_dim, config.reward_scale or 1.0)
        self.prior = prior
        self.register_load_state_dict_post_hook(_keep_given_scale)  # type: ignore[no-untyped-call]

    @override
    def _prior(self, request: Request, is_hidden_N: Tensor | None) -> PriorScores:
        with evaluating(self.prior), torch.no_grad():
            return self.prior.encode(request, is_hidden_N)

    @override
    def _prior_terms(
        self, request: Request, candidates: Candidates, slate_BK: Tensor, is_hidden_N: Tensor | None
    ) -> dict[str, Tensor]:
        return {"prior": self.prior.loss(request, candidates, slate_BK, is_hidden_N)}


def _keep_given_scale(policy: nn.Module, _: object) -> None:
    """Restore a scale that the settings give, after weights of a run with another scale were loaded."""
    assert isinstance(policy, PriorGFN)
    if policy.config.reward_scale is not None:
        policy.scale.fill_(policy.config.reward_scale)
