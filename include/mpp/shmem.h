/* SPDX-License-Identifier: Apache-2.0 */
/* The place where SGI SHMEM had its header (OpenSHMEM 1.5, annex F). */
#include <shmem.h>
