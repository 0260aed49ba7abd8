#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# man_examples.sh SOURCE: every page of functions has an example and a return value, and the compiler takes the
# examples as the pages print them: each in a function that has a job, its context and some memory.
set -u
cd "$1" || exit 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
prelude='#include <stdio.h>
#include <string.h>
#include <weft.h>
#include <weft_device.h>
#include <weft_experts.h>
#include <weft_file.h>
#include <weft/gpu.h>
#include <weft/launch.h>
#include <weft/map.h>
#include <weft/stream.h>
static inline float compute(size_t i) { return (float)i; }'
head='(weft_job *job, weft_ctx *ctx, weft_team *team, weft_stream stream, int me, int npes, void *dst, void *src,
            void *other, void *buffer, uint64_t *words, double *values, float *gradient, size_t n, int *status)
{'
pages=0
echo "$prelude" >"$folder/examples.c"
for page in docs/man/weft_*.3.scd; do
    pages=$((pages + 1))
    for section in 'RETURN VALUE' EXAMPLE; do
        grep -q "^# $section$" "$page" || { echo "$page has no section $section" && status=1; }
    done
    # scdoc prints one backslash for two.
    awk '/^# / { on = $0 == "# EXAMPLE" } on && /^```/ { code = !code; next } on && code' "$page" |
        sed 's/\\\\/\\/g' >"$folder/code"
    [ -s "$folder/code" ] || { echo "$page has no example" && status=1; }
    {
        echo "#line 1 \"the example of $page\""
        # A kernel stands outside of functions.
        awk '/^WEFT_KERNEL/ { on = 1 } on { print } /^}/ { on = 0 }' "$folder/code"
        printf '%s' "int example_$pages"
        echo "$head"
        ! grep -q '^weft_job \*job;' "$folder/code" || echo '{'
        awk '/^WEFT_KERNEL/ { on = 1 } !on { print } /^}/ { on = 0 }' "$folder/code"
        ! grep -q '^weft_job \*job;' "$folder/code" || echo '}'
        echo 'return 0; }'
    } >>"$folder/examples.c"
done
${CC:-cc} -std=gnu11 -Wall -Werror -Wno-unused -Wno-missing-prototypes -fsyntax-only -Iinclude "$folder/examples.c" 2>"$folder/log" ||
    { echo "an example does not compile:" && head -n 8 "$folder/log" && status=1; }
[ "$pages" -gt 10 ] || { echo "only $pages pages were found" && status=1; }
exit $status
