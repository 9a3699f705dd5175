"""The online loop, Algorithm 1 of the paper: show slates, observe the responses, learn from them."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeAlias

from torch import Tensor

from gfn4rec.evaluation.protocol import mean_metrics, slate_metrics
from gfn4rec.policies.base import Policy
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.training.config import OnlineConfig
from gfn4rec.training.evaluator import Evaluator, final_held_out
from gfn4rec.training.group import Group
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.online_learner import OnlineLearner
from gfn4rec.training.opened_run import Users
from gfn4rec.training.recording import MetricsLine
from gfn4rec.training.run import POLICY, Checkpoint, Progress, Run, RunResults
from gfn4rec.training.saving import part_name, save_state

RECENT_STEPS = 100  # the paper reports means over the last 100 steps
EARLY_EVALUATIONS = 6  # up to the first regular one: most is learned at the beginning
Report: TypeAlias = Callable[[int, MetricsLine], None]


class OnlineState:
    """The environment, the learner, and all else that changes from step to step."""

    def __init__(self, policy: Policy, users: Users, config: OnlineConfig, seed: int, group: Group) -> None:
        num_users = users.config.num_users
        config = config.model_copy(update={"newest_window": config.newest_window or num_users})
        self.step, self.seconds, self.policy, self._group = 0, 0.0, policy, group
        self.environment = users.environment(
            stream_seed(seed, group.stream("users")), group.share(num_users, "num_users")
        )
        self.learner = OnlineLearner(policy, config, seed, config.num_learning_steps, group)
        self.generator = torch_generator(seed, group.stream("policy"), users.data.device)
        self.recent: deque[dict[str, float]] = deque(maxlen=RECENT_STEPS)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the parts of a checkpoint."""
        learner = self.learner.state_dict()
        return {
            **learner,
            POLICY: self.policy.state_dict(),
            "environment": self.environment.state_dict(),
            "generators": {"policy": self.generator.get_state(), **learner["generators"]},
        }

    def progress(self) -> Progress:
        """Return what a checkpoint knows besides tensors."""
        return Progress(seconds=self.seconds, recent=tuple(self.recent))

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        tensors = {name: checkpoint.tensors[part_name(name, self._group)] for name in self.tensors() if name != POLICY}
        self.step, self.seconds = checkpoint.step, checkpoint.progress.seconds
        self.policy.load_state_dict(checkpoint.tensors[POLICY])
        self.learner.load_state_dict(tensors)
        self.environment.load_state_dict(tensors["environment"])
        self.generator.set_state(tensors["generators"]["policy"])
        self.recent.extend(checkpoint.progress.recent)


def train_online(
    run: Run,
    policy: Policy,
    users: Users,
    group: Group = Group(),  # noqa: B008
    report: Report = lambda *_: None,
) -> RunResults | None:
    """Train until all steps are done, from the last checkpoint if there is one.

    Return None if asked to stop before, and in all processes of a group but the first.
    """
    config, seed = run.settings.training, run.settings.seed
    assert isinstance(config, OnlineConfig)
    state, evaluator = OnlineState(policy, users, config, seed, group), Evaluator(policy, users, "online", seed)
    environment, learner = state.environment, state.learner
    checkpoint = run.load_checkpoint()
    if checkpoint is not None:
        state.load(checkpoint)
    if group.is_first:
        run.forget_after(-1 if checkpoint is None else state.step)
    # The first process writes the metrics of all.
    writer = run.metrics_writer(0 if checkpoint is None else state.step + 1) if group.is_first else None
    with writer or nullcontext(), asked_to_end() as is_asked:
        if writer and state.step == 0:
            writer.write(0, dict(evaluator.evaluate(config.evaluation_batches, learner.num_learned)))
        while state.step < config.num_steps:
            start = time.perf_counter()
            request = environment.request
            proposal = policy.recommend(request, state.generator, config.sampling)
            feedback = environment.step(proposal.slate_BK)
            learner.observe(request, proposal.slate_BK, feedback.response_BKR)
            shown = mean_metrics(group.gather(slate_metrics(environment, proposal.slate_BK, feedback)))
            state.recent.append(shown)
            metrics: MetricsLine = dict(shown)
            if policy.is_learned and state.step >= config.warmup_steps:
                with run.keeping_bad_batch(state.step + 1):
                    metrics |= learner.learn()
            state.step += 1
            state.seconds += time.perf_counter() - start
            report(state.step, metrics)
            is_ending, is_last = any(group.gather(is_asked())), state.step == config.num_steps
            if writer:
                writer.write(state.step, {**metrics, "seconds": state.seconds})
                if is_last or is_evaluated(state.step, config.evaluate_every):
                    evaluations = evaluator.evaluate(config.evaluation_batches, learner.num_learned)
                    writer.write(state.step, dict(evaluations))
            if is_last or is_ending or state.step % config.checkpoint_every == 0:
                save_state(run, state.step, state.tensors(), state.progress(), writer, group)
            if is_ending and not is_last:
                return None
    results = _finish(run, state, evaluator, config) if group.is_first else None
    group.barrier()  # the results exist when any process returns
    return results


def is_evaluated(step: int, every: int) -> bool:
    """Return whether the policy is evaluated after a step: regularly, and more often before the first regular time."""
    early = max(1, every // EARLY_EVALUATIONS)
    return step % every == 0 or (step < every and step % early == 0)


def _finish(run: Run, state: OnlineState, evaluator: Evaluator, config: OnlineConfig) -> RunResults:
    metrics = evaluator.evaluate(config.final_batches, state.learner.num_learned)
    results = RunResults(
        step=state.step,
        seconds=state.seconds,
        greedy=metrics["greedy"],
        sampled=metrics["sampled"],
        last_steps=mean_metrics(list(state.recent)),
        held_out=final_held_out(state.policy, state.environment.data),
    )
    run.finish(results)
    return results
