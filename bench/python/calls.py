# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs next to the same call from C: put, get, p and g of 8 bytes to this
PE's own memory and to another PE on this machine, in ns, by the median of 11 rounds.

    python -m weft run -n 2 bench/python/calls.py

C's figures come from `weft bench put,get,p,g --sizes 8`, over the same path.
"""

import ctypes
import statistics
import time
import timeit

import weft

job = weft.init()
x, y = job.zeros(1, "u8"), job.zeros(1, "u8")
rows = job.zeros((100000, 1), "u8")
source = job.zeros((100000, 1), "u8")
to = [1 % job.size] * 100000


def median_ns(statement, calls=20000):
    timer = timeit.Timer(statement, globals=globals())
    return statistics.median(timer.repeat(11, calls)) / calls * 1e9


if job.rank == 0:
    other = 1 % job.size
    labs = ctypes.CDLL(None).labs
    labs.argtypes, labs.restype = [ctypes.c_long], ctypes.c_long
    handle, address = job._handle_ctx, x.address
    put = weft._library.calls.put
    lines = [("a function of C by ctypes, one argument", "labs(5)"),
             ("weft_put by ctypes, addresses at hand", "put(handle, address, address, 8, other)"),
             ("job.put", "job.put(y, x, to=other)"), ("job.get", "job.get(y, x, of=other)"),
             ("job.p", "job.p(y, 7, to=other)"), ("job.g", "job.g(y, of=other)")]
    for words, statement in lines:
        print(f"{words:42} {median_ns(statement):8.0f} ns")
    import numpy

    pes = numpy.full(100000, other, "i4")
    seconds = []
    for _ in range(11):
        begun = time.perf_counter()
        job.put_many(rows, source, to=pes)
        seconds.append(time.perf_counter() - begun)
    print(f"{'job.put_many of 100000 rows, each':42} {statistics.median(seconds) * 1e4:8.0f} ns")
job.barrier()
