/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of collectives on streams: a job with a stream and memory of both kinds on
 * its GPU, three teams, and copies to and from the GPU. */
#ifndef WEFT_TESTS_COLL_JOB_H
#define WEFT_TESTS_COLL_JOB_H

#include "coll_reference.h"
#include "tests/job/job.h"

#include "driver/gpu_api.h"
#include "gpu/coll/coll.h"
#include "job/job.h"

#include <stdlib.h>
#include <unistd.h>
#include <weft/stream.h>

enum { MOST_PES = 16, ROOM = 24 << 20, GUARD = 64 };

static weft_job *job;
static int me, n;
static struct gpu_api driver;
static CUstream stream;
static char *heap_src, *heap_dst, *own_src, *own_dst; /* symmetric; local to this GPU */
static char *factor_room; /* factor of a scaled sum, local to this GPU */
static unsigned char *mine, *wanted, *seen;

struct members {
    weft_team *team;
    int n, me;
    int pes[MOST_PES];
    uint64_t calls; /* the same at all members */
};
static struct members teams[3];
static int n_teams;

static void know_team(weft_team *team)
{
    struct members *t = &teams[n_teams++];
    *t = (struct members){.team = team, .n = weft_team_n_pes(team), .me = weft_team_my_pe(team)};
    for (int i = 0; i < t->n; i++)
        t->pes[i] = weft_team_translate(team, i, weft_team_world(job));
}

/* Exit 77 = skipped: this machine has no GPU. */
static char *gpu_memory(void)
{
    void *address = NULL;
    weft_status status = weft_alloc(job, WEFT_GPU, ROOM, 0, 0, &address);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
    return address;
}

static void begin(void)
{
    CUcontext context;
    CUdevice device = 0;
    int ordinal = 0;
    CUdeviceptr at;
    job = NULL;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    heap_src = gpu_memory();
    heap_dst = gpu_memory();
    OK(gpu_api_open(&driver));
    CHECK(!driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      (uintptr_t)heap_src));
    CHECK(!driver.DeviceGet(&device, ordinal));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, device));
    CHECK(!driver.CtxPushCurrent(context));
    CHECK(!driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(!driver.MemAlloc(&at, ROOM));
    own_src = (char *)(uintptr_t)at;
    CHECK(!driver.MemAlloc(&at, ROOM));
    own_dst = (char *)(uintptr_t)at;
    CHECK(!driver.MemAlloc(&at, 64));
    factor_room = (char *)(uintptr_t)at;
    mine = malloc(ROOM);
    wanted = malloc(ROOM);
    seen = malloc(ROOM);
    CHECK(mine && wanted && seen && n <= MOST_PES);
    know_team(weft_team_world(job));
    weft_team *team = NULL;
    OK(weft_team_split_strided(weft_team_world(job), n - 1, -1, n, &team));
    know_team(team); /* in reverse order */
    OK(weft_team_split_strided(weft_team_world(job), 0, 2, (n + 1) / 2, &team));
    if (team)
        know_team(team); /* every second PE */
}

static void synchronize(void)
{
    CHECK(!driver.StreamSynchronize(stream));
    OK(job_check_failed(job));
}

static void to_gpu(char *to, const void *from, size_t bytes)
{
    CHECK(!driver.MemcpyHtoD((uintptr_t)to, from, bytes));
    CHECK(!driver.StreamSynchronize(NULL)); /* the copy may return before the data has arrived */
}

#endif
