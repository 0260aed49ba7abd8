#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: wrappers.sh BIN
# oshcc and oshrun accept the options that build and job scripts for other libraries use.
set -u
bin=$1
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
status=0
fault() {
    echo "$*" >&2
    status=1
}

cat > "$made/tell.c" <<'PROGRAM'
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* One line by PE 0: number of PEs, the variable ASKED, arguments; then by all how many CPUs. */
int main(int argc, char **argv)
{
    shmem_init();
    static int sum, one = 1;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &sum, &one, 1);
    if (shmem_my_pe() == 0) {
        const char *asked = getenv("ASKED"), *more = getenv("MORE");
        printf("%d %d [%s] [%s]", sum, shmem_n_pes(), asked ? asked : "-", more ? more : "-");
        for (int i = 1; i < argc; i++)
            printf(" <%s>", argv[i]);
        printf("\n");
    }
    shmem_finalize();
    return 0;
}
PROGRAM

# --------------------------------------------------------------------------------------- oshcc
cc $("$bin/oshcc" --showme:compile) -c -o "$made/tell.o" "$made/tell.c" || fault "--showme:compile"
cc -o "$made/tell" "$made/tell.o" $("$bin/oshcc" --showme:link) || fault "--showme:link"
[ "$("$bin/oshrun" -np 1 "$made/tell")" = "1 1 [-] [-]" ] || fault "built with --showme"
source=$made/tell.c
for option in --showme -showme --show -show; do
    case $("$bin/oshcc" $option -O2 "a b.c") in
    cc*" -I"*" -O2 'a b.c' -L"*" -lweft") ;;
    *) fault "oshcc $option: $("$bin/oshcc" $option -O2 "a b.c")" ;;
    esac
    rm -f "$made/again"
    eval "$("$bin/oshcc" $option -o "$made/again" "$source")" && [ -x "$made/again" ] ||
        fault "what oshcc $option prints is no command that works"
    source=$made/tell.o # compiled once
done
case $("$bin/oshcc" -compile-info) in
"cc -I"*lweft*) fault "-compile-info names the library" ;;
"cc -I"*) ;;
*) fault "-compile-info: $("$bin/oshcc" -compile-info)" ;;
esac
case $("$bin/oshcc" -link-info) in
"cc -L"*" -lweft") ;;
*) fault "-link-info: $("$bin/oshcc" -link-info)" ;;
esac
[ "$("$bin/oshcc" --showme:command)" = cc ] || fault "--showme:command"
[ "$("$bin/oshc++" -showme:command)" = c++ ] || fault "oshc++ -showme:command"
[ "$("$bin/oshcc" --showme:libs)" = weft ] || fault "--showme:libs"
[ -f "$("$bin/oshcc" --showme:incdirs)/shmem.h" ] || fault "--showme:incdirs"
[ -f "$("$bin/oshcc" --showme:libdirs)/libweft.so" ] || fault "--showme:libdirs"
case $("$bin/oshcc" -static --showme:link) in
*libweft.a*) ;;
*) fault "-static --showme:link" ;;
esac
"$bin/oshcc" --showme:nothing >/dev/null 2>&1 && fault "--showme:nothing was taken"
"$bin/oshcc" -dumpversion >/dev/null 2>&1 || fault "-dumpversion"
"$bin/oshcc" -v >/dev/null 2>&1 || fault "-v"

# -------------------------------------------------------------------------------------- oshrun
# The output of PE 0, and exactly one line of the library on standard error if an option is ignored.
check() {
    wanted=$1 noted=$2
    shift 2
    got=$("$bin/oshrun" "$@" 2>"$made/notes")
    [ "$got" = "$wanted" ] || fault "oshrun $*: \"$got\", \"$wanted\" was wanted; $(cat "$made/notes")"
    if [ -z "$noted" ]; then
        [ ! -s "$made/notes" ] || fault "oshrun $*: a note too many: $(cat "$made/notes")"
        return
    fi
    [ "$(wc -l < "$made/notes")" -eq 1 ] && grep -q "passed over: $noted\$" "$made/notes" ||
        fault "oshrun $*: the note is \"$(cat "$made/notes")\", \"$noted\" was wanted"
}
unset ASKED MORE
for n in "-np 3" "-n 3" "--np 3" "-n3" "-np=3" "--pes=3" "-c 3" "-N 3" "-ppn 3" "-npernode 3"; do
    check "3 3 [-] [-]" "" $n "$made/tell"
