"""What the service counts while it runs: latencies, rewards and feedback, for the page."""

import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gfn4rec.live.clock import Clock
from gfn4rec.live.records import Sample

BUCKET_SECONDS: Final = 10.0
_KEPT_BUCKETS: Final = 360
_KEPT_VERSIONS: Final = 200  # the newest ones
_RECENT_BUCKETS: Final = 6  # the last minute: five whole buckets and the current one
_LARGEST_BUCKET: Final = 5000  # latencies kept of a bucket
_NORMAL_95: Final = 1.96


@dataclass
class _Latencies:
    """Of the requests of some seconds: how many, and how long they took."""

    number: int
    count: int = 0
    seconds: list[float] | None = field(default_factory=list)
    quantiles: tuple[float | None, float | None] = (None, None)

    def add(self, seconds: float) -> None:
        self.count += 1
        if self.seconds is not None and len(self.seconds) < _LARGEST_BUCKET:
            self.seconds.append(seconds)

    def p50_and_p99(self) -> tuple[float | None, float | None]:
        if self.seconds is None:
            return self.quantiles
        ordered = sorted(self.seconds)
        return quantile(ordered, 0.5), quantile(ordered, 0.99)

    def finish(self) -> None:
        """Keep the quantiles alone."""
        self.quantiles, self.seconds = self.p50_and_p99(), None


@dataclass
class Moments:
    """Count, sum and sum of squares of values."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Add a value, `count` times."""
        self.count, self.total, self.squares = (
            self.count + count,
            self.total + count * value,
            self.squares + count * value * value,
        )

    @property
    def mean(self) -> float:
        """The mean, 0 without values."""
        return self.total / max(1, self.count)

    @property
    def deviation(self) -> float:
        """The standard deviation, as estimated from these values; 0 for fewer than two."""
        around_mean = self.squares - self.count * self.mean**2
        return math.sqrt(max(0.0, around_mean) / max(1, self.count - 1))

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean, or None: fewer than two values say nothing about their spread."""
        if self.count < 2:
            return None
        error = _NORMAL_95 * self.deviation / math.sqrt(self.count)
        return self.mean - error, self.mean + error


@dataclass
class _Rewards:
    number: int
    moments: Moments = field(default_factory=Moments)
    shown: int = 0  # a bit for each item that was shown


class Statistics:
    """Counts what happens; bounded memory, safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.started = clock()
        self.counts: Counter[str] = Counter()
        self._latencies: deque[_Latencies] = deque(maxlen=_KEPT_BUCKETS)
        self._rewards: dict[int, _Rewards] = {}
        self._by_version: dict[int, Moments] = {}
        self._bit_of: dict[str, int] = {}

    def count(self, what: str, number: int = 1) -> None:
        """Count something, such as `event/stored`."""
        with self._lock:
            self.counts[what] += number

    def answered(self, seconds: float) -> None:
        """Record how long a request took."""
        number = int(self._clock() // BUCKET_SECONDS)
        with self._lock:
            self.counts["requests"] += 1
            if not self._latencies or self._latencies[-1].number < number:
                self._latencies.append(_Latencies(number))
                for bucket in self._latencies:
                    if bucket.seconds is not None and bucket.number <= number - _RECENT_BUCKETS:
                        bucket.finish()
            self._latencies[-1].add(seconds)

    def closed(self, samples: Iterable[Sample]) -> None:
        """Record the rewards of closed slates."""
        with self._lock:
            for sample in samples:
                self._by_version.setdefault(sample.version, Moments()).add(sample.reward)
                number = int(sample.shown // BUCKET_SECONDS)
                bucket = self._rewards.setdefault(number, _Rewards(number))
                bucket.moments.add(sample.reward)
                for item in sample.slate:
                    bucket.shown |= 1 << self._bit_of.setdefault(item, len(self._bit_of))
            for values, most in ((self._rewards, _KEPT_BUCKETS), (self._by_version, _KEPT_VERSIONS)):
                for number in sorted(values)[:-most]:
                    del values[number]

    def as_dict(self) -> dict[str, Any]:
        """Return requests, latencies and rewards as the status has them."""
        now = self._clock()
        with self._lock:
            return {
                "requests": self._requests(now),
                "latency": [_latency(bucket) for bucket in self._latencies],
                "reward": [_reward(self._rewards[number]) for number in sorted(self._rewards)],
                "by_version": [_by_version(version, self._by_version[version]) for version in sorted(self._by_version)],
            }

    def _requests(self, now: float) -> dict[str, object]:
        first = int(now // BUCKET_SECONDS) - _RECENT_BUCKETS + 1
        recent = [bucket for bucket in self._latencies if bucket.number >= first]
        seconds = sorted(value for bucket in recent for value in bucket.seconds or ())
        span = max(1.0, now - max(self.started, first * BUCKET_SECONDS))
        return {
            "total": self.counts["requests"],
            "per_second": sum(bucket.count for bucket in recent) / span,
            "p50_ms": quantile(seconds, 0.5),
            "p99_ms": quantile(seconds, 0.99),
            "refused": self.counts["refused"],
            "failed": self.counts["failed"],
        }


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted seconds in milliseconds, None without values.

    >>> quantile([0.001, 0.002, 0.003], 0.5)
    2.0
    """
    if not ordered:
        return None
    return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _latency(bucket: _Latencies) -> dict[str, object]:
    p50, p99 = bucket.p50_and_p99()
    return {
        "start": bucket.number * BUCKET_SECONDS,
        "seconds": BUCKET_SECONDS,
        "requests": bucket.count,
        "p50_ms": p50,
        "p99_ms": p99,
    }


def _reward(bucket: _Rewards) -> dict[str, object]:
    return {
        "start": bucket.number * BUCKET_SECONDS,
        "seconds": BUCKET_SECONDS,
        "slates": bucket.moments.count,
        "mean": bucket.moments.mean,
        "deviation": bucket.moments.deviation,
        "coverage": bucket.shown.bit_count(),
    }


def _by_version(version: int, moments: Moments) -> dict[str, object]:
    low, high = moments.interval() or (None, None)
    return {
        "version": version,
        "slates": moments.count,
        "mean": moments.mean,
        "deviation": moments.deviation,
        "low": low,
        "high": high,
    }
