#!/bin/sh
# A gate for CI: do new weights agree with old ones? With kvctl on the path:
#
#     sh ci-gate.sh OLD NEW [RTOL [ATOL]]
#
# OLD and NEW are two checkpoints (safetensors, or .kvs as `kvctl -s` keeps) or two arrays (CSV, JSON,
# npy). They agree when |new - old| <= ATOL + RTOL * |old| for every number; RTOL is 1e-5 and ATOL 1e-8
# when they are not given.
# What differs is listed on stderr. Only 1 means that the weights differ: a gate that takes every failure
# for drift, as `kvctl ... || echo drifted` does, cries drift when a file is missing.
#
#     0  they agree
#     1  numbers differ by more than the tolerance
#     2  wrong arguments
#     3  they cannot be compared: a tensor is missing, or has another shape or dtype
#     5  a file cannot be read, or is damaged
#     other codes are those of kvctl; 4 also where there is no kvctl
set -u

usage()
{
    echo "ci-gate: $1" >&2
    echo "usage: sh ci-gate.sh OLD NEW [RTOL [ATOL]]" >&2
    exit 2
}

if [ $# -lt 2 ] || [ $# -gt 4 ]; then
    usage "two files and at most two tolerances, not $# arguments"
fi
command -v kvctl >/dev/null || {
    echo "ci-gate: there is no kvctl on the path" >&2
    exit 4
}
old=$1 new=$2 rtol=${3:-1e-5} atol=${4:-1e-8}
for tolerance in "$rtol" "$atol"; do
    kvctl -e -c 'float(args[0]) >= 0' "$tolerance" >/dev/null 2>&1 || usage "$tolerance is no tolerance"
done

for file in "$old" "$new"; do
    if [ ! -r "$file" ]; then
        echo "ci-gate: cannot read $file; nothing was compared" >&2
        exit 5
    fi
done

# Both ways, so that a tensor that only one of them has is found.
compare_checkpoints()
{
    kvctl -q -s "$new" -c 'for key in keys() { seen = load(args[0], name=str(key), format="safetensors") }' "$old" || return
    kvctl -q -s "$old" -c '
        new = args[0]; rtol = float(args[1]); atol = float(args[2]); kind = "float64"
        differ = 0
        for key in keys() {
            name = str(key)
            pull $key -> was
            is = load(new, name=name, format="safetensors")
            if shape(is) != shape(was) or dtype(is) != dtype(was) {
                print f"{name}: {dtype(was)} {shape(was)} became {dtype(is)} {shape(is)}"
                quit 3
            }
            if not allclose(is, was, rtol=rtol, atol=atol) {
                print f"{name}: the largest difference is {max(abs(astype(is, kind) - was))}"
                differ += 1
            }
        }
        if differ > 0 { print f"{differ} of {len(keys())} tensors differ"; quit 1 }' \
        "$new" "$rtol" "$atol" >&2
}

compare_arrays()
{
    kvctl -q -c '
        was = load(args[0]); is = load(args[1])
        if shape(is) != shape(was) { print f"{shape(was)} became {shape(is)}"; quit 3 }
        assert allclose(is, was, rtol=float(args[2]), atol=float(args[3]))' \
        "$old" "$new" "$rtol" "$atol" >&2
}

case $old in
*.safetensors | *.kvs) compare_checkpoints ;;
*) compare_arrays ;;
esac
status=$?
case $status in
0) echo "ci-gate: $new agrees with $old (rtol $rtol, atol $atol)" ;;
1) echo "ci-gate: $new DIFFERS from $old by more than rtol $rtol, atol $atol" >&2 ;;
3) echo "ci-gate: $new cannot be compared with $old" >&2 ;;
5) echo "ci-gate: a file cannot be read; nothing was compared" >&2 ;;
*) echo "ci-gate: kvctl failed (exit status $status); nothing is known of the weights" >&2 ;;
esac
exit $status
