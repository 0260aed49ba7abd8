/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the JSON lines of `weft bench scale`. See scale.h. */
#include "bench/scale/scale.h"

#include <jansson.h>
#include <stdio.h>

struct text {
    char text[24];
};

static struct text format_time(double us)
{
    struct text made;
    if (us < 1000)
        snprintf(made.text, sizeof made.text, "%.0f us", us);
    else if (us < 1e6)
        snprintf(made.text, sizeof made.text, "%.1f ms", us / 1000);
    else
        snprintf(made.text, sizeof made.text, "%.2f s", us / 1e6);
    return made;
}

static struct text format_bytes(uint64_t bytes)
{
    struct text made;
    if (bytes < 10000)
        snprintf(made.text, sizeof made.text, "%llu B", (unsigned long long)bytes);
    else if (bytes < 10000000)
        snprintf(made.text, sizeof made.text, "%.0f KB", (double)bytes / 1e3);
    else
        snprintf(made.text, sizeof made.text, "%.0f MB", (double)bytes / 1e6);
    return made;
}

static void print_kind(const char *name, const struct scale_kind_cost *kind)
{
    printf("Measured %s: %.1f us to send a frame down, %.1f to receive it;\n"
           "%.1f and %.1f up; %.2f ns for a byte; %.1f us to start a process that slept,\n"
           "on an idle CPU %.1f more, and %.1f of the sender.\n",
           name, kind->down.send_ns / 1e3, kind->down.receive_ns / 1e3, kind->up.send_ns / 1e3,
           kind->up.receive_ns / 1e3, kind->byte_ns, kind->switch_ns / 1e3, kind->idle_ns / 1e3,
           kind->wake_ns / 1e3);
}

static void print_gpu_rates(void)
{
    char origin[SCALE_ORIGIN_BYTES];
    struct tool_scale_job job = {0};
    tool_scale_gpu_costs(&job, origin, sizeof origin);
    printf("a NIC for each GPU; by the rates of weft explain coll %.1f us to start a put in a\n"
           "node, %.1f for a kernel, %.4f ns for a byte; %.1f us for a copy to or from the host,\n"
           "%.2f ns for a byte; ",
           job.put_ns / 1e3, job.kernel_ns / 1e3, job.gpu_byte_ns, job.host_ns / 1e3,
           job.host_byte_ns);
}

void scale_print_head(const struct scale_job *job)
{
    const struct scale_costs *c = &job->costs;
    printf("A job of weft run --hosts, %d PEs per host, fan-out %d, in virtual time.\n"
           "Real code: launcher, hub, agents; collectives by node. Simulated: wires, CPUs,\n"
           "links. Left out: ssh, the start of processes, paths, what programs compute.\n",
           job->per_host, job->fan_out);
    print_kind("in a host", &c->in_host);
    print_kind("between hosts", &c->between_hosts);
    printf("A copy: %.2f ns for a byte. Given: %.0f us between hosts, %.0f Gbit/s per link,\n",
           c->copy_ns, c->latency_ns / 1e3, c->byte_ns > 0 ? 8 / c->byte_ns : 0.0);
    printf("%.1f us for a flag in a node, ", c->flag_ns / 1e3);
    if (job->gpus)
        print_gpu_rates();
    if (c->cpus)
        printf("%d CPU%s for all processes.\n", c->cpus, c->cpus == 1 ? "" : "s");
    else
        printf("a CPU for each process.\n");
    printf("launcher: frames to and from it, and bytes that it sends. rounds: the longest\n"
           "chain of frames, each sent because of the one before.\n\n");
    printf("%6s %5s %2s %-9s %9s %9s %9s %6s %9s\n", "PEs", "hosts", "lv", "step", "frames",
           "launcher", "sends", "rounds", "time");
}

static void print_compared(int pes, const char *name, const struct scale_compared *times)
{
    printf("%6d %ss in a row: predicted %s, measured %s", pes, name,
           format_time(times->predicted_us).text, format_time(times->measured_us).text);
    printf(" (%s to %s), ratio %.2f\n", format_time(times->least_us).text,
           format_time(times->most_us).text, times->predicted_us / times->measured_us);
}

