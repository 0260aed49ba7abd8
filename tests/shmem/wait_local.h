/* SPDX-License-Identifier: Apache-2.0 */
/* Template of wait.c: waits for and tests of TYPE whose condition already holds. */
static void JOIN(local_, NAME)(void)
{
    TYPE *at = symmetric(N * sizeof *at), values[N];
    int skip_two[N] = {0, 1, 0, 1, 0}, all[N] = {1, 1, 1, 1, 1};
    size_t found[N];
    for (int i = 0; i < N; i++)
        values[i] = at[i] = (TYPE)(i + 1);
    CHECK(BOTH(NAME, test, &at[2], SHMEM_CMP_EQ, (TYPE)3) == 1);
    CHECK(BOTH(NAME, test, &at[2], SHMEM_CMP_NE, (TYPE)3) == 0);
    CHECK(shmem_test(&at[2], SHMEM_CMP_GT, (TYPE)2) == 1);
    CHECK(shmem_test(&at[2], SHMEM_CMP_GE, (TYPE)4) == 0);
    CHECK(shmem_test(&at[2], SHMEM_CMP_LT, (TYPE)4) == 1);
    CHECK(shmem_test(&at[2], SHMEM_CMP_LE, (TYPE)2) == 0);
    shmem_wait_until(&at[2], SHMEM_CMP_EQ, (TYPE)3);
    CHECK(BOTH(NAME, test_all, at, N, NULL, SHMEM_CMP_GT, (TYPE)0) == 1);
    CHECK(shmem_test_all(at, N, skip_two, SHMEM_CMP_NE, (TYPE)4) == 1);
    CHECK(shmem_test_all(at, N, NULL, SHMEM_CMP_NE, (TYPE)4) == 0);
    CHECK(shmem_test_all(at, N, all, SHMEM_CMP_NE, (TYPE)4) == 1);
    CHECK(shmem_test_all(at, 0, NULL, SHMEM_CMP_NE, (TYPE)4) == 1);
    CHECK(BOTH(NAME, test_any, at, N, NULL, SHMEM_CMP_EQ, (TYPE)4) == 3);
    CHECK(shmem_test_any(at, N, skip_two, SHMEM_CMP_EQ, (TYPE)4) == NONE);
    CHECK(shmem_test_any(at, N, all, SHMEM_CMP_EQ, (TYPE)4) == NONE);
    CHECK(shmem_test_any(at, 0, NULL, SHMEM_CMP_EQ, (TYPE)4) == NONE);
    CHECK(BOTH(NAME, test_some, at, N, found, NULL, SHMEM_CMP_GT, (TYPE)3) == 2);
    CHECK(found[0] + found[1] == 7 && found[0] != found[1]);
    CHECK(shmem_test_some(at, N, found, skip_two, SHMEM_CMP_GT, (TYPE)3) == 1);
    CHECK(found[0] == 4);
    CHECK(shmem_test_some(at, N, found, all, SHMEM_CMP_GT, (TYPE)3) == 0);
    CHECK(BOTH(NAME, test_all_vector, at, N, NULL, SHMEM_CMP_EQ, values) == 1);
    values[1] = (TYPE)50;
    CHECK(shmem_test_all_vector(at, N, NULL, SHMEM_CMP_EQ, values) == 0);
    CHECK(shmem_test_all_vector(at, N, skip_two, SHMEM_CMP_EQ, values) == 1);
    CHECK(BOTH(NAME, test_any_vector, at, N, NULL, SHMEM_CMP_NE, values) == 1);
    CHECK(shmem_test_any_vector(at, N, skip_two, SHMEM_CMP_NE, values) == NONE);
    CHECK(BOTH(NAME, test_some_vector, at, N, found, NULL, SHMEM_CMP_EQ, values) == 4);
    CHECK(shmem_test_some_vector(at, N, found, skip_two, SHMEM_CMP_EQ, values) == 3);
    shmem_wait_until_all(at, N, NULL, SHMEM_CMP_GT, (TYPE)0);
    shmem_wait_until_all(at, N, all, SHMEM_CMP_EQ, (TYPE)99);
    shmem_wait_until_all(at, 0, NULL, SHMEM_CMP_EQ, (TYPE)99);
    CHECK(shmem_wait_until_any(at, N, all, SHMEM_CMP_EQ, (TYPE)99) == NONE);
    CHECK(shmem_wait_until_any(at, N, NULL, SHMEM_CMP_EQ, (TYPE)5) == 4);
    CHECK(shmem_wait_until_some(at, N, found, all, SHMEM_CMP_EQ, (TYPE)99) == 0);
    CHECK(shmem_wait_until_some(at, N, found, NULL, SHMEM_CMP_LE, (TYPE)2) == 2);
    shmem_wait_until_all_vector(at, N, skip_two, SHMEM_CMP_EQ, values);
    CHECK(shmem_wait_until_any_vector(at, N, NULL, SHMEM_CMP_NE, values) == 1);
    CHECK(shmem_wait_until_some_vector(at, N, found, skip_two, SHMEM_CMP_EQ, values) == 3);
    at[0] = (TYPE)-1; /* signed: less than 0; unsigned: the largest value */
    CHECK(shmem_test(&at[0], SHMEM_CMP_GT, (TYPE)0) == ((TYPE)-1 > (TYPE)0));
    CHECK(shmem_test(&at[0], SHMEM_CMP_EQ, (TYPE)-1) == 1);
    shmem_free(at);
}
