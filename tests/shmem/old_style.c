/* SPDX-License-Identifier: Apache-2.0 */
/* Small programs in the style of SGI and Cray SHMEM and of OpenSHMEM 1.0 to 1.4: start_pes, active
 * sets with pSync and pWrk, shmem_int_put, shmem_swap, shmem_wait, arrays of short and long double,
 * cyclic shifts, tables, sorting, locks. PE 0 prints one line for each, which is the same with
 * every library for up to 16 PEs: the programs use nothing of Weft. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef _SHMEM_SYNC_VALUE /* libraries that removed the names of 1.0 */
#define _SHMEM_SYNC_VALUE              SHMEM_SYNC_VALUE
#define _SHMEM_BCAST_SYNC_SIZE         SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE        SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE       SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE       SHMEM_BARRIER_SYNC_SIZE
#endif

enum { MOST_PES = 16 };

static int me, npes;
static long bcast_sync[_SHMEM_BCAST_SYNC_SIZE], collect_sync[_SHMEM_COLLECT_SYNC_SIZE];
static long barrier_sync[_SHMEM_BARRIER_SYNC_SIZE];
static long reduce_sync[2][_SHMEM_REDUCE_SYNC_SIZE];

static void clear_sync(void)
{
    int i;
    for (i = 0; i < _SHMEM_BCAST_SYNC_SIZE; i++)
        bcast_sync[i] = _SHMEM_SYNC_VALUE;
    for (i = 0; i < _SHMEM_COLLECT_SYNC_SIZE; i++)
        collect_sync[i] = _SHMEM_SYNC_VALUE;
    for (i = 0; i < _SHMEM_BARRIER_SYNC_SIZE; i++)
        barrier_sync[i] = _SHMEM_SYNC_VALUE;
    for (i = 0; i < _SHMEM_REDUCE_SYNC_SIZE; i++)
        reduce_sync[0][i] = reduce_sync[1][i] = _SHMEM_SYNC_VALUE;
    shmem_barrier_all();
}

#define SAY(...)                                                                                   \
    if (me == 0)                                                                                   \
    printf(__VA_ARGS__)

