"""What numbers below 1e-38 cost: products of tokens with decayed weights, before and after `set_up_process`."""

import time

import torch

from gfn4rec.training.process import set_up_process

REPEATS = 20


def best_ms(weight_DD: torch.Tensor) -> float:
    """Of forward and backward."""
    token_TD = torch.randn(6528, 64)
    times = []
    for _ in range(REPEATS):
        weight = weight_DD.clone().requires_grad_()
        start = time.perf_counter()
        (token_TD @ weight).square().sum().backward()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


if __name__ == "__main__":
    torch.manual_seed(0)
    weights = {"all of usual size": 1.0, "all below 1e-38": 1e-40}
    for name, size in weights.items():
        print(f"{name:20} {best_ms(size * torch.randn(64, 64)):8.2f} ms")
    set_up_process()
    for name, size in weights.items():
        print(f"{name:20} {best_ms(size * torch.randn(64, 64)):8.2f} ms after set_up_process")
