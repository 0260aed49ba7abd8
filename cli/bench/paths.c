/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --paths p2p,staged`: the same benchmarks over one path after another, for one pair of
 * PEs or for each. */
#include "bench/sides.h"
#include "commands.h"

static bool one_pair(const struct bench_options *options, int argc, char **argv,
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
        fprintf(stderr, "weft bench: --paths %s: up to %d paths are wanted, e.g. p2p,staged\n",
                options.paths, SIDES_MAX);
        return EXIT_USAGE;
    }
    if (!options.all_pairs) {
        options.to = options.to < 0 ? 1 : options.to;
        return one_pair(&options, argc, argv, &paths) ? EXIT_GOOD : EXIT_FAULT;
    }
    for (options.from = 0; options.from < options.pes; options.from++)
        for (options.to = options.from + 1; options.to < options.pes; options.to++)
            good &= one_pair(&options, argc, argv, &paths);
    return good ? EXIT_GOOD : EXIT_FAULT;
}
