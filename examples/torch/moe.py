# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts that torch trains over Weft: each rank has some of the experts, and tokens
travel to theirs and back, in both passes.

    weft run -n 2 python3 examples/torch/moe.py
    weft run -n 4 python3 examples/torch/moe.py --batches 4

A step has --batches batches, one for each rank if not said otherwise.
"""

import argparse

import torch
import torch.distributed as dist
from text_model import (
    BLOCKS,
    VOCABULARY,
    WIDTH,
    Block,
    Transformer,
    batch_of,
    device_of,
    own_batches,
    text_of,
)
from torch import nn

import weft.experts
import weft.torch  # noqa: F401

EXPERTS, TOP = 8, 2


class Mixture(nn.Module):
    """What stands in a block in place of its wide layers."""

    def __init__(self, buffer, size, rank):
        super().__init__()
        self.buffer = buffer
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.first, end = rank * EXPERTS // size, (rank + 1) * EXPERTS // size
        # All ranks draw the same numbers; each keeps its own experts.
        every = [(nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)]
        self.experts = nn.ModuleList(nn.ModuleList(both) for both in every[self.first:end])

    def forward(self, x):
        tokens = x.reshape(-1, WIDTH)
        weights, chosen = self.router(tokens).softmax(-1).topk(TOP)
        rows, local, weights, handle = weft.experts.moe_dispatch(
            self.buffer, tokens, chosen, weights, EXPERTS)
        results = torch.zeros_like(rows)
        for number, (up, down) in enumerate(self.experts):
            places, which = (local == number).nonzero(as_tuple=True)
            mine = down(torch.relu(up(rows[places]))) * weights[places, which].unsqueeze(1)
            results = results.index_add(0, places, mine)
        return weft.experts.moe_combine(self.buffer, results, handle).view(x.shape)


class MixtureBlock(Block):
    def __init__(self, *given):
        super().__init__()
        del self.up, self.down
        self.mixture = Mixture(*given)

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.mixture(self.before_wide(x))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("text", nargs="?", default=__file__, help="what is learnt; this program")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--batches", type=int, help="of a step, over all ranks")
    given = options.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("weft", init_method="weft://")
    rank, size = dist.get_rank(), dist.get_world_size()
    batches = given.batches or size
    own, device = own_batches(batches, rank, size), device_of(rank)

    torch.manual_seed(1)
    buffer = weft.experts.Buffer(dist.group.WORLD)
    model = Transformer()
    model.blocks = nn.ModuleList(MixtureBlock(buffer, size, rank) for _ in range(BLOCKS))
    model.to(device)
    shared = [parameter for name, parameter in model.named_parameters() if ".experts." not in name]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, foreach=False)
    text = text_of(given.text)
    for step in range(given.steps):
        parts = [batch_of(text, step * batches + number) for number in own]
        source, target = (torch.cat(part).to(device) for part in zip(*parts))
        loss = torch.nn.functional.cross_entropy(model(source).view(-1, VOCABULARY),
                                                 target.reshape(-1)) / size
        optimizer.zero_grad()
        loss.backward()
        # An expert's gradient is whole: it saw the tokens of all ranks.
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in shared]
        total = loss.detach().double()
        dist.all_reduce(total)
        for work in works:
            work.wait()
        optimizer.step()
        if rank == 0 and (step + 1) % max(given.steps // 5, 1) == 0:
            print(f"step {step + 1}: loss {total.item():.6f}")
    buffer.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
