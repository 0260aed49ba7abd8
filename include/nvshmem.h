/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's names over Weft: a program written for NVSHMEM compiles with this directory in its
 * include path and links with -lweft, without -rdc=true and without a device library. Everything is
 * inline, for nvcc and, on simt, for gcc and clang.
 *
 * weft-nvshmem(7) lists the differences and the names that Weft does not have (using one stops the
 * compilation with a sentence). The page nvshmem-reference, which `./dev docs` makes, lists every
 * function by name. The families are made from the type lists of weft/nvshmem/types.h:
 *   setup.h set-up, memory, teams    rma.h put, get, signals, order    amo.h atomics
 *   wait.h waits and tests           collective.h                      stream.h on streams
 *   warpgroup.h barriers of 128 threads   qp.h operations that name a queue   hint.h regions
 *   constants.h enumerations, versions    standard.h headers of C, C++ and CUDA
 */
#ifndef NVSHMEM_H
#define NVSHMEM_H

#include <weft/nvshmem/setup.h>

#include <weft/nvshmem/amo.h>
#include <weft/nvshmem/collective.h>
#include <weft/nvshmem/hint.h>
#include <weft/nvshmem/left_out.h>
#include <weft/nvshmem/qp.h>
#include <weft/nvshmem/rma.h>
#include <weft/nvshmem/stream.h>
#include <weft/nvshmem/wait.h>
#include <weft/nvshmem/warpgroup.h>

#endif
