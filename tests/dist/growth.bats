# What a rank needs as there are more of them: connections and memory, which grow with ranks at most,
# and for each key not at all. bench/GROWTH.md has the figures; sim/run checks the same of more ranks.

load ../cli/help
needs=mpi

# job TYPE RANKS KEYS: rounds of small keys. Leaves the most that a rank had: kilobytes of memory in
# `peak`, shared pages apart, and at the end in `private`, sockets in `sockets`, other files in `files`.
job()
{
    local fields
    cat >job.kv <<END
create $1
keys = range($3)
x = [zeros(16) for i in keys]
$([ "$1" = horovod ] || echo 'init (keys) x')
for i in range(3) { pushpull (keys) x; wait }
barrier
if rank() == 0 { !"$top/tests/bench/growth" look seen
}
barrier
END
    rm -f seen
    run -0 timeout 300 kvctl launch -n "$2" --deadline 60 job.kv
    IFS=, read -ra fields <seen
    echo "$1, $2 ranks, $3 keys: ${fields[*]}"
    peak=$((fields[1] - fields[3])) private=${fields[2]} sockets=${fields[5]} files=${fields[6]}
}

@test "growth: a rank opens no connection to each other one" {
    job dist_sync 2 10
    local few_sockets=$sockets few_files=$files
    job dist_sync 8 10
    assert_equal "$sockets sockets, $files files" "$few_sockets sockets, $few_files files"
}

@test "growth: the memory of a rank grows with ranks, not with their square" {
    local n few some
    job dist_sync 4 10; few=$private
    job dist_sync 8 10; some=$private
    job dist_sync 16 10
    [ $((private - some)) -le $((2 * (some > few ? some - few : 0) + 512)) ] || fail "$few $some $private"
}

# The first server kept a list of all keys for every rank that asked for them. What malloc keeps for threads that allocate at
# one time is left out: up to 3 MB, from one run to the next.
@test "growth: the memory for a key does not grow with ranks" {
    local type few
    export MALLOC_ARENA_MAX=1
    for type in dist_sync horovod; do
        job $type 2 10000; few=$peak
        job $type 6 10000
        [ $((peak - few)) -le 2048 ] || fail "$type: $few and $peak KB"
    done
}
