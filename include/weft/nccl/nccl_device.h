/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's device API by source, over Weft: a program that includes <nccl_device.h> compiles with
 * this folder, and the folder above `weft`, before NCCL's on its include path, and runs with
 * libweft-nccl. Names, parameters and meanings are those of NCCL 2.31; ncclDevComm and the windows
 * that kernels read are Weft's own structures, so a program that was compiled with NVIDIA's
 * nccl_device.h gets an error from ncclDevCommCreate().
 *
 *   nccl_device/core.h         requirements, functions of the host, teams (C and C++)
 *   nccl_device/coop.h         groups of threads
 *   nccl_device/ptr.h          addresses of windows
 *   nccl_device/lsa_barrier.h  barriers of ranks that reach each other by load and store
 *   nccl_device/gin.h          puts, gets and signals to any rank
 *   nccl_device/gin_barrier.h  barriers of any ranks
 *   nccl_device/barrier.h      both barriers in one
 *   nccl_device/left_out.h     names that Weft does not have; using one stops the compilation
 *
 * Kernels are compiled by nvcc, by clang -x cuda, or by NVRTC. Without CUDA there are only the
 * functions of the host, and ncclSymPtr. docs/nccl.md has an example and what differs from NCCL. */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include "nccl_device/core.h"

#include "nccl_device/barrier.h"
#include "nccl_device/coop.h"
#include "nccl_device/gin.h"
#include "nccl_device/gin_barrier.h"
#include "nccl_device/left_out.h"
#include "nccl_device/lsa_barrier.h"
#include "nccl_device/ptr.h"

#endif
