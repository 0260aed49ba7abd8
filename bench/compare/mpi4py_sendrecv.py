# SPDX-License-Identifier: Apache-2.0
"""Time of a Sendrecv() of four numbers by mpi4py, between two ranks that both call it, in us by the
median of 11 rounds: what a program of mpi4py does in place of a put and a barrier.

    mpirun -n 2 python3 bench/compare/mpi4py_sendrecv.py
"""

import statistics
import timeit

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = (comm.rank + 1) % comm.size
x, y = np.full(4, comm.rank, "f4"), np.zeros(4, "f4")
times = timeit.repeat(lambda: comm.Sendrecv(x, other, recvbuf=y, source=other), repeat=11,
                      number=20000)
assert (y == other).all()
if comm.rank == 0:
    print(f"Sendrecv of {x.nbytes} bytes: {statistics.median(times) / 20000 * 1e6:.2f} us")
