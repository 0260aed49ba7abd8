#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: coverage.sh BUILD
# Which lines the tests that ran in BUILD (preset coverage) have executed: by folder, and by file what is
# lowest, on stdout and in BUILD/coverage.txt; every line in BUILD/coverage/index.html. Exit 1 when a
# folder of src/ is under 85 %.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
mkdir -p "$build/coverage"
gcovr --root . --object-directory "$build" --filter '(src|cli|include|standin|examples)/' \
    --exclude-unreachable-branches --csv "$build/coverage.csv" \
    --html-details "$build/coverage/index.html" "$build" >"$build/coverage.log" 2>&1 ||
    { tail -n 5 "$build/coverage.log"; exit 1; }

# filename,line_total,line_covered,line_percent,...
awk -F, -v least=85 '
    NR == 1 { next }
    {
        n = split($1, part, "/")
        folder = part[1]
        if (part[1] == "src" || part[1] == "standin") folder = part[1] "/" part[2]
        total[folder] += $2; covered[folder] += $3
        if ($2 >= 20) printf "file %5.1f %% %6d lines  %s\n", 100 * $3 / $2, $2, $1
    }
    END {
        for (folder in total) {
            percent = 100 * covered[folder] / total[folder]
            low = folder ~ /^src/ && percent < least
            printf "folder %5.1f %% %6d lines  %s%s\n", percent, total[folder], folder, low ? "  (under 85 %)" : ""
            bad += low
        }
        exit bad > 0
    }' "$build/coverage.csv" >"$build/coverage.list" && status=0 || status=1
{
    echo 'lines by folder'
    sed -n 's/^folder/   /p' "$build/coverage.list" | sort -k4
    echo 'files under 70 %'
    sed -n 's/^file/   /p' "$build/coverage.list" | sort -n | awk '$1 < 70'
} | tee "$build/coverage.txt"
exit $status
