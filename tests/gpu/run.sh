#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Weft without its optional packages and runs every test with GPU memory on the GPUs of this
# machine: one GPU shared by several PEs, then one PE for each GPU. Prints a table; exits with 1 if
# a row failed. Needs CMake, a C compiler, clang 18 or newer or nvcc, and an NVIDIA driver; a folder
# with bin/weft and no CMakeCache.txt, built elsewhere, needs the driver alone.
#   tests/gpu/run.sh [BUILD_FOLDER [GROUP ...]]
# Groups: memory coll coll_large stripes shared device device_shared proxy staged relay net gda
# gda_late gda_dc examples files mapped nccl faults figures; default: all.
set -u
cd "$(dirname "$0")/../.."
build=${1:-build-gpu}
[ $# -eq 0 ] || shift
groups=${*:-memory coll coll_large stripes shared device device_shared proxy staged relay net gda gda_late gda_dc examples files mapped nccl faults figures}
# A kernel of an earlier job would share the GPU with the next measurement.
trap 'trap - TERM INT; kill -- $(jobs -p) 2> /dev/null; exit 143' TERM INT
started=$SECONDS
unset CUDA_VISIBLE_DEVICES WEFT_GPU

gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
[ "$gpus" -gt 0 ] || { echo "there is no /dev/nvidia*: no GPU here"; exit 1; }
export PATH=$PATH:/usr/local/cuda/bin
generator=$(command -v ninja > /dev/null && echo "Ninja" || echo "Unix Makefiles")
mkdir -p "$build"
build=$(cd "$build" && pwd)
logs=${OUT:-$build}/gpu-logs
mkdir -p "$logs"
build_all() {
    cmake -S . -B "$build" -G "$generator" -DWEFT_REDUCED=ON -DWEFT_WERROR=OFF > "$logs/configure.log" 2>&1 &&
        cmake --build "$build" -j "$(nproc)" > "$logs/build.log" 2>&1
}
if [ ! -x "$build/bin/weft" ] || [ -e "$build/CMakeCache.txt" ]; then
    build_all || {
        tail -n 30 "$logs/configure.log" "$logs/build.log"
        echo "the build failed"
        exit 1
    }
fi
printf 'built in %d s; %d GPUs; driver %s\n' $((SECONDS - started)) "$gpus" \
    "$(grep -m1 -o '[0-9]\{3\}\.[0-9.]*[0-9]' /proc/driver/nvidia/version)"

export WEFT_HEAP_SIZE=64M WEFT_WAIT_LIMIT=20s WEFT_LOG=warn XDG_RUNTIME_DIR=$build
failures=0
# name of the row, PEs, limit in seconds, program and arguments; more environment in $extra. With
# $wanted the row passes if the log has that text, whatever the exit status.
extra=
wanted=
run() {
    local name=$1 pes=$2 limit=$3 begun status
    shift 3
    local log=$logs/$(echo "$name-$pes${extra:+-$extra}" | tr -c 'A-Za-z0-9.\n-' _).log
    begun=$(date +%s%N)
    env $extra timeout -k 5 "$limit" "$build/bin/weft" run -n "$pes" "$@" > "$log" 2>&1 &
    wait $!
    status=$?
    [ -z "$wanted" ] || { grep -q -- "$wanted" "$log" && status=0 || status=1; }
    case $status in
    0) word=good ;;
    77) word="skipped: $(tail -n 1 "$log" | cut -c1-90)" ;;
    124 | 137) word="FAILED: ran past $limit s" failures=$((failures + 1)) ;;
    *) word="FAILED ($status): $(grep -v '^$' "$log" | tail -n 2 | tr '\n' ' ' | cut -c1-300)"
       failures=$((failures + 1)) ;;
    esac
    printf '%-26s %2d PEs %-28s %6d ms  %s\n' "$name" "$pes" "$extra" \
        $((($(date +%s%N) - begun) / 1000000)) "$word"
}

# The same for a program that starts its processes itself.
run_alone() {
    local name=$1 begun status log
    shift
    log=$logs/$(echo "$name" | tr -c 'A-Za-z0-9.\n-' _).log
    begun=$(date +%s%N)
    env $extra LD_LIBRARY_PATH="$build/lib:${LD_LIBRARY_PATH:-}" timeout -k 5 "${limit:-60}" "$@" > "$log" 2>&1
    status=$?
    [ $status -eq 0 ] && word=good ||
        { word="FAILED ($status): $(tail -n 1 "$log" | cut -c1-200)" failures=$((failures + 1)); }
    printf '%-26s        %-28s %6d ms  %s\n' "$name" "$extra" \
        $((($(date +%s%N) - begun) / 1000000)) "$word"
}

# First shows whether GPU work is possible, with all messages of the library.
extra="WEFT_LOG=info WEFT_PROVE=always" run first 1 60 "$build/bin/job_gpu_atomic"
cat "$logs"/first-1*.log | head -n 5

litmus() { # label, PEs, cases: run in $extra
    local label=$1 pes=$2 case
    shift 2
    local program=${litmus_program:-device_litmus}
    [ -x "$build/bin/$program" ] || return
    for case; do
        run "$label litmus $case" "$pes" 30 "$build/bin/$program" "$case"
    done
}
programs() { # label, PEs, programs of tests/device: the CUDA half of each
    local label=$1 pes=$2 program limit
    shift 2
    for program; do
        # The atomics of PEs that share a GPU wait for its turns, and so do requests by DC.
        case $program in
        atomics | *_dc) limit=180 ;;
        *) limit=60 ;;
        esac
        [ -x "$build/bin/device_$program" ] &&
            run "$label $program" "$pes" $limit "$build/bin/device_$program"
    done
}

