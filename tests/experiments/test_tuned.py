"""The file of the settings that a search has found best."""

from pathlib import Path

import pytest

from gfn4rec.errors import UserError
from gfn4rec.experiments.paper.models import POLICY_OF
from gfn4rec.experiments.search.tuned import Tuned, read_tuned, write_tuned


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found: Tuned = {
        "online": {
            "gfn": {"b_r": 0.3, "learning_rate": 1e-05, "encoder.dim": 8, "learn_scale": True, "objective": "db"},
            "CF, same terms": {"temperature": 0.0},
        },
        "offline": {"list-cvae": {"beta": 0.001, "patience": 3}},
    }
    write_tuned(tmp_path / "tuned.toml", found)
    assert read_tuned(tmp_path / "tuned.toml", POLICY_OF) == found
    assert (
        (tmp_path / "tuned.toml")
        .read_text(encoding="utf-8")
        .startswith("[online.gfn]\nb_r = 0.3\nlearning_rate = 1e-05\n")
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[online.gfm]\nb_r = 0.3\n", "[online.gfm]: no policy or model 'gfm'; did you mean 'gfn'?"),
        ("[online.gfn]\nb_q = 0.3\n", "[online.gfn]: settings: unknown key 'b_q'; did you mean 'b_z'?"),
        ("[online.gfn]\nb_r = -1\n", "b_r: Input should be greater than 0, got -1"),
        ("[offline.cf]\ntemperature = 0.1\n", "[offline.cf]: settings: unknown key 'temperature'"),
        ("[online]\ngfn = 3\n", "online.gfn: write a table, [online.gfn], not 3"),
        ("online = 3\n", "online: write tables, as [online.gfn], not 3"),
        ("[gfn]\nb_r = 0.3\n", "[gfn]: write [online.gfn] or [offline.gfn]"),
        ("[gfn\n", "not valid TOML"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "tuned.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_tuned(tmp_path / "tuned.toml", POLICY_OF)
    assert str(caught.value).startswith(str(tmp_path / "tuned.toml"))
    assert line in str(caught.value)


def test_only_plain_values_are_written(tmp_path: Path) -> None:
    write_tuned(tmp_path / "tuned.toml", {"online": {"gfn": {"hidden_dims": [32, 16]}}})
    assert read_tuned(tmp_path / "tuned.toml")["online"] == {"gfn": {"hidden_dims": [32, 16]}}
    with pytest.raises(UserError, match="encoder: write a number, a boolean, a text or a list of them, not {'dim': 8}"):
        write_tuned(tmp_path / "tuned.toml", {"online": {"gfn": {"encoder": {"dim": 8}}}})
