# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory with torch's names: weft.torch.symm with any torch, and Weft as a backend of
torch's own symmetric memory where the adapter can be compiled. CPU tensors."""

import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time

import pytest

import weft

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

import weft.torch  # noqa: E402
from weft.torch import _window, symm  # noqa: E402

SIZES = [1, pytest.param(2, marks=pytest.mark.long), 3,
         pytest.param(4, marks=pytest.mark.long)]
PAD = _window.pad_bytes()


def at_ranks(size, tmp_path, body, *arguments, backend="weft"):
    """Runs body(rank, size) in processes that have made the group."""
    store = tmp_path / f"store{random.random()}"

    def at_pe(job):
        torch.set_num_threads(1)
        dist.init_process_group(backend, init_method=f"file://{store}", rank=job.rank,
                                world_size=size)
        result = body(job.rank, size, *arguments)
        dist.barrier()
        return result

    return weft.spawn(at_pe, size)


def wait_for(path):
    """Waits until another rank has made the file."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def pattern(rank, count, seed=0):
    made = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(-100, 100, (count,), generator=made)


@contextlib.contextmanager
def raises(kind, *words):
    """As pytest.raises(); the message has all the words."""
    with pytest.raises(kind) as caught:
        yield
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))


# ---------------------------------------------------------------------------------- properties


def properties(rank, size):
    x = symm.empty(6, 7, dtype=torch.float64, device="cpu")
    assert x.shape == (6, 7) and x.dtype == torch.float64 and x.is_contiguous()
    assert symm.empty((6, 7), device="cpu").dtype == torch.get_default_dtype()
    assert symm.empty([], device="cpu").shape == ()
    handle = symm.rendezvous(x)
    assert (handle.rank, handle.world_size) == (rank, size)
    assert handle.global_ranks == list(range(size))
    assert handle.device == x.device == torch.device("cpu")
    assert (handle.buffer_size, handle.signal_pad_size, handle.offset) == (6 * 7 * 8, PAD, 0)
    assert (handle.multicast_ptr, handle.has_multicast_support()) == (0, False)
    assert handle.world_within_direct_access is True
    assert len(handle.buffer_ptrs) == size and handle.buffer_ptrs[rank] == x.data_ptr()
    # The memory that the addresses name is that of each rank.
    x.view(-1)[41] = rank + 0.5
    handle.get_signal_pad(rank)[3] = 10 + rank
    handle.barrier()
    for peer in range(size):
        at = handle.buffer_ptrs[peer]
        assert ctypes.c_double.from_address(at + 41 * 8).value == peer + 0.5
        assert ctypes.c_uint32.from_address(handle.signal_pad_ptrs[peer] + 12).value == 10 + peer
        for table, row in ((handle.buffer_ptrs_dev, handle.buffer_ptrs),
                           (handle.signal_pad_ptrs_dev, handle.signal_pad_ptrs)):
            assert ctypes.c_uint64.from_address(table + 8 * peer).value == row[peer]
    handle.barrier()
    # Ranks make different allocations, and meet in the same ones.
    mine = [symm.empty(1000 * (rank + 1), device="cpu") for _ in range(rank + 1)]
    y = symm.empty(5, dtype=torch.int64, device="cpu")
    other = symm.rendezvous(y, dist.group.WORLD)
    y.fill_(rank)
    other.barrier()
    got = [other.get_buffer(peer, y.shape, y.dtype).tolist() for peer in range(size)]
    assert got == [[peer] * 5 for peer in range(size)]
    other.barrier()
    assert len(mine) == rank + 1
    assert "world_size=" + str(size) in repr(other)


@pytest.mark.parametrize("size", SIZES)
def test_properties(tmp_path, size):
    at_ranks(size, tmp_path, properties)


def test_other_backend(tmp_path):
    """The default group may have any backend."""
    at_ranks(2, tmp_path, properties, backend="gloo")


# --------------------------------------------------------------------------------------- views


def buffers(rank, size):
    names = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
             "float64", "bool", "complex64", "complex128"]
    count = 60
    x = symm.empty(count * 16, dtype=torch.uint8, device="cpu")
    handle = symm.rendezvous(x)
    for seed, name in enumerate(names):
        dtype = getattr(torch, name)
        # Each rank writes into every rank's buffer: its own part.
        for peer in range(size):
            part = handle.get_buffer(peer, (count // size,), dtype, rank * (count // size))
            part.copy_(pattern(rank, count // size, seed).to(dtype))
        handle.barrier(seed % 5)
        for peer in range(size):
            whole = handle.get_buffer(peer, (size, count // size), dtype)
            want = torch.stack([pattern(source, count // size, seed) for source in range(size)])
            assert torch.equal(whole, want.to(dtype)), (name, peer)
        handle.barrier(seed % 5)
    assert handle.get_buffer(0, (0, 3), torch.float32).shape == (0, 3)
    assert handle.get_buffer(0, [2, 2], torch.int32, storage_offset=4).storage_offset() == 0
    # A view of the tensor has the same handle; the counterpart begins with the buffer.
    assert symm.rendezvous(x[16:]).buffer_ptrs == handle.buffer_ptrs
    x.fill_(rank + 1)
    handle.barrier()
    for peer in range(size):
        assert (handle.get_remote_tensor(peer, (4, 4), torch.uint8) == peer + 1).all()
    # Pads: zero at first, apart from buffer and signals.
    handle.barrier()
    x.fill_(0xFF)
    pad = handle.get_signal_pad(rank)
    assert pad.numel() * pad.element_size() == PAD and pad.dtype == getattr(torch, "uint32",
                                                                            torch.int32)
    assert not pad.to(torch.int64).any()
    assert handle.get_signal_pad(0, dtype=torch.uint8).shape == (PAD,)
    assert handle.get_signal_pad(0, dtype=torch.int64, storage_offset=2).shape == (PAD // 8 - 2,)
    handle.barrier()
    for peer in range(size):
        part = handle.get_signal_pad(peer, (3,), torch.int32, storage_offset=3 * rank)
        part.copy_(torch.tensor([rank, peer, 7]))
    handle.barrier()
    want = [[source, rank, 7] for source in range(size)]
    assert handle.get_signal_pad(rank, (size, 3), torch.int32).tolist() == want
    assert (x == 0xFF).all()


@pytest.mark.parametrize("size", SIZES)
def test_buffers(tmp_path, size):
    at_ranks(size, tmp_path, buffers)


def copies(rank, size, path):
    """put() and get(). path: by which the peers are reached, or None for load and store."""
    x = symm.empty(size, 1000, dtype=torch.int64, device="cpu")
    handle = symm.rendezvous(x)
    assert handle.world_within_direct_access is (path is None or size == 1)
    for turn in range(3):
        for peer in range(size):
            handle.put(peer, pattern(rank, 1000, turn), storage_offset=1000 * rank)
        handle.barrier()
        want = torch.stack([pattern(source, 1000, turn) for source in range(size)])
        assert torch.equal(x, want)
        for peer in range(size):
            got = torch.zeros(10, 100, dtype=torch.int64)
            handle.get(peer, got, storage_offset=1000 * peer)
            assert torch.equal(got.view(-1), want[peer])
        handle.barrier()
    # A signal arrives, also when its sender makes no call of Weft's for this memory any more.
    if rank == 0:
        handle.put_signal(size - 1, channel=1)
        dist.barrier()
    if rank == size - 1:
        handle.wait_signal(0, channel=1, timeout_ms=10000)
    if rank:
        dist.barrier()
    # A signal is not visible before the data.
    for turn in range(20):
        handle.put((rank + 1) % size, torch.full((1000,), turn), storage_offset=0)
        handle.put_signal((rank + 1) % size, channel=1)
        handle.wait_signal((rank - 1) % size, channel=1)
        assert (x[0] == turn).all()
        handle.put_signal((rank - 1) % size, channel=2)
        handle.wait_signal((rank + 1) % size, channel=2)
    if path:
        other = (rank + 1) % size
        assert handle.buffer_ptrs[other] == handle.signal_pad_ptrs[other] == 0
        assert handle.buffer_ptrs[rank] == x.data_ptr()
        for view in (lambda: handle.get_buffer(other, (1,), torch.int64),
                     lambda: handle.get_remote_tensor(other, (1,), torch.int64),
                     lambda: handle.get_signal_pad(other)):
            with raises(weft.Unsupported, f"rank {other}'s", f"path {path}", "Use get() and put()"):
                view()
    handle.barrier()


@pytest.mark.parametrize("size", SIZES)
def test_copies(tmp_path, size):
    at_ranks(size, tmp_path, copies, None)


@pytest.mark.parametrize("path", ["net", "weak"])
def test_copies_without_addresses(tmp_path, monkeypatch, path):
    """weak: puts arrive late and in any order, as far as the interface permits it."""
    monkeypatch.setenv("WEFT_PATH", path)
    at_ranks(2, tmp_path, copies, path)


# ------------------------------------------------------------------------------------- signals


def channels(rank, size):
    x = symm.empty(size, dtype=torch.int64, device="cpu")
    handle = symm.rendezvous(x)
    last = PAD // (4 * size) - 1
    right, left = (rank + 1) % size, (rank - 1) % size
    # Signals of a channel do not end waits of another, nor those of barriers.
    handle.put_signal(right, channel=5)
    for channel in (0, 4, 6, last):
        with raises(weft.Timeout, f"channel {channel}", f"rank {left}"):
            handle.wait_signal(left, channel, timeout_ms=1)
    handle.barrier(5)
    handle.wait_signal(left, 5)
    # Counted, also ahead of the wait.
    for _ in range(10):
        handle.put_signal(right, last)
    handle.barrier(last)
    for _ in range(10):
        handle.wait_signal(left, last, timeout_ms=20000)
    with raises(weft.Timeout):
        handle.wait_signal(left, last, timeout_ms=1)
    # Each source has a signal of its own.
    for peer in range(size):
        handle.put_signal(peer, 7)
    for peer in reversed(range(size)):
        handle.wait_signal(peer, 7)
    # Barriers by two threads, each with a channel of its own; a rank that is late.
    seen = []

    def meet(channel):
        for turn in range(30):
            if turn % 10 == rank:
                time.sleep(0.002)
            x_of = handle.get_buffer(right, (size,), torch.int64)
            if channel == 3:
                x_of[rank] = turn
            handle.barrier(channel)
            if channel == 3:
                seen.append(int(x[left]) == turn)
            handle.barrier(channel, timeout_ms=30000)

    threads = [threading.Thread(target=meet, args=(channel,)) for channel in (3, last)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 30
    # All signals are zero again.
    place = handle._mine
    words = handle._allocation.address + place.signals
    handle.barrier()
    handle.barrier(1)
    at = [i for i in range(place.pad // 2) if ctypes.c_uint64.from_address(words + 8 * i).value]
    assert all(i % 2 == 0 and i // (2 * size) in (0, 1) for i in at), at
    handle.barrier()


@pytest.mark.parametrize("size", SIZES)
def test_channels(tmp_path, size):
    at_ranks(size, tmp_path, channels)


def time_outs(rank, size, waited):
    x = symm.empty(4, device="cpu")
    handle = symm.rendezvous(x)
    if rank == 0:
        for call, words in ((lambda: handle.barrier(3, timeout_ms=200), "barrier on channel 3"),
                            (lambda: handle.wait_signal(1, 2, timeout_ms=200),
                             "wait_signal on channel 2")):
            begun = time.monotonic()
            with raises(weft.Timeout, words, "rank 0 got no signal of rank 1") as _:
                call()
            assert time.monotonic() - begun >= 0.2
        waited.touch()
    else:
        wait_for(waited)
        handle.barrier(3, timeout_ms=60000)  # rank 0 has come before
    handle.barrier()


def test_time_outs(tmp_path):
    at_ranks(2, tmp_path, time_outs, tmp_path / "waited")


def wait_limit(rank, size, waited):
    handle = symm.rendezvous(symm.empty(4, device="cpu"))
    handle.barrier()
    if rank == 0:
        with raises(weft.Timeout, "wait_signal on channel 2", "rank 0 got no signal of rank 1"):
            handle.wait_signal(1, 2)
        with raises(weft.Timeout, "rendezvous of ranks 0, 1", "rank 1 did not come"):
            symm.rendezvous(symm.empty(4, device="cpu"))
        waited.touch()
        os._exit(7)
    wait_for(waited)
    os._exit(8)


def test_wait_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_WAIT_LIMIT", "2s")
    with pytest.raises(weft.PEsFailed, match="status 7"):
        at_ranks(2, tmp_path, wait_limit, tmp_path / "waited")


# -------------------------------------------------------------------------------------- groups


def groups(rank, size):
    x = symm.empty(8, dtype=torch.int64, device="cpu")
    whole = symm.rendezvous(x)
    for members in ([1, 3], [2, 0], [0, 1, 3]):
        group = dist.new_group(members)
        if rank not in members:
            with raises(weft.InvalidArgument, f"rank {rank} is not a member"):
                symm.rendezvous(x, group)
            continue
        # In a subgroup also memory that only its members have allocated.
        y = symm.empty(16, dtype=torch.int64, device="cpu")
        order = dist.get_process_group_ranks(group)
        for tensor in (x, y):
            handle = symm.rendezvous(tensor, group)
            assert handle.rank == order.index(rank) == dist.get_rank(group)
            assert handle.world_size == len(members) and handle.global_ranks == list(order)
            tensor.fill_(rank)
            handle.barrier()
            for peer, member in enumerate(order):
                assert (handle.get_buffer(peer, tensor.shape, tensor.dtype) == member).all()
            handle.put_signal((handle.rank + 1) % handle.world_size, 1)
            handle.wait_signal((handle.rank - 1) % handle.world_size, 1)
            handle.barrier()
    whole.barrier()


def test_groups(tmp_path):
    at_ranks(4, tmp_path, groups)


# ----------------------------------------------------------------------------------- lifetimes


def used():
    """Bytes of this rank's windows in allocations."""
    windows = _window._windows["cpu"]
    for window in windows:
        window._take_back()
    return sum(window.size - sum(free for _, free in window._space.places) for window in windows)


