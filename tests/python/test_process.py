# SPDX-License-Identifier: Apache-2.0
"""Processes: how PEs start, fail and end, with nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import weft
from test_arrays import at_pes

SIX_LINES = """
import weft
job = weft.init()
x, y = job.full(4, job.rank, dtype="f4"), job.zeros(4, dtype="f4")
job.put(y, x, to=(job.rank + 1) % job.size)
job.barrier()
print(f"{job.rank} {y}\\n", end="")
"""


def run(text, n, tmp_path, expect=0, prefix="", limit=30):
    """Runs a program under `python -m weft run`. Returns its output and errors."""
    program = tmp_path / "program.py"
    program.write_text(prefix + text)
    command = [sys.executable, "-m", "weft", "run", "-n", str(n), str(program)]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    assert done.returncode == expect, done.stderr
    done.seconds = time.monotonic() - begun
    return done


def test_six_lines(tmp_path):
    done = run(SIX_LINES, 4, tmp_path)
    assert sorted(done.stdout.split("\n")[:-1]) == [
        f"{pe} [{' '.join([str((pe + 3) % 4) + '.'] * 4)}]" for pe in range(4)]


def test_six_lines_without_numpy(tmp_path):
    done = run(SIX_LINES, 3, tmp_path, prefix="import sys; sys.modules['numpy'] = None\n")
    assert sorted(done.stdout.split("\n")[:-1]) == [
        f"{pe} [{', '.join([str((pe + 2) % 3) + '.0'] * 4)}]" for pe in range(3)]


def test_alone_it_is_a_job_of_one(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SIX_LINES)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                          timeout=20)
    assert done.stdout == "0 [0. 0. 0. 0.]\n" and done.stderr == ""


def test_an_exception_ends_the_job(tmp_path):
    done = run("""
import weft
job = weft.init()
if job.rank == 1:
    raise ValueError("on purpose")
job.barrier()
""", 3, tmp_path, expect=1)
    assert "ValueError: on purpose" in done.stderr and done.seconds < 10
    assert "PE 1" in done.stderr


def test_kill_minus_nine_raises_peer_dead():
    def body(job):
        if job.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(weft.PeerDead, match="PE 1") as failure:
            job.barrier()
        assert failure.value.pe == 1 and failure.value.status == "WEFT_ERR_PEER_DEAD"
        return time.monotonic() - begun

    with pytest.raises(weft.PEsFailed, match="PE 1: ended by signal 9") as failure:
        weft.spawn(body, 3)
    assert list(failure.value.failures) == [1]


@at_pes(3)
def test_cancel_ends_the_waits_of_all(job):
    """No process ends."""
    job.check()
    if job.rank == 1:
        time.sleep(0.1)
        job.cancel("no data left")
    begun = time.monotonic()
    with pytest.raises(weft.JobFailed, match="PE 1 canceled the job: no data left"):
        job.barrier()
    with pytest.raises(weft.JobFailed, match="no data left"):
        job.check()
    with pytest.raises(weft.JobFailed, match="no data left"):
        job.finalize()
    assert time.monotonic() - begun < 5


@at_pes(1)
def test_interrupt_ends_a_wait(job):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    word = job.zeros(1, "u8")
    for call in (lambda: job.signal_wait(word, "==", 1), lambda: job.wait(word, ">", 0)):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call()
        assert time.monotonic() - begun < 5
    # A handler that raises nothing does not end the wait.
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: (seen.append(1), job.signal(word, to=0, value=1)))
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    assert job.signal_wait(word, "==", 1) == 1 and seen == [1]


def test_a_child_of_a_fork_is_no_pe():
    def body(job):
        x = job.zeros(3)
        pid = os.fork()
        if pid == 0:
            try:
                job.put(x, x, to=0)
            except weft.Finalized as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        job.barrier()

    weft.spawn(body, 2)


def test_a_forked_child_may_end_as_a_program(tmp_path):
    done = run("""
import os, weft
job = weft.init()
x = job.full(2, job.rank)
if os.fork() == 0:
    raise SystemExit(0)      # ends by the handlers at exit, which belong to the parent
os.wait()
job.barrier()
print("good\\n", end="")
""", 2, tmp_path)
    assert done.stdout == "good\n" * 2


def test_end_of_the_interpreter(tmp_path):
    # Arrays and cycles that are alive at the end, in modules, threads and frames.
    done = run("""
