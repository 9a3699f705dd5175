"""What the service counts while it runs: latencies, rewards and feedback, for the page."""

import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gfn4rec.live.clock import Clock
from gfn4rec.live.records import Sample

BUCKET_SECONDS: Final = 10.0
_KEPT_BUCKETS: Final = 360
_LARGEST_BUCKET: Final = 5000  # latencies kept of a bucket
_NORMAL_95: Final = 1.96


@dataclass
class _Latencies:
    number: int
    count: int = 0
    seconds: list[float] = field(default_factory=list)


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
        """The standard deviation."""
        return math.sqrt(max(0.0, self.squares / max(1, self.count) - self.mean**2))

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the mean."""
        error = _NORMAL_95 * self.deviation / math.sqrt(max(1, self.count))
        return self.mean - error, self.mean + error


@dataclass
class _Rewards:
    number: int
    moments: Moments = field(default_factory=Moments)
    items: set[str] = field(default_factory=set)


class Statistics:
    """Counts what happens; bounded memory, safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.started = clock()
        self.counts: Counter[str] = Counter()
        self._latencies: deque[_Latencies] = deque(maxlen=_KEPT_BUCKETS)
        self._rewards: dict[int, _Rewards] = {}
        self._by_version: dict[int, Moments] = {}

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
            bucket = self._latencies[-1]
            bucket.count += 1
            if len(bucket.seconds) < _LARGEST_BUCKET:
                bucket.seconds.append(seconds)

    def closed(self, samples: Iterable[Sample]) -> None:
        """Record the rewards of closed slates."""
        with self._lock:
            for sample in samples:
                self._by_version.setdefault(sample.version, Moments()).add(sample.reward)
                number = int(sample.shown // BUCKET_SECONDS)
                bucket = self._rewards.setdefault(number, _Rewards(number))
                bucket.moments.add(sample.reward)
                bucket.items.update(sample.slate)
            for number in sorted(self._rewards)[:-_KEPT_BUCKETS]:
                del self._rewards[number]

    def as_dict(self) -> dict[str, object]:
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
        first = int((now - 60) // BUCKET_SECONDS)
        recent = [bucket for bucket in self._latencies if bucket.number > first]
        seconds = sorted(value for bucket in recent for value in bucket.seconds)
        span = min(60.0, max(1.0, now - self.started))
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
    ordered = sorted(bucket.seconds)
    return {
        "start": bucket.number * BUCKET_SECONDS,
        "seconds": BUCKET_SECONDS,
        "requests": bucket.count,
        "p50_ms": quantile(ordered, 0.5),
        "p99_ms": quantile(ordered, 0.99),
    }


def _reward(bucket: _Rewards) -> dict[str, object]:
    return {
        "start": bucket.number * BUCKET_SECONDS,
        "seconds": BUCKET_SECONDS,
        "slates": bucket.moments.count,
        "mean": bucket.moments.mean,
        "deviation": bucket.moments.deviation,
        "coverage": len(bucket.items),
        "ild": None,
    }


def _by_version(version: int, moments: Moments) -> dict[str, object]:
    low, high = moments.interval()
    return {
        "version": version,
        "slates": moments.count,
        "mean": moments.mean,
        "deviation": moments.deviation,
        "low": low,
        "high": high,
    }
