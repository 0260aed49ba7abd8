#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tests and benchmarks put into /tmp and /dev/shm has "test" in its name where it has "weft": the tests of faults
# (tests/fault/faults.c) look there for what jobs have left, beside whatever test runs at that time.
#   temporary_names.sh SOURCE_FOLDER
cd "$1" || exit 1
named='([^a-z]/tmp|/dev/shm|TMPDIR[^/]*|work|%s)/weft[-_.][A-Za-z_.%-]*(X{3,}|%)'
if found=$(grep -rnIE "$named" tests bench examples | grep -vE '/weft[-_.]test'); then
    printf 'no "test" in the name:\n%s\n' "$found"
    exit 1
fi
