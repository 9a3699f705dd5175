"""A decoder is part of a measurement: the training stays the same, and so do the keys of results without one."""

from dataclasses import replace
from pathlib import Path

import pytest

from gfn4rec import api
from gfn4rec.decoders import build_decoder
from gfn4rec.errors import UserError
from gfn4rec.experiments.benchmark import Benchmark, digest
from gfn4rec.experiments.jobs.execute import execute
from gfn4rec.experiments.jobs.job import CODE_VERSION, DecoderChoice, Job
from gfn4rec.experiments.jobs.result import JobResult
from gfn4rec.experiments.jobs.run_directories import find_run_directory
from gfn4rec.experiments.paper import models
from gfn4rec.experiments.paper.frontiers import frontier_points
from gfn4rec.experiments.paper.protocol import BUDGETS, Protocol
from gfn4rec.experiments.paper.results import value_of
from tests.experiments.conftest import small_job

MMR = DecoderChoice(name="mmr", settings={"relevance_weight": 0.1})


def with_decoder(choice: DecoderChoice | None) -> Job:
    return small_job().model_copy(update={"decoder": choice})


def test_without_a_decoder_keys_and_files_are_what_they_were(benchmark: Benchmark) -> None:
    job = small_job()
    before = {"training": job.training_key(benchmark), "measurement": {"temperatures": [1.0], "num_batches": 2}}
    assert job.key(benchmark) == digest(before)
    assert CODE_VERSION == 1
    assert set(job.model_dump(mode="json")) == {"settings", "temperatures", "num_batches"}
    assert Job.model_validate(with_decoder(MMR).model_dump(mode="json")) == with_decoder(MMR)


def test_decoders_have_keys_of_their_own_and_share_the_training(benchmark: Benchmark) -> None:
    choices = [
        None,
        MMR,
        DecoderChoice(name="mmr"),
        DecoderChoice(name="dpp", settings=MMR.settings),
        DecoderChoice(name="mmr", settings={"relevance_weight": 0.1, "similarity": "features"}),
    ]
    assert len({with_decoder(choice).key(benchmark) for choice in choices}) == len(choices)
    assert len({with_decoder(choice).training_key(benchmark) for choice in choices}) == 1
    spelt = DecoderChoice(name="mmr", settings={"num_candidates": 50, "relevance_weight": 0.1})
    assert with_decoder(spelt).key(benchmark) == with_decoder(MMR).key(benchmark)
    with pytest.raises(UserError, match="decoder mmr: unknown key 'weight'"):
        with_decoder(DecoderChoice(name="mmr", settings={"weight": 1})).key(benchmark)


def test_decoded_slates_are_measured_beside_the_policys(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = execute(with_decoder(None), benchmark, tmp_path)
    monkeypatch.setattr(api, "train", None)  # the run is there, and is only measured
    decoded = execute(with_decoder(MMR), benchmark, tmp_path)
    assert plain is not None
    assert decoded is not None
    assert list(decoded.metrics) == ["greedy", "T=1", "mmr"]
    assert {name: decoded.metrics[name] for name in plain.metrics} == plain.metrics
    directory = find_run_directory(small_job(), benchmark, tmp_path)
    assert directory is not None
    made_by = build_decoder("mmr", MMR.settings)
    measured = api.evaluate(directory, temperatures=(), num_batches=2, oracle_batches=0, decoder=made_by)
    assert decoded.metrics["mmr"] == measured.rows["mmr"] != plain.metrics["greedy"]
    assert value_of(decoded, "coverage", "mmr") == measured.rows["mmr"]["coverage"]
    assert decoded.held_out is not None
    assert value_of(decoded, "recall", "mmr") == decoded.held_out["mmr"]["recall"]
    assert "decoder" not in plain.model_dump()["job"]
    assert JobResult.model_validate(decoded.entry()).job == with_decoder(MMR)
    coverages = {row["coverage"] for row in plain.metrics.values()}
    assert {coverage for coverage, _ in frontier_points(plain)} == coverages
    assert frontier_points(decoded) == [(decoded.metrics["mmr"]["coverage"], decoded.metrics["mmr"]["expected_reward"])]


def test_a_model_with_a_decoder_trains_as_without(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(model.decoder is None for model in models.MODELS.values())
    decoded = replace(models.MODELS["CF"], decoder=MMR)
    monkeypatch.setitem(models.MODELS, "CF + MMR", decoded)
    protocol = Protocol(BUDGETS["quick"])
    (plain,), (job,) = (protocol.jobs(("online", name)) for name in ("CF", "CF + MMR"))
    assert plain.decoder is None
    assert job.decoder == MMR
    assert job.training_key(benchmark) == plain.training_key(benchmark)
    assert job.key(benchmark) != plain.key(benchmark)
