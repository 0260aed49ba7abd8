/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of device code: everything that differs between the targets.
 *
 * Device code written with these names, in the common subset of C11 and CUDA C, compiles with gcc
 * and clang (C11, C++17) for `simt`, where grids run on CPU threads, and with nvcc for `cuda`. This
 * file specifies the primitives; target_cuda.h (sm_70 and newer), target_hip.h (gfx90a, gfx942) and
 * target_simt.h implement them. It knows nothing of PEs, heaps or operations.
 *
 * <weft/launch.h> defines and launches kernels. */
#ifndef WEFT_DEVICE_SIMT_H
#define WEFT_DEVICE_SIMT_H

#include <weft/types.h>

#include <weft/device/target.h>

/* ------------------------------------------------------------------------------- qualifiers
 *
 * WEFT_DEVICE            a device function: static, inline. `WEFT_DEVICE int f(int x) { ... }`
 * WEFT_DEVICE_NOINLINE   the same, not inlined (cold paths)
 * WEFT_GLOBAL            a static variable in device memory, at file scope: `WEFT_GLOBAL int n;`
 * WEFT_CONST             a static variable in constant memory, at file scope; the host writes it
 * WEFT_RESTRICT          restrict
 * WEFT_UNROLL            before a loop: unroll it fully (cuda)
 * WEFT_NO_UNROLL         before a loop: do not unroll it (cuda)
 *
 * WEFT_SHARED(type, name, dims);
 *     An array in the block's shared memory, inside a device function:
 *         WEFT_SHARED(float, tile, [32][33]);      tile[y][x] = 1;
 *         WEFT_SHARED(int, count, [1]);            count[0] = 0;
 *     One array per block and declaration, uninitialised, 16-byte aligned. It is always an array;
 *     on simt the name is a pointer to its first element, so sizeof(name) must not be used.
 * WEFT_SHARED_DYNAMIC(type, name);
 *     The dynamic shared memory of the launch, 16-byte aligned: `type *name`.
 */

/* ------------------------------------------------------------------------------- constants */

/* WEFT_WARP_LANES: lanes of a warp: 32 on cuda, 64 on hip, 32 or 64 on simt (WEFT_TEST_SIMT_WAVE),
 * where it is no constant of the compiler. weft_lane_mask: a set of lanes, bit i is lane i.
 * WEFT_FULL_MASK: all lanes of a warp. */
#define WEFT_WARP_LANES_MOST 64
#if WEFT_TARGET_CUDA
#define WEFT_WARP_LANES 32
typedef uint32_t weft_lane_mask;
#elif WEFT_TARGET_HIP
#define WEFT_WARP_LANES 64
typedef uint64_t weft_lane_mask;
#else
#define WEFT_WARP_LANES weft_simt_wave()
typedef uint64_t weft_lane_mask;
#endif
#define WEFT_FULL_MASK                                                                             \
    ((weft_lane_mask) ~(weft_lane_mask)0 >> (8 * sizeof(weft_lane_mask) - WEFT_WARP_LANES))

/* Order of an access, a constant: a load takes RELAXED, ACQUIRE or VOLATILE; a store RELAXED,
 * RELEASE or VOLATILE; an atomic RELAXED, ACQUIRE, RELEASE or ACQ_REL; a fence ACQ_REL or SEQ_CST.
 * VOLATILE is a relaxed access of system scope. Meaning: PTX ISA, "Memory Consistency Model". */
#define WEFT_ORDER_RELAXED  0
#define WEFT_ORDER_ACQUIRE  1
#define WEFT_ORDER_RELEASE  2
#define WEFT_ORDER_ACQ_REL  3
#define WEFT_ORDER_SEQ_CST  4
#define WEFT_ORDER_VOLATILE 5

/* Observers for which an access or a fence is ordered: the block, the GPU, the system (other GPUs,
 * CPU, NIC). On simt every scope is the system. */
#define WEFT_SCOPE_CTA 0
#define WEFT_SCOPE_GPU 1
#define WEFT_SCOPE_SYS 2

