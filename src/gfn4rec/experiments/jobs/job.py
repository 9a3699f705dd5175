"""A job: one training, and how its policy is measured. Keys name its run and its result wherever they were made."""

from typing import Final

from pydantic import Field

from gfn4rec.config import ADDED_LATER, GrownConfig, StrictConfig, identity_values
from gfn4rec.decoders import build_decoder
from gfn4rec.decoders.base import Decoder
from gfn4rec.experiments.benchmark import Benchmark, digest
from gfn4rec.training.config import RunSettings

CODE_VERSION: Final = 1
"""Raise it with any change that moves metrics: results of another version are then computed again."""

_WITHOUT_EFFECT = ("checkpoint_every", "final_batches", "tensorboard")  # on what a job measures


class DecoderChoice(StrictConfig):
    """A decoder, by its name and those of its settings that are not the default."""

    name: str
    settings: dict[str, object] = Field(default_factory=dict)

    def build(self) -> Decoder:
        """Return the decoder."""
        return build_decoder(self.name, self.settings)

    def identity(self) -> dict[str, object]:
        """Return what tells it from other decoders in keys."""
        return {"name": self.name, "settings": identity_values(self.build().config)}


class Job(GrownConfig):
    """A run's settings, and how its policy is measured in the end."""

    settings: RunSettings
    temperatures: tuple[float, ...] = (1.0,)
    """Temperatures of the sampled slates that are measured, besides greedy ones."""
    num_batches: int = 100
    """Batches of each measurement."""
    decoder: DecoderChoice | None = Field(default=None, json_schema_extra=ADDED_LATER)
    """A decoder whose slates are measured beside those of the policy; the training is the same with and without it."""

    def users(self, benchmark: Benchmark) -> dict[str, object]:
        """Return how users come and go, with the simulator's rho where none is set."""
        users = identity_values(self.settings.users)
        return users if users["rho"] is not None else {**users, "rho": benchmark.rho}

    def training_key(self, benchmark: Benchmark) -> str:
        """Return the key of the run: jobs that differ only in what is measured share it."""
        values = self._settings_values(benchmark)
        return digest({"training": values, "benchmark": benchmark.identity, "code": CODE_VERSION})

    def key(self, benchmark: Benchmark) -> str:
        """Return the key of the result: that of the training, and how it is measured."""
        return digest({"training": self.training_key(benchmark), "measurement": self._measurement_values()})

    def legacy_key(self, benchmark: Benchmark) -> str:
        """Return the key that runs and results had while there was one key for both."""
        values = {"settings": self._settings_values(benchmark), **self._measurement_values()}
        return digest({"job": values, "world": benchmark.identity, "code": CODE_VERSION})

    def _measurement_values(self) -> dict[str, object]:
        values = identity_values(self)
        del values["settings"]
        return values if self.decoder is None else {**values, "decoder": self.decoder.identity()}

    def _settings_values(self, benchmark: Benchmark) -> dict[str, object]:
        values = identity_values(self.settings)
        for name in _WITHOUT_EFFECT:
            values["training"].pop(name, None)
        return {**values, "users": self.users(benchmark)}
