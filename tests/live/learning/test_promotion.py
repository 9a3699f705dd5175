"""What serves after versions were published, promoted by hand, rolled back, and after a service began again."""

import pytest

from gfn4rec.live.records import ConflictError, NotFoundError
from gfn4rec.live.store.decisions import latest_time
from gfn4rec.live.store.writer import StoreError
from tests.live.learning.release import Release


def test_a_new_store_begins_with_the_policy_of_the_run(release: Release) -> None:
    release.open()
    assert release.serves(1)
    row = release.rows()[1]
    assert (row.parent, row.trained_to_seq, row.step, row.loss, row.reason) == (None, 0, 0, None, None)
    assert row.promoted == release.clock.now
    manifest, policy = release.versions.load(1, lambda _: release.policy(-1))
    assert bool((policy.state_dict()["vector_ND"] == release.policy(1).vector_ND).all())
    assert manifest.files["policy.safetensors"] == row.sha256


def test_the_newest_of_the_new_versions_is_promoted(release: Release) -> None:
    promotion = release.open()
    promotion.scan()
    assert release.swaps == []  # there is nothing new
    release.clock.advance(5.0)
    release.publish(2, 3, 5)
    promotion.scan()
    assert release.serves(5)
    assert release.swaps == [5]
    assert release.states() == {1: "retired", 2: "candidate", 3: "candidate", 5: "promoted"}
    row = release.rows()[5]
    assert (row.parent, row.trained_to_seq, row.step, row.promoted) == (4, 50, 5, release.clock.now)
    promotion.scan()
    assert release.swaps == [5]  # each is taken in once
    release.publish_and_promote(promotion, 6)
    assert release.serves(6)
    assert release.states()[5] == "retired"


def test_what_serves_goes_on_after_a_restart(release: Release) -> None:
    release.publish_and_promote(release.open(), 2, 3)
    promoted = {number: row.promoted for number, row in release.rows().items()}
    release.clock.advance(100.0)
    release.publish(4)
    promotion = release.open()
    assert release.serves(3)  # new versions are taken in while serving
    assert {number: row.promoted for number, row in release.rows().items()} == promoted
    promotion.scan()
    assert release.serves(4)


def test_the_clock_of_a_restarted_service_does_not_fall_behind_the_latest_promotion(release: Release) -> None:
    """Times say what served before, whatever the system's clock does between."""
    release.publish_and_promote(release.open(), 2)
    with release.store.read() as connection:
        assert latest_time(connection) == release.clock.now == 1_010.0


