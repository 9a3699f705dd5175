"""How a process of ours computes."""

import torch


def set_up_process(num_threads: int | None = None) -> None:
    """Before it computes anything: threads get the rounding of the one that started them.

    Numbers below 1e-38 become 0 on processors that can. Weights that decay without a gradient get there, and so do
    softmaxes that are almost certain; each product with one takes many times as long as others.
    """
    torch.set_flush_denormal(True)
    if num_threads is not None:
        torch.set_num_threads(num_threads)
