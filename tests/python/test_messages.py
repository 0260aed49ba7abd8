# SPDX-License-Identifier: Apache-2.0
"""Sends and receives between the members of a team, of host memory, and over the stand-in of the
CUDA driver where the dynamic linker finds it (LD_LIBRARY_PATH)."""

import ctypes

import numpy as np
import pytest

import weft
from test_arrays import at_pes


def raises(kind, text, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    assert text in str(caught.value), str(caught.value)


def bytes_of(sender, receiver, n):
    """What one member sends to another, of a size that depends on both."""
    return np.arange(n + 100 * sender + receiver, dtype="i4") + 1000 * sender + 7 * receiver


def exchange(messages, team, n, stream=None):
    """Every member sends two arrays to each one, itself included."""
    send, receive = [], []
    for other in range(team.size):
        for part in (n, 3 * n):
            send.append((bytes_of(team.rank, other, part), other))
            receive.insert(0 if part == n else 1,
                           (np.full_like(bytes_of(other, team.rank, part), -1), other))
    messages.exchange(send, receive, stream=stream)
    return send, receive


def check_received(team, n, receive):
    for array, member in receive:
        wanted = [bytes_of(member, team.rank, part) for part in (n, 3 * n)]
        assert any(len(one) == len(array) and (one == array).all() for one in wanted)


@at_pes(3)
def test_every_pair(job):
    with job.messages() as messages:
        assert repr(messages) == f"weft.Messages(room={8 << 20})"
        for n in (1, 5000, 40000):
            check_received(job, n, exchange(messages, job, n)[1])
        # On a stream the arrays are kept until it has passed the calls.
        kept = [exchange(messages, job, n, stream=0) for n in (10, 300)]
        messages.exchange([(b"", 0)], [])  # no message, but a wait for the stream
        check_received(job, 10, exchange(messages, job, 10)[1])
        check_received(job, 10, kept[0][1])
        check_received(job, 300, kept[1][1])


@at_pes(4)
def test_teams_in_another_order(job):
    team = job.split(3, -1, 4)
    assert team.rank == 3 - job.rank
    with team.messages("64K") as messages:
        check_received(team, 3000, exchange(messages, team, 3000)[1])
    odd, even = job.split(1, 2, 2), job.split(0, 2, 2)
    mine = odd or even
    with mine.messages(room=16384) as messages:
        got = bytearray(3)
        messages.exchange([(bytes([job.rank, 5, 6]), 1 - mine.rank)], [(got, 1 - mine.rank)])
        assert got == bytes([(job.rank + 2) % 4, 5, 6])


@at_pes(2)
def test_errors(job):
    messages = job.messages()
    x = np.zeros(8)
    raises(weft.InvalidPE, "message 0 has member 2; the team has 2", messages.exchange, [(x, 2)])
    raises(weft.InvalidPE, "message 1 has member -1", messages.exchange, [(x, 0)], [(x, -1)])
    raises(weft.InvalidPE, "member -1", messages.exchange, [(x, 2**40)])
    raises(weft.InvalidArgument, "not contiguous", messages.exchange, [(x[::2], 0)])
    raises(weft.InvalidArgument, "send has 7: give pairs", messages.exchange, [7])
    raises(weft.InvalidArgument, "receive has ", messages.exchange, [], [(x, "1")])
    raises(weft.InvalidArgument, "no memory that Weft can use", messages.exchange, [(None, 0)])
    raises(weft.InvalidArgument, "is no stream", messages.exchange, [(x, 0)], stream="mine")
    raises(weft.InvalidArgument, "65536 messages", messages.exchange, [(x, 0)] * 65536)
    raises(weft.InvalidArgument, "2 members need at least", job.messages, room=8191)
    raises(weft.Mismatch, "weft_messages_create: room is ", job.messages, room=8192 + job.rank)
    got = np.zeros(8)
    messages.exchange([(x + job.rank, 1 - job.rank)], [(got, 1 - job.rank)])
    assert (got == 1 - job.rank).all()  # nothing of the calls above was sent
    messages.destroy()
    raises(weft.InvalidArgument, "has been destroyed", messages.exchange)
    raises(weft.InvalidArgument, "has been destroyed", messages.destroy)


def test_absent_message(monkeypatch):
    """A PE waits for a message that is not sent, and the job ends."""
    monkeypatch.setenv("WEFT_WAIT_LIMIT", "300ms")

    def at_pe(job):
        messages = job.messages()
        if job.rank == 1:
            messages.exchange([], [(np.zeros(3), 0)])

    raises(Exception, "waited 0.", weft.spawn, at_pe, 2)


def test_gpu_memory():
    """Arrays of Weft on a GPU, on a stream of the driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no libcuda.so.1 here: LD_LIBRARY_PATH=build/fakecuda has the stand-in")
    weft.spawn(on_gpu, 3)


def on_gpu(job):
    cuda = ctypes.CDLL("libcuda.so.1")
    right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    x = [job.zeros(n, "i4", kind="gpu") for n in (3, 100000)]
    y = [job.zeros(n, "i4", kind="gpu") for n in (3, 100000)]
    stream = ctypes.c_void_p()
    with job.messages("1M") as messages:
        assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        for array in x:
            array[:] = job.rank + 5
        messages.exchange([(x[0], right), (x[1], right)], [(y[0], left), (y[1], left)],
                          stream=stream.value)
        assert cuda.cuStreamSynchronize(stream) == 0
        for array in y:
            assert array.tolist() == [left + 5] * len(array)
        raises(weft.InvalidArgument, "give stream=", messages.exchange, [(x[0], 0)])
        raises(weft.NotSymmetric, "which is memory that GPU", messages.exchange,
               [(np.zeros(4), right)], stream=stream.value)