def lifetimes(rank, size):
    x = symm.empty(1000, dtype=torch.int64, device="cpu")
    handle = symm.rendezvous(x)
    x.fill_(rank)
    handle.barrier()
    one = used()
    peer = (rank + 1) % size
    part, theirs = x[5:7], handle.get_buffer(peer, (1000,), torch.int64)
    table = handle.buffer_ptrs_dev
    # A view, or a peer's memory, keeps all.
    del x, handle
    gc.collect()
    dist.barrier()
    assert used() == one and part.tolist() == [rank] * 2 and (theirs == peer).all()
    del part
    assert used() == one and (theirs == peer).all() and table
    dist.barrier()
    if rank == 0:
        del theirs
        assert used() == (one if size > 1 else 0)  # others have theirs
        dist.barrier()
    else:
        dist.barrier()
        del theirs
        used()
    dist.barrier()
    assert used() == 0
    # The handle alone keeps it; a tensor that met nobody is free at once.
    handle = symm.rendezvous(symm.empty(10, device="cpu"))
    handle.barrier()
    assert used() > 0
    del handle
    used()
    dist.barrier()
    assert used() == 0
    y = symm.empty(10, device="cpu")
    del y
    assert used() == 0


@pytest.mark.parametrize("size", SIZES)
def test_lifetimes(tmp_path, size):
    at_ranks(size, tmp_path, lifetimes)


