/* SPDX-License-Identifier: Apache-2.0 */
/* Every wait and test of every type: comparisons, masks, empty sets, vectors, in the typed and the
 * C11 forms. */
#include "check.h"

#define N    5
#define NONE SIZE_MAX

static int me, n, next;

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* The typed form; the template also calls the C11 selections. */
#define BOTH_(NAME, form, ...) shmem_##NAME##_##form(__VA_ARGS__)
#define BOTH(NAME, form, ...)  BOTH_(NAME, form, __VA_ARGS__)

#define EACH_SHORT
#define EACH_SIGNED
#define EACH_UNSIGNED
#define TEMPLATE "wait_local.h"
#include "each_type.h"

/* The previous PE sets the variables one after the other, while this PE waits for them. */
#define REMOTE(arg, NAME, TYPE, code)                                                              \
    {                                                                                              \
        TYPE *at = symmetric(6 * N * sizeof *at), values[N];                                       \
        size_t found[N], seen = 0;                                                                 \
        int status[N] = {0};                                                                       \
        unsigned dawdling = (unsigned)me + 5;                                                      \
        for (int i = 0; i < 6 * N; i++) {                                                          \
            shmem_##NAME##_p(&at[i], (TYPE)(i + 1), next);                                         \
            dawdle(&dawdling);                                                                     \
        }                                                                                          \
        shmem_quiet();                                                                             \
        shmem_##NAME##_wait_until(at, SHMEM_CMP_NE, (TYPE)0);                                      \
        CHECK(at[0] == 1);                                                                         \
        shmem_##NAME##_wait_until_all(at, N, NULL, SHMEM_CMP_NE, (TYPE)0);                         \
        for (int i = 0; i < N; i++)                                                                \
            CHECK(at[i] == (TYPE)(i + 1));                                                         \
        for (int i = 0; i < N; i++) {                                                              \
            size_t one = shmem_##NAME##_wait_until_any(at + N, N, status, SHMEM_CMP_GT, (TYPE)N);  \
            CHECK(one < N && !status[one] && at[N + one] == (TYPE)(N + one + 1));                  \
            status[one] = 1;                                                                       \
        }                                                                                          \
        memset(status, 0, sizeof status);                                                          \
        while (seen < N) {                                                                         \
            size_t more = shmem_##NAME##_wait_until_some(at + 2 * N, N, found, status,             \
                                                         SHMEM_CMP_NE, (TYPE)0);                   \
            CHECK(more > 0);                                                                       \
            for (size_t i = 0; i < more; i++) {                                                    \
                CHECK(!status[found[i]]);                                                          \
                status[found[i]] = 1;                                                              \
            }                                                                                      \
            seen += more;                                                                          \
        }                                                                                          \
        for (int i = 0; i < N; i++)                                                                \
            values[i] = (TYPE)(3 * N + i + 1);                                                     \
        shmem_##NAME##_wait_until_all_vector(at + 3 * N, N, NULL, SHMEM_CMP_EQ, values);           \
        for (int i = 0; i < N; i++)                                                                \
            values[i] = (TYPE)(4 * N + i + 1);                                                     \
        size_t one =                                                                               \
            shmem_##NAME##_wait_until_any_vector(at + 4 * N, N, NULL, SHMEM_CMP_EQ, values);       \
        CHECK(one < N && at[4 * N + one] == values[one]);                                          \
        for (int i = 0; i < N; i++)                                                                \
            values[i] = (TYPE)(5 * N + i + 1);                                                     \
        seen = shmem_##NAME##_wait_until_some_vector(at + 5 * N, N, found, NULL, SHMEM_CMP_EQ,     \
                                                     values);                                      \
        CHECK(seen >= 1 && seen <= N && at[5 * N + found[0]] == values[found[0]]);                 \
        shmem_barrier_all();                                                                       \
        shmem_free(at);                                                                            \
    }

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
#define CALL(arg, NAME, TYPE, code) local_##NAME();
    WEFT_SHMEM_WAIT_BASE(CALL, )
    WEFT_SHMEM_WAIT_TYPES(REMOTE, )
    shmem_finalize();
    return 0;
}
