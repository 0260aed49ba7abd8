# SPDX-License-Identifier: Apache-2.0
"""PEs that end or are interrupted at any point: the others learn which, and no process, file or
shared memory is left behind."""

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest

# Each runs up to the point at which PE 1 kills itself; the others then wait for it.
POINTS = {
    "before an allocation": "die(); job.zeros(10)",
    "in an allocation": "later(0.05); [job.zeros(10000) for _ in range(10**9)]",
    "after an allocation": "x = job.zeros(10); die(); job.barrier()",
    "in puts": "x = job.zeros(1000); later(0.05); [job.put(x, x, to=1) for _ in range(10**5)]; "
               "job.barrier(); die()",
    "in atomics": "x = job.zeros(1, 'i8'); later(0.05); "
                  "[job.atomic_fetch_add(x, 1, to=1) for _ in range(10**5)]; job.barrier(); die()",
    "in a wait": "x = job.zeros(1, 'u8'); later(0.2); job.signal_wait(x, '==', 1)",
    "in a barrier": "later(0.2); job.barrier() if me != 1 else pause()",
    "in collectives": "x = job.zeros(1000); later(0.05); [job.allreduce(x, x) for _ in "
                      "range(10**9)]",
    "in a pool": "p = job.pool('64K', kind='host'); later(0.1); "
                 "x = p.zeros(3) if me != 1 else pause(); job.allreduce(x, x)",
    "in a split of a team": "later(0.05); [job.split(0, 1, 3).destroy() for _ in range(10**9)]",
    "in a file": "f = job.open(path, 'w+'); x = job.zeros(10000); later(0.05); "
                 "[f.write(x) for _ in range(1000)]; job.barrier(); die()",
    "in finalize": "later(0.1); job.finalize() if me != 1 else pause(); sys.exit(5)",
}

PROGRAM = """
import os, signal, sys, threading, time
import weft
job = weft.init()
me, path = job.rank, sys.argv[1] + f".{job.rank}"
def die():
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
def later(s):
    if me == 1:
        threading.Timer(s, die).start()
def pause():
    time.sleep(60)
print("in", os.getpid(), flush=True)
try:
    %s
except weft.PeerDead as error:
    print("dead", error.pe, error.status, flush=True)
    os._exit(7)
"""


# Those of this process, below the kernel's ephemeral ports; PE 0 tries the next few of each.
PORTS = itertools.cycle(range(20000 + os.getpid() * 37 % 11000, 32000, 16))


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_none_left(processes, tmp_path):
    """The processes have ended, and left no file in shared memory (its names begin with their
    numbers) nor in the folder for temporary files. Segments have no name and end with them."""
    assert not any(is_alive(process.pid) for process in processes)
    names = tuple(f"{process.pid}:" for process in processes)
    assert not [path for path in os.listdir("/dev/shm") if path.startswith(names)]
    assert {path.name for path in tmp_path.iterdir()} <= {
        "program.py", *(f"data.{pe}" for pe in range(len(processes)))}


def start_pes(text, n, tmp_path, *arguments):
    """Starts n PEs without a launcher that would end them all. Returns the processes."""
    program = tmp_path / "program.py"
    program.write_text(text)
    port = next(PORTS)
    return [subprocess.Popen(
        [sys.executable, str(program), str(tmp_path / "data"), *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RANK": str(pe), "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port), "TMPDIR": str(tmp_path)}) for pe in range(n)]