def reuse(rank, size):
    """Memory is used again in a window that holds few tensors, and never while a peer reads it."""
    symm.reserve("1M", "cpu")
    kept = []
    for turn in range(40):
        x = symm.empty(30000, dtype=torch.int64, device="cpu")  # 240,000 bytes: at most three
        handle = symm.rendezvous(x)
        pad = handle.get_signal_pad(rank)
        assert not pad.to(torch.int64).any()
        pad[5] = 1
        x.fill_(100 * turn + rank)
        handle.barrier()
        kept.append((turn, handle.get_buffer((rank + 1) % size, (30000,), torch.int64)))
        if len(kept) > 1:
            then, theirs = kept.pop(0)
            assert (theirs == 100 * then + (rank + 1) % size).all()
    with raises(weft.OutOfMemory, "no 4000000 bytes", "reserve()"):
        symm.empty(4000000, dtype=torch.uint8, device="cpu")
    symm.reserve(8 << 20, "cpu")
    big = symm.empty(4000000, dtype=torch.uint8, device="cpu")
    big.fill_(rank)
    symm.rendezvous(big).barrier()
    assert (symm.rendezvous(big).get_buffer(0, (4000000,), torch.uint8) == 0).all()
    dist.barrier()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_reuse(tmp_path, size):
    at_ranks(size, tmp_path, reuse)


