"""A run that cannot go on."""

from collections.abc import Iterator
from contextlib import contextmanager

from gfn4rec.errors import RunError
from gfn4rec.nn.weights import save_tensors
from gfn4rec.schema import SlateBatch
from gfn4rec.training.learner import NotFinite
from gfn4rec.training.run import Run

BATCH = "stopped-batch.safetensors"


@contextmanager
def keeping_bad_batch(run: Run, step: int) -> Iterator[None]:
    """A batch whose loss or gradient is not finite ends the run, is kept, and it is told where."""
    try:
        yield
    except NotFinite as problem:
        where = _save(run, problem.batch)
        raise RunError(f"{run.directory}: {problem} at step {step}; {where}; lower learning_rate") from problem


def _save(run: Run, batch: SlateBatch) -> str:
    """Where it is now."""
    tensors = {
        "user": batch.request.user_B,
        "history": batch.request.history_BH,
        "response": batch.request.response_BHR,
        "slate": batch.slate_BK,
        "slate_response": batch.response_BKR,
        "item_reward": batch.item_reward_BK,
        "reward": batch.reward_B,
    }
    try:
        save_tensors(run.directory / BATCH, tensors)
    except OSError as error:
        return f"the batch could not be written ({str(error).splitlines()[0]})"
    return f"the batch is in {BATCH}"
