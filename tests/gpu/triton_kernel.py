# SPDX-License-Identifier: Apache-2.0
# A kernel of Triton with the operations of weft_device.bc, for rtc.py. As a program it compiles the
# kernel for compute capability 9.0, on a machine without a GPU too: triton_kernel.py WEFT_DEVICE.BC
import sys

import triton
import triton.language as tl
from triton.language import core

I32, I64 = core.dtype("int32"), core.dtype("int64")


@core.extern
def put_signal(state, dst, src, size, signal, value, op, pe, _semantic=None):
    function = ("weft_state_block_put_signal", I32)
    return core.extern_elementwise(
        "", "", [state, dst, src, size, signal, value, op, pe],
        {(I64, I64, I64, I64, I64, I64, I32, I32): function}, is_pure=False, _semantic=_semantic,
    )


@core.extern
def signal_wait(state, signal, cmp, value, _semantic=None):
    function = ("weft_state_block_signal_wait", I32)
    return core.extern_elementwise(
        "", "", [state, signal, cmp, value],
        {(I64, I64, I32, I64): function}, is_pure=False, _semantic=_semantic,
    )


@triton.jit(do_not_specialize=["state", "to", "source", "flag", "status", "size", "pe"])
def exchange(state, to, source, flag, status, size, pe):
    one = tl.full((), 1, tl.int64)
    put_signal(state, to, source, tl.cast(size, tl.int64), flag, one, tl.full((), 0, tl.int32), pe)
    failed = signal_wait(state, flag, tl.full((), 5, tl.int32), one)
    tl.store(status.to(tl.pointer_type(tl.int32)), failed)


if __name__ == "__main__":
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = ["state", "to", "source", "flag", "status", "size", "pe"]
    signature = {name: "i64" for name in names[:5]} | {"size": "i32", "pe": "i32"}
    kernel = triton.compile(
        ASTSource(exchange, signature=signature), target=GPUTarget("cuda", 90, 32),
        options={"extern_libs": {"weft": sys.argv[1]}},
    )
    if ".extern .func weft" in kernel.asm["ptx"] or "weft_dev_state" in kernel.asm["ptx"]:
        sys.exit("the operations are not linked")
    print(f"{len(kernel.asm['cubin'])} bytes of code")