def finish(processes, limit=40):
    """Waits for processes. Returns the output and errors of each."""
    try:
        return [process.communicate(timeout=limit) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


# A point takes three interpreters. Those that end in the same wait of the library as others are
# left to ./dev long.
LONG = {"before an allocation", "after an allocation", "in puts", "in atomics", "in a pool",
        "in a split of a team"}


@pytest.mark.parametrize("point", [
    pytest.param(point, marks=pytest.mark.long) if point in LONG else point for point in POINTS])
def test_kill_minus_nine(point, tmp_path):
    processes = start_pes(PROGRAM % POINTS[point], 3, tmp_path)
    begun = time.monotonic()
    outputs = finish(processes)
    assert time.monotonic() - begun < 30
    assert processes[1].returncode == -signal.SIGKILL, outputs[1]
    for pe in (0, 2):
        out, err = outputs[pe]
        lines = [line for line in out.splitlines() if not line.startswith("in ")]
        if point == "in finalize":
            # finalize() of the others fails, too.
            assert "PE 1" in err or lines == ["dead 1 WEFT_ERR_PEER_DEAD"], (out, err)
            continue
        assert lines == ["dead 1 WEFT_ERR_PEER_DEAD"] and processes[pe].returncode == 7, (out, err)
    check_none_left(processes, tmp_path)


def test_kill_minus_nine_before_the_job_exists(tmp_path):
    text = """
import os, sys, time, weft
if os.environ["RANK"] == "1":
    time.sleep(0.3)
    os.kill(os.getpid(), 9)
try:
    weft.init()
except (weft.Timeout, weft.BootFailed, weft.PeerDead) as error:
    print(error)
    sys.exit(7)
"""
    os.environ["WEFT_BOOT_LIMIT"] = "2s"
    try:
        processes = start_pes(text, 2, tmp_path)
    finally:
        del os.environ["WEFT_BOOT_LIMIT"]
    outputs = finish(processes)
    assert processes[0].returncode == 7, outputs
    assert "1 of 1 members did not connect" in outputs[0][0]
    check_none_left(processes, tmp_path)


INTERRUPTED = """
import os, sys, time, weft
def say(words):
    os.write(1, f"{words}\\n".encode())  # in one piece
if os.environ.get("RANK", os.environ.get("WEFT_PE")) == sys.argv[2]:
    say(f"late {os.getpid()}")
    time.sleep(60)
say(f"in {os.getpid()}")
try:
    weft.init()
except KeyboardInterrupt:
    say("interrupted")
    os._exit(7)
"""


@pytest.mark.parametrize("late", ["0", "1"])
def test_interrupt_while_init_waits_for_pes(late, tmp_path):
    # Both roles: PE 0 waits for connections, PE 1 connects to it.
    processes = start_pes(INTERRUPTED, 2, tmp_path, late)
    waiting = processes[1 - int(late)]
    try:
        assert waiting.stdout.readline().startswith("in ")
        time.sleep(0.5)
        begun = time.monotonic()
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=20)
        assert time.monotonic() - begun < 10 and out == "interrupted\n" and err == ""
    finally:
        for process in processes:
            process.kill()
        finish(processes)


def test_interrupt_under_weft_run(tmp_path):
    # The launcher connects the PEs; one waits in an exchange for the other.
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    process = subprocess.Popen([sys.executable, "-m", "weft", "run", "-n", "2", str(program), "",
                                "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        pids = dict(process.stdout.readline().split() for _ in range(2))
        time.sleep(0.5)
        begun = time.monotonic()
        os.kill(int(pids["in"]), signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert "interrupted" in out and time.monotonic() - begun < 10, (out, err)
        assert not any(is_alive(int(pid)) for pid in pids.values())
    finally:
        process.terminate()
        process.communicate()


def test_sub_interpreters_are_refused(tmp_path):
    interpreters = pytest.importorskip("_xxsubinterpreters")
    try:
        made = interpreters.create(isolated=False)  # ctypes loads in no isolated one
    except TypeError:
        made = interpreters.create()  # before 3.9
    out = tmp_path / "out"
    interpreters.run_string(made, f"""
import sys
sys.path[:0] = {[path for path in sys.path if path]!r}
import weft
try:
    weft.init()
    words = "joined"
except weft.LibraryError as error:
    words = str(error)
with open({str(out)!r}, "w") as file:
    file.write(words)
""")
    interpreters.destroy(made)
    assert out.read_text() == (
        "weft works in the main interpreter of a process, and this is a sub-interpreter: its "
        "signals and callbacks would run in the other. Use weft in the main interpreter, or start "
        "processes by weft.spawn()")
