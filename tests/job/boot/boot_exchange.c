/* SPDX-License-Identifier: Apache-2.0 */
/* The boot interface under the launcher that started this program: node tables, exchanges of many
 * sizes, barriers, descriptors from every PE of the node, and a second join.
 * boot_exchange [PES [PES_PER_NODE]]: the expected numbers. */
#include "boot/boot.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "PE %d: %s:%d: not true: %s (%s)\n", boot ? boot->pe : -1, __FILE__,   \
                    __LINE__, #condition, weft_last_error());                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static unsigned char pattern(int pe, size_t at)
{
    return (unsigned char)((size_t)pe * 131 + at * 7 + 5);
}

static void exchange(struct boot *boot, size_t bytes)
{
    unsigned char *mine = malloc(bytes + 1), *all = malloc(bytes * (size_t)boot->npes + 1);
    for (size_t i = 0; i < bytes; i++)
        mine[i] = pattern(boot->pe, i);
    EXPECT(boot->ops->allgather(boot, mine, all, bytes) == WEFT_OK);
    for (int pe = 0; pe < boot->npes; pe++)
        for (size_t i = 0; i < bytes; i++)
            EXPECT(all[(size_t)pe * bytes + i] == pattern(pe, i));
    free(mine);
    free(all);
}

static void share(struct boot *boot, int from)
{
    int own = -1, taken = -1, seen = -1;
    if (boot->pe == from) {
        own = memfd_create("share", MFD_CLOEXEC);
        EXPECT(pwrite(own, &from, sizeof from, 0) == sizeof from);
    }
    EXPECT(boot->ops->share_fd(boot, from, own, &taken) == WEFT_OK);
    if (own >= 0)
        close(own);
    EXPECT(taken >= 0);
    EXPECT(fcntl(taken, F_GETFD) & FD_CLOEXEC);
    EXPECT(pread(taken, &seen, sizeof seen, 0) == sizeof seen);
    EXPECT(seen == from);
    close(taken);
}

/* per_node: consecutive PEs on each node; 0: unknown. */
static void check_nodes(struct boot *boot, int per_node)
{
    for (int pe = 0; per_node && pe < boot->npes; pe++) {
        EXPECT(boot->node_of[pe] == pe / per_node);
        EXPECT((boot->nodes > 1) == (boot_where(boot, pe).text[0] != '\0'));
    }
    EXPECT(!per_node || boot->nodes == (boot->npes + per_node - 1) / per_node);
    EXPECT(!per_node || boot->local_pe == boot->pe % per_node);
}

static void check_tables(struct boot *boot)
{
    EXPECT(boot->pe >= 0 && boot->pe < boot->npes);
    EXPECT(boot->nodes >= 1 && boot->local_npes >= 1);
    EXPECT(boot->local_pes[boot->local_pe] == boot->pe);
    EXPECT(boot->shared_slot == NULL);
    for (int i = 0; i < boot->local_npes; i++)
        EXPECT(boot->node_of[boot->local_pes[i]] == boot->node_of[boot->pe]);
}

int main(int argc, char **argv)
{
    struct boot *boot = NULL;
    int expected = argc > 1 ? atoi(argv[1]) : 0, per_node = argc > 2 ? atoi(argv[2]) : 0;
    for (int again = 0; again < 3; again++) {
        EXPECT(boot_open(&boot, NULL, 0) == WEFT_OK);
        EXPECT(!expected || boot->npes == expected);
        check_tables(boot);
        check_nodes(boot, per_node);
        static const size_t sizes[] = {0, 1, 8, 1000, 4096, 40000};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            exchange(boot, sizes[i]);
        for (int i = 0; i < boot->local_npes; i++) {
            share(boot, boot->local_pes[i]);
            EXPECT(boot->ops->check(boot) == WEFT_OK);
        }
        for (int i = 0; i < 100; i++)
            EXPECT(boot->ops->barrier(boot) == WEFT_OK);
        EXPECT(getenv("WEFT_BOOT_SOCKET") == NULL);
        boot->ops->close(boot, true);
        boot = NULL;
    }
    return 0;
}