def windows(rank, size, path):
    """Tensors of one rendezvous in different windows: ranks have different free memory."""
    symm.reserve("1M", "cpu")
    symm.reserve("1M", "cpu")
    kept = [symm.empty(700000, dtype=torch.uint8, device="cpu")] if rank == 0 else []
    x = symm.empty(50000, dtype=torch.int64, device="cpu")
    handle = symm.rendezvous(x)
    assert [place.window for place in handle._places] == [1] + [0] * (size - 1)
    for turn in range(10):
        for peer in range(size):
            handle.put(peer, torch.full((10,), 10 * turn + rank), storage_offset=10 * rank)
        handle.barrier(turn)
        assert x[:10 * size].tolist() == [10 * turn + peer for peer in range(size)
                                          for _ in range(10)]
        if path is None:
            part = handle.get_buffer((rank + 1) % size, (1,), x.dtype, 40000)
            part.fill_(turn)
        handle.put_signal((rank + 1) % size)
        handle.wait_signal((rank - 1) % size)
        assert path or x[40000] == turn
        handle.barrier(turn)
    part = None
    del x, handle
    used()
    dist.barrier()
    assert used() == len(kept) * _window.Place(0, 0, 700000, PAD, 0).size
    dist.barrier()


@pytest.mark.parametrize("size, path", [(2, None), (3, None), (3, "weak"), (2, "net")])
def test_windows(tmp_path, monkeypatch, size, path):
    if path:
        monkeypatch.setenv("WEFT_PATH", path)
    at_ranks(size, tmp_path, windows, path)


