/* SPDX-License-Identifier: Apache-2.0 */
/* All PEs write one file at the same time, each with several threads and two handles, in ranges
 * that share blocks and pages with their neighbours but no byte. In every round every byte must
 * arrive, and a reader next to the writers reads its own range unchanged. */
#include "tests/job/file.h"

#include <pthread.h>

enum { THREADS = 3, PIECES = 24, MOST_PIECE = 9000, BUFFER = PIECES * MOST_PIECE };

struct shared {
    weft_job *job;
    weft_file *files[2];
    int me, n;
    uint64_t seed; /* of this round; equal at every PE */
    size_t starts[64 * THREADS * PIECES + 1];
    int count;
};

struct writer {
    struct shared *shared;
    int number; /* index among all threads of all PEs */
    pthread_t thread;
};

static unsigned char byte_at(uint64_t seed, size_t at)
{
    uint64_t x = (seed + at) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(x >> 56);
}

/* Piece i of the file belongs to thread i modulo the number of threads, so that neighbours belong
 * to different threads. */
static void lay_out(struct shared *s)
{
    uint64_t random = s->seed;
    size_t at = 0;
    s->count = s->n * THREADS * PIECES;
    for (int i = 0; i <= s->count; i++) {
        s->starts[i] = at;
        at += 1 + next_random(&random) % (next_random(&random) % 4 ? 700 : MOST_PIECE - 1);
    }
}

static void write_piece(struct writer *w, int i, weft_file_result *result, unsigned char *buffer)
{
    struct shared *s = w->shared;
    size_t at = s->starts[i], bytes = s->starts[i + 1] - at;
    for (size_t k = 0; k < bytes; k++)
        buffer[k] = byte_at(s->seed, at + k);
    weft_file *file = s->files[(i / 3) % 2];
    if (i % 2)
        OK(weft_file_write_nbi(file, buffer, bytes, at, s->me, result));
    else
        OK(weft_file_write(file, buffer, bytes, at, s->me, result));
}

/* Writes each piece of this thread once; a piece between later ones must keep its bytes. */
static void *write_all(void *argument)
{
    struct writer *w = argument;
    struct shared *s = w->shared;
    unsigned char *buffer = malloc(BUFFER), *back = malloc(MOST_PIECE);
    weft_file_result results[PIECES];
    CHECK(buffer && back);
    int all = s->n * THREADS, order = (int)(s->seed % 5);
    for (int k = 0; k < PIECES; k++) {
        int turn = (k * 7 + order) % PIECES; /* 7 and 24 are coprime, so each is written once */
        write_piece(w, w->number + turn * all, &results[k], buffer + (size_t)k * MOST_PIECE);
        if (k % 5 == 4) { /* reads back its first piece: */
            OK(weft_file_quiet(s->files[0]));
            OK(weft_file_quiet(s->files[1]));
            int first = w->number + order % PIECES * all;
            size_t at = s->starts[first], bytes = s->starts[first + 1] - at;
            OK(weft_file_read(s->files[k / 5 % 2], back, bytes, at, s->me, NULL));
            for (size_t j = 0; j < bytes; j++)
                CHECK(back[j] == byte_at(s->seed, at + j));
        }
    }
    OK(weft_file_quiet(s->files[0]));
    OK(weft_file_quiet(s->files[1]));
    for (int k = 0; k < PIECES; k++)
        CHECK(results[k].status == WEFT_OK);
    free(buffer);
    free(back);
    return NULL;
}

static void check_all(struct shared *s)
{
    size_t bytes = s->starts[s->count];
    unsigned char *seen = malloc(bytes);
    CHECK(seen);
    OK(weft_file_read(s->files[0], seen, bytes, 0, s->me, NULL));
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        if (seen[i] != byte_at(s->seed, i) && !wrong++)
            fprintf(stderr, "PE %d: byte %zu is %02x, not %02x\n", s->me, i, seen[i],
                    byte_at(s->seed, i));
    CHECK(wrong == 0);
    free(seen);
}

static void round_of(struct shared *s)
{
    struct writer writers[THREADS];
    lay_out(s);
    OK(weft_barrier(weft_team_world(s->job)));
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){.shared = s, .number = s->me * THREADS + i};
        CHECK(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(writers[i].thread, NULL);
    OK(weft_barrier(weft_team_world(s->job)));
    check_all(s);
    OK(weft_barrier(weft_team_world(s->job)));
}

int main(void)
{
    static struct shared s;
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    OK(weft_init(&s.job, &attr));
    s.me = weft_my_pe(s.job);
    s.n = weft_n_pes(s.job);
    const char *path = test_path("shared", 0);
    for (int i = 0; i < 2; i++)
        OK(weft_file_open(s.job, path, WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL,
                          &s.files[i]));
    for (unsigned long long round = 0; round < rounds_or(12); round++) {
        s.seed = (round + 1) * 1000003u;
        round_of(&s);
    }
    OK(weft_file_close(s.files[0]));
    OK(weft_file_close(s.files[1]));
    OK(weft_barrier(weft_team_world(s.job)));
    if (s.me == 0)
        CHECK(unlink(path) == 0);
    OK(weft_finalize(s.job));
    return 0;
}