done
check "2 2 [-] [-] <-np> <4> <--mca> <>" "" -np 2 "$made/tell" -np 4 --mca ""
check "2 2 [-] [-] <a b> <-x>" "" -np 2 -- "$made/tell" "a b" -x
check "2 2 [-] [-]" "" --oversubscribe --allow-run-as-root -np 2 "$made/tell"
check "2 2 [one two] [a=b]" "" -x "ASKED=one two" -np 2 -x MORE=a=b "$made/tell"
check "1 1 [5] [-]" "" -genv ASKED 5 -genvall -np 1 "$made/tell"
ASKED=here
export ASKED
check "2 2 [here] [-]" "" -x ASKED -np 2 "$made/tell"
unset ASKED
check "2 2 [-] [-] <x>" "--mca spml ucx, -mca pml ^ucx" --mca spml ucx -np 2 -mca pml ^ucx \
    "$made/tell" x
check "2 2 [-] [-]" "--map-by ppr:2:node, --hostfile /no/such" --map-by ppr:2:node -np 2 \
    --hostfile /no/such "$made/tell"
check "2 2 [-] [-]" "" -np 2 -host "localhost:4,$(uname -n)" --bind-to none "$made/tell"
check "2 2 [-] [-]" "-host elsewhere:2" -np 2 -host elsewhere:2 --bind-to core "$made/tell"
check "2 2 [-] [-]" "--bind-to socket" -np 2 --bind-to socket "$made/tell"
check "2 2 [-] [-]" "" -N 2 -np 2 --timeout 50 "$made/tell"
check "4 4 [-] [-]" "2 PEs on each host" -ppn 2 -n 4 --timeout=50s "$made/tell"
check "[0] 2 2 [-] [-]" "" -np 2 --tag-output "$made/tell"
check "1 1 [-] [-]" "" -np 1 -wdir "$made" ./tell
"$bin/oshrun" -np 2 --output-filename "$made/out" "$made/tell" || fault "--output-filename"
[ "$(cat "$made/out/pe.0.out")" = "2 2 [-] [-]" ] || fault "--output-filename: nothing is there"

for wrong in "" "-np" "-np 2" "-np 2 -x" "-np 2 --mca a" "-x 1a=b -np 2 $made/tell" "$made/tell" \
    "-np 2 --no-such-option $made/tell" "-np x $made/tell"; do
    "$bin/oshrun" $wrong >"$made/notes" 2>&1
    [ $? -eq 2 ] || fault "oshrun $wrong: exit status 2 was wanted: $(cat "$made/notes")"
done
# Finding E1: builds set these variables to the wrapper itself, by any name, or to a wrapper that
# calls it.
printf 'int main(void) { return 0; }\n' >"$made/empty.c"
cp "$made/empty.c" "$made/empty.cc"
printf '#!/bin/sh\nexec "%s/oshcc" "$@"\n' "$bin" >"$made/mine"
chmod +x "$made/mine"
ln -s "$bin/oshcc" "$made/oshcc"
for named in oshcc "$bin/oshcc" "$made/oshcc" "$made/mine" "oshcc -O1"; do
    PATH=$bin:$PATH OSHCC=$named timeout 20 "$bin/oshcc" -o "$made/empty" "$made/empty.c" >"$made/notes" 2>&1 ||
        fault "OSHCC=$named oshcc: status $?: $(cat "$made/notes")"
done
for named in oshc++ oshCC "$bin/oshcxx"; do
    PATH=$bin:$PATH OSHCXX=$named timeout 20 "$bin/oshc++" -o "$made/empty" "$made/empty.cc" >"$made/notes" 2>&1 ||
        fault "OSHCXX=$named oshc++: status $?: $(cat "$made/notes")"
done
[ "$(OSHCC=no-such-compiler "$bin/oshcc" --showme:command)" = no-such-compiler ] || fault "OSHCC names no other compiler"
exit $status
