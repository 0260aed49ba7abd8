# SPDX-License-Identifier: Apache-2.0
"""Files read into and written from arrays of any PE."""

import asyncio

import numpy as np
import pytest

import weft


def test_files(tmp_path):
    path = tmp_path / "data"

    def body(job):
        x, y = job.zeros(10001, "f4"), job.zeros(10001, "f4")
        x[...] = np.arange(10001) + job.rank
        if job.rank == 0:
            with job.open(path, "w+", checksum=True) as file:
                written = file.write(x, 3)
                assert written.done == 40004 and written.crc32c != 0
                assert file.size == 40007 and file.info()["backend"]
                # The other PE's array, read by this PE.
                assert file.read(y, 3, pe=1) == written
                assert file.write(x, 50000, pe=1).done == 40004
                file.sync()
                with pytest.raises(weft.OutOfRange):
                    file.read(np.zeros(100, "u1"), 90000)
                handle = file.write_nbi(x[:5], 0)
                assert handle.wait().done == 20

                async def read():
                    z = np.zeros(5, "f4")
                    assert (await file.read_nbi(z, 0)).done == 20
                    return z

                assert asyncio.run(read()).tolist() == x[:5].tolist()
                file.resize(7)
                assert file.size == 7
        job.barrier()
        if job.rank == 1:
            assert (y == np.arange(10001)).all()
        job.barrier()
        # Each PE's block in one file, and back to the other order of PEs.
        file = job.open(path, "w+") if job.rank == 0 else None
        job.write_file(file, x[:100], 8)
        job.read_file(file, y[:100], 8)
        assert (y[:100] == x[:100]).all()
        if file is not None:
            assert file.size == 8 + 800
            file.close()
            with pytest.raises(weft.InvalidArgument, match="closed"):
                file.read(y)
        for mode, words in [("rw", "mode 'rw'"), ("x", "exists"), ("r", "none")]:
            name = path if mode == "x" else tmp_path / "none"
            with pytest.raises((weft.InvalidArgument, weft.SystemRefused), match=words):
                job.open(name, mode)

    weft.spawn(body, 2)


def test_many_parts(tmp_path):
    path = tmp_path / "data"

    def body(job):
        x, y = job.zeros(100, "i4"), job.zeros(100, "i4")
        x[...] = np.arange(100) + 1000 * job.rank
        job.barrier()
        if job.rank == 0:
            with job.open(path, "w+", checksum=True) as file:
                written = file.write_many([(x[:10], 7), (x[50:53], 60, 1), (x[90:], 100, None)])
                assert [result.done for result in written] == [40, 12, 40]
                whole = file.write(x[:13], 200)
                tail = file.write(x[10:13], 240)
                assert whole.crc32c == \
                    weft.join_checksums(written[0].crc32c, tail.crc32c, 12)
                got = np.zeros(3, "i4")
                read = file.read_many([(y[20:30], 7, 1), (got, 60)])
                assert read == written[:1] + [written[1]]
                assert got.tolist() == [1050, 1051, 1052]
                handles = file.write_many_nbi([(got[:1], 300), (got[1:], 304)])
                assert [result.done for result in handles.wait()] == [4, 8] and handles.test()
                handle = file.read_nbi(got[:2], 304)
                handle.wait()
                assert handle.test() and file.test() and got[:2].tolist() == [1051, 1052]

                async def read_again():
                    there = [np.zeros(1, "i4") for _ in range(3)]
                    await file.read_many_nbi([(a, 300 + 4 * i) for i, a in enumerate(there)])
                    return [int(a[0]) for a in there]

                assert asyncio.run(read_again()) == [1050, 1051, 1052]
                assert file.read_many([]) == []
                with pytest.raises(weft.OutOfRange):
                    file.read_many([(got, 0), (got, 1000)])
                with pytest.raises(weft.InvalidPE, match="PE 2"):
                    file.read_many([(y, 0, 2)])
            with pytest.raises(weft.InvalidArgument, match="closed"):
                file.test()
        job.barrier()
        if job.rank == 1:
            assert y[20:30].tolist() == list(range(10)) and np.count_nonzero(y) == 9

    weft.spawn(body, 2)