# ----------------------------------------------------------------------------------- bad input


def bad_input(rank, size):
    with raises(weft.InvalidArgument, "device meta", "\"cpu\" or"):
        symm.empty(4, device="meta")
    with raises(weft.InvalidArgument, "negative"):
        symm.empty(-4, device="cpu")
    with raises(weft.NotSymmetric, "weft.torch.symm.empty()"):
        symm.rendezvous(torch.zeros(4))
    x = symm.empty(4, device="cpu")
    for group, word in ((5, "5 is no process group"), ("none", "'none'")):
        with raises(weft.InvalidArgument, word):
            symm.rendezvous(x, group)
    handle = symm.rendezvous(x)
    last = PAD // (4 * size) - 1
    for call, kind, words in (
            (lambda: handle.get_buffer(size, (1,), x.dtype), weft.InvalidArgument,
             [f"rank {size}", f"0 to {size - 1}"]),
            (lambda: handle.get_buffer(-1, (1,), x.dtype), weft.InvalidArgument, ["rank -1"]),
            (lambda: handle.get_buffer(0, (5,), x.dtype), weft.OutOfRange, ["0 to 20", "16 bytes"]),
            (lambda: handle.get_buffer(0, (1,), x.dtype, 4), weft.OutOfRange, ["16 to 20"]),
            (lambda: handle.get_buffer(0, (1,), x.dtype, -1), weft.OutOfRange, ["-4"]),
            (lambda: handle.get_buffer(0, (-1,), x.dtype), weft.InvalidArgument, ["negative"]),
            (lambda: handle.get_remote_tensor(0, (5,), x.dtype), weft.OutOfRange, ["buffer"]),
            (lambda: handle.get_signal_pad(0, (PAD + 1,), torch.uint8), weft.OutOfRange,
             ["signal pad"]),
            (lambda: handle.barrier(last + 1), weft.InvalidArgument,
             [f"channel {last + 1}", f"0 to {last}"]),
            (lambda: handle.barrier(-1), weft.InvalidArgument, ["channel -1"]),
            (lambda: handle.put_signal(0, -1), weft.InvalidArgument, ["channel -1"]),
            (lambda: handle.put_signal(size), weft.InvalidArgument, [f"rank {size}"]),
            (lambda: handle.wait_signal(-1), weft.InvalidArgument, ["rank -1"]),
            (lambda: handle.wait_signal(0, 0, -5), weft.InvalidArgument, ["timeout_ms -5"]),
            (lambda: handle.put(0, torch.zeros(5)), weft.OutOfRange, ["put", "0 to 20"]),
            (lambda: handle.get(0, torch.zeros(4), 1), weft.OutOfRange, ["get", "4 to 20"]),
            (lambda: handle.put(0, torch.zeros(4, 2).t()), weft.InvalidArgument, ["contiguous"])):
        with raises(kind, *words):
            call()
    if size == 1:
        return
    other = symm.empty(10 + rank, dtype=torch.uint8, device="cpu")
    with raises(weft.Mismatch, "10 bytes", "11 bytes", "same size"):
        symm.rendezvous(other)
    # The next one is right again.
    symm.rendezvous(symm.empty(3, device="cpu")).barrier()


@pytest.mark.parametrize("size", [1, 2])
def test_bad_input(tmp_path, size):
    at_ranks(size, tmp_path, bad_input)


def test_needs_a_group():
    def at_pe(job):
        with raises(weft.InvalidArgument, "init_process_group()"):
            symm.empty(4, device="cpu")

    weft.spawn(at_pe, 1)


