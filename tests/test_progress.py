"""Progress of long work: lines at the right times where there is no terminal, by a clock of our own."""

import io
import subprocess
import sys

import pytest

from gfn4rec.progress import Pace, Reporter, reporter, time_left


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def train(progress: Reporter, clock: FakeClock, num_steps: int, seconds_per_step: float) -> None:
    for step in range(1, num_steps + 1):
        clock.now += seconds_per_step
        progress.advance("training", step, num_steps, f"loss {step / 10:.1f}")


def test_a_line_every_fifteen_seconds_with_the_stage_the_step_the_loss_and_the_time_left(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", clock=clock, stream=stream) as progress:
        train(progress, clock, num_steps=10, seconds_per_step=4.0)
    assert stream.getvalue().splitlines() == [
        "gfn4rec: training: 4 of 10, loss 0.4, about 24 s left",
        "gfn4rec: training: 8 of 10, loss 0.8, about 8 s left",
    ]


def test_the_interval_is_a_setting(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", every=2.0, clock=clock, stream=stream) as progress:
        train(progress, clock, num_steps=1000, seconds_per_step=1.0)
    assert len(stream.getvalue().splitlines()) == 500
    assert "gfn4rec: training: 1,000 of 1,000, loss 100.0, about 0 s left" in stream.getvalue()


def test_short_work_prints_nothing(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", clock=clock, stream=stream) as progress:
        progress.stage("reading")
        train(progress, clock, num_steps=14, seconds_per_step=1.0)
    assert stream.getvalue() == ""


def test_each_stage_has_a_pace_of_its_own(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", every=10.0, clock=clock, stream=stream) as progress:
        clock.now += 60
        progress.stage("measuring")
        clock.now += 60
        progress.advance("greedy", 1, 3)
        clock.now += 10
        progress.advance("greedy", 2, 3)
        clock.now += 60
        progress.advance("sampled", 1, 3)
    assert stream.getvalue().splitlines() == [
        "gfn4rec: measuring",
        "gfn4rec: greedy: 1 of 3",
        "gfn4rec: greedy: 2 of 3, about 10 s left",
        "gfn4rec: sampled: 1 of 3",
    ]


def test_downloads_are_counted_in_megabytes(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", every=0.0, clock=clock, stream=stream) as progress:
        progress.downloaded(12_400_000, 1_100_000_000)
        progress.downloaded(2_000_000, None)
    assert stream.getvalue().splitlines()[1:] == ["gfn4rec: fetching: 12 of 1,100 MB", "gfn4rec: fetching: 2 MB"]


def test_work_that_words_its_own_progress_prints_a_line_every_so_often(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", every=15.0, clock=clock, stream=stream) as progress:
        for done in range(9):
            clock.now += 6
            progress.show(f"{done} of 9 done: CF online, seed 0 {100 * done}/900", done, 9)
    assert stream.getvalue().splitlines() == [
        "gfn4rec: 2 of 9 done: CF online, seed 0 200/900",
        "gfn4rec: 5 of 9 done: CF online, seed 0 500/900",
        "gfn4rec: 8 of 9 done: CF online, seed 0 800/900",
    ]


def test_a_training_loop_reports_its_reward_and_loss(clock: FakeClock) -> None:
    stream = io.StringIO()
    with reporter("opening", every=5.0, clock=clock, stream=stream) as progress:
        report = progress.training(4000)
        report(2001, {"reward": 0.25})  # resumed there
        clock.now += 20
        report(2011, {"reward": 0.5, "loss": 1.23456, "terms": {}})
        clock.now += 20
        report(2021, {"loss": 1.0, "num_steps": 2021})
    first, second = stream.getvalue().splitlines()
    assert first == "gfn4rec: training: 2,011 of 4,000, reward 0.500, loss 1.235, about 66 min left"
    assert second.startswith("gfn4rec: training: 2,021 of 2,021, loss 1.000")


def test_only_the_first_of_several_processes_reports(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        stream = io.StringIO()
        with reporter("opening", clock=clock, stream=stream) as progress:
            train(progress, clock, num_steps=2, seconds_per_step=20)
        lines.append(len(stream.getvalue().splitlines()))
    assert lines == [2, 0]


def test_a_terminal_shows_a_bar(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    stream = io.StringIO()
    with reporter("opening [a] file", clock=clock, stream=stream) as progress:
        progress.stage("measuring")
        progress.downloaded(1_000_000, 2_000_000)
        train(progress, clock, num_steps=3, seconds_per_step=1.0)
        progress.show("3 of 9 done", 3, 9)
    printed = stream.getvalue()
    assert "3 of 9 done" in printed
    assert "gfn4rec: " not in printed


def test_lines_go_to_standard_error_and_no_terminal_library_is_needed() -> None:
    code = (
        "import sys\n"
        "from gfn4rec.progress import reporter\n"
        "with reporter('opening', every=0.0) as progress:\n"
        "    progress.advance('training', 1, 2)\n"
        "sys.exit('typer' in sys.modules or 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == ""
    assert result.stderr.splitlines() == ["gfn4rec: opening", "gfn4rec: training: 1 of 2"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (99.4, ", about 99 s left"),
        (150.0, ", about 2 min left"),
        (5900.0, ", about 98 min left"),
        (9000.0, ", about 2.5 hours left"),
    ],
)
def test_time_left(seconds: float | None, words: str) -> None:
    assert time_left(seconds) == words


def test_steps_done_before_the_first_call_say_nothing_about_the_pace(clock: FakeClock) -> None:
    pace = Pace(clock)
    assert pace.seconds_left(40, 100) is None
    clock.now += 30
    assert pace.seconds_left(40, 100) is None
    assert pace.seconds_left(50, 100) == 150.0
    clock.now += 30
    assert pace.seconds_left(100, 100) == 0.0
