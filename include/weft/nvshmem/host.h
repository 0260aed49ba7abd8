/* SPDX-License-Identifier: Apache-2.0 */
/* The library's side of <nvshmem.h>: the one implicit job, its teams by number, unique ids. Programs
 * use the names of <nvshmem.h>; these are what those call. */
#ifndef WEFT_NVSHMEM_HOST_H
#define WEFT_NVSHMEM_HOST_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_NVSHMEM_ID_BYTES = 128 };

/* The implicit job and its context; NULL when there is none. */
weft_job *weft_nvshmem_job(void);
weft_ctx *weft_nvshmem_ctx(void);

/* How many times nvshmem_init() was called more often than nvshmem_finalize(). */
int weft_nvshmem_inits(void);

/* Joins the job (counted: only the first call does), device code included. id, pe and n_pes: when
 * id is not NULL the PEs meet by that. 0, or a status whose sentence has been printed. */
int weft_nvshmem_init(const unsigned char *id, int pe, int n_pes);
void weft_nvshmem_finalize(void);

/* By the PE whose process the others will find; the program passes the id on to all. */
int weft_nvshmem_unique_id(unsigned char id[WEFT_NVSHMEM_ID_BYTES]);

/* A team by its number; NULL when there is none. A team's number is that of device code too. */
weft_team *weft_nvshmem_team(int number);
int weft_nvshmem_team_number(weft_team *team);

/* A call failed: prints the sentence. Void functions end the job with it, as their users expect. */
int weft_nvshmem_report(weft_status status, const char *function);
void weft_nvshmem_require(weft_status status, const char *function);

void *weft_nvshmem_alloc(size_t bytes, size_t align, int zeroed);

#ifdef __cplusplus
}
#endif

#endif
