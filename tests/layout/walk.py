# SPDX-License-Identifier: Apache-2.0
# Run by gdb (walk.sh): notes the functions of one list of docs/architecture.md in the order in which
# the program enters them between walk_begins() and walk_ends(). WALK has FUNCTION:FILE words; the
# functions go, one a line, to the file WALK_SEEN.
import os

import gdb

seen = None


class Mark(gdb.Breakpoint):
    def __init__(self, function):
        super().__init__(function)
        self.function = function

    def stop(self):
        global seen
        if self.function == "walk_begins":
            seen = []
        elif self.function == "walk_ends":
            with open(os.environ["WALK_SEEN"], "w") as to:
                to.write("".join(name + "\n" for name in seen))
        elif seen is not None:
            seen.append(self.function)
        return False


class Call(Mark):
    def __init__(self, function, file):
        gdb.Breakpoint.__init__(self, "-source %s -function %s" % (file, function))
        self.function = function


for setting in ("pagination off", "confirm off", "breakpoint pending off", "style enabled off",
                "print thread-events off", "startup-with-shell off"):
    gdb.execute("set " + setting)
gdb.execute("handle SIGUSR1 SIGUSR2 SIGTERM SIGCONT nostop noprint pass")
for word in os.environ["WALK"].split():
    function, file = word.split(":")
    try:
        Call(function, file)
    except gdb.error as error:
        print("%s: %s" % (function, error))
Mark("walk_begins")
Mark("walk_ends")
gdb.execute("run")