def another_group(rank, size, store):
    x = symm.empty(4, device="cpu")
    symm.rendezvous(x)
    dist.destroy_process_group()
    dist.init_process_group("weft", init_method=f"file://{store}", rank=rank, world_size=size)
    with raises(weft.NotSymmetric, "destroyed"):
        symm.rendezvous(x)
    y = symm.empty(4, device="cpu")
    y.fill_(rank)
    handle = symm.rendezvous(y)
    handle.barrier()
    assert (handle.get_buffer(1 - rank, (4,), y.dtype) == 1 - rank).all()


def test_another_default_group(tmp_path):
    at_ranks(2, tmp_path, another_group, tmp_path / "another")


# --------------------------------------------------------------------------------- a dead peer


def test_killed_peer(tmp_path):
    def at_pe(job, calls):
        dist.init_process_group("gloo", init_method=f"file://{tmp_path / calls}", rank=job.rank,
                                world_size=2)
        x = symm.empty(4, device="cpu")
        handle = symm.rendezvous(x)
        handle.barrier()
        if job.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(weft.PeerDead) as caught:
            if calls == "barrier":
                handle.barrier()
            elif calls == "wait":
                handle.wait_signal(1)
            elif calls == "wait with a limit":
                handle.wait_signal(1, timeout_ms=20000)
            else:
                symm.rendezvous(symm.empty(4, device="cpu"))
        assert caught.value.pe == 1 and time.monotonic() - begun < 10
        os._exit(7)

    for calls in ("barrier", "wait", "wait with a limit", "rendezvous"):
        with pytest.raises(weft.PEsFailed) as caught:
            weft.spawn(at_pe, 2, calls)
        assert "status 7" in str(caught.value.failures[0]), caught.value
        assert "signal 9" in str(caught.value.failures[1])


# --------------------------------------------------------- GPU memory, on the driver's stand-in


