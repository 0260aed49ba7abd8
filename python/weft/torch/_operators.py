# SPDX-License-Identifier: Apache-2.0
"""torch's operators on symmetric memory (torch.ops.symm_mem) for CPU tensors, of which torch has
those of GPUs alone. They reduce in the order of ranks: every rank gets the same bits."""

from importlib import import_module
from typing import Any, List, Optional

from ..errors import InvalidArgument, InvalidOperation
from . import symm

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")

_HALF = (torch.float16, torch.bfloat16)


def _parts(handle: symm.SymmetricMemory, x: Any) -> List[Any]:
    """Returns the counterparts of a tensor at all ranks."""
    if not x.is_contiguous():
        raise InvalidArgument(f"a tensor with strides {tuple(x.stride())}: give a contiguous one")
    first = handle.offset // x.element_size() + x.storage_offset()
    return [handle.get_buffer(rank, x.shape, x.dtype, first) for rank in range(handle.world_size)]


def _sum(parts: List[Any], reduce_op: str) -> Any:
    """Returns the sum of tensors, of 16 bits in float32 and rounded once."""
    if reduce_op != "sum":
        raise InvalidOperation(f"reduction {reduce_op!r}: operators of symmetric memory have "
                               "\"sum\"")
    dtype = parts[0].dtype
    total = parts[0].to(torch.float32) if dtype in _HALF else parts[0].clone()
    for part in parts[1:]:
        total += part
    return total.to(dtype)


def one_shot_all_reduce_copy_out(buffer: Any, local: Optional[Any], reduce_op: str,
                                 group_name: str, out: Any) -> Any:
    """Sums `buffer` over the group's ranks into `out`. local: copied into it before, unless
    None."""
    handle = symm.rendezvous(buffer, group_name)
    if local is not None:
        buffer = buffer.view(-1)[:local.numel()].view(local.shape)
        buffer.copy_(local)
    handle.barrier()
    out.copy_(_sum(_parts(handle, buffer), reduce_op))
    handle.barrier()  # no rank changes a buffer that another still reads
    return out


def one_shot_all_reduce_copy(buffer: Any, local: Any, reduce_op: str, group_name: str) -> Any:
    """As one_shot_all_reduce_copy_out(), into a new tensor."""
    return one_shot_all_reduce_copy_out(buffer, local, reduce_op, group_name,
                                        torch.empty_like(local))


def one_shot_all_reduce_out(x: Any, reduce_op: str, group_name: str, out: Any) -> Any:
    """Sums `x` over the group's ranks into `out`."""
    return one_shot_all_reduce_copy_out(x, None, reduce_op, group_name, out)


def one_shot_all_reduce(x: Any, reduce_op: str, group_name: str) -> Any:
    """As one_shot_all_reduce_out(), into a new tensor."""
    return one_shot_all_reduce_out(x, reduce_op, group_name, torch.empty_like(x))


def two_shot_all_reduce_(x: Any, reduce_op: str, group_name: str) -> Any:
    """Sums `x` over the group's ranks in place: each rank sums a part, and stores it at all."""
    handle = symm.rendezvous(x, group_name)
    step = -(-x.numel() // handle.world_size)
    mine = slice(handle.rank * step, (handle.rank + 1) * step)
    parts = [part.view(-1)[mine] for part in _parts(handle, x)]
    handle.barrier()
    total = _sum(parts, reduce_op)
    for part in parts:
        part.copy_(total)
    handle.barrier()
    return x


def memset32_(x: Any, offset: int, val: int, count: int) -> Any:
    """Sets `count` elements of 32 bits of `x`, from element `offset` on, to `val`."""
    x.view(torch.int32).view(-1)[offset:offset + count] = val - ((val >> 31) << 32)
    return x


def stream_write_value32_(x: Any, offset: int, val: int) -> Any:
    """Sets element `offset` of 32 bits of `x` to `val`."""
    return memset32_(x, offset, val, 1)


_OPERATORS = [one_shot_all_reduce, one_shot_all_reduce_out, one_shot_all_reduce_copy,
              one_shot_all_reduce_copy_out, two_shot_all_reduce_, memset32_,
              stream_write_value32_]


def register() -> Any:
    """Gives torch the operators; they exist as long as the object that it returns."""
    library = torch.library.Library("symm_mem", "IMPL", "CPU")
    for operator in _OPERATORS:
        library.impl(operator.__name__, operator)
    return library
