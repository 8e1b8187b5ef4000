#!/bin/sh
# The line through the calibrations of NIST agrees with its certified values. With one measurement
# mistyped it does not; that is what a failing check looks like. Run it in this folder, with kvctl on
# the path; the exit status is that of the second check, 1.
set -u

kvctl fit.kv data/norris.csv | kvctl check.kv data/norris-certified.csv - || exit 2

mistyped=$(mktemp --suffix=.csv)
trap 'rm -f "$mistyped"' EXIT
sed 's/888.0,884.6/880.0,884.6/' data/norris.csv >"$mistyped"
kvctl fit.kv "$mistyped" | kvctl check.kv data/norris-certified.csv -
