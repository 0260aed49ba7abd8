#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: dev.sh SOURCE
# In a copy of ./dev, with a build folder of two small tests and an apt-get that only writes down what
# it is asked for: the help of each verb, whom ./dev asks before it installs, and `./dev check`.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/copy/tools" "$folder/bin"
cp -r "$1/dev" "$folder/copy/"
cp -r "$1/tools/dev" "$folder/copy/tools/"
cd "$folder/copy" || exit 1
unset CI
failures=0

# expect STATUS TEXT COMMAND...: the exit status, and text in what it prints.
expect() {
    local status=$1 text=$2 got
    shift 2
    "$@" >"$folder/out" 2>&1 </dev/null
    got=$?
    [ $got = "$status" ] && grep -qF -- "$text" "$folder/out" && return
    echo "$*: status $got, expected $status and \"$text\":"
    cat "$folder/out"
    failures=$((failures + 1))
}

# fails WORDS COMMAND...
fails() {
    local words=$1
    shift
    "$@" && return
    echo "$words"
    failures=$((failures + 1))
}

# Every group of packages that a verb names is there.
for group in $(bash -c '. tools/dev/verbs.sh; cut -s -d"|" -f2 <<<"$verbs"'); do
    fails "no packages_$group" grep -q "^packages_$group=['\"]" tools/dev/packages.sh
done
# One package is missing until apt-get is asked for it.
echo "missing_packages() { [ -e $folder/installed ] || echo toy-package; }" >>tools/dev/packages.sh

# Nothing is built, installed or logged by a help.
for tool in apt-get cmake ninja ctest sudo; do
    printf '#!/bin/sh\necho "$0 $*" >>%s/calls\n' "$folder" >"$folder/bin/$tool"
done
chmod +x "$folder"/bin/*
export PATH=$folder/bin:$PATH
verbs=$(bash -c '. tools/dev/verbs.sh; cut -d" " -f1 <<<"$verbs"')
fails "few verbs: $verbs" [ "$(wc -w <<<"$verbs")" -gt 20 ]
usage=$(./dev)
for verb in $verbs; do
    expect 0 "usage: ./dev $verb" ./dev "$verb" --help
    fails "./dev $verb is not in the usage" grep -qE "^  $verb( |$)" <<<"$usage"
done
expect 0 "usage: ./dev vm [short]" ./dev help vm
expect 0 "Packages to install first: toy-package" ./dev demo --pes 2 -h
expect 2 'no verb "demmo"' ./dev demmo --help
fails "a help has made build/" [ ! -e build ]
fails "a help has called: $(cat "$folder/calls" 2>/dev/null)" [ ! -e "$folder/calls" ]
fails "lines of the usage are too wide" [ -z "$(grep -E '.{101}| $' <<<"$usage")" ]

cat >"$folder/bin/apt-get" <<END
#!/bin/sh
echo "apt-get \$*" >>$folder/calls
touch $folder/installed
END
printf '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n' >"$folder/bin/sudo"
asked() {
    rm -f "$folder/installed" "$folder/calls"
    "$@"
}
asked expect 0 "installs with apt-get, as root: toy-package" ./dev build
fails "apt-get was asked for: $(cat "$folder/calls")" grep -q "install.*toy-package" "$folder/calls"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    # on_terminal ANSWER COMMAND
    on_terminal() {
        script -qec "$2" /dev/null <<<"$1"
    }
    asked expect 1 "Install with apt-get, as root: toy-package?" on_terminal n "./dev build"
    expect 1 "not installed: toy-package" on_terminal n "./dev build"
    fails "installed though the answer was no" [ ! -e "$folder/calls" ]
    asked expect 0 "as root: toy-package?" on_terminal y "./dev build"
    fails "not installed though the answer was yes" [ -e "$folder/installed" ]
    asked expect 0 "installs with apt-get, as root: toy-package" on_terminal n "./dev -y build"
    asked expect 0 "installs with apt-get, as root: toy-package" on_terminal n "CI=true ./dev build"
fi
rm "$folder"/bin/{cmake,ninja,ctest}

# ./dev check builds the program and the folder that the test names, and nothing else.
mkdir -p build/loaded
echo 'BUILD_TESTING:BOOL=ON' >build/CMakeCache.txt
cat >build/CTestTestfile.cmake <<END
add_test([=[toy.one]=] "$PWD/build/bin/one")
set_tests_properties([=[toy.one]=] PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=$PWD/build/loaded")
add_test([=[toy.none]=] "true")
add_test([=[toy.two.1]=] "$PWD/build/bin/two" "1")
add_test([=[toy.two.2]=] "$PWD/build/bin/two" "2")
add_test([=[toy.broken]=] "$PWD/build/bin/broken")
END
cat >build/build.ninja <<'END'
rule C_EXECUTABLE_LINKER__toy
  command = printf '#!/bin/sh\nexit $status\n' >$out && chmod +x $out
build bin/one: C_EXECUTABLE_LINKER__toy
  status = 0
build bin/two: C_EXECUTABLE_LINKER__toy
  status = 0
build bin/broken: C_EXECUTABLE_LINKER__toy
  status = 3
build loaded/libtoy.so: C_EXECUTABLE_LINKER__toy
  status = 0
build loaded: phony loaded/libtoy.so
build build.ninja: phony
END
mkdir build/bin
expect 0 "100% tests passed, 0 tests failed out of 1" ./dev check toy.one
fails "what the test loads was not built" [ -e build/loaded/libtoy.so ]
fails "what no test needs was built" [ ! -e build/bin/two ]
expect 0 "0 tests failed out of 2" ./dev check toy.two
expect 0 "0 tests failed out of 1" ./dev check toy.none
expect 8 "toy.broken (Failed)" ./dev check toy.broken
expect 2 'no test is called "toy.tow"; near: toy.' ./dev check toy.tow
expect 2 "takes the name of a test" ./dev check
[ $failures = 0 ]
