# SPDX-License-Identifier: Apache-2.0
"""Allocations leave no memory and no reference cycle. PYTHON_TEST_ALLOCATIONS: their number, 20000;
the long form has a million."""

import gc
import os

import numpy as np

import weft
from test_arrays import at_pes
from weft._array import RawArray
from weft._dtypes import dtype_of

COUNT = int(os.environ.get("PYTHON_TEST_ALLOCATIONS", "20000"))
# Over the whole run, whatever its length: the allocator of Python has pages that are partly used.
MOST_GROWTH_KB = 2048


def resident_kb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def check_no_growth(job, work):
    """Calls work(i) COUNT times, and looks at memory, blocks and objects after a tenth and at the
    end."""
    gc.collect()
    gc.disable()  # a cycle would stay
    for i in range(COUNT // 10):
        work(i)
    memory, objects = resident_kb(), len(gc.get_objects())
    for i in range(COUNT // 10, COUNT):
        work(i)
    grown = resident_kb() - memory
    assert grown < MOST_GROWTH_KB, f"{grown} KiB more after {COUNT} allocations"
    more = len(gc.get_objects()) - objects
    assert more < 1000, f"{more} more objects"
    assert len(job._blocks) < 1000 and len(job._released) < 1000
    gc.enable()


def check_no_cycle(work):
    """Calls work(i) some times: the collector finds no object that reference counts do not free."""
    work(0)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for i in range(10):
            work(i)
        gc.collect()
        assert [type(x) for x in gc.garbage] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@at_pes(1)
def test_arrays(job):
    kept = [None] * 7

    def work(i):
        x = job.empty(i % 50, "f4")
        x[...] = i
        kept[i % 7] = x[: i % 3]

    check_no_growth(job, work)


@at_pes(1)
def test_arrays_of_a_pool(job):
    pool, kept = job.pool("1M", kind="host"), [None] * 7

    def work(i):
        x = pool.empty(i % 50, "f4")
        x[...] = i
        kept[i % 7] = x[: i % 3]

    check_no_growth(job, work)
    assert len(pool._live) < 20 and pool.used < 20 * 512


@at_pes(1)
def test_nothing_has_reference_cycles(job):
    pool, path = job.pool("1M", kind="host"), "/dev/null"
    block = job.zeros(12)._block
    raw = RawArray(block, dtype_of("f8"), (4, 3), block.address)
    words, other = job.zeros(4, "u8"), np.zeros(4, "u8")

    def work(i):
        x, y = job.zeros(5), pool.zeros(5)
        for array in (x, y, x[1:], y[::2]):
            assert array.peer(0).shape == array.shape and array.tolist() is not None
        for view in (raw, raw[1:, ::2], raw.reshape(2, 6)):
            view[...] = np.arange(view.size).reshape(view.shape)
            assert view.numpy().tolist() == view.tolist() == np.from_dlpack(view).tolist()
            assert str(view) and repr(view)
        del array, view
        job.asarray([[1, 2], [3.5, i]])
        job.put(x, y, to=0)
        job.put_nbi(x, y, to=0).wait()
        job.p(x, 1.5, to=0, index=2)
        job.g(y, of=0)
        job.put_signal(x, y, words, to=0)
        job.atomic_nbi("fetch_add", words, 1, to=0, fetched=other[:1]).wait()
        job.wait(words[:1], ">", 0)
        job.allreduce(x, x)
        y.free()
        job.realloc(x, 9)
        with job.map(words) as mapping:
            mapping.numpy()[1] = 3
        with job.context() as context:
            context.quiet()
        team = job.split(0, 1, 1)
        team.barrier()
        team.destroy()
        for call in (lambda: job.put(x, other, to=5), lambda: pool.empty(1 << 30)):
            try:
                call()
            except weft.WeftError:
                pass
        if i == 5:
            try:
                job.open(path, "rw")
            except weft.InvalidArgument:
                pass

    check_no_cycle(work)


def test_jobs_have_no_reference_cycles():
    def work(_):
        with weft.init() as job:
            job.zeros(5)[2] = 4
            job.pool(4096, kind="host").zeros(3)

    check_no_cycle(work)
