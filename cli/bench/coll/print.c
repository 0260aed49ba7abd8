/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `weft bench coll`: a table, JSON with one object per line, or CSV. */
#include "bench/coll/coll.h"

#include <jansson.h>

static bool has_blocks(enum coll_what what)
{
    return what != COLL_BROADCAST && what != COLL_REDUCE && what != COLL_ALLREDUCE;
}

double coll_busbw(int op, size_t bytes, int members, double us)
{
    enum coll_what what = coll_op_what(op);
    double n = members, moved = (double)bytes;
    if (has_blocks(what))
        moved = (n - 1) * (double)bytes;
    else if (what == COLL_ALLREDUCE)
        moved = 2 * (n - 1) / n * (double)bytes;
    return us > 0 ? moved / us / 1e3 : 0;
}

double coll_algbw(int op, size_t bytes, int members, double us)
{
    double all = has_blocks(coll_op_what(op)) ? (double)members * (double)bytes : (double)bytes;
    return us > 0 ? all / us / 1e3 : 0;
}

static const char *target_of(const struct coll_bench *b)
{
    return b->cuda ? "cuda" : "simt";
}

static void table_head(const struct coll_bench *b)
{
    const struct coll_rates *rates = tool_coll_rates(b->bench.world);
    char text[1200];
    struct coll_rates here;
    printf("collectives over %d PE%s, %s memory, target %s", b->members, b->members == 1 ? "" : "s",
           b->cuda ? "GPU" : "host", target_of(b));
    if (b->options->sms < 64)
        printf(", at most %d SMs", b->options->sms);
    printf("; microseconds, the slowest PE's median; algbw and busbw in GB/s, as of nccl-tests\n");
    if (!b->cuda) {
        printf("figures of the stand-in, not of a GPU; floor: memcpy of the bytes at %.3g GB/s and "
               "a round trip of a cache line, %.2f us, both measured now\n",
               b->memcpy_gbps, 2 * b->bench.floors.two_lines_ns / 1e3);
    } else {
        tool_coll_rates_here(&here, text, sizeof text);
        bool agreed = coll_rates_hash(&here) == coll_rates_hash(rates);
        printf("floor: the bytes at %.3g GB/s and a round trip of a flag, %.2f us; model and floor "
               "from rates %s\n",
               coll_link_gbps(rates), coll_flag_us(rates),
               agreed ? text : "built in, since the PEs have different ones");
        if (b->kernels && b->members > 1 && tool_coll_gpus(b->bench.world) < b->members)
            printf("PEs share a GPU: their kernels take turns of milliseconds, so these are not "
                   "times of "
                   "links\n");
        if (!b->kernels)
            printf("kernels cannot run between these PEs: host functions are called in stream "
                   "order\n");
    }
    printf("\n%-14s %9s %-8s %9s %9s %9s %8s %8s %8s %8s  %s\n", "operation", "bytes", "way",
           "graph", "stream", "host", "algbw", "busbw", "x floor", "model", "checked");
}

void coll_print_head(const struct coll_bench *b)
{
    if (b->options->form == COLL_TABLE)
        table_head(b);
    else if (b->options->form == COLL_CSV)
        printf("op,bytes,way,taken,blocks,pes,target,sms,graph_us,stream_us,host_us,graph_min_us,"
               "stream_min_us,host_min_us,gbytes_per_s,algbw_gbytes_per_s,floor_us,ratio,model_us,"
               "verified\n");
    fflush(stdout);
}

static const char *us_text(double us, struct bench_text *text)
{
    if (us < 0)
        snprintf(text->text, sizeof text->text, "-");
    else
        snprintf(text->text, sizeof text->text, us < 99.95 ? "%.2f" : "%.0f", us);
    return text->text;
}

static double best_us(const struct coll_row *row)
{
    return row->us[COLL_GRAPH] >= 0 ? row->us[COLL_GRAPH] : row->us[COLL_STREAM];
}

