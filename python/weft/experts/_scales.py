# SPDX-License-Identifier: Apache-2.0
"""FP8: tokens as (values, scales), and the forms of their scales."""

from importlib import import_module
from typing import Any, Tuple

from ..errors import InvalidArgument, Unsupported
from ._options import aligned

torch: Any = import_module("torch")

CHANNELS = 128  # that share a scale
_MOST = 448.0  # the largest number of float8_e4m3fn
_LEAST = 1e-4  # a token whose numbers are smaller is scaled as if its largest was this


class Scales:
    """The scales of a call: float32, or packed exponents in int32, [tokens, n] or [tokens]; or
    None."""

    def __init__(self, given: Any) -> None:
        self.given = given
        #: Numbers of a token that are sent: a multiple of 4.
        self.n_sent = 0
        if given is not None:
            if given.dim() not in (1, 2) or given.element_size() != 4:
                raise InvalidArgument(f"scales are {given.dtype} of shape {tuple(given.shape)}: "
                                      "give float32 or int32 of shape [tokens, n]")
            self._n = given.shape[1] if given.dim() == 2 else 1
            self.n_sent = aligned(self._n, 4)

    def to_send(self) -> Any:
        """Returns the scales as float32 [tokens, n_sent]."""
        if self.given is None:
            return None
        flat = self.given if self.given.dim() == 2 else self.given[:, None]
        padded = torch.nn.functional.pad(flat, (0, self.n_sent - self._n))
        return padded.contiguous().view(torch.float32)

    def with_values(self, values: Any, sent: Any) -> Any:
        """Returns received tokens in the form of those of the call."""
        if self.given is None:
            return values
        back = sent[:, :self._n].contiguous().view(self.given.dtype)
        return values, back[:, 0] if self.given.dim() == 1 else back


def split(x: Any) -> Tuple[Any, Scales]:
    """Returns values and scales of tokens: a tensor, or (values, scales)."""
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise InvalidArgument(f"x is a tuple of {len(x)}: give (values, scales)")
        return x[0], Scales(x[1])
    return x, Scales(None)


def check_fp8(hidden: int) -> None:
    """Raises Unsupported or InvalidArgument where tokens cannot be sent in FP8."""
    if not hasattr(torch, "float8_e4m3fn"):
        raise Unsupported(f"torch {torch.__version__} has no float8_e4m3fn: pass use_fp8=False, or "
                          "install torch 2.1 or newer")
    if hidden % CHANNELS:
        raise InvalidArgument(f"hidden is {hidden}: FP8 needs a multiple of {CHANNELS}, or pass "
                              "use_fp8=False")


def to_fp8(x: Any, round_scale: bool) -> Tuple[Any, Any]:
    """Returns [tokens, hidden] in FP8 and float32 scales [tokens, hidden / 128], by which a value
    is multiplied to get it back. round_scale: they are powers of two."""
    parts = x.reshape(x.shape[0], x.shape[1] // CHANNELS, CHANNELS).float()
    scales = parts.abs().amax(2).clamp(min=_LEAST) / _MOST
    if round_scale:  # up
        exponents = (scales.view(torch.int32) + 0x7FFFFF) >> 23
        scales = (exponents << 23).view(torch.float32)
    values = (parts / scales[:, :, None]).to(torch.float8_e4m3fn)
    return values.reshape(x.shape), scales


def to_ue8m0(scales: Any) -> Any:
    """Returns scales [..., 4 * n] that are powers of two as int32 [..., n]: the exponents of four
    in a number, the first one in its lowest byte."""
    exponents = (scales.contiguous().view(torch.int32) >> 23).to(torch.uint8)
    return exponents.view(torch.int32)
