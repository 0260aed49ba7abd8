/* SPDX-License-Identifier: Apache-2.0 */
/* Processes without a launcher meet by a unique id, which they exchange through a file: by_id PE
 * PES FILE. PE 0 creates the id. They put around a ring and reduce; twice, with two ids. */
#include <weft.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "PE %s: line %d: %s: %s\n", argv[1], __LINE__, #condition,             \
                    weft_last_error());                                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    int pe = argc > 3 ? atoi(argv[1]) : 0, npes = argc > 3 ? atoi(argv[2]) : 1;
    char path[512], whole[512];
    CHECK(argc > 3 && weft_unique_id_get(NULL) == WEFT_ERR_ARGUMENT);
    weft_init_attr bad = {
        .size = sizeof bad, .unique_id = &(weft_unique_id){{1}}, .unique_id_npes = 1};
    weft_job *job;
    CHECK(weft_init(&job, &bad) == WEFT_ERR_ARGUMENT &&
          strstr(weft_last_error(), "was not made by"));
    for (int again = 0; again < 2; again++) {
        weft_unique_id id;
        snprintf(path, sizeof path, "%.400s.%d.part", argv[3], again);
        snprintf(whole, sizeof whole, "%.400s.%d", argv[3], again);
        if (pe == 0) {
            CHECK(weft_unique_id_get(&id) == WEFT_OK);
            FILE *file = fopen(path, "w");
            CHECK(file && fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
            CHECK(rename(path, whole) == 0);
        } else {
            FILE *file;
            for (int tries = 0; !(file = fopen(whole, "r")) && tries < 3000; tries++)
                usleep(10000);
            CHECK(file && fread(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
        }
        weft_init_attr attr = {.size = sizeof attr,
                               .heap_bytes = 1 << 20,
                               .unique_id = &id,
                               .unique_id_pe = pe,
                               .unique_id_npes = npes};
        CHECK(weft_init(&job, &attr) == WEFT_OK);
        CHECK(weft_my_pe(job) == pe && weft_n_pes(job) == npes);
        void *room;
        CHECK(weft_alloc(job, WEFT_HOST, 64, 0, WEFT_ALLOC_ZERO, &room) == WEFT_OK);
        int64_t *values = room;
        CHECK(weft_p64(weft_default_ctx(job), (uint64_t *)&values[0], (uint64_t)(pe - 1000),
                       (pe + 1) % npes) == WEFT_OK);
        CHECK(weft_barrier(weft_team_world(job)) == WEFT_OK);
        CHECK(values[0] == (pe + npes - 1) % npes - 1000);
        values[1] = -(pe + 1);
        CHECK(weft_allreduce(weft_team_world(job), &values[2], &values[1], 1, WEFT_INT64,
                             WEFT_SUM) == WEFT_OK);
        CHECK(values[2] == -(int64_t)npes * (npes + 1) / 2);
        CHECK(weft_finalize(job) == WEFT_OK);
    }
    return 0;
}