static double ratio_of(const struct coll_row *row)
{
    return row->floor_us > 0 ? best_us(row) / row->floor_us : -1;
}

static void table_row(const struct coll_row *row)
{
    static const char *const found[] = {"no", "WRONG", "right"};
    struct bench_text text;
    printf("%-14s %9s ", coll_op_name(row->op), bench_bytes_text(row->bytes).text);
    printf("%-8s", coll_way_names[row->way]);
    for (int how = 0; how < COLL_HOWS; how++)
        printf(" %9s", us_text(row->us[how], &text));
    printf(" %8s", bench_number_text(row->algbw).text);
    printf(" %8s", bench_number_text(row->busbw).text);
    printf(" %8s", us_text(ratio_of(row), &text));
    printf(" %8s", us_text(row->model_us, &text));
    printf("  %s%s%s\n", found[row->verified + 1],
           row->way == COLL_ALGO_AUTO && row->taken != COLL_ALGO_AUTO ? ", takes " : "",
           row->way == COLL_ALGO_AUTO && row->taken != COLL_ALGO_AUTO ? coll_way_names[row->taken]
                                                                      : "");
}

static void json_row(const struct coll_bench *b, const struct coll_row *row)
{
    static const char *const hows[COLL_HOWS] = {"graph", "stream", "host"};
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:s, s:o, s:i, s:i, s:s, s:i}", "bench", "coll", "op",
        coll_op_name(row->op), "bytes", (json_int_t)row->bytes, "way", coll_way_names[row->way],
        "taken",
        row->taken == COLL_ALGO_AUTO ? json_null() : json_string(coll_way_names[row->taken]),
        "blocks", (int)row->blocks, "pes", b->members, "target", target_of(b), "sms",
        b->options->sms);
    for (int how = 0; how < COLL_HOWS; how++) {
        char key[32];
        snprintf(key, sizeof key, "%s_us", hows[how]);
        json_object_set_new(object, key, bench_json_figure(row->us[how]));
        snprintf(key, sizeof key, "%s_min_us", hows[how]);
        json_object_set_new(object, key, bench_json_figure(row->us_min[how]));
    }
    json_object_set_new(object, "gbytes_per_s", json_real(row->busbw));
    json_object_set_new(object, "algbw_gbytes_per_s", json_real(row->algbw));
    json_object_set_new(object, "floor_us", bench_json_figure(row->floor_us));
    json_object_set_new(object, "ratio", bench_json_figure(ratio_of(row)));
    json_object_set_new(object, "model_us", bench_json_figure(row->model_us));
    json_object_set_new(object, "verified",
                        row->verified < 0 ? json_null() : json_boolean(row->verified));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}

/* A value that was not measured is an empty field. */
static void csv_figure(double value)
{
    if (value < 0)
        printf(",");
    else
        printf(",%.6g", value);
}

static void csv_row(const struct coll_bench *b, const struct coll_row *row)
{
    static const char *const found[] = {"", "wrong", "right"};
    printf("%s,%zu,%s,%s,%u,%d,%s,%d", coll_op_name(row->op), row->bytes, coll_way_names[row->way],
           row->taken == COLL_ALGO_AUTO ? "" : coll_way_names[row->taken], row->blocks, b->members,
           target_of(b), b->options->sms);
    for (int how = 0; how < COLL_HOWS; how++)
        csv_figure(row->us[how]);
    for (int how = 0; how < COLL_HOWS; how++)
        csv_figure(row->us_min[how]);
    csv_figure(row->busbw);
    csv_figure(row->algbw);
    csv_figure(row->floor_us);
    csv_figure(ratio_of(row));
    csv_figure(row->model_us);
    printf(",%s\n", found[row->verified + 1]);
}

void coll_print_row(const struct coll_bench *b, const struct coll_row *row)
{
    switch (b->options->form) {
    case COLL_TABLE:
        table_row(row);
        break;
    case COLL_JSON:
        json_row(b, row);
        break;
    case COLL_CSV:
        csv_row(b, row);
        break;
    }
    fflush(stdout);
}
