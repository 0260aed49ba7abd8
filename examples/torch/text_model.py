# SPDX-License-Identifier: Apache-2.0
"""The model of ddp.py, moe.py and serve.py: a transformer that reads and writes ASCII text."""

import math
import pathlib

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, BLOCKS, CONTEXT = 128, 64, 4, 2, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_wide = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        """Returns what attention adds."""
        batch, length, _ = x.shape
        heads = self.qkv(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.down(torch.relu(self.up(self.before_wide(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


def device_of(rank):
    """Returns the device of a rank: a GPU, which ranks may share, and without one the CPU."""
    if not torch.cuda.is_available():
        return "cpu"
    device = f"cuda:{rank % torch.cuda.device_count()}"
    torch.cuda.set_device(device)
    return device


def own_batches(batches, rank, size):
    """Returns which of the batches of a step a rank has."""
    assert batches % size == 0, f"--batches {batches}: a multiple of {size} ranks is needed"
    return range(rank * batches // size, (rank + 1) * batches // size)


def text_of(file):
    """Returns the characters of a text file as numbers below VOCABULARY."""
    text = pathlib.Path(file).read_text(errors="replace").encode("ascii", "replace")
    assert len(text) > CONTEXT + 1, f"{file}: {len(text)} characters, and {CONTEXT + 2} are needed"
    return torch.tensor(list(text))


def batch_of(text, number, rows=8):
    """Returns input and target of batch `number`, [rows, CONTEXT] each."""
    draw = torch.Generator().manual_seed(number)
    starts = torch.randint(0, len(text) - CONTEXT, (rows,), generator=draw).tolist()
    both = torch.stack([text[start:start + CONTEXT + 1] for start in starts])
    return both[:, :-1], both[:, 1:]
