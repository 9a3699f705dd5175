"""Evaluations of a policy in the simulator while it trains, and at the end; and on the test slates at the end."""

from gfn4rec.data.dataset import SlateData
from gfn4rec.evaluation.held_out_protocol import HeldOut, HeldOutResults, measure_held_out
from gfn4rec.evaluation.protocol import evaluate_in_simulator
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Sampling
from gfn4rec.seeding import stream_seed
from gfn4rec.training.config import Mode
from gfn4rec.training.opened_run import Users


class Evaluator:
    """Evaluates greedy and sampled slates in an environment of its own, always for the same users."""

    def __init__(self, policy: Policy, users: Users, mode: Mode, seed: int) -> None:
        self._policy, self._users, self._mode = policy, users, mode
        self._seed = stream_seed(seed, "evaluation users")
        self._last: tuple[tuple[int, int], dict[str, dict[str, float]]] | None = None

    def evaluate(self, num_batches: int, num_learned: int) -> dict[str, dict[str, float]]:
        """Return the metrics of both; while the policy has not learned any further, they are not computed again."""
        key = (num_batches, num_learned)
        if self._last is None or self._last[0] != key:
            environment = self._users.evaluation_environment(self._mode, self._seed)
            metrics = {
                name: evaluate_in_simulator(self._policy, environment, sampling, num_batches, self._seed)
                for name, sampling in (("greedy", Sampling(greedy=True)), ("sampled", Sampling()))
            }
            self._last = key, metrics
        return self._last[1]


def final_held_out(policy: Policy, data: SlateData) -> HeldOutResults | None:
    """Return the held-out metrics of a trained policy; None without test slates."""
    tests = HeldOut.of(data)
    return None if tests is None else measure_held_out(policy, tests)