/* Sum over all PEs, so that the line of PE 0 covers all of them. */
static long total(long mine)
{
    static long source, sum, work[_SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    static int turn;
    source = mine;
    shmem_barrier_all();
    shmem_long_sum_to_all(&sum, &source, 1, 0, 0, npes, work, reduce_sync[turn]);
    turn = !turn;
    return sum;
}

static void shift_right(void)
{
    static int from_left;
    shmem_int_p(&from_left, me * me - 5, (me + 1) % npes);
    shmem_barrier_all();
    long all = total((long)from_left * (me + 1));
    SAY("shift_right %ld\n", all);
}

static void block_shift(void)
{
    static short row[64], mine[64];
    int i;
    for (i = 0; i < 64; i++)
        mine[i] = (short)(-me * 100 - i);
    shmem_short_put(row, mine, 64, (me + npes - 1) % npes);
    shmem_barrier_all();
    long sum = 0;
    for (i = 0; i < 64; i++)
        sum += row[i];
    long all = total(sum);
    SAY("block_shift %ld\n", all);
}

static void get_from_all(void)
{
    static double temperature[4];
    double seen[4], sum = 0;
    int pe, i;
    for (i = 0; i < 4; i++)
        temperature[i] = -40.0 + me * 2.5 + i;
    shmem_barrier_all();
    for (pe = 0; pe < npes; pe++) {
        shmem_double_get(seen, temperature, 4, pe);
        for (i = 0; i < 4; i++)
            sum += seen[i];
    }
    shmem_barrier_all();
    SAY("get_from_all %.3f\n", sum);
}

static void swap_token(void)
{
    static long slot;
    slot = me;
    shmem_barrier_all();
    long old = shmem_long_swap(&slot, 100 + me, (me + 1) % npes);
    shmem_barrier_all();
    long all = total(old * 1000 + slot);
    SAY("swap_token %ld\n", all);
}

static void compare_swap_race(void)
{
    static long winner;
    winner = -1;
    shmem_barrier_all();
    int won = shmem_long_cswap(&winner, -1, me, 0) == -1;
    shmem_barrier_all();
    long all = total(won);
    SAY("compare_swap_race %ld\n", all);
}

static void counter(void)
{
    static long count;
    long i, before = 0;
    for (i = 0; i < 20; i++)
        before += shmem_long_finc(&count, npes - 1);
    shmem_barrier_all();
    shmem_long_add(&count, -3, npes - 1);
    shmem_barrier_all();
    long all = total(before), last = shmem_long_g(&count, npes - 1);
    SAY("counter %ld %ld\n", all, last);
}

static void fetch_and_add(void)
{
    static long long ticket;
    long long mine = shmem_longlong_fadd(&ticket, 1LL << 33, 0);
    shmem_barrier_all();
    long all = total((long)(mine >> 33));
    SAY("fetch_and_add %ld\n", all);
}

static void wait_for_flag(void)
{
    static long flag, data[8];
    long mine[8];
    int i;
    for (i = 0; i < 8; i++)
        mine[i] = me + i * i;
    shmem_long_put(data, mine, 8, (me + 1) % npes);
    shmem_fence();
    shmem_long_p(&flag, 1, (me + 1) % npes);
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    long sum = 0;
    for (i = 0; i < 8; i++)
        sum += data[i];
    long all = total(sum);
    SAY("wait_for_flag %ld\n", all);
}

static void wait_negative(void)
{
    static int level;
    level = 10;
    shmem_barrier_all();
    shmem_int_p(&level, -70000 - me, (me + 1) % npes);
    shmem_int_wait_until(&level, SHMEM_CMP_LT, 0);
    long all = total(level);
    SAY("wait_negative %ld\n", all);
}

static void broadcast_table(void)
{
    static long table[10], received[10];
    int i, root = npes - 1;
    for (i = 0; i < 10; i++) {
        table[i] = (me + 1) * (i - 4);
        received[i] = -1;
    }
    shmem_barrier_all();
    shmem_broadcast64(received, table, 10, root, 0, 0, npes, bcast_sync);
    long sum = 0;
    for (i = 0; i < 10; i++)
        sum += received[i] * (i + 1);
    if (me == root)
        sum = received[0]; /* the root's destination is not written */
    long all = total(sum);
    SAY("broadcast_table %ld\n", all);
}

static void collect_uneven(void)
{
    static int mine[MOST_PES], everything[MOST_PES * MOST_PES];
    int i, size = me % 3 + 1, at = 0;
    for (i = 0; i < size; i++)
        mine[i] = 10 * me - i;
    shmem_barrier_all();
    shmem_collect32(everything, mine, (size_t)size, 0, 0, npes, collect_sync);
    for (i = 0; i < npes; i++)
        at += i % 3 + 1;
    long sum = 0;
    for (i = 0; i < at; i++)
        sum += (long)everything[i] * (i + 1);
    long all = total(sum);
    SAY("collect_uneven %ld\n", all);
}

static void fcollect_even(void)
{
    static double mine[3], everything[3 * MOST_PES];
    int i;
    for (i = 0; i < 3; i++)
        mine[i] = me + i / 4.0;
    shmem_barrier_all();
    shmem_fcollect64(everything, mine, 3, 0, 0, npes, collect_sync);
    double sum = 0;
    for (i = 0; i < 3 * npes; i++)
        sum += everything[i] * i;
    shmem_barrier_all();
    SAY("fcollect_even %.3f\n", sum);
}

#define TO_ALL(NAME, TYPE, op, count, expression, format, cast)                                    \
    static void NAME##_##op(void)                                                                  \
    {                                                                                              \
        static TYPE source[count], result[count];                                                  \
        static TYPE work[(count) / 2 + 1 > _SHMEM_REDUCE_MIN_WRKDATA_SIZE                          \
                             ? (count) / 2 + 1                                                     \
                             : _SHMEM_REDUCE_MIN_WRKDATA_SIZE];                                    \
        int i;                                                                                     \
        for (i = 0; i < (count); i++)                                                              \
            source[i] = (TYPE)(expression);                                                        \
        shmem_barrier_all();                                                                       \
        shmem_##NAME##_##op##_to_all(result, source, count, 0, 0, npes, work, reduce_sync[0]);     \
        SAY(#NAME "_" #op);                                                                        \
        for (i = 0; i < (count); i++)                                                              \
            SAY(" " format, (cast)result[i]);                                                      \
        SAY("\n");                                                                                 \
        shmem_barrier_all();                                                                       \
    }
TO_ALL(int, int, sum, 5, (me + 1) * (i - 2), "%d", int)
TO_ALL(int, int, min, 4, (i - me) * 7, "%d", int)
TO_ALL(long, long, max, 4, -1000 - (i * me) % 5, "%ld", long)
TO_ALL(short, short, and, 3, ~(1 << (me % 8 + i)), "%d", int)
TO_ALL(int, int, or, 3, 1 << (me + 15 * (i == 2)), "%d", int)
TO_ALL(longlong, long long, xor, 3, (me + 1LL) << (20 * i), "%lld", long long)
TO_ALL(float, float, prod, 3, me % 2 ? -2.0f : 0.5f + (float)i, "%.4f", double)
TO_ALL(double, double, max, 2, -3.5 * (i + 1) + me, "%.2f", double)
TO_ALL(longdouble, long double, sum, 2, me * 0.25L - i, "%.2f", double)

static void odd_active_set(void)
{
    static long source, result, work[_SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    int size = npes / 2; /* PEs 1, 3, 5 ... */
    source = me * 10 - 1;
    result = 0;
    shmem_barrier_all();
    if (me % 2 == 1) {
        shmem_long_sum_to_all(&result, &source, 1, 1, 1, size, work, reduce_sync[1]);
        shmem_barrier(1, 1, size, barrier_sync);
    }
    shmem_barrier_all();
    long all = total(result);
    SAY("odd_active_set %ld\n", all);
}

static void strided_matrix(void)
{
    static int matrix[12][MOST_PES];
    int column[12], i;
    memset(matrix, 0, sizeof matrix);
    for (i = 0; i < 12; i++)
        column[i] = me * 12 - i;
    shmem_barrier_all();
    shmem_int_iput(&matrix[0][me], column, MOST_PES, 1, 12, 0);
    shmem_barrier_all();
    long sum = 0;
    for (i = 0; me == 0 && i < 12 * MOST_PES; i++)
        sum += (long)matrix[i / MOST_PES][i % MOST_PES] * (i % 7);
    shmem_int_iget(column, &matrix[0][me], 2, MOST_PES, 6, 0);
    long all = total(column[10]);
    SAY("strided_matrix %ld %ld\n", sum, all);
}

static void critical_sections(void)
{
    static long lock, balance;
    int i;
    for (i = 0; i < 10; i++) {
        shmem_set_lock(&lock);
        long now = shmem_long_g(&balance, 0);
        shmem_long_p(&balance, now - me - 1, 0);
        shmem_quiet();
        shmem_clear_lock(&lock);
    }
    while (shmem_test_lock(&lock))
        ;
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    SAY("critical_sections %ld\n", balance);
}

static void histogram(void)
{
    static int bins[10];
    unsigned seed = 12345u + (unsigned)me * 77u;
    int i;
    for (i = 0; i < 200; i++) {
        seed = seed * 1103515245u + 12345u;
        shmem_int_inc(&bins[seed >> 16 & 7], (int)(seed >> 8 & 0xff) % npes);
    }
    shmem_barrier_all();
    long sum = 0;
    for (i = 0; i < 10; i++)
        sum += (long)bins[i] * (i + 1);
    long all = total(sum);
    SAY("histogram %ld\n", all);
}

static void odd_even_sort(void)
{
    static int value, other;
    int step;
    value = (me * 7919 + 13) % 101 - 50;
    for (step = 0; step < npes; step++) {
        int partner = (me + step) % 2 ? me - 1 : me + 1;
        shmem_barrier_all();
        other = value;
        shmem_barrier_all();
        if (partner < 0 || partner >= npes)
            continue;
        int theirs = shmem_int_g(&other, partner);
        if (me < partner ? theirs < value : theirs > value)
            value = theirs;
    }
    shmem_barrier_all();
    SAY("odd_even_sort");
    for (step = 0; step < npes; step++)
        SAY(" %d", shmem_int_g(&value, step));
    SAY("\n");
    shmem_barrier_all();
}

static void stencil(void)
{
    static double field[2][34];
    int step, i, now = 0;
    memset(field, 0, sizeof field);
    for (i = 1; i <= 32; i++)
        field[0][i] = (me * 32 + i) % 11 - 5;
    for (step = 0; step < 10; step++, now = !now) {
        shmem_barrier_all();
        if (me > 0)
            shmem_double_p(&field[now][33], field[now][1], me - 1);
        if (me < npes - 1)
            shmem_double_p(&field[now][0], field[now][32], me + 1);
        shmem_barrier_all();
        for (i = 1; i <= 32; i++)
            field[!now][i] = (field[now][i - 1] + 2 * field[now][i] + field[now][i + 1]) / 4;
    }
    double sum = 0;
    for (i = 1; i <= 32; i++)
        sum += field[now][i] * i;
    long all = total((long)(sum * 1048576.0));
    SAY("stencil %ld\n", all);
}

static void heap_blocks(void)
{
    long *block = shmem_malloc(100 * sizeof *block);
    int i;
    for (i = 0; i < 100; i++)
        block[i] = me - i;
    block = shmem_realloc(block, 5000 * sizeof *block);
    shmem_barrier_all();
    long seen = shmem_long_g(&block[99], (me + 1) % npes);
    char *aligned = shmem_align(4096, 10);
    int right = aligned && (unsigned long)aligned % 4096 == 0;
    shmem_barrier_all();
    shmem_free(aligned);
    shmem_free(block);
    long all = total(seen + right * 1000);
    SAY("heap_blocks %ld\n", all);
}

static void nonblocking(void)
{
    static int arrived[MOST_PES][32];
    int mine[32], i, pe;
    for (i = 0; i < 32; i++)
        mine[i] = me * 32 - i * i;
    for (pe = 0; pe < npes; pe++)
        shmem_int_put_nbi(arrived[me], mine, 32, pe);
    shmem_quiet();
    shmem_barrier_all();
    long sum = 0;
    for (pe = 0; pe < npes; pe++)
        for (i = 0; i < 32; i++)
            sum += (long)arrived[pe][i] * (pe + i);
    long all = total(sum);
    SAY("nonblocking %ld\n", all);
}

static void pointers(void)
{
    static int word;
    word = 5;
    shmem_barrier_all();
    int *there = shmem_ptr(&word, me);
    if (there)
        *there = me - 9;
    else
        word = me - 9;
    shmem_barrier_all();
    long all = total(shmem_int_g(&word, (me + 1) % npes));
    SAY("pointers %ld %d\n", all, shmem_addr_accessible(&word, npes - 1) && shmem_pe_accessible(0));
}

static void bytes_and_sizes(void)
{
    static char text[64];
    static long double wide[4];
    char line[64];
    long double mine[4] = {1.5L + me, -2.5L, 3e300L, 0};
    snprintf(line, sizeof line, "from PE %d", me);
    shmem_putmem(text, line, sizeof line, (me + 1) % npes);
    shmem_longdouble_put(wide, mine, 4, (me + 1) % npes);
    shmem_put32((int *)text + 8, mine, 0, me);
    shmem_barrier_all();
    long all = total(strlen(text) * 100 + (long)(wide[0] * 2) + (wide[2] > 1e299L));
    SAY("bytes_and_sizes %s %ld\n", npes > 1 ? "" : text, all);
}

static void float_swap(void)
{
    static float cell;
    static double total_cell;
    cell = -1.5f * (float)me;
    total_cell = me / 8.0;
    shmem_barrier_all();
    float old = shmem_float_swap(&cell, 1e30f, (me + 1) % npes);
    double old_total = shmem_double_swap(&total_cell, -0.5, (me + 1) % npes);
    long all = total((long)(old * 4) + (long)(old_total * 64));
    SAY("float_swap %ld\n", all);
}

int main(void)
{
    start_pes(0);
    me = _my_pe();
    npes = _num_pes();
    clear_sync();
    shift_right();
    block_shift();
    get_from_all();
    swap_token();
    compare_swap_race();
    counter();
    fetch_and_add();
    wait_for_flag();
    wait_negative();
    broadcast_table();
    collect_uneven();
    fcollect_even();
    int_sum();
    int_min();
    long_max();
    short_and();
    int_or();
    longlong_xor();
    float_prod();
    double_max();
    longdouble_sum();
    odd_active_set();
    strided_matrix();
    critical_sections();
    histogram();
    odd_even_sort();
    stencil();
    heap_blocks();
    nonblocking();
    pointers();
    bytes_and_sizes();
    float_swap();
    shmem_barrier_all();
    return 0;
}
