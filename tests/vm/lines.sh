# SPDX-License-Identifier: Apache-2.0
# lines.sh CASE...: in a guest: cases of tests/hosts, whose hosts are network namespaces, over links
# that delay, lose and reorder packets. The guest's kernel has netem; many a machine's own kernel
# does not.
. tests/vm/guest.sh
modules veth bridge sch_netem
export RUN_LIMIT=300 HOSTS_JOBS=rma
for each in "$@"; do
    begin "hosts $each"
    timeout -k 5 400 bash tests/hosts/hosts.sh build "$each" >$out 2>&1 || fail "status $?"
    end
done
[ $bad = 0 ]
