/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the calls whose lists stand in docs/architecture.md ("Calls, followed"), one a run, between
 * walk_begins() and walk_ends(), where a debugger notes the functions (walk.sh). An operation of
 * the same kind comes before, so that what is set up at the first one is not part of the walk.
 *   walk p2p|net|gda|device|reduce|file */
#include "tests/job/job.h"

#include <weft/stream.h>
#include <weft_device.h>
#include <weft_file.h>

enum { BYTES = 96 * 1024 };

void walk_begins(void);
void walk_ends(void);
__attribute__((noinline)) void walk_begins(void)
{
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) void walk_ends(void)
{
    __asm__ volatile("" ::: "memory");
}

WEFT_KERNEL(walk_put, (char *, to), (const char *, from), (int, pe))
{
    weft_block_put(to, from, 96, pe);
}

static weft_job *job;
static weft_file *file;
static char *to, *from;
static int next;

static void put(void)
{
    OK(weft_put(weft_default_ctx(job), to, from, BYTES, next));
}

static void put_on_device(void)
{
    OK(WEFT_LAUNCH(walk_put, 1, 1, 0, NULL, to, from, next));
    OK(weft_stream_synchronize(NULL));
}

/* Of another size each time: the choice for the latest size is kept. */
static void reduce_on_stream(void)
{
    static size_t n = 64;
    OK(weft_allreduce_on_stream(weft_team_world(job), to, from, n++, WEFT_FLOAT, WEFT_SUM, NULL));
    OK(weft_stream_synchronize(NULL));
}

static void read_file(void)
{
    OK(weft_file_read(file, to, BYTES, 0, weft_my_pe(job), NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } walks[] = {{"p2p", put},
                 {"net", put},
                 {"gda", put},
                 {"device", put_on_device},
                 {"reduce", reduce_on_stream},
                 {"file", read_file}};
    size_t walk = 0;
    while (walk < 6 && strcmp(argc > 1 ? argv[1] : "", walks[walk].name) != 0)
        walk++;
    CHECK(walk < 6);
    OK(weft_init(&job, NULL));
    if (walks[walk].call == put_on_device)
        OK(weft_device_start(job));
    next = (weft_my_pe(job) + 1) % weft_n_pes(job);
    weft_kind kind = walks[walk].call == reduce_on_stream ? WEFT_GPU : WEFT_HOST;
    void *block;
    OK(weft_alloc(job, kind, 2 * BYTES, 0, WEFT_ALLOC_ZERO, &block));
    to = block;
    from = to + BYTES;
    if (walks[walk].call == read_file)
        OK(weft_file_open(job, argv[2], WEFT_FILE_READ, NULL, &file));
    walks[walk].call();
    OK(weft_barrier(weft_team_world(job)));
    if (weft_my_pe(job) == 0)
        walk_begins();
    walks[walk].call();
    if (weft_my_pe(job) == 0)
        walk_ends();
    OK(weft_file_close(file));
    OK(weft_finalize(job));
    return 0;
}
