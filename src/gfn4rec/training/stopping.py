"""A run that cannot go on."""

from safetensors.torch import save_file

from gfn4rec.errors import RunError
from gfn4rec.training.learner import NotFiniteLoss
from gfn4rec.training.run import Run

BATCH = "stopped-batch.safetensors"


def save_batch(run: Run, problem: NotFiniteLoss, step: int) -> RunError:
    """Keep the batch whose loss is not finite, and tell where it is."""
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
    path = run.directory / BATCH
    save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, path)
    return RunError(f"{run.directory}: {problem} at step {step}; the batch is in {path.name}; lower learning_rate")
