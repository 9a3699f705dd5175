"""Listwise (slate) recommendation with generative flow networks.

The public names of the library. They are imported when they are first used, so that `import gfn4rec` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gfn4rec.api import Evaluation as Evaluation
    from gfn4rec.api import evaluate as evaluate
    from gfn4rec.api import resume as resume
    from gfn4rec.api import train as train
    from gfn4rec.api import train_simulator as train_simulator
    from gfn4rec.data.dataset import SlateData as SlateData
    from gfn4rec.data.interactions import Interactions as Interactions
    from gfn4rec.data.prepare import PrepareConfig as PrepareConfig
    from gfn4rec.data.prepare import prepare as prepare
    from gfn4rec.data.read import read_data as read_data
    from gfn4rec.decoders import build_decoder as build_decoder
    from gfn4rec.decoders.base import DecodedSlates as DecodedSlates
    from gfn4rec.decoders.base import Decoder as Decoder
    from gfn4rec.errors import UserError as UserError
    from gfn4rec.policies import build_policy as build_policy
    from gfn4rec.policies.base import Policy as Policy
    from gfn4rec.policies.catalogue import Catalogue as Catalogue
    from gfn4rec.schema import Proposal as Proposal
    from gfn4rec.schema import Request as Request
    from gfn4rec.schema import Sampling as Sampling
    from gfn4rec.schema import SlateBatch as SlateBatch
    from gfn4rec.serving.recommender import Query as Query
    from gfn4rec.serving.recommender import Recommender as Recommender
    from gfn4rec.simulator.environment import EnvironmentConfig as EnvironmentConfig
    from gfn4rec.simulator.environment import UserEnvironment as UserEnvironment
    from gfn4rec.simulator.gym_environment import make_environment as make_environment
    from gfn4rec.training.config import RunSettings as RunSettings
    from gfn4rec.training.config import resolve_settings as resolve_settings
    from gfn4rec.training.online_learner import OnlineLearner as OnlineLearner
    from gfn4rec.training.online_learner import OnlineLearnerConfig as OnlineLearnerConfig
    from gfn4rec.training.opened_run import OpenedRun as OpenedRun

__version__ = "0.1.0"

_MODULES: Final = {
    "Catalogue": "policies.catalogue",
    "DecodedSlates": "decoders.base",
    "Decoder": "decoders.base",
    "EnvironmentConfig": "simulator.environment",
    "Evaluation": "api",
    "Interactions": "data.interactions",
    "OnlineLearner": "training.online_learner",
    "OnlineLearnerConfig": "training.online_learner",
    "OpenedRun": "training.opened_run",
    "Policy": "policies.base",
    "PrepareConfig": "data.prepare",
    "Proposal": "schema",
    "Query": "serving.recommender",
    "Recommender": "serving.recommender",
    "Request": "schema",
    "RunSettings": "training.config",
    "Sampling": "schema",
    "SlateBatch": "schema",
    "SlateData": "data.dataset",
    "UserEnvironment": "simulator.environment",
    "UserError": "errors",
    "build_decoder": "decoders",
    "build_policy": "policies",
    "evaluate": "api",
    "make_environment": "simulator.gym_environment",
    "prepare": "data.prepare",
    "read_data": "data.read",
    "resolve_settings": "training.config",
    "resume": "api",
    "train": "api",
    "train_simulator": "api",
}
__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'gfn4rec' has no attribute {name!r}")
    value = getattr(import_module(f"gfn4rec.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