def test_a_scan_that_cannot_write_changes_nothing_and_is_made_again(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    promotion = release.open()
    release.publish(2)

    def refuse(_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(release.store, "write", refuse)
        with pytest.raises(StoreError, match="the disk is full"):
            promotion.scan()
    assert release.serves(1)
    assert release.states() == {1: "promoted"}
    promotion.scan()
    assert release.serves(2)


def test_a_service_that_was_killed_before_version_1_was_stored_begins_again(release: Release) -> None:
    release.publish(1, policy=release.policy(9))  # of a policy that no store knows
    release.open()
    assert release.serves(1)
    assert release.open().body()["promoted"] == 1
    assert release.serves(1)


def test_promotion_by_hand(release: Release) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2)
    release.publish(3, 4)
    promotion.scan()
    for number in (3, 1, 4):
        release.clock.advance(10.0)
        promotion.promote(number)
        assert release.serves(number)
        assert release.rows()[number].promoted == release.clock.now
    assert release.states() == {1: "retired", 2: "retired", 3: "retired", 4: "promoted"}
    swaps = list(release.swaps)
    promotion.promote(4)  # again
    assert release.serves(4)
    promotion.rollback()
    assert release.serves(1)
    assert release.swaps == [*swaps, 4, 1]


def test_what_cannot_be_promoted(release: Release) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    with pytest.raises(NotFoundError, match="^version 7: there is none$"):
        promotion.promote(7)
    release.publish(4)  # not yet in the store
    with pytest.raises(NotFoundError, match="^version 4: there is none$"):
        promotion.promote(4)
    promotion.scan()
    release.versions.delete(2)
    with pytest.raises(ConflictError, match="^version 2: its weights have been deleted; promote a newer one$"):
        promotion.promote(2)
    file = release.damage(1)
    with pytest.raises(ConflictError) as error:
        promotion.promote(1)
    reason = f"{file}: missing or damaged; choose another version"
    assert str(error.value) == f"version 1: {reason}"
    assert release.serves(4)
    assert (release.rows()[1].state, release.rows()[1].reason) == ("rejected", reason)
    assert release.states()[2] == "retired"
    release.damage(4)  # what serves goes on
    with pytest.raises(ConflictError, match="version 4: .*missing or damaged"):
        promotion.promote(4)
    assert release.serves(4)


def test_rolling_back_once_and_twice(release: Release) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    promotion.rollback()
    assert release.serves(2)
    assert release.states() == {1: "retired", 2: "promoted", 3: "retired"}
    promotion.rollback()
    assert release.serves(1)
    assert release.states() == {1: "promoted", 2: "retired", 3: "retired"}
    with pytest.raises(ConflictError, match="^no version was promoted before; there is nothing to go back to$"):
        promotion.rollback()
    assert release.serves(1)
    assert release.swaps == [2, 3, 2, 1]


def test_rolling_back_twice_with_restarts_between(release: Release) -> None:
    release.publish_and_promote(release.open(), 2, 3)
    for target in (2, 1):
        release.clock.advance(10.0)
        release.open().rollback()
        assert release.serves(target)
        assert not release.open().is_automatic()
        assert release.serves(target)
    with pytest.raises(ConflictError, match="nothing to go back to"):
        release.open().rollback()


def test_the_one_to_roll_back_may_be_named_so_that_a_second_click_does_no_harm(release: Release) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    promotion.rollback(3)
    assert release.serves(2)
    with pytest.raises(ConflictError, match="^version 3: is not the promoted one, which is 2$"):
        promotion.rollback(3)
    assert release.serves(2)


def test_rolling_back_takes_what_is_in_memory_and_otherwise_passes_by_the_damaged(release: Release) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3, 4)
    release.damage(3)
    release.damage(2)
    promotion.rollback()
    assert release.serves(3)  # from memory
    promotion.rollback()
    assert release.serves(1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_after_a_rollback_new_versions_wait_until_one_is_promoted_by_hand(release: Release, is_restarted: bool) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    assert promotion.body()["automatic_promotion"] is True
    promotion.rollback()
    if is_restarted:
        promotion = release.open()
    assert promotion.body()["automatic_promotion"] is False
    release.publish_and_promote(promotion, 4, 5)
    assert release.serves(2)
    assert release.states() == {1: "retired", 2: "promoted", 3: "retired", 4: "candidate", 5: "candidate"}
    promotion.promote(4)
    assert release.serves(4)
    assert promotion.body()["automatic_promotion"] is True
    release.publish_and_promote(promotion, 6)
    assert release.serves(6)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_rolled_back_is_not_gone_back_to(release: Release, is_restarted: bool) -> None:
    """Version 3 was promoted after 2, and rolled back; so 4 follows 2."""
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    promotion.rollback()
    assert release.rows()[3].promoted is None
    release.publish_and_promote(promotion, 4)
    promotion.promote(4)
    release.publish_and_promote(promotion, 5)
    if is_restarted:
        promotion = release.open()
    promotion.rollback()
    assert release.serves(4)
    promotion.rollback()
    assert release.serves(2)


def test_what_was_rolled_back_neither_keeps_its_weights_nor_serves_again(release: Release) -> None:
    promotion = release.open(keep=2)
    release.publish_and_promote(promotion, 2, 3)
    promotion.rollback()
    release.publish_and_promote(promotion, 4)
    release.clock.advance(10.0)
    promotion.promote(4)
    promotion = release.open(keep=2, promotes_itself=False)
    release.publish(5, 6, 7)
    promotion.scan()
    assert release.versions.numbers() == [2, 4, 6, 7]
    release.damage(4)
    release.open()
    assert release.serves(2)


def test_a_service_that_promotes_nothing_by_itself(release: Release) -> None:
    promotion = release.open(promotes_itself=False)
    release.publish_and_promote(promotion, 2, 3)
    assert release.serves(1)
    assert release.states() == {1: "promoted", 2: "candidate", 3: "candidate"}
    promotion.promote(2)
    assert release.serves(2)
    release.publish_and_promote(promotion, 4)
    assert release.serves(2)
    assert promotion.body()["automatic_promotion"] is False
    promotion = release.open()  # now it does
    assert promotion.body()["automatic_promotion"] is True
    release.publish_and_promote(promotion, 5)
    assert release.serves(5)


def test_old_weights_are_deleted_except_what_serves_and_what_served_before(release: Release) -> None:
    promotion = release.open(keep=2)
    release.publish_and_promote(promotion, 2, 3)
    assert release.versions.numbers() == [2, 3]
    promotion.rollback()
    for number in range(4, 8):
        release.publish(number)
        promotion.scan()
    # 2 serves. Version 1, which served before, had been deleted when 3 was promoted.
    assert release.serves(2)
    assert release.versions.numbers() == [2, 6, 7]
    promotion.promote(7)
    for number in (8, 9):
        release.publish_and_promote(promotion, number)
    assert release.versions.numbers() == [8, 9]
    promotion.promote(8)
    assert sorted(path.name for path in release.directory.iterdir()) == ["000008", "000009"]
    body = promotion.body()
    assert isinstance(body["versions"], list)
    assert [row["version"] for row in body["versions"] if row["can_promote"]] == [9]


def test_what_served_before_is_kept_however_old_it_is(release: Release) -> None:
    promotion = release.open(keep=2)
    release.clock.advance(10.0)
    release.publish(2, 3, 4, 5)
    promotion.scan()
    assert release.serves(5)
    assert release.versions.numbers() == [1, 4, 5]
    promotion = release.open(keep=2)
    promotion.rollback()
    assert release.serves(1)


@pytest.mark.parametrize(
    ("damaged", "expected"), [((3,), 2), ((3, 2), 1), ((2,), 3), ((3, 2, 1), 5), ((5, 3, 2, 1), 4)]
)
def test_a_restart_with_damaged_versions(release: Release, damaged: tuple[int, ...], expected: int) -> None:
    """1, 2 and 3 were promoted in this order; 4 and 5 have not been tried yet."""
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    promotion.rollback()
    promotion.promote(3)
    promotion = release.open(promotes_itself=False)
    release.publish_and_promote(promotion, 4, 5)
    files = {number: release.damage(number) for number in damaged}
    release.open()
    assert release.serves(expected)
    rejected = {number: row.reason for number, row in release.rows().items() if row.state == "rejected"}
    tried = [number for number in damaged if expected != 3 or number == 3]
    assert rejected == {number: f"{files[number]}: missing or damaged; choose another version" for number in tried}
    release.open()  # and it stays so
    assert release.serves(expected)


@pytest.mark.parametrize("are_there", [True, False], ids=["damaged", "deleted"])
def test_if_no_version_is_left_the_policy_of_the_run_is_a_new_one(release: Release, are_there: bool) -> None:
    promotion = release.open()
    release.publish_and_promote(promotion, 2, 3)
    for number in (1, 2, 3):
        if are_there:
            release.damage(number)
        else:
            release.versions.delete(number)
    promotion = release.open()
    assert release.serves(4, seed=1)
    assert release.states() == {1: "rejected", 2: "rejected", 3: "rejected", 4: "promoted"}
    release.publish_and_promote(promotion, 5)
    assert release.serves(5)


def test_versions_of_the_store_that_are_too_old_to_be_listed_can_be_promoted(on_sqlite: Release) -> None:
    release = on_sqlite
    promotion = release.open(keep=500, promotes_itself=False)
    release.publish(*range(2, 221))
    promotion.scan()
    body = promotion.body()
    assert isinstance(body["versions"], list)
    assert [row["version"] for row in body["versions"]] == [*range(220, 20, -1), 1]  # 200 of them, and what serves
    promotion.promote(3)
    assert release.serves(3)
