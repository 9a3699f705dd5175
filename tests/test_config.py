from pathlib import Path

import pytest
from pydantic import Field

from gfn4rec.config import ADDED_LATER, GrownConfig, StrictConfig, identity_values
from gfn4rec.errors import UserError


class Inner(StrictConfig):
    depth: int = Field(default=1, ge=1)


class Outer(StrictConfig):
    width: int = 2
    inner: Inner = Inner()
    many: dict[str, Inner] = Field(default_factory=dict)


def load(tmp_path: Path, text: str) -> Outer:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return Outer.load(path)


def test_values_are_read(tmp_path: Path) -> None:
    config = load(tmp_path, "width = 5\n[inner]\ndepth = 3\n[many.a]\ndepth = 4")
    assert config == Outer(width=5, inner=Inner(depth=3), many={"a": Inner(depth=4)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("widht = 5", "config.toml: unknown key 'widht'; did you mean 'width'?"),
        ("[inner]\ndpth = 3", "config.toml: unknown key 'inner.dpth'; did you mean 'depth'?"),
        ("[many.a]\ndpth = 3", "config.toml: unknown key 'many.a.dpth'; did you mean 'depth'?"),
        ("[inner]\nzzz = 3", "config.toml: unknown key 'inner.zzz'; choose from depth"),
        ("[inner]\ndepth = 0", "config.toml: inner.depth: Input should be greater than or equal to 1, got 0"),
        ("width = ", "config.toml: not valid TOML"),
    ],
)
def test_a_mistake_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match="config.toml") as error:
        load(tmp_path, text)
    assert message in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere.toml: no such file"):
        Outer.load(tmp_path / "nowhere.toml")


def test_a_config_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Outer().width = 3


class WithANewSetting(Outer):
    new: int = Field(default=7, json_schema_extra=ADDED_LATER)


class Grown(GrownConfig):
    old: int = 1
    new: int = Field(default=7, json_schema_extra=ADDED_LATER)


def test_a_setting_that_was_added_later_is_written_only_with_another_value() -> None:
    assert Grown().model_dump() == identity_values(Grown()) == {"old": 1}
    assert Grown(new=8).model_dump(mode="json") == identity_values(Grown(new=8)) == {"old": 1, "new": 8}
    assert Grown(new=8).model_dump(exclude={"old"}) == {"new": 8}
    assert Grown.parse(Grown(new=8).model_dump(), "x") == Grown(new=8)


class Around(StrictConfig):
    part: WithANewSetting = WithANewSetting()


def test_a_setting_that_was_added_later_does_not_change_the_identity_at_its_default() -> None:
    assert identity_values(WithANewSetting()) == identity_values(Outer()) == Outer().model_dump(mode="json")
    assert identity_values(WithANewSetting(new=8)) == {**identity_values(Outer()), "new": 8}
    assert identity_values(Around()) == {"part": identity_values(Outer())}
