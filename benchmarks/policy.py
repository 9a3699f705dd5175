"""How fast GFN4Rec writes slates and learns, and in how much memory, against a plain formulation.

    python benchmarks/policy.py [--items 1000 3043 69219 1000000]

128 requests with histories of 50 events, slates of 6, width 32, catalogues of ids without features. The plain
formulation is the same policy with the same encoder, but it multiplies (B, 1, D) with (1, N, D) and sums, one position
after the other. Where it would take too long, it runs with fewer requests, and its time is scaled. Each measurement is
a process of its own: the memory is its peak above the moment before the measurement.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gfn4rec.objectives.flow import FlowBatch, log_reward, shift_probability
from gfn4rec.objectives.trajectory_balance import trajectory_balance
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.gfn import GFN4Rec
from gfn4rec.policies.slate_network import prefixes
from gfn4rec.schema import FeatureTensors, Request, SlateBatch

B, K, D, H, R = 128, 6, 32, 50, 3
PLAIN_LIMIT = 200_000  # items; beyond it the plain formulation is left out
NOTHING = FeatureTensors({}, {}, {}, {})


def new_policy(num_items: int) -> GFN4Rec:
    catalogue = Catalogue(1000, num_items, K, torch.ones(R), NOTHING, NOTHING, torch.zeros(num_items + 1))
    policy = build_policy("gfn", catalogue)
    assert isinstance(policy, GFN4Rec)
    return policy


def new_batch(num_items: int, size: int) -> SlateBatch:
    generator = torch.Generator().manual_seed(0)
    history_BH = torch.randint(1, num_items + 1, (size, H), generator=generator)
    response_BHR = torch.randint(0, 2, (size, H, R), generator=generator).float()
    request = Request(torch.randint(1, 1001, (size,), generator=generator), history_BH, response_BHR)
    slate_BK = torch.stack([torch.randperm(num_items, generator=generator)[:K] + 1 for _ in range(size)])
    reward_B = torch.rand(size, generator=generator) * 3
    return SlateBatch(request, slate_BK, torch.zeros(size, K, R), torch.zeros(size, K), reward_B)


def plain_scores(query_BD: Tensor, table_ND: Tensor, taken_BX: Tensor) -> Tensor:
    score_BN = (query_BD[:, None, :] * table_ND[None, :, :]).sum(dim=2)
    taken_BN = torch.zeros_like(score_BN, dtype=torch.bool).scatter(1, taken_BX, True)
    taken_BN[:, 0] = True
    return score_BN.masked_fill(taken_BN, -torch.inf)


def plain_query(policy: GFN4Rec, state_BS: Tensor, table_ND: Tensor, slate_BK: Tensor, step: int) -> Tensor:
    prefix_BTX = prefixes(state_BS, table_ND[slate_BK], range(step, step + 1))
    return policy.network.queries(prefix_BTX)[:, 0]


@torch.no_grad()
def plain_generation(policy: GFN4Rec, batch: SlateBatch) -> Tensor:
    table_ND = policy.backbone.encoder.items.table()
    state_BS = policy.backbone.encoder(batch.request, table_ND)
    slate_BK = torch.zeros_like(batch.slate_BK)
    for step in range(K):
        query_BD = plain_query(policy, state_BS, table_ND, slate_BK, step)
        prob_BN = plain_scores(query_BD, table_ND, slate_BK[:, :step]).softmax(dim=1)
        slate_BK[:, step] = torch.multinomial(prob_BN, 1)[:, 0]
    return slate_BK


def plain_loss(policy: GFN4Rec, batch: SlateBatch) -> Tensor:
    table_ND = policy.backbone.encoder.items.table()
    state_BS = policy.backbone.encoder(batch.request, table_ND)
    steps = []
    for step in range(K):
        query_BD = plain_query(policy, state_BS, table_ND, batch.slate_BK, step)
        log_prob_BN = plain_scores(query_BD, table_ND, batch.slate_BK[:, :step]).log_softmax(dim=1)
        steps.append(log_prob_BN.gather(1, batch.slate_BK[:, step : step + 1]))
    log_flow_B1 = policy.network.log_flows(prefixes(state_BS, table_ND[batch.slate_BK], range(1)))
    log_pf_BK = shift_probability(torch.cat(steps, dim=1), policy.config.b_f)
    flow = FlowBatch(log_flow_B1, log_pf_BK, log_reward(batch.reward_B, policy.config.b_r))
    return trajectory_balance(flow)["trajectory"].square().mean()


def measure(kind: str, part: str, num_items: int, size: int) -> dict[str, float]:
    """Seconds (the best of several, at least three) and bytes of one part, in this process."""
    policy, batch = new_policy(num_items), new_batch(num_items, size)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([weight for weight in policy.parameters() if weight.requires_grad], lr=1e-3)

    def generate() -> None:
        if kind == "ours":
            policy.recommend(batch.request, generator)
        else:
            plain_generation(policy, batch)

    def learn() -> None:
        loss = policy.loss(batch, generator).loss if kind == "ours" else plain_loss(policy, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    action = generate if part == "generation" else learn
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak counts anew
    before = resident_bytes("VmRSS")
    action()
    seconds = best_seconds(action)
    return {"seconds": seconds * B / size, "bytes": resident_bytes("VmHWM") - before}


def resident_bytes(field: str) -> float:
    """Of this process: VmRSS now, VmHWM at its peak (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024.0 * int(status.split(f"{field}:")[1].split()[0])


def best_seconds(action: Callable[[], object], budget: float = 6.0) -> float:
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 51):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def product_speed() -> float:
    """Floating-point operations per second of a large matrix product."""
    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return 2 * 2048**3 / best_seconds(lambda: left @ right, budget=2.0)


def in_process(kind: str, part: str, num_items: int, size: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", kind, part, str(num_items), str(size)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 3043, 69_219, 1_000_000])
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        kind, part, num_items, size = arguments.measure
        print(json.dumps(measure(kind, part, int(num_items), int(size))))
        return
    speed = product_speed()
    print(f"matrix products on this machine: {speed / 1e9:.0f} GFLOP/s, {torch.get_num_threads()} threads")
    print(f"{'items':>9} {'part':<11} {'ours':>10} {'memory':>9} {'plain':>10} {'memory':>9}   ratio  of speed")
    for num_items in arguments.items:
        sums = {"ours": 0.0, "plain": 0.0}
        for part in ("generation", "training"):
            ours = in_process("ours", part, num_items, B)
            # Generation multiplies once; training does so forward, again backward, and for two gradients.
            operations = 2 * B * K * num_items * D * (1 if part == "generation" else 4)
            line = f"{num_items:>9,} {part:<11} {1e3 * ours['seconds']:>7.1f} ms {ours['bytes'] / 2**20:>6.0f} MB"
            sums["ours"] += ours["seconds"]
            if num_items <= PLAIN_LIMIT:
                plain = in_process("plain", part, num_items, B)
                sums["plain"] += plain["seconds"]
                line += f" {1e3 * plain['seconds']:>7.1f} ms {plain['bytes'] / 2**20:>6.0f} MB"
                line += f" {plain['seconds'] / ours['seconds']:>6.1f}x"
            else:
                line += " " * 30
            print(line + f" {operations / ours['seconds'] / speed:>8.1%}", flush=True)
        if sums["plain"]:
            print(f"{num_items:>9,} both: {sums['plain'] / sums['ours']:.1f} times as fast", flush=True)


if __name__ == "__main__":
    main()
