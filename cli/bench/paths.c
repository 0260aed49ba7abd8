/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --paths p2p,staged`: runs the same benchmarks over each path, for one pair of PEs
 * or for each pair. */
#include "bench/sides.h"
#include "commands.h"

static bool measure_one_pair(const struct bench_options *options, int argc, char **argv,
                             const struct bench_sides *paths)
{
    struct bench_sides sides = *paths;
    sides_measure(options, argc, argv, &sides);
    if (options->json)
        sides_print_json(&sides);
    else {
        printf("PE %d to PE %d of %d\n", options->from, options->to, options->pes);
        sides_print_table(&sides);
    }
    sides_clear(&sides);
    return !sides.failed;
}

int bench_paths(const struct bench_options *given, int argc, char **argv)
{
    struct bench_options options = *given;
    struct bench_sides paths;
    bool good = true;
    if (!sides_parse(options.paths, &paths)) {
        fprintf(stderr,
                "weft bench: --paths %s: expected up to %d of self, p2p, relay, staged, net, gda\n",
                options.paths, SIDES_MAX);
        return EXIT_USAGE;
    }
    if (!options.all_pairs) {
        options.to = options.to < 0 ? 1 : options.to;
        return measure_one_pair(&options, argc, argv, &paths) ? EXIT_GOOD : EXIT_FAULT;
    }
    for (options.from = 0; options.from < options.pes; options.from++)
        for (options.to = options.from + 1; options.to < options.pes; options.to++)
            good &= measure_one_pair(&options, argc, argv, &paths);
    return good ? EXIT_GOOD : EXIT_FAULT;
}
