# SPDX-License-Identifier: Apache-2.0
"""Measures put, get, p and g of 8 bytes from Python, to this PE's own memory and to another PE on
this machine, in ns, by the median of 11 rounds.

    python -m weft run -n 2 bench/python/calls.py

C's figures come from `weft bench put,get,p,g --sizes 8`, over the same path. With a GPU and torch
also puts on a stream: the time of the call, which does not wait for the put.
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
try:
    on_gpu = job.zeros(2, "u8", kind="gpu")
except weft.Unsupported:
    on_gpu = None


def median_ns(statement, calls=20000):
    timer = timeit.Timer(statement, globals=globals())
    return statistics.median(timer.repeat(11, calls)) / calls * 1e9


def median_on_stream_ns(statement, calls=200):
    """As median_ns(); the stream is idle when a round begins."""
    timer = timeit.Timer(statement, setup="torch.cuda.synchronize()", globals=globals())
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
    if on_gpu is not None:
        import torch

        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
        put_on_stream, place, number = weft._library.calls.put_on_stream, on_gpu._address, \
            stream.cuda_stream
        by_number = "job.put(one, two, to=other, stream=number)"
        lines = [("weft_put_on_stream by ctypes",
                  "put_on_stream(handle, place, place + 8, 8, other, number)"),
                 ("job.put on a stream by number", by_number),
                 ("the same, and two slices",
                  by_number.replace("one, two", "on_gpu[:1], on_gpu[1:]")),
                 ("job.put on a torch.cuda.Stream", by_number.replace("number", "stream")),
                 ("job.put on stream \"torch\"", by_number.replace("number", "'torch'")),
                 ("job.quiet on a stream by number", "job.quiet(stream=number)")]
        one, two = on_gpu[:1], on_gpu[1:]
        for words, statement in lines:
            print(f"{words:42} {median_on_stream_ns(statement):8.0f} ns")
        torch.cuda.synchronize()
    import numpy

    pes = numpy.full(100000, other, "i4")
    seconds = []
    for _ in range(11):
        begun = time.perf_counter()
        job.put_many(rows, source, to=pes)
        seconds.append(time.perf_counter() - begun)
    print(f"{'job.put_many of 100000 rows, each':42} {statistics.median(seconds) * 1e4:8.0f} ns")
job.barrier()


def put_and_barrier():
    job.put(y, x, to=(job.rank + 1) % job.size)
    job.barrier()


# What a program does where another sends and receives (bench/compare/mpi4py_sendrecv.py).
times = timeit.repeat(put_and_barrier, repeat=11, number=20000)
if job.rank == 0:
    each = statistics.median(times) / 20000 * 1e9
    print(f"{'job.put and job.barrier, by all PEs':42} {each:8.0f} ns")
