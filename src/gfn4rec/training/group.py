"""The group of processes, started by torchrun, that train one policy together; or a single process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from gfn4rec.errors import UserError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Group:
    """The rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def stream(self, name: str) -> str:
        """Return the name of a random stream of this process; for the first process it is `name` itself."""
        return name if self.is_first else f"{name}/process {self.rank}"

    def share(self, total: int, what: str) -> int:
        """Return this process's equal part of a total; raise a `UserError` if it is not divisible."""
        if total % self.size:
            raise UserError(f"{what} {total} is not divisible by the {self.size} processes")
        return total // self.size

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all processes by rank, to each of them."""
        if self.size == 1:
            return [value]
        values: list[Value | None] = [None] * self.size
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(device: torch.device | str) -> Iterator[Group]:
    """Join the group that torchrun started this process in, or yield a group of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group()
        return
    dist.init_process_group("nccl" if torch.device(device).type == "cuda" else "gloo")
    try:
        yield Group(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
