#!/bin/sh
# Four workers compute gradients side by side, each into a CSV file; one pipeline sums them and checks
# the sum against the gradient of the whole batch. Run it in this folder, with kvctl on the path.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

kvctl -c "write zeros(3, 1) '$out/weights.csv'"
for rank in 0 1 2 3; do
    kvctl --set rank=$rank --set workers=4 --set weights="$out/weights.csv" worker.kv > "$out/grad-$rank.csv" &
done
wait
kvctl --set rank=0 --set workers=1 --set weights="$out/weights.csv" worker.kv > "$out/whole.csv"

kvctl aggregate.kv "$out"/grad-*.csv |
    tee "$out/grad.csv" |
    kvctl --set whole="$out/whole.csv" -c 'assert allclose(@-, load(whole), rtol=1e-5)'
cat "$out/grad.csv"
