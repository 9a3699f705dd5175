"""How processes compute; each in one of its own, since it cannot be taken back."""

import subprocess
import sys

SCRIPT = """
import torch
{set_up}
tiny = torch.full((4_000_000,), 1e-40)
weight = tiny.clone().requires_grad_()
(weight * tiny.fill_(1e-30) * 1e-10).sum().backward()
print(torch.get_num_threads(), int((weight * 1.0).count_nonzero()), int(weight.grad.count_nonzero()))
"""


def count(set_up: str) -> str:
    script = [sys.executable, "-c", SCRIPT.format(set_up=set_up)]
    return subprocess.run(script, check=True, capture_output=True, text=True).stdout.strip()


def test_tiny_numbers_are_zero_in_all_threads() -> None:
    assert count("torch.set_num_threads(2)") == "2 4000000 4000000"
    assert count("from gfn4rec.training.process import set_up_process; set_up_process(2)") == "2 0 0"
    assert count('from gfn4rec.cli.compute import choose_device; choose_device("cpu", 2)') == "2 0 0"
