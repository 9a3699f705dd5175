"""A run that cannot go on."""

from gfn4rec.errors import RunError
from gfn4rec.nn.weights import save_tensors
from gfn4rec.training.learner import NotFinite
from gfn4rec.training.run import Run

BATCH = "stopped-batch.safetensors"


def save_batch(run: Run, problem: NotFinite, step: int) -> RunError:
    """Keep the batch whose loss or gradient is not finite, and tell where it is."""
    batch = problem.batch
    tensors = {
        "user": batch.request.user_B,
        "history": batch.request.history_BH,
        "response": batch.request.response_BHR,
        "slate": batch.slate_BK,
        "slate_response": batch.response_BKR,
        "item_reward": batch.item_reward_BK,
        "reward": batch.reward_B,
    }
    where = f"the batch is in {BATCH}"
    try:
        save_tensors(run.directory / BATCH, tensors)
    except OSError as error:
        where = f"the batch could not be written ({str(error).splitlines()[0]})"
    return RunError(f"{run.directory}: {problem} at step {step}; {where}; lower learning_rate")
