"""The gates that a new version passes before it serves; what is stopped there leaves the old one in place."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typing_extensions import override

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import RunError, UserError
from gfn4rec.live.service import probe_requests
from gfn4rec.live.versions import Versions, loss_problem, probe
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Proposal, Sampling
from tests.live.fakes import FakePolicy
from tests.live.growth.shop import small_policy
from tests.live.learning.release import Release

WEIGHTS = "policy.safetensors"


def change_manifest(directory: Path, **values: object) -> None:
    """Change values in a manifest; its weights stay as they are."""
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def flip(directory: Path) -> None:
    """Change one bit of the weights."""
    content = bytearray((directory / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (directory / WEIGHTS).write_bytes(content)


def truncate(directory: Path) -> None:
    """Cut off the last byte of the weights."""
    (directory / WEIGHTS).write_bytes((directory / WEIGHTS).read_bytes()[:-1])


DAMAGED = "{path}/policy.safetensors: missing or damaged; choose another version"
NO_MANIFEST = "{path}: not a version (no manifest.json in it); make one with the learner of a live service"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (flip, DAMAGED),
    "a missing byte": (truncate, DAMAGED),
    "no weights": (lambda path: (path / WEIGHTS).unlink(), DAMAGED),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), NO_MANIFEST),
    "half a manifest": (
        lambda path: (path / "manifest.json").write_text((path / "manifest.json").read_text()[:50]),
        "{path}/manifest.json: damaged; make it again with the learner of a live service",
    ),
    "another number": (
        lambda path: change_manifest(path, number=7),
        "{path}: its manifest.json is damaged; choose another version",
    ),
    "other files": (
        lambda path: change_manifest(path, files={}),
        "{path}: its manifest.json is damaged; choose another version",
    ),
    "a later format": (
        lambda path: change_manifest(path, version=2),
        "{path}: format version 2, but this gfn4rec reads version 1; make it again with the learner of a live "
        "service, or install the gfn4rec that made it",
    ),
    "another checksum": (lambda path: change_manifest(path, files={WEIGHTS: "0" * 64}), DAMAGED),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_version_is_rejected_and_the_old_one_stays(on_sqlite: Release, name: str) -> None:
    release = on_sqlite
    promotion = release.open()
    release.publish(2)
    path = release.versions.path(2)
    damage, reason = DAMAGES[name]
    damage(path)
    promotion.scan()
    assert release.serves(1)
    assert release.swaps == []
    row = release.rows()[2]
    assert (row.state, row.reason) == ("rejected", reason.format(path=path))
    body = promotion.body()
    assert isinstance(body["versions"], list)
    assert [(each["version"], each["reason"], each["can_promote"]) for each in body["versions"]] == [
        (2, row.reason, False),
        (1, None, False),
    ]
    release.publish_and_promote(promotion, 3)
    assert release.serves(3)
    release.publish(5)
    release.publish(6)
    damage(release.versions.path(6))
    promotion.scan()  # the newest good one
    assert release.serves(5)
    assert release.states() == {1: "retired", 2: "rejected", 3: "retired", 5: "promoted", 6: "rejected"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_rejected(on_sqlite: Release, value: float) -> None:
    promotion = on_sqlite.open()
    policy = on_sqlite.policy(2)
    policy.vector_ND[5, 1] = value
    on_sqlite.publish(2, policy=policy)
    promotion.scan()
    assert on_sqlite.serves(1)
    path = on_sqlite.versions.path(2)
    assert on_sqlite.rows()[2].reason == f"{path}: 'vector_ND' holds NaN or infinite values"


@pytest.mark.parametrize("name", ["gfn-prior", "gfn", "cf", "list-cvae"])
def test_weights_that_are_finite_but_answer_no_request_are_rejected(data: SlateData, tmp_path: Path, name: str) -> None:
    policy, versions = small_policy(data, name), Versions(tmp_path)
    request = probe_requests(data)
    probe(policy.eval(), request)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.fill_(1e30)
    versions.publish(policy, number=1, parent=None, trained_to_seq=0, step=0, revision=0)
    _, loaded = versions.load(1, lambda _: small_policy(data, name))
    with pytest.raises(UserError, match="^probe requests "):
        probe(loaded, request)


def test_a_version_that_fails_the_probe_is_rejected_with_the_reason(on_sqlite: Release) -> None:
    promotion = on_sqlite.open()
    policy = on_sqlite.policy(2)
    policy.vector_ND.fill_(3e38)
    on_sqlite.publish(2, policy=policy)
    promotion.scan()
    assert on_sqlite.serves(1)
    reason = on_sqlite.rows()[2].reason
    assert reason is not None
    assert reason.startswith("probe requests ")


class Failing(FakePolicy):
    """Draws slates greedily, but fails otherwise."""

    @override
    def recommend(self, *arguments: Any, **options: Any) -> Proposal:
        if Sampling() in arguments:
            raise RunError("it cannot sample")
        return super().recommend(*arguments, **options)


def test_the_probe_draws_greedily_and_at_random(live_data: SlateData) -> None:
    catalogue = Catalogue.of(live_data)
    request = probe_requests(live_data)
    assert sorted(request.user_B.tolist()) == [0, 1, 2, 3, 4]  # unknown users, too
    probe(FakePolicy(catalogue), request)
    with pytest.raises(UserError, match=r"^probe requests fail \(it cannot sample\)$"):
        probe(Failing(catalogue), request)


def test_a_loss_that_has_exploded_is_rejected_until_it_is_promoted_by_hand(release: Release) -> None:
    promotion = release.open()
    for number, loss in ((2, 1.0), (3, 2.0), (4, 3.0)):
        release.publish(number, loss=loss)
        promotion.scan()
    release.publish(5, loss=20.1)
    promotion.scan()
    assert release.serves(4)
    reason = "its loss is 20.1, more than 10 times the median of the versions before, 2"
    assert (release.rows()[5].state, release.rows()[5].reason) == ("rejected", reason)
    release.publish(6, loss=20.0)
    promotion.scan()
    assert release.serves(6)
    release.publish(7, 8, loss=30.0)  # ten times the median of 1, 2, 3 and 20, which is 3
    promotion.scan()
    assert release.serves(8)
    release.publish(*range(9, 21), loss=1e4)  # however many there are
    promotion.scan()
    assert release.serves(8)
    promotion.promote(9)
    assert release.serves(9)
    assert release.rows()[9].reason is None
    for number in (21, 22, 23, 24):  # compared with 9 and those after it that were not rejected
        release.publish(number, loss=2e4)
        promotion.scan()
        assert release.serves(number)
    release.publish(25, loss=3e5)
    promotion.scan()
    assert release.serves(24)
    assert {release.states()[number] for number in (*range(10, 21), 25)} == {"rejected"}


def test_losses_are_compared_with_the_latest_twenty(on_sqlite: Release) -> None:
    release = on_sqlite
    promotion = release.open(keep=100)
    release.publish(*range(2, 27), loss=20.0)
    release.publish(*range(27, 37), loss=4.0)
    release.publish(37, loss=100.0)  # the median of ten times 20 and ten times 4 is 20
    promotion.scan()
    assert release.serves(37)
    release.publish(38, 39, loss=4.0)
    release.publish(40, loss=100.0)
    promotion.scan()
    assert release.serves(39)
    reason = "its loss is 100, more than 10 times the median of the versions before, 4"
    assert release.rows()[40].reason == reason


@pytest.mark.parametrize(
    ("loss", "before", "is_rejected"),
    [
        (10.0, [1.0, 1.0, 1.0], False),
        (10.1, [1.0, 1.0, 1.0], True),
        (-10.1, [1.0, -1.0, 1.0], True),
        (10.1, [-1.0, -1.0, -1.0], True),
        (1e9, [1.0, 1.0], False),  # too few to know
        (1e9, [0.0, 0.0, 1.0], False),  # there was nothing to learn from before
        (None, [1.0, 1.0, 1.0], False),
        (25.0, [9.0, 1.0, 2.0], True),
        (25.0, [9.0, 1.0, 3.0], False),
        (math.inf, [1.0, 1.0, 1.0], True),
        (math.nan, [1.0, 1.0, 1.0], True),
    ],
)
def test_the_median_of_the_losses_before_decides(loss: float | None, before: list[float], is_rejected: bool) -> None:
    assert (loss_problem(loss, before) is not None) == is_rejected


def test_a_version_that_was_replaced_after_it_was_taken_in_is_rejected(release: Release) -> None:
    """Its manifest agrees with its weights, but they are not those that the store has the checksum of."""
    promotion = release.open(promotes_itself=False)
    release.publish(2)
    promotion.scan()
    release.publish(2, policy=release.policy(9))
    with pytest.raises(UserError) as error:
        promotion.promote(2)
    assert str(error.value) == f"version 2: {release.versions.path(2)}: has changed since it was published"
    assert release.serves(1)
    assert release.rows()[2].state == "rejected"


@pytest.mark.parametrize("values", [{"trained_to_seq": 3}, {"step": 9}, {"parent": 7}, {"loss": 0.5}])
def test_a_manifest_that_was_changed_is_rejected(on_sqlite: Release, values: dict[str, object]) -> None:
    release = on_sqlite
    promotion = release.open(promotes_itself=False)
    release.publish(2)
    promotion.scan()
    change_manifest(release.versions.path(2), **values)
    with pytest.raises(UserError, match="has changed since it was published"):
        promotion.promote(2)
    assert release.serves(1)


def test_weights_of_another_shape_are_rejected(on_sqlite: Release) -> None:
    class Narrow(FakePolicy):
        def __init__(self, catalogue: Catalogue) -> None:
            super().__init__(catalogue)
            self.vector_ND = torch.nn.Parameter(self.vector_ND[:, :3], requires_grad=False)

    promotion = on_sqlite.open()
    narrow: Policy = Narrow(Catalogue.of(on_sqlite.data))
    on_sqlite.publish(2, policy=narrow)
    promotion.scan()
    assert on_sqlite.serves(1)
    assert "'vector_ND' has shape (9, 3), but the data set needs (9, 4)" in str(on_sqlite.rows()[2].reason)


def test_what_killed_processes_have_left_is_cleaned_and_is_no_version(on_sqlite: Release) -> None:
    versions = on_sqlite.versions
    assert versions.numbers() == []
    assert versions.trained_to() == 0
    on_sqlite.publish(1, 2, 12)
    for name in (".000003-xyz", ".000001-deleted"):
        (versions.directory / name).mkdir()
        (versions.directory / name / WEIGHTS).write_bytes(b"")
    assert versions.numbers() == [1, 2, 12]
    assert versions.trained_to() == 120
    change_manifest(versions.path(12), number=5)
    assert versions.trained_to() == 20  # that of a damaged one does not count
    versions.delete(2)
    versions.delete(2)  # it is gone already
    versions.clean()
    assert sorted(path.name for path in versions.directory.iterdir()) == ["000001", "000012"]
