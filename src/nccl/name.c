/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2 has nothing but its name: its functions are those of libweft-nccl.so, which it
 * needs (CMakeLists.txt). */
typedef int nccl_name;
