/* SPDX-License-Identifier: Apache-2.0 */
/* Several files at once, each in its own folder and possibly on its own disk. Transfers on all
 * handles are in flight together, started by one thread or by one thread for each handle, to own
 * memory and the next PE's, on the host or on GPUs. Each handle waits for and reports only its own
 * transfers. "full": the disk of the last folder runs full; the other disks do not.
 *   job_file_disks [gpu] [full] FOLDER... */
#include "tests/job/file.h"

#include <pthread.h>

enum { MOST = 8, BYTES = 2 * 1024 * 1024 + 12345, PARTS = 4, ROUNDS = 6 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n;

struct disk {
    const char *folder;
    char path[512];
    int number;
    weft_file *file;
    char *memory; /* symmetric, at every PE */
    unsigned char *model;
    weft_file_result results[PARTS];
    pthread_t thread;
} disks[MOST];

/* Each 8 bytes differ from those of every other place, disk, PE and round. */
static void make_model(struct disk *disk, int pe, int round)
{
    uint64_t which = ((uint64_t)disk->number << 16 | (uint64_t)pe << 8 | (uint64_t)round) << 32;
    for (size_t at = 0; at < BYTES; at += 8) {
        uint64_t value = (which | (at + 1)) * UINT64_C(0x9e3779b97f4a7c15);
        value ^= value >> 32;
        memcpy(disk->model + at, &value, 8);
    }
}

static void open_disk(struct disk *disk)
{
    weft_file_info info = {.size = sizeof info};
    snprintf(disk->path, sizeof disk->path, "%s/weft_test_disks.%d.%d.%d", disk->folder,
             (int)getppid(), me, disk->number);
    OK(weft_file_open(job, disk->path,
                      WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_TRUNCATE,
                      NULL, &disk->file));
    OK(weft_file_query(disk->file, &info));
    fprintf(stderr, "PE %d, %s: %s (%s), %s\n", me, disk->folder, info.file_system, info.store,
            info.backend);
    disk->model = malloc(BYTES + 7); /* make_model() writes whole words */
    CHECK(disk->model);
}

/* Starts the transfers, in parts of unequal size. */
static void begin(struct disk *disk, bool write, int pe)
{
    size_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        size_t bytes = i == PARTS - 1 ? BYTES - at : (size_t)(i + 1) * 200001;
        disk->results[i] = (weft_file_result){0};
        if (write)
            OK(weft_file_write_nbi(disk->file, disk->memory + at, bytes, at, pe,
                                   &disk->results[i]));
        else
            OK(weft_file_read_nbi(disk->file, disk->memory + at, bytes, at, pe, &disk->results[i]));
        at += bytes;
    }
}

static void end(struct disk *disk)
{
    uint64_t done = 0;
    OK(weft_file_quiet(disk->file));
    for (int i = 0; i < PARTS; i++) {
        CHECK(disk->results[i].status == WEFT_OK);
        done += disk->results[i].done;
    }
    CHECK(done == BYTES);
}

static void all_at_once(int count, bool write, int pe)
{
    for (int i = 0; i < count; i++)
        begin(&disks[i], write, pe);
    for (int i = count; i-- > 0;)
        end(&disks[i]);
}

static bool threads_write;

static void *by_itself(void *argument)
{
    struct disk *disk = argument;
    for (int i = 0; i < 3; i++)
        if (threads_write)
            OK(weft_file_write(disk->file, disk->memory, BYTES, 0, me, NULL));
        else
            OK(weft_file_read(disk->file, disk->memory, BYTES, 0, me, NULL));
    return NULL;
}

static void by_threads(int count, bool write)
{
    threads_write = write;
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&disks[i].thread, NULL, by_itself, &disks[i]) == 0);
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(disks[i].thread, NULL) == 0);
}

static void fill(int count, int round, bool zero)
{
    for (int i = 0; i < count; i++) {
        make_model(&disks[i], me, round);
        if (zero)
            memset(disks[i].model, 0, BYTES);
        OK(weft_put(ctx, disks[i].memory, disks[i].model, BYTES, me));
    }
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
}

/* ---------------------------------------------------------------------------------- a full disk */

/* All disks get FILLS times the bytes of one round; the writes of one PE alone exceed the space of
 * the last disk (24 MiB in file_disks.sh). Its handle reports that the disk is full and how many
 * bytes of each transfer are safe; the other handles succeed. Once it has space again, the handle
 * writes again. */
