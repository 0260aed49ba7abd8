#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_port.sh PROGRAM...: runs PROGRAM as a PE of one guest with two ports; PEs use the ports
# alternately. VM_PORTS: the interfaces by their libfabric names.
set -f
number=${WEFT_PE:-0}
first=${VM_PORTS%% *} second=${VM_PORTS#* }
[ $((number % 2)) = 0 ] && WEFT_FABRIC_INTERFACE=$first || WEFT_FABRIC_INTERFACE=$second
export WEFT_FABRIC_INTERFACE
exec "$@"
