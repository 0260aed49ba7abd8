# SPDX-License-Identifier: Apache-2.0
"""A model of ddp.py, split over 1, 2 or 4 ranks, writes text: the same for any number.

    weft run -n 2 python3 examples/torch/ddp.py --steps 300 --save model.pt
    weft run -n 4 python3 examples/torch/serve.py model.pt --prompt "import "

Each rank has some of the heads, and of the wide layers the columns that go with them. The ranks
gather what each head adds to a token, and add it in the order of the heads: the bits do not depend
on the number of ranks. On GPUs one CUDA graph makes a token, with its collectives.
"""

import argparse
import math

import torch
import torch.distributed as dist
from text_model import BLOCKS, CONTEXT, HEADS, WIDTH, Transformer, device_of
from torch.nn import functional

import weft.torch  # noqa: F401

DEPTH = WIDTH // HEADS


class Head:
    """One head of a block, with its columns of the wide layer."""

    def __init__(self, block, number):
        own, wide = slice(number * DEPTH, (number + 1) * DEPTH), 4 * DEPTH
        self.qkv = [(part.weight, part.bias) for part in (
            Part(block.qkv, slice(i * WIDTH + own.start, i * WIDTH + own.stop)) for i in range(3))]
        self.out = block.out.weight[:, own].contiguous()
        columns = slice(number * wide, (number + 1) * wide)
        self.up = Part(block.up, columns)
        self.down = block.down.weight[:, columns].contiguous()
        self.keys = torch.zeros(CONTEXT, DEPTH, device=self.out.device)
        self.values = torch.zeros_like(self.keys)

    def attend(self, x, place):
        """Returns what this head adds to the token at `place`."""
        q, k, v = (functional.linear(x, weight, bias) for weight, bias in self.qkv)
        self.keys.index_copy_(0, place, k)
        self.values.index_copy_(0, place, v)
        scores = self.keys @ q[0] / math.sqrt(DEPTH)
        later = torch.arange(CONTEXT, device=x.device) > place
        weights = scores.masked_fill(later, -math.inf).softmax(0)
        return functional.linear(weights @ self.values, self.out)

    def widen(self, x):
        inner = torch.relu(functional.linear(x[0], self.up.weight, self.up.bias))
        return functional.linear(inner, self.down)


class Part:
    """Some rows of a linear layer."""

    def __init__(self, layer, rows):
        self.weight, self.bias = layer.weight[rows].contiguous(), layer.bias[rows].contiguous()


class Writer:
    def __init__(self, model, device):
        rank, size = dist.get_rank(), dist.get_world_size()
        own = range(rank * HEADS // size, (rank + 1) * HEADS // size)
        self.model = model
        self.heads = [[Head(block, number) for number in own] for block in model.blocks]
        self.token = torch.zeros(1, dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.next = torch.zeros_like(self.token)
        self.all = torch.zeros(HEADS, WIDTH, device=device)
        self.graph = None

    def add(self, x, own):
        """Returns x and what all heads add to it, in their order."""
        dist.all_gather_into_tensor(self.all, torch.stack(own))
        for part in self.all:
            x = x + part
        return x

    def step(self):
        """Computes the token after `token`, which is at `place`."""
        model = self.model
        x = model.tokens(self.token) + model.places(self.place)
        for block, heads in zip(model.blocks, self.heads):
            normal = block.before_attention(x)
            x = self.add(x + block.out.bias, [head.attend(normal, self.place) for head in heads])
            normal = block.before_wide(x)
            x = self.add(x + block.down.bias, [head.widen(normal) for head in heads])
        self.next.copy_(model.head(model.last(x)).argmax(-1))

    def __call__(self, token, place):
        self.token.fill_(token)
        self.place.fill_(place)
        if not self.token.is_cuda:
            self.step()
        elif self.graph is None:
            self.step()  # the first one, by which everything is loaded
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
        else:
            self.graph.replay()
        return self.next.item()


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("model", help="what ddp.py --save wrote")
    options.add_argument("--prompt", default="import ")
    options.add_argument("--tokens", type=int, default=CONTEXT, help="of prompt and answer")
    given = options.parse_args()
    assert 0 < len(given.prompt) < given.tokens <= CONTEXT, \
        f"--tokens {given.tokens}: more than the prompt has, and at most {CONTEXT}"

    torch.set_num_threads(1)
    dist.init_process_group("weft", init_method="weft://")
    rank, size = dist.get_rank(), dist.get_world_size()
    assert HEADS % size == 0, f"{size} ranks: {HEADS} heads need 1, 2 or {HEADS}"
    device = device_of(rank)
    model = Transformer()
    model.load_state_dict(torch.load(given.model, map_location="cpu"))
    assert len(model.blocks) == BLOCKS
    with torch.no_grad():
        writer = Writer(model.to(device), device)
        text = [ord(letter) for letter in given.prompt]
        for place in range(given.tokens - 1):
            following = writer(text[place], place)
            if place + 1 == len(text):
                text.append(following)
    if rank == 0:
        print("".join(map(chr, text)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
