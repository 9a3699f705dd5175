"""The processes that train one policy together, or one process alone. torchrun starts them."""

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
    """This process's place among `size` of them."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def stream(self, name: str) -> str:
        """The name of a random stream of this process; the first one's is the same as if it were alone."""
        return name if self.is_first else f"{name}/process {self.rank}"

    def share(self, total: int, what: str) -> int:
        """This process's part of a number that must divide."""
        if total % self.size:
            raise UserError(f"{what} {total} does not divide by the {self.size} processes")
        return total // self.size

    def gather(self, value: Value) -> list[Value]:
        """Everybody's value, by rank, for everybody."""
        if self.size == 1:
            return [value]
        values: list[Value | None] = [None] * self.size
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(device: torch.device | str) -> Iterator[Group]:
    """The group that torchrun started this process in, or a group of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Group()
        return
    dist.init_process_group("nccl" if torch.device(device).type == "cuda" else "gloo")
    try:
        yield Group(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