group_memory() { # operations of the host and of streams on GPU memory
    local pes program
    extra=WEFT_PROVE=always
    for pes in 1 $gpus; do
        for program in atomic heap signal collective rma stream register symmetric order messages; do
            [ -x "$build/bin/job_gpu_$program" ] &&
                run "$program" "$pes" 60 "$build/bin/job_gpu_$program"
        done
        extra="WEFT_TARGET=cuda WEFT_PROVE=always" run "operations of NVSHMEM" "$pes" 60 "$build/bin/job_nvshmem_operations"
        [ "$gpus" -eq 1 ] && break
    done
}
# Large copies over several routes: by default if that is faster, then forced over links that routes
# share, with the rate of a put compared with a single route.
group_stripes() {
    local ways program
    [ "$gpus" -gt 1 ] || return
    for ways in 0 1 2 4; do
        [ "$ways" -le 2 ] || [ "$gpus" -gt 2 ] || break
        extra="WEFT_TEST_STRIPES=$ways STRIPE_MIB=256"
        run "stripes" 2 90 "$build/bin/job_gpu_stripe" -
        grep "copies\|put of" "$logs/$(echo "stripes-2-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-150
        extra="WEFT_TEST_STRIPES=$ways"
        [ "$ways" -gt 1 ] || continue
        for program in rma signal order; do
            run "stripes $program" "$gpus" 90 "$build/bin/job_gpu_$program"
        done
    done
    # The route over host memory in addition to NVLink: as measured, disabled, and forced.
    for ways in "0 WEFT_STRIPE_HOST=256M" 0 "2 WEFT_STRIPE_HOST=256M"; do
        extra="WEFT_TEST_STRIPES=$ways STRIPE_MIB=1024"
        run "stripes" 2 120 "$build/bin/job_gpu_stripe" -
        grep "copies\|put of" "$logs/$(echo "stripes-2-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-150
    done
    [ "$gpus" -gt 2 ] || return
    extra="WEFT_PATH=relay WEFT_TEST_STRIPES=2 STRIPE_MIB=256"
    run "stripes" 2 90 "$build/bin/job_gpu_stripe" -
    grep "copies\|put of" "$logs/$(echo "stripes-2-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-150
}
group_shared() { # several PEs on one GPU
    extra="WEFT_GPU=0 WEFT_PROVE=always"
    run "atomic, one GPU" 2 60 "$build/bin/job_gpu_atomic"
    run "rma, one GPU" 2 90 "$build/bin/job_gpu_rma"
    run "signal, one GPU" 3 90 "$build/bin/job_gpu_signal"
    run "stream, one GPU" 2 60 "$build/bin/job_gpu_stream"
    extra="$extra WEFT_TARGET=cuda" run "operations of NVSHMEM" 2 60 "$build/bin/job_nvshmem_operations"
    [ "$gpus" -gt 1 ] || return
    extra="WEFT_GPU=0,1 WEFT_PROVE=always"
    run "two GPUs, four PEs" 4 90 "$build/bin/job_gpu_collective"
    run "two GPUs, four PEs" 4 90 "$build/bin/job_gpu_signal"
}
all_programs="experts rma atomics signal wait packet collective grid sized extremes own cached private runs"
all_litmus="message_passing put_signal packet barrier sync store_buffering allreduce slices exchange rooted"
group_device() { # the operations of device code, over the link, then by a GPU with itself
    extra="WEFT_TARGET=cuda WEFT_PROVE=cached"
    programs device "$gpus" $all_programs
    litmus device "$gpus" $all_litmus
    [ -x "$build/bin/device_units" ] &&
        run "device units" "$gpus" 60 "$build/bin/device_units" \
            "$(find "$build" -name 'libdevice_units_loaded.so' | head -n 1)"
    # One PE for each GPU, because two kernels that fill it do not fit. Each ends by itself after 3
    # s.
    extra="WEFT_TARGET=cuda WEFT_WAIT_LIMIT=6s"
    local pes
    for pes in 1 $gpus; do
        [ -x "$build/bin/device_resident" ] &&
            run "beside a resident kernel" "$pes" 20 "$build/bin/device_resident"
        [ "$gpus" -eq 1 ] && break
    done
    # A job for each function of the API, each of which sets up the GPU.
    extra="WEFT_TARGET=cuda WEFT_WAIT_LIMIT=20s"
    [ -x "$build/bin/device_seen" ] && run "device seen" 1 120 "$build/bin/device_seen"
}
# Kernels of two processes take turns of milliseconds on one GPU: few rounds.
group_device_shared() {
    extra="WEFT_TARGET=cuda WEFT_GPU=0 LITMUS_ROUNDS=200"
    programs device 2 rma atomics signal wait packet extremes
    litmus device 2 message_passing put_signal packet exchange
}
# Every operation through the proxy: the paths weak and slow have no addresses for kernels.
group_proxy() {
    if [ "$gpus" -gt 1 ]; then
        extra="WEFT_TARGET=cuda WEFT_PATH=weak LITMUS_ROUNDS=1000"
        programs proxy 2 $all_programs
        litmus proxy 2 message_passing put_signal packet barrier sync store_buffering
        extra="WEFT_TARGET=cuda WEFT_PATH=slow WEFT_TEST_SLOW=order=random,seed=5 WEFT_TEST_PROXY_SLOTS=64"
        programs proxy 2 rma atomics
    fi
    extra="WEFT_TARGET=cuda WEFT_PATH=weak WEFT_GPU=0 LITMUS_ROUNDS=50"
    programs proxy 2 rma atomics own private
    litmus proxy 2 message_passing put_signal
}
# Through host memory that both PEs map, by the host and by device code: two PEs on one GPU, and on
# two.
group_staged() {
    local program where
    for where in "WEFT_GPU=0" ""; do
        extra="WEFT_PATH=staged${where:+ $where}"
        for program in staged rma atomic signal collective heap stream register order graph_twice messages; do
            [ -x "$build/bin/job_gpu_$program" ] &&
                run "staged $program" 2 90 "$build/bin/job_gpu_$program"
        done
        extra="WEFT_TARGET=cuda LITMUS_ROUNDS=50 $extra"
        programs staged 2 rma signal
        # On one GPU each atomic waits for the owner's kernels to have their turn: thousands take
        # minutes.
        [ -n "$where" ] || programs staged 2 atomics
        litmus staged 2 message_passing put_signal
        [ "$gpus" -gt 1 ] || break
    done
}
# By a relay GPU; with only two GPUs by the peer's own, which pulls and pushes.
group_relay() {
    local program third=
    [ "$gpus" -gt 1 ] || return
    [ "$gpus" -eq 2 ] || third=2
    extra=WEFT_PATH=relay
    run "relay relay" 2 90 "$build/bin/job_gpu_relay" forced $third
    for program in rma atomic signal order stream collective heap register symmetric messages; do
        [ -x "$build/bin/job_gpu_$program" ] &&
            run "relay $program" "$gpus" 90 "$build/bin/job_gpu_$program"
    done
    extra="WEFT_PATH=relay"
    run "relay striped" 2 90 "$build/bin/job_gpu_rma"
    extra="WEFT_TARGET=cuda LITMUS_ROUNDS=50 WEFT_PATH=relay"
    programs relay 2 rma atomics signal
    litmus relay 2 message_passing put_signal
}
# GPU memory over libfabric, by a CPU through pinned memory: every byte compared, then the rates.
# For a libfabric elsewhere: PKG_CONFIG_PATH for the build, LD_LIBRARY_PATH to run.
group_net() {
    local provider program where= reason
    [ "$gpus" -gt 1 ] || where="WEFT_GPU=0 "
    reason=$(WEFT_PATH=net timeout 30 "$build/bin/weft" run -n 2 "$build/bin/job_gpu_atomic" 2>&1 |
        grep -m1 "libfabric")
    [ -z "$reason" ] || { echo "net: skipped: $reason" | cut -c1-200; return; }
    for provider in tcp shm; do
        extra="${where}WEFT_PATH=net WEFT_FABRIC_PROVIDER=$provider"
        run "net" 2 120 "$build/bin/job_gpu_net" moves
        for program in rma atomic signal collective heap stream register order messages; do
            run "net $program" 2 90 "$build/bin/job_gpu_$program"
        done
        extra="$extra WEFT_TEST_NET_SLOT_SIZE=64K WEFT_TEST_NET_SLOTS=3"
        run "net, small lots" 2 120 "$build/bin/job_gpu_net" moves
    done
    # Compared with one fragment at a time, and fragments of other sizes.
    for provider in tcp shm; do
        for lots in "1M WEFT_TEST_NET_SLOTS=8" "1M WEFT_TEST_NET_SLOTS=1" "256K WEFT_TEST_NET_SLOTS=8" "4M WEFT_TEST_NET_SLOTS=4"; do
            extra="${where}WEFT_PATH=net WEFT_FABRIC_PROVIDER=$provider WEFT_TEST_NET_SLOT_SIZE=$lots"
            bench "net bench" 2 "path\|PU to \|fetch"
        done
    done
}
# By requests of the GPU to the software adapter, whose thread accesses GPU memory through the
# driver.
group_gda() {
    local program queues
    [ "$gpus" -gt 1 ] || return
    [ -e "$build/lib/weft-hca/libibverbs.so.1" ] || { echo "gda: skipped: built without libibverbs-dev"; return; }
    export WEFT_HCA=soft SOFT_HCA_IDLE_US=20
    extra="WEFT_PATH=gda"
    for program in rma atomic signal order stream collective heap register symmetric; do
        [ -x "$build/bin/job_gpu_$program" ] &&
            run "gda $program" 2 60 "$build/bin/job_gpu_$program"
    done
    extra="WEFT_TARGET=cuda WEFT_PATH=gda LITMUS_ROUNDS=200"
    programs gda 2 rma atomics signal runs wait packet collective own private
    litmus gda 2 message_passing put_signal packet barrier sync
    # Queues in the GPU's memory, which a kernel of the adapter executes.
    extra="WEFT_TARGET=cuda WEFT_PATH=gda SOFT_HCA_ENGINE=gpu WEFT_TEST_GDA_QUEUE_MEMORY=gpu LITMUS_ROUNDS=2000"
    programs gda 2 rma atomics signal wait collective
    litmus gda 2 message_passing put_signal packet barrier
    programs gda 4 rma atomics # two PEs to a GPU take turns there, and so do their adapters' kernels
    extra="$extra WEFT_GDA_QUEUES=1"
    litmus gda 2 message_passing
    for queues in "SOFT_HCA_ENGINE=gpu WEFT_TEST_GDA_QUEUE_MEMORY=gpu" WEFT_TEST_GDA_QUEUE_MEMORY=host; do
        extra="WEFT_TARGET=cuda WEFT_PATH=gda $queues SOFT_HCA_DEVICES=2 WEFT_RAILS=2 LITMUS_ROUNDS=200"
        programs gda 2 rma atomics signal
        litmus gda 2 message_passing put_signal
    done
    extra="WEFT_PATH=gda SOFT_HCA_DEVICES=2 WEFT_RAILS=2"
    run "gda rma" 2 60 "$build/bin/job_gpu_rma"
    run "gda atomic" 2 60 "$build/bin/job_gpu_atomic"
    for queues in "WEFT_GDA_QUEUES=1 WEFT_TEST_GDA_DEPTH=128" WEFT_GDA_DOORBELL=cpu WEFT_TEST_GDA_INITIATOR=cpu; do
        extra="WEFT_TARGET=cuda WEFT_PATH=gda $queues"
        programs gda 2 rma signal
    done
    # Two nodes of two PEs: p2p within a node, gda between them, and all atomics by the adapters.
    extra="WEFT_TEST_NODE_PES=2 SOFT_HCA_ATOMICS=weak"
    for program in rma atomic signal collective; do
        run "gda beside p2p: $program" 4 60 "$build/bin/job_gpu_$program"
    done
    extra="WEFT_TARGET=cuda WEFT_TEST_NODE_PES=2 SOFT_HCA_ATOMICS=weak SOFT_HCA_ENGINE=gpu WEFT_TEST_GDA_QUEUE_MEMORY=gpu LITMUS_ROUNDS=50"
    programs "gda beside p2p:" 4 rma atomics signal
    litmus "gda beside p2p:" 3 message_passing put_signal
    # The host's atomics and the GPU's on one word: by one engine, so all queues in host memory.
    extra="WEFT_TARGET=cuda WEFT_TEST_NODE_PES=2 SOFT_HCA_ATOMICS=weak WEFT_TEST_GDA_QUEUE_MEMORY=host"
    programs "gda beside p2p:" 4 words
    unset WEFT_HCA SOFT_HCA_IDLE_US
}
# The same with queues that are connected at first use, which takes path net (libfabric), on one GPU.
# Of two PEs the host connects the queues, and device code uses them. Of three PEs of two nodes
# kernels of PE 1 and PE 2 are the first to use the queues between them, and wait for the host.
group_gda_late() {
    local queues nodes first_use
    [ -e "$build/lib/weft-hca/libibverbs.so.1" ] || { echo "gda_late: skipped: built without libibverbs-dev"; return; }
    export WEFT_HCA=soft SOFT_HCA_IDLE_US=20
    first_use="WEFT_GPU=0 WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo WEFT_TEST_GDA_EAGER=0"
    for queues in WEFT_TEST_GDA_QUEUE_MEMORY=host "SOFT_HCA_ENGINE=gpu WEFT_TEST_GDA_QUEUE_MEMORY=gpu"; do
        for nodes in 1 2; do
            extra="WEFT_TARGET=cuda $first_use $queues WEFT_TEST_NODE_PES=$nodes LITMUS_ROUNDS=50"
            programs "gda at first use:" $((nodes + 1)) rma signal runs collective
            # With queues in host memory, PEs that share a GPU wait for its turn at each of thousands.
            [ "$queues" = WEFT_TEST_GDA_QUEUE_MEMORY=host ] ||
                programs "gda at first use:" $((nodes + 1)) atomics
            litmus "gda at first use:" $((nodes + 1)) message_passing put_signal
            # The host's atomics and the GPU's on one word: by one engine, so queues in host memory.
            [ "$queues" != WEFT_TEST_GDA_QUEUE_MEMORY=host ] ||
                programs "gda at first use:" $((nodes + 1)) words
        done
    done
    extra="WEFT_TARGET=cuda $first_use WEFT_TEST_GDA_QUEUE_MEMORY=host WEFT_TEST_NODE_PES=2 WEFT_GDA_DOORBELL=cpu"
    programs "gda at first use:" 3 rma signal
    unset WEFT_HCA SOFT_HCA_IDLE_US
}
# PEs by DC, to which kernels post themselves, on one GPU, with both forms of address and the queues in
# host and in GPU memory. In GPU memory, PEs that share the GPU wait for its turn at each request.
group_gda_dc() {
    local queues link program
    [ -e "$build/lib/weft-hca/libibverbs.so.1" ] || { echo "gda_dc: skipped: built without libibverbs-dev"; return; }
    export WEFT_HCA=soft SOFT_HCA_IDLE_US=20
    for queues in WEFT_TEST_GDA_QUEUE_MEMORY=host "SOFT_HCA_ENGINE=gpu WEFT_TEST_GDA_QUEUE_MEMORY=gpu"; do
        for link in ib roce; do
            extra="WEFT_GPU=0 WEFT_TARGET=cuda WEFT_PATH=gda $queues WEFT_TEST_GDA_RC=0 SOFT_HCA_LINK=$link LITMUS_ROUNDS=50"
            programs "gda by DC:" 2 rma_dc signal_dc packet_dc collective_dc
            litmus_program=device_litmus_dc litmus "gda by DC:" 2 put_signal
            # One engine for the host's atomics and the GPU's on one word, so queues in host memory.
            [ "$queues" != WEFT_TEST_GDA_QUEUE_MEMORY=host ] || programs "gda by DC:" 2 words_dc
        done
        extra="WEFT_GPU=0 WEFT_TARGET=cuda WEFT_PATH=gda $queues WEFT_TEST_GDA_RC=2"
        programs "gda by RC and DC:" 6 rma_dc
        extra="${extra/RC=2/RC=0}" programs "gda by DC, units without:" 3 rma
        extra="${extra/RC=2/RC=0}" programs "gda by DC, units without:" 2 signal
    done
    [ "$gpus" -eq 1 ] || { extra="${extra#WEFT_GPU=0 }" && programs "gda by RC and DC:" 4 atomics_dc; }
    unset WEFT_HCA SOFT_HCA_IDLE_US
}
# The same model on 1, 2 and 4 GPUs; each result must equal that of one GPU.
train_together() {
    local form pes
    for form in "" "--shard"; do
        for pes in 1 2 4; do
            [ "$pes" -le 2 ] || [ "$gpus" -ge "$pes" ] || break
            run "train${form:+ $form}" "$pes" 120 "$build/bin/example_train" $form --bucket 1M --layers 4 --width 256 \
                --heads 8 --batch 8 --steps 30 --check LICENSE
            grep -h "tokens/s\|hidden\|CRC" "$logs/$(echo "train${form:+ $form}-$pes-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-170
        done
    done
}
# Tokens to the experts of all GPUs and back, few and many, each run compared with a serial loop.
experts_together() {
    local pes tokens
    for pes in 1 2 4; do
        [ "$pes" -le 2 ] || [ "$gpus" -ge "$pes" ] || break
        for tokens in 128 4096; do
            run "experts $tokens" "$pes" 120 "$build/bin/example_experts" --tokens $tokens --hidden 7168 --experts 256 --top 8
            grep -h "GB/s\|replayed\|check" "$logs/$(echo "experts $tokens-$pes-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-170
        done
    done
}
# Programs of nccl.h, which start their ranks themselves; ranks share GPUs.
group_nccl() {
    local ranks case row
    extra=WEFT_PROVE=always
    [ -x "$build/bin/nccl_lives" ] || { echo "nccl: skipped: not built"; return; }
    for ranks in 1 2 4; do
        for row in "collectives $ranks 300" "messages $ranks 60" "one_process $ranks" \
            "device kernels $ranks" "device host $ranks" "device threads 1 $ranks"; do
            [ -x "$build/bin/nccl_${row%% *}" ] || continue # nccl_device needs a C++ compiler
            run_alone "nccl $row" "$build/bin/nccl_${row%% *}" ${row#* }
        done
    done
    for ranks in 2 4; do
        run_alone "nccl collectives $ranks windows" "$build/bin/nccl_collectives" "$ranks" 300 windows
        limit=200 run_alone "nccl collectives $ranks sweep" "$build/bin/nccl_collectives" "$ranks" sweep 0x10000000
    done
    for case in splits errors dies aborts any_time later grows shrinks suspends windows large; do
        run_alone "nccl $case" "$build/bin/nccl_lives" "$case"
    done
    [ -x "$build/bin/nccl_device" ] || return
    run_alone "nccl device bad_index" "$build/bin/nccl_device" bad_index 2
    extra="$extra WEFT_WAIT_LIMIT=1s" run_alone "nccl device alone" "$build/bin/nccl_device" alone 2
}
# Programs of examples/ whose test without a GPU is on simt: frames that a kernel reads from pinned
# memory, GPU memory in a file for another number of PEs, layers that move from a file through GPU
# memory and back, and a model that all GPUs train, which must have the same parameters as on one
# GPU.
group_examples() {
    local folder=$build/examples/files program memory pes
    for program in video checkpoint offload train experts; do
        [ -x "$build/bin/example_$program" ] || { echo "examples: skipped: example_$program was not built"; return; }
    done
    told() { grep -h "$2" "$logs/$(echo "$1-1-$extra" | tr -c 'A-Za-z0-9.\n-' _).log" | cut -c1-170; }
    rm -rf "$folder" && mkdir -p "$folder"
    extra=WEFT_TARGET=cuda
    "$build/bin/example_video" --make "$folder/clip.y4m" --size 1920x1080 --frames 100
    run "video" 1 60 "$build/bin/example_video" "$folder/clip.y4m"
    told video "^frames:\|frames in\|latency"
    extra=
    for pes in 3 1 2; do
        run "checkpoint" "$pes" 60 "$build/bin/example_checkpoint" --gpu --elements 4000037 \
            --steps $((12 / pes)) --every 4 "$folder/state"
    done
    run "checkpoint, on the host" 3 60 "$build/bin/example_checkpoint" --elements 4000037 --check "$folder/state"
    extra=WEFT_TARGET=cuda
    local model=("$build/bin/example_offload" --layers 24 --width 2048 --batch 256 --steps 5 --new)
    run "offload in memory" 1 120 "${model[@]}" --in-memory "$folder/expected"
    told "offload in memory" "samples/s"
    for memory in 180M 400M; do
        run "offload $memory" 1 120 "${model[@]}" --memory $memory "$folder/model"
        told "offload $memory" "samples/s\|file:\|hidden"
        cmp "$folder/model" "$folder/expected" || failures=$((failures + 1))
    done
    # Each PE has half of every layer; PEs take turns on a single GPU.
    run "offload in memory" 2 120 "${model[@]}" --in-memory "$folder/expected"
    run "offload 200M" 2 120 "${model[@]}" --memory 200M "$folder/model"
    grep -h "samples/s\|file:\|hidden" "$logs/offload_200M-2-WEFT_TARGET_cuda.log" | cut -c1-170
    cmp "$folder/model" "$folder/expected" || failures=$((failures + 1))
    train_together
    experts_together
    rm -rf "$folder"
}
# Files and GPU memory: through pinned memory, or by cuFile if this machine supports its direct
# path; then the rates.
group_files() {
    local folder=$build/files pes backend write
    mkdir -p "$folder"
    for pes in 1 $((gpus > 1 ? gpus : 2)); do
        for backend in uring threads; do
            extra="JOB_FOLDER=$folder WEFT_FILE_BACKEND=$backend WEFT_TEST_FILE_CHUNK=8K WEFT_TEST_FILE_DEPTH=3 JOB_ROUNDS=120"
            run "file" "$pes" 60 "$build/bin/job_gpu_file" gpu
        done
        extra="JOB_FOLDER=$folder"
        run "file, large requests" "$pes" 60 "$build/bin/job_gpu_file" gpu
        run "file team" "$pes" 60 "$build/bin/job_gpu_file_team" gpu
        run "file on streams" "$pes" 60 "$build/bin/job_gpu_file_stream"
        run "files of several folders at once" "$pes" 60 "$build/bin/job_gpu_file_disks" gpu "$(realpath "$folder")" /dev/shm
    done
    extra="JOB_FOLDER=$folder WEFT_MAP=none"
    run "file, not mapped" 1 60 "$build/bin/job_gpu_file" gpu
    extra="JOB_FOLDER=$folder WEFT_PATH=staged"
    [ "$gpus" -lt 2 ] || run "file" 2 60 "$build/bin/job_gpu_file" gpu
    extra="JOB_FOLDER=$folder"
    if [ ! -e /proc/driver/nvidia-fs ] && ! grep -q RMForceStaticBar1=1 /proc/driver/nvidia/params; then
        run "no way for cuFile" 1 60 "$build/bin/job_gpu_file_cufile" refused FILE-NO-NVIDIA-FS modprobe
    else
        run "by cuFile" 1 60 "$build/bin/job_gpu_file_cufile" direct
    fi
    extra=
    "$build/bin/weft" bench file --help > /dev/null 2>&1 ||
        { echo "files: rates skipped: weft bench was not built" && rm -rf "$folder" && return; }
    for write in "" --write; do
        (cd "$folder" && timeout 60 "$build/bin/weft" bench file --memory gpu --size 1G --blocks 1M,4M \
            --depths 4,16 --window 64M --methods weft,plain,fio $write) || failures=$((failures + 1))
    done
    rm -rf "$folder"
}
group_coll() { # collectives of streams and of the host on GPU memory
    local pes way program=$build/bin/job_gpu_coll_stream
    for pes in 1 2 $((gpus > 2 ? gpus : 3)) 4; do
        extra=
        for part in "" host "mixed 7 300" flood renew graph limits; do
            run "collectives${part:+ $part}" "$pes" 60 "$program" $part
        done
    done
    extra=
    # PEs of two nodes and of three, between which data goes by tcp.
    for part in host large "mixed 7 200" ready; do
        for pes in 4 5; do
            extra="WEFT_TEST_NODE_PES=2 WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo" \
                run "collectives over nodes: $part" "$pes" 60 "$program" $part
        done
    done
    for part in "" stream; do
        for pes in 4 5; do
            extra="WEFT_TEST_NODE_PES=2 WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo" \
                run "gather and scatter over nodes${part:+: $part}" "$pes" 60 "$build/bin/job_gpu_coll_rooted" $part
        done
    done
    # Their kernels as members on one GPU; and without parts of their synchronization, where a GPU
    # may show it. What clang has compiled the driver compiles once more, for over a minute.
    run "rounds" 1 300 "$build/bin/device_coll_rounds" 1 60000
    for part in fence acquire here slots meet half release line; do
        run "rounds without $part" 1 240 "$build/bin/device_coll_rounds_$part" 2 20000
    done
    run "messages" 1 300 "$build/bin/device_message_rounds" 1 20000
    for part in fence acquire; do
        run "messages without $part" 1 240 "$build/bin/device_message_rounds_$part" 2 20000
    done
    for pes in 1 2 4; do run "sizes on the GPU" "$pes" 60 "$build/bin/job_gpu_coll_sized"; done
    for pes in 1 2 4; do run "alltoallv by the host" "$pes" 60 "$build/bin/job_gpu_coll_alltoallv"; done
    for way in direct scratch copies; do
        extra="WEFT_COLL=$way" run "alltoallv by the host" 3 60 "$build/bin/job_gpu_coll_alltoallv"
        for part in no_room no_place; do
            wanted="PE 0: WEFT_ERR_RANGE: .*: PE 2 has room for \(4999\|0\) bytes of PE 0, which sends 5000"
            extra="WEFT_COLL=$way" run "alltoallv by the host: $part" 3 60 "$build/bin/job_gpu_coll_alltoallv" $part
        done
        wanted=
    done
    extra="WEFT_WAIT_LIMIT=120s" wanted="PE 0: WEFT_ERR_PEER_DEAD: .*PE 2 "
    for part in dies "dies late"; do run "alltoallv by the host: $part" 3 60 "$build/bin/job_gpu_coll_alltoallv" $part; done
    extra= wanted=
    for pes in 2 3 4; do run "through scratch" "$pes" 60 "$build/bin/job_gpu_coll_scratch"; done
    [ "$gpus" -lt 2 ] || run "a stream of another GPU" 2 60 "$build/bin/job_gpu_foreign_stream"
    run "through scratch: numbers" 4 60 "$build/bin/job_gpu_coll_scratch" numbers
    # PEs that share a GPU take turns on it, which is no valid LL128 test.
    [ "$gpus" -lt 2 ] || run "through scratch: lines" $((gpus > 4 ? 4 : gpus)) 60 "$build/bin/job_gpu_coll_scratch" lines
    run "few teams" 3 60 "$build/bin/job_gpu_few_teams"
    for part in ready leave; do extra="WEFT_COLL=scratch" run "collectives $part" 3 60 "$program" $part; done
    for way in auto direct scratch; do
        extra="WEFT_COLL=$way" run "elements that lie apart" 2 60 "$build/bin/job_gpu_coll_strided"
        extra="WEFT_COLL=$way WEFT_CHECK=1" run "collectives checked" 4 60 "$program" mixed 4 60
    done
    # With LL the symmetric memory does not matter.
    extra="WEFT_CHECK=1 WEFT_COLL=direct" wanted="PE 2 stored nothing"
    for part in memory factor moves; do run "members differ: $part" 3 60 "$build/bin/job_gpu_coll_differ" $part; done
    extra= wanted=
    for way in packets two direct scratch engines; do
        extra="WEFT_COLL=$way" run "collectives" 2 60 "$program"
        extra="WEFT_COLL=$way WEFT_COLL_SMS=5" run "collectives mixed" 4 60 "$program" mixed 9 200
    done
    for part in "" graph host; do extra="WEFT_COLL_SMS=0" run "collectives by engines${part:+ $part}" 4 60 "$program" $part; done
    extra=
    run "collectives misuse" 2 60 "$program" misuse
    extra="WEFT_WAIT_LIMIT=120s"
    for part in broadcast allgather alltoall allreduce reducescatter; do
        wanted="PE 0: WEFT_ERR_PEER_DEAD: .*PE 2 .*; PE 0 was in $part of team 0"
        run "a member of $part dies" 3 60 "$program" dies $part
    done
    for part in gather scatter allreduce collect alltoallv sync barrier; do
        wanted="PE 0: WEFT_ERR_PEER_DEAD: .*PE 2 .*; PE 0 was in $part of team 0"
        run "a member of $part dies" 3 60 "$build/bin/job_gpu_coll_sized" dies $part
    done
    wanted= extra=
}
# Kernels of PEs that share a GPU take minutes for this.
group_coll_large() {
    local way
    for way in packets lines two direct scratch engines auto; do
        extra="WEFT_COLL=$way WEFT_GPU_HEAP_SIZE=5G" run "beyond 2^31 bytes" 2 $((gpus > 1 ? 150 : 240)) "$build/bin/job_gpu_coll_large"
    done
    extra=
}
group_mapped() { # GPU memory in the CPU's addresses
    local n pes=$((gpus > 1 ? gpus : 2)) shim=$build/wrong_size.so
    extra=
    for n in 1 "$pes" 4; do run "mapped copies" "$n" 60 "$build/bin/job_gpu_map" works; done
    for n in 1 "$pes"; do run "mapped memory of its own" "$n" 60 "$build/bin/job_gpu_map_own" works; done
    [ "$gpus" -lt 2 ] || extra="" run "GPUs that do not reach each other" 2 60 "$build/bin/job_gpu_staged" apart
    extra="WEFT_TEST_COPY_THREADS=4" run "copies by threads" "$pes" 60 "$build/bin/job_gpu_bounce" threads
    extra= run "copies as measured" 1 60 "$build/bin/job_gpu_bounce"
    extra="WEFT_MAP=none" run "not mapped" "$pes" 60 "$build/bin/job_gpu_map" none
    extra="WEFT_TARGET=cuda"
    [ ! -x "$build/bin/device_host_put" ] || run "host puts to a kernel" "$pes" 60 "$build/bin/device_host_put"
    [ ! -x "$build/bin/device_host_put" ] ||
        extra="WEFT_TARGET=cuda WEFT_MAP=none" run "host puts to a kernel" "$pes" 60 "$build/bin/device_host_put"
    if gcc -shared -fPIC -o "$shim" tests/gpu/wrong_size.c -ldl; then
        wanted="another interface, and no mapping" extra="WEFT_LOG=warn"
        run "another interface" "$pes" 60 env LD_PRELOAD="$shim" sh -c \
            "'$build/bin/job_gpu_map' none && echo 'another interface, and no mapping'"
        wanted=
    fi
    extra=
    # Killed while it stores; the next job finds the GPUs free and maps them again.
    wanted="killed by signal 9"
    run "killed while it maps" "$pes" 30 sh -c "'$build/bin/job_gpu_map' works & sleep 1.5; kill -9 \$!; wait \$!; kill -9 \$\$"
    wanted=
    run "and after that" "$pes" 60 "$build/bin/job_gpu_map" works
    wanted="every call told"
    run "calls after a failure" 2 60 "$build/bin/job_gpu_failed" each gpu
    wanted=
    if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
        local copy
        copy=$(mktemp -d) && cp -r "$build/bin/weft" "$build/bin/job_gpu_map" "$copy/" && chmod -R a+rX "$copy"
        run "as another user" 2 60 setpriv --reuid 65534 --regid 65534 --clear-groups env XDG_RUNTIME_DIR= HOME=/ \
            "$copy/job_gpu_map" works
        rm -rf "$copy"
    fi
}
group_faults() { # what must be said, not done
    local case pes=$((gpus > 1 ? gpus : 2))
    extra="WEFT_PROVE=cached"
    run "cached proof" "$pes" 60 "$build/bin/job_gpu_atomic"
    run "cached proof again" "$pes" 60 "$build/bin/job_gpu_atomic"
    extra="WEFT_WAIT_LIMIT=2s"
    run "expiry of a wait" 1 30 "$build/bin/job_gpu_signal" expire
    run "expiry on a stream" 1 30 "$build/bin/job_gpu_stream" expire
    extra="TEST_TOO_MUCH=300000 WEFT_GPU_HEAP_SIZE=1T"
    run "more than the GPU has" 1 60 "$build/bin/job_gpu_heap"
    extra="CUDA_VISIBLE_DEVICES=GPU-none"
    wanted="CUDA_VISIBLE_DEVICES"
    run "no visible GPU" 1 30 "$build/bin/job_gpu_heap"
    wanted=
    [ -x "$build/bin/device_errors" ] || return
    extra="WEFT_TARGET=cuda WEFT_WAIT_LIMIT=1s"
    for case in bad_address bad_p bad_pe negative_pe past_end one_past_end strided_past_end \
        bad_atomic bad_team wait_expires packet_expires; do
        run "device $case" 1 60 "$build/bin/device_errors" "$case"
    done
    for case in collect_range alltoallv_range alltoallv_room alltoalls_argument; do
        run "device $case" 1 60 "$build/bin/device_sized" "$case"
    done
    wanted="^PE 0 was told after 0.*PEER_DEAD: PE 1 .*killed by signal 9"
    extra="WEFT_TARGET=cuda"
    run "a peer of a kernel dies" 2 60 "$build/bin/device_kernel_dead"
    [ "$gpus" -lt 2 ] || extra="WEFT_TARGET=cuda WEFT_PATH=staged" run "a peer of a kernel dies" 2 60 "$build/bin/device_kernel_dead"
    wanted="PE 0 was told after 0.*PEER_DEAD: PE 1 .*; PE 0 was in [a-z]* of team 0"
    extra="WEFT_TARGET=cuda"
    for case in alltoallv collect gather scatter alltoalls allreduce reduce allreduce_weighted; do
        run "a member dies in $case" 3 60 "$build/bin/device_coll_dead" block "$case" amid
        run "a member dies in $case" 3 60 "$build/bin/device_coll_dead" grid "$case" large
    done
    extra="WEFT_TARGET=cuda WEFT_WAIT_LIMIT=1s"
    wanted="sync of team 0 waited" # PE 0 gives up, and the launcher ends PE 1
    run "device sync_expires" 2 60 "$build/bin/device_errors" sync_expires
    wanted=
}
bench() {
    run "$1" "$2" 60 "$build/bin/gpu_bench"
    local log=$logs/$(echo "$1-$2${extra:+-$extra}" | tr -c 'A-Za-z0-9.\n-' _).log
    grep "${3:-}" "$log" | cut -c1-110
}
proxy_bench() { # PEs: the ring by itself and the steps of an operation through it
    [ -x "$build/bin/weft_proxy_bench" ] || return
    run "proxy figures" "$1" 60 "$build/bin/weft_proxy_bench"
    cut -c1-110 "$logs/$(echo "proxy figures-$1-$extra" | tr -c 'A-Za-z0-9.\n-' _).log"
}
group_figures() { # on one GPU or over the link, then with large copies dealt out over streams
    extra="WEFT_TARGET=cuda"
    proxy_bench 1
    [ "$gpus" -gt 1 ] && proxy_bench 2
    [ -x "$build/bin/gpu_bench" ] || return
    extra=
    bench "bench" $((gpus > 1 ? 2 : 1))
    extra="WEFT_PATH=staged"
    bench "bench" 2 "path\|PU to \|quiet\|fetch\|host$\|64"
    extra=
    [ "$gpus" -gt 1 ] || return
    extra="WEFT_PATH=relay"
    bench "bench" 2 "path\|PU to \|quiet\|fetch\|host$\|64"
    extra=
    [ "$gpus" -gt 2 ] && bench "bench" "$gpus" "barrier\|weft_"
}

for group in $groups; do
    declare -F "group_$group" > /dev/null || { echo "there is no group $group"; exit 2; }
done
for group in $groups; do
    begun_group=$SECONDS
    "group_$group"
    printf -- '-- %s: %d s\n' "$group" $((SECONDS - begun_group))
done
printf 'took %d s; %d failures; logs in %s\n' $((SECONDS - started)) "$failures" "$logs"
[ "$failures" -eq 0 ]
