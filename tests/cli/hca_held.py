#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of software adapters that others hold (finding A23).

   hca_held.py WEFT

As this user: an answer with escape sequences is printed without them, and one that comes a byte at a time ends after two
seconds. As root: names that user 65534 holds are passed over, with a word.
"""
import json
import os
import socket
import subprocess
import sys
import threading
import time

weft = sys.argv[1]
failed = []


def check(good, what):
    if not good:
        failed.append(what)
        print("FAILED:", what)


def listen(uid, first):
    """A socket with the name of an adapter of that user, with a LID that is free from `first` on."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for lid in range(first, 4095):
        try:
            s.bind("\0weft-hca-%d-%d" % (uid, lid))
            s.listen(5)
            return s
        except OSError:
            continue
    sys.exit("no LID is free")


def serve(s, answer):
    def one(c):
        try:
            c.recv(100)
            answer(c)
        except OSError:
            pass
        c.close()

    def accept():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(c,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def run(*arguments):
    return subprocess.run([weft, "hca", *arguments], capture_output=True, timeout=60)


def hostile(c):
    c.send(json.dumps({
        "pid": 1, "program": "\x1b[2J\x1b]0;owned\x07evil", "device": "mlx5_soft0\u009b31m", "lid": 446,
        "link": "ib", "mode": "strict", "doorbells": 0, "requests": 0, "by_gpu": 0, "errors": 1,
        "queues": [{"qpn": 1, "type": "\x1b[1m", "state": "RTS", "peer": "\x1b[7m", "peer_qpn": 9}],
        "keys": [], "keys_in_all": 0, "log": ["\x1b[31mroot: run this", 7]}).encode())


def trickle(c):
    while True:
        c.send(b" ")
        time.sleep(0.2)


s = listen(os.getuid(), 3900)
serve(s, hostile)
for arguments in ([], ["--json"]):
    r = run(*arguments)
    out = r.stdout.decode()
    check("evil" in out and "root: run this" in out, "the answer is shown: %r" % out)
    check(not any(ord(x) < 32 and x != "\n" or 0x7f <= ord(x) < 0xa0 for x in out),
          "control characters are printed: %r" % out)
    check(not arguments or "\\u001b" not in out, "JSON has escape sequences: %r" % out)
s.shutdown(socket.SHUT_RDWR)  # accept() of the other thread ends, too
s.close()

s = listen(os.getuid(), 3900)
serve(s, trickle)
r = run()
check("did not answer" in r.stderr.decode(), "who does not answer is told: %r" % r.stderr)
s.shutdown(socket.SHUT_RDWR)
s.close()

if os.getuid() == 0:
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.setgid(65534)
        os.setuid(65534)
        s = listen(0, 3950)
        serve(s, hostile)
        os.write(ready[1], b"x")
        os.close(done[1])
        os.read(done[0], 1)
        os._exit(0)
    os.close(done[0])
    os.read(ready[0], 1)
    r = run()
    check("user 65534 holds the name" in r.stderr.decode(), "another user is told of: %r" % r.stderr)
    check(b"evil" not in r.stdout, "another user's answer is shown: %r" % r.stdout)
    os.close(done[1])
    os.waitpid(child, 0)
else:
    print("not as root: a name that another user holds is not tried")
sys.exit(1 if failed else 0)
