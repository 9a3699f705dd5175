"""The online loop, Algorithm 1 of the paper: show slates, remember the answers, learn from them."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gfn4rec.evaluation.protocol import Showing, evaluate_in_simulator, mean_metrics, slate_metrics
from gfn4rec.policies.base import Policy
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.learner import Learner
from gfn4rec.training.parts import Users
from gfn4rec.training.replay import ReplayBuffer
from gfn4rec.training.run import POLICY, Checkpoint, Run
from gfn4rec.training.saving import part_name, save_state
from gfn4rec.training.stopping import keeping_bad_batch

RECENT_STEPS = 100  # the paper reports averages of the last so many steps
EARLY_LOOKS = 6  # up to the first regular one: the beginning is where most is learned
Report = Callable[[int, dict[str, Any]], None]


class OnlineState:
    """All that changes from step to step."""

    def __init__(self, policy: Policy, users: Users, config: OnlineConfig, seed: int, group: Group) -> None:
        num_users, device = group.share(users.config.num_users, "num_users"), users.data.device
        self.config, self.group = config, group
        self.batch_size = group.share(config.learning_batch, "learning_batch")
        self.step, self.seconds = 0, 0.0
        self.policy = policy
        self.environment = users.environment(stream_seed(seed, group.stream("users")), num_users)
        self.replay = ReplayBuffer(config.buffer_size // group.size, users.data.weight_R)
        num_learning_steps = (config.num_steps - config.warmup_steps) * config.learning_steps
        self.learner = Learner(policy, config, num_learning_steps, seed, group)
        self.generators = {name: torch_generator(seed, group.stream(name), device) for name in ("policy", "replay")}
        self.recent: deque[dict[str, float]] = deque(maxlen=RECENT_STEPS)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """For a checkpoint."""
        return {
            POLICY: self.policy.state_dict(),
            "learner": self.learner.state_dict(),
            "replay": self.replay.state_dict(),
            "environment": self.environment.state_dict(),
            "generators": {name: each.get_state() for name, each in self.generators.items()},
        }

    def show(self) -> dict[str, float]:
        """A slate to each user; the answers are remembered."""
        request = self.environment.request
        proposal = self.policy.recommend(request, self.generators["policy"], **_showing(self.config))
        feedback = self.environment.step(proposal.slate_BK)
        self.replay.add(request, proposal.slate_BK, feedback.response_BKR)
        shown = mean_metrics(self.group.gather(slate_metrics(self.environment, proposal.slate_BK, feedback)))
        self.recent.append(shown)
        return shown

    def learn(self) -> dict[str, Any]:
        """From what is remembered."""
        learned: dict[str, Any] = {}
        for _ in range(self.config.learning_steps):
            batch = self.replay.sample(self.batch_size, self.config.newest_share, self.generators["replay"])
            learned = self.learner.learn(batch)
        return learned

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        tensors = {name: checkpoint.tensors[part_name(name, self.group)] for name in self.tensors() if name != POLICY}
        self.step, self.seconds = checkpoint.step, checkpoint.state["seconds"]
        self.policy.load_state_dict(checkpoint.tensors[POLICY])
        self.learner.load_state_dict(tensors["learner"])
        self.replay.load_state_dict(tensors["replay"])
        self.environment.load_state_dict(tensors["environment"])
        for name, generator in self.generators.items():
            generator.set_state(tensors["generators"][name])
        self.recent.extend(checkpoint.state["recent"])


def train_online(
    run: Run, policy: Policy, users: Users, group: Group, report: Report = lambda *_: None
) -> dict[str, Any] | None:
    """Train until all steps are done, from the last checkpoint if there is one. None if asked to end before."""
    settings = run.manifest.settings
    config = OnlineConfig.parse(settings.training, "training")
    state = OnlineState(policy, users, config, settings.seed, group)
    checkpoint = run.load_checkpoint()
    if checkpoint is not None:
        state.load(checkpoint)
    if group.is_first:
        run.forget_after(-1 if checkpoint is None else state.step)
    look_batches, seed = config.evaluation_batches, settings.seed
    lines: list[dict[str, Any]] = []
    if group.is_first and state.step == 0:
        lines.append({"step": 0, **_evaluate(policy, users, look_batches, seed)})
    with asked_to_end() as is_asked:
        while state.step < config.num_steps:
            start = time.perf_counter()
            metrics: dict[str, Any] = state.show()
            if policy.is_learned and state.step >= config.warmup_steps:
                with keeping_bad_batch(run, state.step + 1):
                    metrics = {**metrics, **state.learn()}
            state.step += 1
            state.seconds += time.perf_counter() - start
            lines.append({"step": state.step, **metrics, "seconds": state.seconds})
            report(state.step, metrics)
            is_ending = any(group.gather(is_asked()))
            is_last = state.step == config.num_steps
            if group.is_first and (is_last or is_look(state.step, config.evaluate_every)):
                lines.append({"step": state.step, **_evaluate(policy, users, look_batches, seed)})
            if is_last or is_ending or state.step % config.checkpoint_every == 0:
                summary = {"seconds": state.seconds, "recent": list(state.recent)}
                save_state(run, state.step, state.tensors(), summary, lines, group)
                lines = []
            if is_ending and not is_last:
                return None
    results = _finish(run, state, users, config, group)
    group.barrier()  # the results are there when anybody looks
    return results


def is_look(step: int, every: int) -> bool:
    """Whether a policy is measured after a step: regularly, and more often before the first regular look."""
    early = max(1, every // EARLY_LOOKS)
    return step % every == 0 or (step < every and step % early == 0)


def _showing(config: OnlineConfig) -> dict[str, Any]:
    how = {"temperature": config.temperature} if config.temperature else {"greedy": True}
    return {**how, "epsilon": config.epsilon}


def _evaluate(policy: Policy, users: Users, num_batches: int, seed: int) -> dict[str, dict[str, float]]:
    """Greedy and sampled slates, in an environment of their own, always for the same users."""
    seed = stream_seed(seed, "evaluation users")
    environment = users.environment(seed)
    return {
        "greedy": evaluate_in_simulator(policy, environment, Showing(greedy=True), num_batches, seed),
        "sampled": evaluate_in_simulator(policy, environment, Showing(), num_batches, seed),
    }


def _finish(run: Run, state: OnlineState, users: Users, config: OnlineConfig, group: Group) -> dict[str, Any] | None:
    """The final figures; the first process makes them."""
    if not group.is_first:
        return None
    results = {
        "step": state.step,
        "seconds": state.seconds,
        "last_steps": mean_metrics(list(state.recent)),
        **_evaluate(state.policy, users, config.final_batches, run.manifest.settings.seed),
    }
    run.finish(results)
    return results
