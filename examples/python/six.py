# SPDX-License-Identifier: Apache-2.0
# python -m weft run -n 4 examples/python/six.py
import weft

job = weft.init()
x, y = job.full(4, job.rank, dtype="f4"), job.zeros(4, dtype="f4")   # the same arrays at every PE
job.put(y, x, to=(job.rank + 1) % job.size)                          # my x into the next PE's y
job.barrier()
print(f"{job.rank} {y.tolist()}\n", end="")