def on_stand_in(rank, size):
    """What needs no kernel of torch: windows, addresses, copies and signals on a stream."""
    driver = ctypes.CDLL("libcuda.so.1")
    torch.cuda.synchronize = lambda *_: driver.cuStreamSynchronize(None)
    symm.stream_of = lambda *_: 0
    window = _window.Window("cuda", 2 << 20, _window._windows.setdefault("cuda", []), 0)
    device = type("Device", (), {"type": "cuda", "index": None})
    kept = [_window.allocate(device, 1000) for _ in range(rank)]
    mine = _window.allocate(device, 4000)
    handle = symm._rendezvous(mine.address, None)
    assert handle.device.type == "cuda" and handle.buffer_ptrs[rank] == mine.address
    assert handle.world_within_direct_access and len(set(handle.buffer_ptrs)) == size
    right, left = (rank + 1) % size, (rank - 1) % size
    job, got = window.job, (ctypes.c_int * 1000)()

    def read(address, words):
        assert driver.cuStreamSynchronize(None) == 0
        weft._library.check(weft._library.calls.copy_from(
            job._handle, ctypes.addressof(words), address, ctypes.sizeof(words)))
        return list(words)

    source = job.zeros(1000, "i4", kind="gpu")
    for turn in range(20):
        source.fill_from(100 * turn + rank)
        weft._library.check(weft._library.calls.put_on_stream(
            handle._ctx, window.base + handle._places[right].offset, source.address, 4000, right,
            0))
        handle.put_signal(right, 2)
        handle.wait_signal(left, 2)
        assert read(mine.address, got) == [100 * turn + left] * 1000
        handle.barrier(turn % 3)
    dist.barrier()
    signals = (ctypes.c_uint64 * (mine.place.pad // 2))()
    assert not any(read(mine.address + mine.place.signals, signals))
    with raises(weft.Unsupported, "timeout_ms 5", "WEFT_WAIT_LIMIT"):
        handle.barrier(0, 5)
    # The window holds 20 such tensors.
    dist.barrier()
    del handle, mine, kept
    pad = (ctypes.c_uint64 * (PAD // 8))()
    for _ in range(60):
        mine = _window.allocate(device, 60000)
        handle = symm._rendezvous(mine.address, None)
        handle.barrier()
        assert not any(read(mine.address + mine.place.pad_offset, pad))
        assert driver.cuMemsetD8Async(ctypes.c_uint64(mine.address), 255, 60000, None) == 0
        handle.barrier()
    assert driver.cuStreamSynchronize(None) == 0


@pytest.mark.parametrize("size", [1, 3])
def test_gpu_stand_in(tmp_path, size):
    try:
        stand_in = hasattr(ctypes.CDLL("libcuda.so.1"), "fake_cuda_live")
    except OSError:
        stand_in = False
    if not stand_in:
        pytest.skip("no stand-in of the CUDA driver: LD_LIBRARY_PATH=build/fakecuda has it")
    at_ranks(size, tmp_path, on_stand_in)


# ------------------------------------------------------------------- torch's own symmetric memory


def why_no_adapter():
    """Returns why the adapter cannot be compiled here, or None."""
    from weft.torch import _adapter

    if _adapter.version() < (2, 11):
        return f"torch {torch.__version__} is before 2.11"
    try:
        # ninja of this environment.
        os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
        _adapter.compile_adapter()
    except weft.Unsupported as error:
        return str(error)[:300]
    return None


@pytest.fixture(scope="module")
def adapter():
    why = why_no_adapter()
    if why:
        pytest.skip(why)
    import torch.distributed._symmetric_memory  # noqa: F401  # once, not in each process


def test_register_refuses_old_torch(monkeypatch):
    from weft.torch import _adapter

    monkeypatch.setattr(_adapter, "version", lambda: (2, 10))
    with raises(weft.Unsupported, torch.__version__, "torch 2.11 or newer"):
        symm.register()


def torch_names(rank, size):
    import torch.distributed._symmetric_memory as symm_mem

    symm.register()
    symm.register()
    assert symm_mem.get_backend("cpu") == "WEFT"
    symm_mem.set_backend("WEFT")
    group = dist.group.WORLD
    x = symm_mem.empty(6, 7, dtype=torch.float64, device="cpu")
    handle = symm_mem.rendezvous(x, group)
    assert (handle.rank, handle.world_size, handle.device) == (rank, size, torch.device("cpu"))
    assert (handle.buffer_size, handle.signal_pad_size, handle.offset) == (336, PAD, 0)
    assert handle.multicast_ptr == 0 and handle.buffer_ptrs[rank] == x.data_ptr()
    assert not type(handle).has_multicast_support(torch._C._autograd.DeviceType.CPU, 0)
    for table, row in ((handle.buffer_ptrs_dev, handle.buffer_ptrs),
                       (handle.signal_pad_ptrs_dev, handle.signal_pad_ptrs)):
        assert [ctypes.c_uint64.from_address(table + 8 * i).value for i in range(size)] == row
    x.fill_(rank)
    handle.get_signal_pad(rank)[1] = 10 + rank
    handle.barrier()
    for peer in range(size):
        assert (handle.get_buffer(peer, x.shape, x.dtype) == peer).all()
        assert handle.get_buffer(peer, (2,), x.dtype, 40).tolist() == [peer] * 2
        assert (handle.get_remote_tensor(peer, x.shape, x.dtype) == peer).all()
        assert handle.get_signal_pad(peer, (1,), torch.int32, 1).item() == 10 + peer
    handle.barrier()
    right, left = (rank + 1) % size, (rank - 1) % size
    for turn in range(10):
        handle.get_buffer(right, (42,), x.dtype).fill_(turn)
        handle.put_signal(right, channel=2)
        handle.wait_signal(left, channel=2, timeout_ms=20000)
        assert (x == turn).all()
        handle.barrier(channel=turn)
    # The same tensor and group: the same handle, without a meeting.
    if rank == 0:
        assert symm_mem.rendezvous(x, group.group_name).buffer_ptrs == handle.buffer_ptrs
    with raises(weft.Timeout, "channel 3", f"rank {left}"):
        handle.wait_signal(left, 3, 50)
    with raises(weft.InvalidArgument, "channel -1"):
        handle.put_signal(0, -1)
    with raises(RuntimeError, "backend"):
        symm_mem.set_backend("another")
    with raises(weft.NotSymmetric, "symm.empty()"):
        symm_mem.rendezvous(torch.zeros(4), group)
    # weft.torch.symm takes the tensor, too.
    assert symm.rendezvous(x).buffer_ptrs == handle.buffer_ptrs
    handle.barrier()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_adapter_names(tmp_path, adapter, size):
    at_ranks(size, tmp_path, torch_names)


def operators(rank, size):
    import torch.distributed._symmetric_memory as symm_mem

    symm.register()
    name, ops = dist.group.WORLD.group_name, torch.ops.symm_mem
    for kind in ("float32", "bfloat16", "int64"):
        dtype = getattr(torch, kind)
        parts = [pattern(peer, 101).to(dtype) for peer in range(size)]
        want = sum(part.to(torch.float64) for part in parts).to(dtype)
        x = symm_mem.empty(101, dtype=dtype, device="cpu")
        x.copy_(parts[rank])
        assert torch.equal(ops.one_shot_all_reduce(x, "sum", name), want)
        out = torch.zeros_like(x)
        assert ops.one_shot_all_reduce_out(x, "sum", name, out).equal(want) and out.equal(want)
        assert torch.equal(x, parts[rank])
        assert torch.equal(ops.one_shot_all_reduce(x[5:9], "sum", name), want[5:9])
        small = parts[rank][:20].view(4, 5)
        assert torch.equal(ops.one_shot_all_reduce_copy(x, small, "sum", name),
                           want[:20].view(4, 5))
        out = torch.zeros_like(small)
        ops.one_shot_all_reduce_copy_out(x, small, "sum", name, out)
        assert torch.equal(out, want[:20].view(4, 5))
        assert ops.two_shot_all_reduce_(x, "sum", name) is x and torch.equal(x, want)
    handle = symm_mem.rendezvous(x, dist.group.WORLD)
    handle.barrier()
    words = handle.get_buffer((rank + 1) % size, (8,), torch.int32)
    ops.memset32_(words, 2, 2**32 - 1, 3)
    ops.stream_write_value32_(words, 6, 7 + rank)
    handle.barrier()
    assert x.view(torch.int32)[2:5].tolist() == [-1] * 3
    assert x.view(torch.int32)[6] == 7 + (rank - 1) % size
    with raises(weft.InvalidOperation, "'max'"):
        ops.one_shot_all_reduce(x, "max", name)


@pytest.mark.parametrize("size", [1, 3])
def test_adapter_operators(tmp_path, adapter, size):
    at_ranks(size, tmp_path, operators)


def torch_lifetimes(rank, size):
    import torch.distributed._symmetric_memory as symm_mem
    from torch._C._distributed_c10d import _SymmetricMemory

    symm.register()
    x = symm_mem.empty(1000, device="cpu")
    handle = symm_mem.rendezvous(x, dist.group.WORLD)
    handle.barrier()
    part = x[3:]
    del x, handle
    assert used() > 0 and part.numel() == 997
    del part
    used()
    dist.barrier()
    assert used() == 0
    # The handle keeps the memory of the tensor.
    handle = symm_mem.rendezvous(symm_mem.empty(10, device="cpu"), dist.group.WORLD)
    handle.get_buffer(rank, (10,), torch.float32).fill_(rank)
    handle.barrier()
    assert (handle.get_buffer(size - 1, (10,), torch.float32) == size - 1).all()
    handle.barrier()
    del handle
    used()
    dist.barrier()
    assert used() == 0
    # With the name of a group of some ranks, and an allocation that torch keeps.
    group = dist.new_group(sorted({0, size - 1}))
    if rank in (0, size - 1):
        for _ in range(2):
            y = _SymmetricMemory.empty_strided_p2p((4,), (1,), torch.int32, torch.device("cpu"),
                                                   group.group_name, 77)
            sub = _SymmetricMemory.rendezvous(y)
            assert sub.world_size == (2 if size > 1 else 1)
            y.fill_(rank)
            sub.barrier()
            assert (sub.get_buffer(sub.world_size - 1, (4,), torch.int32) == size - 1).all()
            sub.barrier()
            del y, sub
    # A tensor that lives until the end of the process.
    globals()["kept"] = symm_mem.empty(8, device="cpu")


@pytest.mark.parametrize("size", [1, 3])
def test_adapter_lifetimes(tmp_path, adapter, size):
    at_ranks(size, tmp_path, torch_lifetimes)


def test_adapter_end_of_process(tmp_path, adapter):
    """Tensors and handles that live until the end of a process do not disturb it."""
    import subprocess

    program = """
import sys, torch, torch.distributed as dist, torch.distributed._symmetric_memory as symm_mem
import weft.torch.symm as symm
symm.register()
dist.init_process_group("weft", init_method=sys.argv[1], rank=0, world_size=1)
x, y = symm_mem.empty(4, device="cpu"), symm.empty(4, device="cpu")
handles = symm_mem.rendezvous(x, dist.group.WORLD), symm.rendezvous(y)
handles[0].barrier()
print("end", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program, f"file://{tmp_path / 'store'}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip().endswith("end"), done.stdout