void scale_print_row(const struct scale_job *job, const struct scale_outcome *outcome,
                     const struct scale_measured *measured)
{
    for (int step = 0; step < SCALE_STEPS; step++) {
        const struct scale_result *result = &outcome->steps[step];
        if (step == SCALE_DEATH && job->pes == 1)
            continue; /* no other PE is left */
        printf("%6d %5d %2d %-9s %9llu %9llu %9s %6d %9s\n", job->pes, outcome->hosts,
               outcome->levels, scale_step_names[step], (unsigned long long)result->frames,
               (unsigned long long)result->frames_to_launcher + result->frames_of_launcher,
               format_bytes(result->bytes_of_launcher).text, result->rounds,
               format_time(result->us).text);
    }
    for (int i = 0; i < TOOL_SCALE_BENCHED; i++) {
        const struct tool_scale_result *result = &outcome->collectives[i];
        if (outcome->has_collective[i])
            printf("%6d by node: %-13s %7llu in nodes %6llu between %8s %9s\n", job->pes,
                   scale_collective_names[i], (unsigned long long)result->in_node,
                   (unsigned long long)result->between, format_bytes(result->bytes_between).text,
                   format_time(result->us).text);
    }
    printf("%6d tables of a PE: boot %s, team %s, device %s; flags %s\n", job->pes,
           format_bytes(outcome->memory.boot).text, format_bytes(outcome->memory.team).text,
           format_bytes(outcome->memory.device).text, format_bytes(outcome->memory.flags).text);
    printf("%6d tables of a PE: paths %s, over NICs %s, GPU memory %s\n", job->pes,
           format_bytes(outcome->memory.paths).text, format_bytes(outcome->memory.nics).text,
           format_bytes(outcome->memory.gpu).text);
    printf("%6d tables of the launcher: %s, %llu bytes for a PE\n", job->pes,
           format_bytes(outcome->launcher_bytes).text,
           (unsigned long long)(outcome->launcher_bytes / (uint64_t)job->pes));
    if (measured) {
        printf("%6d launcher, all steps but death: simulated %llu frames in, %llu out\n", job->pes,
               (unsigned long long)outcome->frames_to_launcher,
               (unsigned long long)outcome->frames_of_launcher);
        printf("%6d %-31s  measured %llu frames in, %llu out\n", job->pes, "",
               (unsigned long long)measured->frames_to_launcher,
               (unsigned long long)measured->frames_of_launcher);
        for (int i = 0; i < SCALE_REPEATED; i++)
            print_compared(job->pes, scale_step_names[SCALE_BARRIER + i], &measured->times[i]);
        printf("%6d meanwhile %.0f %% of the busy time of the CPUs was that of other processes\n",
               job->pes, 100 * measured->others);
    }
    if (!outcome->right)
        printf("%6d WRONG: not every PE got what the others sent\n", job->pes);
}

static json_t *step_json(const struct scale_result *result)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:i, s:f}", "frames", (json_int_t)result->frames,
                     "frames_to_launcher", (json_int_t)result->frames_to_launcher,
                     "frames_of_launcher", (json_int_t)result->frames_of_launcher,
                     "bytes_of_launcher", (json_int_t)result->bytes_of_launcher, "rounds",
                     result->rounds, "us", result->us);
}

static json_t *collectives_json(const struct scale_outcome *outcome)
{
    json_t *collectives = json_object();
    for (int i = 0; i < TOOL_SCALE_BENCHED; i++) {
        const struct tool_scale_result *result = &outcome->collectives[i];
        if (outcome->has_collective[i])
            json_object_set_new(collectives, scale_collective_names[i],
                                json_pack("{s:I, s:I, s:I, s:I, s:f, s:b}", "in_nodes",
                                          (json_int_t)result->in_node, "between_nodes",
                                          (json_int_t)result->between, "off_rail",
                                          (json_int_t)result->off_rail, "bytes_between_nodes",
                                          (json_int_t)result->bytes_between, "us", result->us,
                                          "right_bits", result->right));
    }
    return collectives;
}

static json_t *times_json(const struct scale_measured *measured)
{
    json_t *made = json_pack("{s:I, s:I, s:f}", "frames_to_launcher",
                             (json_int_t)measured->frames_to_launcher, "frames_of_launcher",
                             (json_int_t)measured->frames_of_launcher, "others", measured->others);
    for (int i = 0; i < SCALE_REPEATED; i++) {
        const struct scale_compared *times = &measured->times[i];
        json_object_set_new(made, scale_step_names[SCALE_BARRIER + i],
                            json_pack("{s:f, s:f, s:f, s:f}", "predicted_us", times->predicted_us,
                                      "measured_us", times->measured_us, "least_us",
                                      times->least_us, "most_us", times->most_us));
    }
    return made;
}

void scale_print_json(const struct scale_job *job, const struct scale_outcome *outcome,
                      const struct scale_measured *measured)
{
    json_t *steps = json_object();
    for (int step = 0; step < SCALE_STEPS; step++)
        if (step != SCALE_DEATH || job->pes > 1)
            json_object_set_new(steps, scale_step_names[step], step_json(&outcome->steps[step]));
    json_t *row = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:o, s:I, s:I, s:I, s:b}", "bench", "scale", "pes",
        job->pes, "pes_per_host", job->per_host, "hosts", outcome->hosts, "levels", outcome->levels,
        "fan_out", job->fan_out, "exchange_bytes", (json_int_t)job->bytes, "steps", steps,
        "frames_to_launcher", (json_int_t)outcome->frames_to_launcher, "frames_of_launcher",
        (json_int_t)outcome->frames_of_launcher, "launcher_bytes",
        (json_int_t)outcome->launcher_bytes, "right", outcome->right);
    json_object_set_new(row, "collectives_by_node", collectives_json(outcome));
    json_object_set_new(
        row, "pe_bytes",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "boot", (json_int_t)outcome->memory.boot,
                  "team", (json_int_t)outcome->memory.team, "flags",
                  (json_int_t)outcome->memory.flags, "device", (json_int_t)outcome->memory.device,
                  "paths", (json_int_t)outcome->memory.paths, "nics",
                  (json_int_t)outcome->memory.nics, "gpu", (json_int_t)outcome->memory.gpu));
    if (measured)
        json_object_set_new(row, "measured", times_json(measured));
    json_dumpf(row, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(row);
}