import threading, weft
job = weft.init()
kept = [job.zeros(10) for _ in range(5)]
cycle = {"x": kept[0][2:]}
cycle["me"] = cycle
threading.Thread(target=lambda: kept.append(kept[1][3:])).start()
job.barrier()
""", 2, tmp_path)
    assert done.stderr == ""


def test_finalize_and_init_again():
    def body(job):
        x = job.zeros(3)
        job.finalize()
        job.finalize()
        with pytest.raises((weft.Finalized, weft.InvalidArgument)):
            job.barrier()
        del x

    weft.spawn(body, 2)
    for _ in range(3):
        with weft.init() as job:
            assert job.size == 1 and job.zeros(2).tolist() == [0, 0]
            assert weft.init() is job


def test_local_pes():
    with weft.local(4) as pes:
        assert len(pes) == 4
        assert pes.run(lambda job: job.rank) == [0, 1, 2, 3]

        def body(job, factor):
            x, y = job.full(2, job.rank * factor), job.zeros(2)
            job.allreduce(y, x)
            return y.tolist()

        assert pes.run(body, 2.0) == [[12.0, 12.0]] * 4
        with pytest.raises(weft.PEsFailed) as failure:
            pes.run(lambda job: 1 // 0)
        assert sorted(failure.value.failures) == [0, 1, 2, 3]
        assert isinstance(failure.value.failures[2], ZeroDivisionError)
        assert pes.run(body, 1.0) == [[6.0, 6.0]] * 4


def test_a_local_pe_that_fails_ends_the_waits_of_the_others():
    pes = weft.local(3)

    def body(job):
        if job.rank == 2:
            raise ValueError("on purpose")
        job.barrier()

    begun = time.monotonic()
    with pytest.raises(weft.PEsFailed, match="on purpose") as failure:
        pes.run(body)
    assert time.monotonic() - begun < 5
    assert isinstance(failure.value.failures[0], weft.Interrupted)
    with pytest.raises(weft.InvalidArgument, match="make others"):
        pes.run(body)
    pes.close()


def test_local_pes_may_be_left_open(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import weft
pes, broken = weft.local(2), weft.local(2)
kept = pes.run(lambda job: (job, job.zeros(3)))
try:
    broken.run(lambda job: 1 // job.rank or job.barrier())
except weft.PEsFailed:
    print("good")
""")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 0 and done.stdout == "good\n" and done.stderr == ""


def test_spawn_reports_every_pe():
    assert weft.spawn(lambda job, a: (job.rank, a), 3, "x") == [(0, "x"), (1, "x"), (2, "x")]

    def body(job):
        if job.rank == 0:
            raise KeyError("k")
        if job.rank == 1:
            os._exit(5)
        job.barrier()

    with pytest.raises(weft.PEsFailed) as failure:
        weft.spawn(body, 3)
    assert sorted(failure.value.failures) == [0, 1, 2]
    assert isinstance(failure.value.failures[0], KeyError)
    assert "PE 1: exited with status 5" in str(failure.value)
    with pytest.raises(weft.InvalidArgument, match="1 to 4096"):
        weft.spawn(body, 0)


def test_no_process_outlives_the_caller_of_spawn(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import os, time, weft
def body(job):
    os.write(1, f"{os.getpid()}\\n".encode())
    job.barrier()
    time.sleep(60)
weft.spawn(body, 2)
""")
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.kill()
    process.wait()
    process.stdout.close()

    def is_alive(pid):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().split(")")[1].split()[0] != "Z"
        except OSError:
            return False

    for _ in range(100):
        if not any(is_alive(pid) for pid in pids):
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"{pids} are alive")


def test_the_command_is_found_on_path(tmp_path):
    from weft import _library

    package = tmp_path / "package/weft"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/weft").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "scripts/weft").chmod(0o755)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/weft").symlink_to(_library.tool())
    shutil.copytree(os.path.dirname(_library.__file__), package,
                    ignore=shutil.ignore_patterns("__pycache__", "bin", "lib"))
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "package"),
           "PATH": f"{tmp_path}/scripts:{tmp_path}/programs:{os.environ['PATH']}"}
    env.pop("LIBWEFT", None)
    done = subprocess.run([sys.executable, "-m", "weft", "version"], capture_output=True, text=True,
                          env=env)
    assert done.returncode == 0 and done.stdout.startswith("weft "), done.stderr


def test_wrong_library(tmp_path):
    text = "import weft\ntry:\n    weft.init()\nexcept weft.LibraryError as e:\n    print(e)\n"
    for library, words in [(str(tmp_path / "none.so"), "none.so"), ("libm.so.6", "weft_version")]:
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              env={**os.environ, "LIBWEFT": library})
        assert words in done.stdout, done.stderr
