"""What happened in simulated traffic: rewards and latencies over time, and counts."""

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Final

from gfn4rec.live.statistics import Moments, quantile

WINDOW: Final = 10.0  # seconds
_MINUTE: Final = 60.0


@dataclass(frozen=True)
class Period:
    """A part of the traffic. The reward is the mean per slate, with its 95 % interval."""

    start: float
    end: float
    slates: int
    reward: float | None
    low: float | None
    high: float | None
    expected_reward: float | None
    """The mean of the simulator's expected rewards, without the chance of the responses."""
    requests_per_second: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Summary:
    """The whole traffic, its windows, and its first and its last minute."""

    whole: Period
    first_minute: Period
    last_minute: Period
    windows: tuple[Period, ...]
    counts: dict[str, int]
    versions: dict[int, int]
    """Slates by the version that answered."""
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the same as JSON has it."""
        return asdict(self)


class Tally:
    """Collects what happens, in the order of time, in seconds since the beginning."""

    def __init__(self) -> None:
        self._times, self._latencies = array("d"), array("f")
        self._rewards, self._expected = array("f"), array("f")
        self.counts: Counter[str] = Counter()
        self.versions: Counter[int] = Counter()
        self.problems: Counter[str] = Counter()

    def answered(self, time: float, latency: float, reward: float, expected_reward: float, version: int) -> None:
        """Record a slate with the responses to it."""
        self._times.append(max(time, self._times[-1] if self._times else time))
        self._latencies.append(latency)
        self._rewards.append(reward)
        self._expected.append(expected_reward)
        self.versions[version] += 1
        self.counts["slates"] += 1

    def failed(self, problem: str) -> None:
        """Record a call that failed for good."""
        self.counts["errors"] += 1
        if problem in self.problems or len(self.problems) < 10:
            self.problems[problem] += 1

    def period(self, start: float, end: float) -> Period:
        """Return what happened between two times."""
        first, last = bisect_left(self._times, start), bisect_left(self._times, end)
        reward, expected = Moments(), Moments()
        for value, mean in zip(self._rewards[first:last], self._expected[first:last], strict=True):
            reward.add(value)
            expected.add(mean)
        low, high = reward.interval() or (None, None)
        ordered = sorted(self._latencies[first:last])
        return Period(
            start=start,
            end=end,
            slates=last - first,
            reward=reward.mean if last > first else None,
            low=low,
            high=high,
            expected_reward=expected.mean if last > first else None,
            requests_per_second=(last - first) / max(end - start, 1e-9),
            p50_ms=quantile(ordered, 0.5),
            p99_ms=quantile(ordered, 0.99),
        )

    def window(self, number: int) -> Period:
        """Return one of the windows of ten seconds."""
        return self.period(number * WINDOW, (number + 1) * WINDOW)

    def summary(self, end: float) -> Summary:
        """Return everything up to the end."""
        starts = [number * WINDOW for number in range(int(end // WINDOW) + 1)]
        return Summary(
            whole=self.period(0.0, end),
            first_minute=self.period(0.0, min(_MINUTE, end)),
            last_minute=self.period(max(0.0, end - _MINUTE), end),
            windows=tuple(self.period(start, min(start + WINDOW, end)) for start in starts if start < end),
            counts=dict(self.counts),
            versions=dict(sorted(self.versions.items())),
            problems=tuple(f"{count} times: {problem}" for problem, count in self.problems.most_common()),
        )
