/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's device API: the operations of <weft.h>, called by kernels. The same text compiles with
 * nvcc for `cuda` and with gcc or clang, C11 or C++17, for `simt`. Include it in every file that
 * has such kernels and link with -lweft; there is no device library and no relocatable device code.
 *
 *     #include <weft_device.h>
 *
 *     WEFT_KERNEL(shift, (uint64_t *, slot))
 *     {
 *         int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
 *         if (weft_dev_grid_rank() == 0)
 *             weft_thread_p64(slot, 42, next);
 *     }
 *
 * The name of an operation tells the scope that calls it: weft_thread_..., weft_warp_...,
 * weft_block_...:
 *
 *   device/access.h      my PE, n PEs, weft_dev_ptr
 *   device/rma.h         p, g, put, get, nbi, iput, iget, put_signal, signal, signal_fetch
 *   device/atomics.h     set, add, inc, and, or, xor, fetch, swap, cswap and their fetching forms
 *   device/order.h       fence, quiet
 *   device/wait.h        wait_until, signal_wait, test, over one and several variables
 *   device/packet.h      put_packet, take_packet
 *   device/collective.h  meet, sync, barrier, broadcast, allgather, alltoall, gather, scatter over
 *                        teams
 *   device/sized.h       collect, alltoallv, alltoalls over teams
 *   device/reduce.h      allreduce, reducescatter, reduce over teams
 *   device/staging.h     staging slots through which members exchange the arguments of collectives
 *   device/grid.h        all of these by several blocks of a kernel together
 *   device/remote.h      operations on PEs without direct addresses
 *   device/proxy.h       the ring to the host thread that carries out these operations
 *   device/gda.h         operations as RDMA requests that the GPU's threads post to the NIC
 *   device/dc.h          the same for PEs that are reached by DC
 *   device/gda_span.h    their parts: addresses, waits, reservations
 *   device/gda_queue.h   the NIC's queues, used by many threads without a lock
 *   device/gda_wqe.h     format of the work queue entries
 *   device/check.h       checking mode: members compare their arguments before a collective
 *   device/run.h         which single values of a warp can be sent together
 *   device/control.h     host functions: weft_device_start, weft_team_device, weft_device_check
 *   device/simt.h        the primitives below all of them
 *   launch.h             kernels and launches on either target
 *
 * With WEFT_STATE_BY_POINTER defined, on cuda and simt in C++, there is no copy of the job's state:
 * the kernel gets its address (weft_device_state()), and the operations are members of a structure
 * with it:
 *
 *     struct weft_device weft = {*state};
 *     weft.weft_thread_p64(slot, 42, weft.weft_dev_my_pe() ^ 1);
 *
 * Transport gda is not compiled then; a host thread posts requests to the NIC. With
 * WEFT_DEVICE_NO_LAUNCH defined too, kernels are plain __global__ functions without
 * <weft/launch.h>, and the program needs no -lweft for them.
 *
 * Three headers stand in place of this one: <weft/device/p2p.h>, for kernels that reach their peers
 * by loads and stores alone; <weft/device/gda.h>, for kernels that post requests to the NIC
 * themselves on a GPU too; and <weft/device/dc.h>, the same with PEs that are reached by DC.
 *
 * Completion, order and errors are described in device/rma.h, order.h and wait.h; docs/device.md is
 * the guide; the page device-reference, which `./dev docs` makes, lists every function. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <weft/device/arithmetic.h>
#include <weft/device/control.h>
#include <weft/device/move.h>
#include <weft/device/packet_unit.h>
#ifndef WEFT_DEVICE_NO_LAUNCH
#include <weft/launch.h>
#endif

#ifdef WEFT_STATE_BY_POINTER
#include <weft/device/members.h>

struct weft_device {
    const struct weft_dev &weft_dev_state;
#endif

#include <weft/device/access.h>
#include <weft/device/atomics.h>
#include <weft/device/collective.h>
#include <weft/device/grid.h>
#include <weft/device/order.h>
#include <weft/device/packet.h>
#ifndef WEFT_DEVICE_P2P
#include <weft/device/proxy.h>
#endif
#include <weft/device/reduce.h>
#include <weft/device/remote.h>
#include <weft/device/rma.h>
#include <weft/device/sized.h>
#include <weft/device/staging.h>
#include <weft/device/wait.h>

#ifdef WEFT_STATE_BY_POINTER
};
#elif !defined WEFT_DEVICE_P2P
#include <weft/device/dc.h>
#endif

#endif