/* 16 bytes that move as one vector, and that may hold any type. */
#if WEFT_TARGET_CUDA
struct __align__(16) weft_dev_vec16
{
#else
struct __attribute__((aligned(16), may_alias)) weft_dev_vec16 {
#endif
    uint64_t lo, hi;
};

#define WEFT_DEV_LIKELY(x) __builtin_expect(!!(x), 1)

/* Words of memory that the program may have written as another type. */
#if WEFT_TARGET_CUDA
typedef uint8_t weft_dev_any_u8;
typedef uint16_t weft_dev_any_u16;
typedef uint32_t weft_dev_any_u32;
typedef uint64_t weft_dev_any_u64;
#else
typedef uint8_t __attribute__((may_alias)) weft_dev_any_u8;
typedef uint16_t __attribute__((may_alias)) weft_dev_any_u16;
typedef uint32_t __attribute__((may_alias)) weft_dev_any_u32;
typedef uint64_t __attribute__((may_alias)) weft_dev_any_u64;
#endif

#if WEFT_TARGET_CUDA
#include <weft/device/target_cuda.h>
#elif WEFT_TARGET_HIP
#include <weft/device/target_hip.h>
#else
#include <weft/device/target_simt.h>
#endif
#ifndef WEFT_DEV_CALL_SLOW
#define WEFT_DEV_CALL_SLOW(function, ...) function(__VA_ARGS__)
#endif
#ifndef WEFT_DEV_CALL_RARELY
#define WEFT_DEV_CALL_RARELY(function, ...) function(__VA_ARGS__)
#endif

/* ------------------------------------------------------------------- functions of both targets
 *
 * Everything below is a device function. Pointers are generic addresses unless the text says
 * otherwise.
 *
 * Position
 *   unsigned weft_dev_thread_x(), _y(), _z()        index in the block (threadIdx)
 *   unsigned weft_dev_block_x(), _y(), _z()         index in the grid (blockIdx)
 *   unsigned weft_dev_block_dim_x(), _y(), _z()     threads of a block (blockDim)
 *   unsigned weft_dev_grid_dim_x(), _y(), _z()      blocks of the grid (gridDim)
 *   unsigned weft_dev_lane()                        0 ... WEFT_WARP_LANES - 1
 *   unsigned weft_dev_warp()                        index of the warp in its block
 *   unsigned weft_dev_thread_rank()                 x + dim_x * (y + dim_y * z), in the block
 *   unsigned weft_dev_block_threads()               threads of a block
 *   unsigned weft_dev_block_rank()                  the same for the block in the grid
 *   unsigned weft_dev_grid_blocks()                 blocks of the grid
 *   size_t   weft_dev_grid_rank()                   block_rank * block_threads + thread_rank
 *   size_t   weft_dev_grid_threads()                threads of the grid
 *
 * Warp. `mask` names the lanes that take part: every lane in it calls the same function with the
 * same mask, and the caller is in it (CUDA C Programming Guide, "Warp Vote Functions").
 *   weft_lane_mask weft_dev_active_mask()           lanes that are converged now, including the
 *                                                   caller; no other guarantee
 *   weft_lane_mask weft_dev_ballot(mask, pred)      bit i: lane i of mask has pred != 0
 *   int      weft_dev_any(mask, pred), weft_dev_all(mask, pred)                      1 or 0
 *   weft_lane_mask weft_dev_match_any_u32(mask, value), _u64      lanes of mask with that value
 *   weft_lane_mask weft_dev_match_all_u32(mask, value), _u64      mask if all have it, else 0
 *   uint32_t weft_dev_shuffle_u32(mask, value, lane), _u64        of lane % WEFT_WARP_LANES
 *   uint32_t weft_dev_shuffle_up_u32(mask, value, delta), _u64    of own lane - delta, own if none
 *   uint32_t weft_dev_shuffle_down_u32(mask, value, delta), _u64  of own lane + delta, own if none
 *   uint32_t weft_dev_shuffle_xor_u32(mask, value, bits), _u64    of own lane ^ bits
 *   void     weft_dev_sync_warp(mask)               barrier; orders memory among the lanes
 *
 * Thread.
 *   unsigned weft_dev_in_place(x)         x; the compiler computes nothing from it before this
 *                                         place
 *   uint64_t weft_dev_opaque_u64(x)       x; the compiler computes it before a loop, if it can, and
 *                                         not again in the loop as part of another value
 *   WEFT_DEV_CALL_SLOW(function, ...)     function(...), in the slow branch of an operation: the
 *                                         compiler computes after it what it could compute before
 *   WEFT_DEV_CALL_RARELY(function, ...)   the same, where the function changes many registers: by a
 *                                         pointer if it then saves them
 *
 * Block. Every thread of the block calls the same function.
 *   void weft_dev_sync_block()                      barrier; orders memory in the block
 *   int  weft_dev_sync_block_count(pred)            also: number of threads with pred != 0
 *   int  weft_dev_sync_block_and(pred), weft_dev_sync_block_or(pred)     1 or 0
 *
 * Memory, naturally aligned; order and scope are constants.
 *   uintN_t weft_dev_load_uN(const uintN_t *p, order, scope)            N = 8, 16, 32, 64
 *   void    weft_dev_store_uN(uintN_t *p, uintN_t value, order, scope)  N = 8, 16, 32, 64
 *   struct weft_dev_vec16 weft_dev_load_vec16(const void *p)            plain, 16-byte aligned
 *   void weft_dev_store_vec16(void *p, struct weft_dev_vec16 value)
 *   struct weft_dev_vec16 weft_dev_load_vec16_whole(const void *p)      the same, which the
 *   void weft_dev_store_vec16_whole(void *p, struct weft_dev_vec16 v)   compiler does not divide
 *   struct weft_dev_vec16 weft_dev_load_vec16_once(const void *p)       plain; the line will not be
 *   void weft_dev_store_vec16_once(void *p, struct weft_dev_vec16 v)    used again: evict first
 *   struct weft_dev_vec16 weft_dev_load_vec16_relaxed(const void *p)    relaxed, system scope, in
 *   void weft_dev_store_vec16_relaxed(void *p, struct weft_dev_vec16 v) units of vec16_unit bytes
 *   int  weft_dev_vec16_unit()      16 when a relaxed vec16 access is never torn, 8 when its
 *                                   halves are not
 *   int  weft_dev_is_global(const void *p)   0: shared memory or a thread's own memory, which the
 *                                            host cannot reach
 *
 *   WEFT_DEV_HOST_IN_TURN    1: threads that wait for one word of the host poll it in turns,
 *                            because many pollers delay other traffic; 0: each thread polls. On
 *                            simt taking a turn is a write, and a thread that writes does not yield
 *                            its CPU
 *
 * Atomics return the previous value.
 *   T weft_dev_atomic_add_{u32,u64,f32,f64}(T *p, T value, order, scope)
 *   T weft_dev_atomic_exch_{u32,u64}(T *p, T value, order, scope)
 *   T weft_dev_atomic_cas_{u32,u64}(T *p, T expected, T desired, order, scope)
 *   T weft_dev_atomic_{and,or,xor}_{u32,u64}(T *p, T value, order, scope)
 *   T weft_dev_atomic_{min,max}_{u32,u64,i32,i64}(T *p, T value, order, scope)
 *   uint64_t weft_dev_global_add_u64(p, value, order, scope)   atomic_add for an address that is
 *                            neither shared memory nor a thread's own: fewer instructions
 *   void weft_dev_fence(order, scope)
 *
 * Time
 *   uint64_t weft_dev_clock_ns()       ns of a clock that all SMs (simt: all threads) share. On a
 *                                      GPU its resolution may be as coarse as 1 us
 *   uint64_t weft_dev_clock_cycles()   cycles of this SM (simt: the same as clock_ns)
 *   void     weft_dev_nanosleep(uint32_t ns)        yields to others for about `ns` ns, at most
 *                                                   1 ms
 *
 * Lanes that wait for something
 *   int  weft_dev_lanes_independent()  1: a lane of a warp continues while another lane of it polls
 *                            (cuda, simt with warps of 32). 0: lanes that have left a loop wait for
 *                            those that have not, and one side of a branch waits for the other; a
 *                            lane must not wait for what another lane of its warp does later (simt
 *                            with warps of 64)
 *   void weft_dev_wait_begins(), weft_dev_wait_ends()   called before and after a loop that polls,
 *                            in Weft's own code: simt with warps of 64 lets the lanes leave it
 *                            together. Nothing elsewhere
 *
 * Bits and bit patterns
 *   unsigned weft_dev_popcount_u32(x), _u64         bits set
 *   unsigned weft_dev_find_first_u32(x), _u64       1 + index of the lowest bit set, 0 if none
 *   unsigned weft_dev_leading_zeros_u32(x), _u64    32 (64) if x is 0
 *   uint32_t weft_dev_bits_f32(float), float weft_dev_f32_bits(uint32_t)
 *   uint64_t weft_dev_bits_f64(double), double weft_dev_f64_bits(uint64_t)
 *
 * To wait for a value that another thread writes, poll with weft_dev_load_* (not with a plain or a
 * C volatile load). On simt these, the atomics, the clock and nanosleep are the points at which a
 * spinning lane lets others run.
 */

WEFT_DEVICE unsigned weft_dev_thread_rank(void)
{
    return weft_dev_thread_x() +
           weft_dev_block_dim_x() *
               (weft_dev_thread_y() + weft_dev_block_dim_y() * weft_dev_thread_z());
}

WEFT_DEVICE unsigned weft_dev_block_threads(void)
{
    return weft_dev_block_dim_x() * weft_dev_block_dim_y() * weft_dev_block_dim_z();
}

WEFT_DEVICE unsigned weft_dev_block_rank(void)
{
    return weft_dev_block_x() +
           weft_dev_grid_dim_x() *
               (weft_dev_block_y() + weft_dev_grid_dim_y() * weft_dev_block_z());
}

WEFT_DEVICE unsigned weft_dev_grid_blocks(void)
{
    return weft_dev_grid_dim_x() * weft_dev_grid_dim_y() * weft_dev_grid_dim_z();
}

WEFT_DEVICE size_t weft_dev_grid_rank(void)
{
    return (size_t)weft_dev_block_rank() * weft_dev_block_threads() + weft_dev_thread_rank();
}

WEFT_DEVICE size_t weft_dev_grid_threads(void)
{
    return (size_t)weft_dev_grid_blocks() * weft_dev_block_threads();
}

/* Index of the warp in its block: threads are numbered by thread_rank. */
WEFT_DEVICE unsigned weft_dev_warp(void)
{
    return weft_dev_thread_rank() / WEFT_WARP_LANES;
}

#include <weft/device/lanes.h>

#endif
