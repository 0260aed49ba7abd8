/* SPDX-License-Identifier: Apache-2.0 */
/* SGI SHMEM had its header here (OpenSHMEM 1.5, annex F). */
#include <shmem.h>
