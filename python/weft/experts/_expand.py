# SPDX-License-Identifier: Apache-2.0
"""The expanded layout: a row for each own expert of a received token, by expert."""

from importlib import import_module
from typing import Any, Optional

torch: Any = import_module("torch")


def _bytes(x: Any) -> Any:
    """FP8 as bytes: torch has few operations on it."""
    return x.view(torch.uint8) if x.element_size() == 1 else x


class Expanded:
    """The expanded layout of a dispatch, computed on the device alone.

    Experts follow each other, each from a multiple of the alignment on; the rows of an expert are
    in the order of the received rows. n: rows, padding included; counts: [own experts] int32, rows
    of each without padding; ends: [own experts] int32, where these end; experts: [n] int32, the own
    expert of each row, -1 in padding; weights: [n] float32, 0 in padding.
    """

    def __init__(self, idx: Any, weights: Any, own: int, alignment: int,
                 capacity: Optional[int]) -> None:
        """idx, weights: [received rows, top], own experts, -1: none; capacity: n, where a token
        names an expert once; None: n is computed, and the host waits for it."""
        self._top = idx.shape[1]
        flat = idx.reshape(-1)
        numbers = torch.arange(len(flat), device=idx.device)
        expert, order = flat.masked_fill(flat < 0, own).sort(stable=True)
        bounds = torch.searchsorted(expert, torch.arange(own + 1, device=idx.device))
        counts = bounds[1:] - bounds[:-1]
        padded = (counts + (alignment - 1)) // alignment * alignment
        begins = torch.nn.functional.pad(padded.cumsum(0), (1, 0))
        self.counts, self.ends = counts.int(), (begins[:-1] + counts).int()
        self.n = n = int(begins[-1]) if capacity is None else capacity
        place = (begins[expert] + numbers - bounds[expert]).masked_fill(expert == own, n)
        place = place.clamp(max=n)  # of choices without a row: n
        self._places = torch.empty_like(flat).scatter_(0, order, place)
        # The choice that each row has, -1 in padding.
        choices = torch.full((n + 1,), -1, dtype=torch.int64, device=idx.device)
        self._choices = choices.scatter_(0, place, order)[:n]
        self._padding = self._choices < 0
        self._choices.clamp_(min=0)
        self.experts = self._of_choices(flat, -1).int()
        self.weights = self._of_choices(weights.reshape(-1), 0)

    def _of_choices(self, flat: Any, padding: int) -> Any:
        """Returns the element of each row's choice."""
        return flat.index_select(0, self._choices).masked_fill_(self._padding, padding)

    def spread(self, x: Any, zero: bool) -> Any:
        """Returns the rows of the layout, of received tokens: a tensor, or (values, scales).
        zero: padding is 0, else of any contents."""
        if isinstance(x, tuple):
            return tuple(self.spread(part, zero) for part in x)
        rows = torch.div(self._choices, self._top, rounding_mode="floor")
        spread = _bytes(x).index_select(0, rows)
        if zero:
            spread.masked_fill_(self._padding.view(-1, *[1] * (x.dim() - 1)), 0)
        return spread.view(x.dtype)

    def collect(self, x: Any) -> Any:
        """Returns for each received row the sum of its rows of the layout, added in float32 in the
        order of its experts and rounded once."""
        places = self._places.view(-1, self._top)
        total = torch.zeros(len(places), *x.shape[1:], device=x.device)
        for place in places.unbind(1) if self.n else ():
            part = x.index_select(0, place.clamp(max=self.n - 1)).float()
            total += part.masked_fill_((place == self.n)[:, None], 0)
        return total.to(x.dtype)

    def collect_weights(self, weights: Any) -> Any:
        """Returns weights as [received rows, top], 0 where another rank owns the expert."""
        if not self.n:
            return weights.new_zeros(len(self._places) // self._top, self._top)
        found = weights.index_select(0, self._places.clamp(max=self.n - 1))
        return found.masked_fill_(self._places == self.n, 0).view(-1, self._top)