static void one_is_full(int count)
{
    enum { FILLS = 12 };
    weft_file_result results[MOST][FILLS];
    struct disk *last = &disks[count - 1];
    fill(count, 77, false);
    for (int k = 0; k < FILLS; k++)
        for (int i = 0; i < count; i++)
            OK(weft_file_write_nbi(disks[i].file, disks[i].memory, BYTES, (uint64_t)k * BYTES, me,
                                   &results[i][k]));
    FAILS(weft_file_quiet(last->file), WEFT_ERR_SYSTEM, strerror(ENOSPC));
    for (int i = 0; i < count - 1; i++)
        OK(weft_file_quiet(disks[i].file));
    int refused = 0;
    unsigned char *seen = malloc(BYTES);
    CHECK(seen);
    for (int i = 0; i < count; i++) {
        make_model(&disks[i], me, 77);
        int fd = open(disks[i].path, O_RDONLY);
        CHECK(fd >= 0);
        for (int k = 0; k < FILLS; k++) {
            const weft_file_result *r = &results[i][k];
            CHECK(&disks[i] == last || r->status == WEFT_OK);
            CHECK(r->status == WEFT_OK
                      ? r->done == BYTES
                      : r->status == WEFT_ERR_SYSTEM && r->error == ENOSPC && r->done < BYTES);
            refused += r->status != WEFT_OK;
            CHECK(pread(fd, seen, r->done, (off_t)k * BYTES) == (ssize_t)r->done &&
                  memcmp(seen, disks[i].model, r->done) == 0);
        }
        close(fd);
    }
    CHECK(refused > 0);
    free(seen);
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < count; i++)
        OK(weft_file_resize(disks[i].file, 0));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_file_write(last->file, last->memory, BYTES, 0, me, NULL));
    OK(weft_file_sync(last->file));
    check_file(last->path, last->model, BYTES);
}

/* This PE's memory now holds the contents of PE `pe`'s files. */
static void check(int count, int pe, int round)
{
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < count; i++) {
        unsigned char *seen = malloc(BYTES);
        CHECK(seen);
        OK(weft_get(ctx, seen, disks[i].memory, BYTES, me));
        make_model(&disks[i], pe, round);
        CHECK(memcmp(seen, disks[i].model, BYTES) == 0);
        free(seen);
    }
    OK(weft_barrier(weft_team_world(job)));
}

static void one_round(int count, int round)
{
    int next = round % 2 ? (me + 1) % n : me, before = round % 2 ? (me + n - 1) % n : me;
    fill(count, round, false);
    if (round % 3 == 2)
        by_threads(count, true);
    else
        all_at_once(count, true, me);
    for (int i = 0; i < count; i++) {
        make_model(&disks[i], me, round);
        check_file(disks[i].path, disks[i].model, BYTES);
    }
    fill(count, round, true);
    if (round % 3 == 2 && next == me)
        by_threads(count, false);
    else
        all_at_once(count, false, next);
    check(count, before, round);
}

int main(int argc, char **argv)
{
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    weft_kind kind = WEFT_HOST;
    bool full = false;
    for (; argc > 1 && !strchr("./", argv[1][0]); argc--, argv++) {
        if (strcmp(argv[1], "gpu") == 0)
            kind = WEFT_GPU;
        full |= strcmp(argv[1], "full") == 0;
    }
    int count = argc - 1;
    CHECK(count >= 1 && count <= MOST);
    OK(weft_init(&job, &attr));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    for (int i = 0; i < count; i++) {
        void *block;
        disks[i].folder = argv[1 + i];
        disks[i].number = i;
        OK(weft_alloc(job, kind, BYTES, 4096, 0, &block));
        disks[i].memory = block;
        open_disk(&disks[i]);
    }
    for (int round = 0; round < ROUNDS; round++)
        one_round(count, round);
    if (full)
        one_is_full(count);
    for (int i = 0; i < count; i++) {
        OK(weft_file_close(disks[i].file));
        CHECK(unlink(disks[i].path) == 0);
        free(disks[i].model);
        OK(weft_free(job, disks[i].memory));
    }
    OK(weft_finalize(job));
    return 0;
}
