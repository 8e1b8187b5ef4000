# Memory that rounds need: after half of them every rank has what it will have at the end. A rank that
# runs ahead has its pushes kept, so it takes thousands of rounds until the most were kept at once.
# Workers meet now and then: pushes of one that runs ahead are kept until the others have pushed.
#
#     ROUNDS=100000 bats tests/dist/memory.bats      (make truth ONLY=calls: 20,000 and more)

load ../cli/help

# glibc keeps more of what was freed each time that a large block is: up to twice its size in each
# arena. With limits of their own its arenas give back what is not in use.
setup_file()
{
    export rounds=${ROUNDS:-6000} MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
    file_needs mpi || true
}

# script TYPE COMMAND: rounds of a small key and of one in several parts, of one call and of two.
# Rank 0 writes what each rank has, in kilobytes, after one half and at the end. Pages of files and
# of memory that is shared do not count: those of the rings are touched one after the other.
script()
{
    local look='awk "\$2 == \"start\" { print \$3 }" $KVSTORE_RUN_DIR/events | sort -n | while read pid; do awk "/^Anonymous:/ { print \$2 }" /proc/$pid/smaps_rollup; done >>kb'
    cat <<END
create $1
x = zeros(10); y = zeros(70000)
$3
n = $rounds
for part in [n // 2, n - n // 2] {
    for i in range(part) {
        $2
        if i % 50 == 0 { $4; barrier }
    }
    wait
    barrier
    if rank() == 0 { !$look
    }
    barrier
}
END
}

# flat RANKS ARGUMENT...: a job of the script, whose ranks have at the end what they had: 50 bytes a round would show.
flat()
{
    local ranks=$1 i most=$((rounds < 40000 ? rounds / 40 : 1000))
    shift
    rm -f kb
    run -0 timeout 300 kvctl launch "$@" job.kv
    mapfile -t kb <kb
    assert_equal "${#kb[@]}" $((2 * ranks))
    echo "kilobytes: ${kb[*]}"
    for ((i = 0; i < ranks; i++)); do
        [ $((kb[ranks + i] - kb[i])) -le $most ] || fail "${kb[*]}"
    done
}

@test "memory: rounds of dist_sync, with servers of their own and inside the workers" {
    script dist_sync "pushpull 3 x --out x --priority 1" \
        "set-optimizer sgd --learning-rate 0.1 --momentum 0.9; init 3,4 [x, y]" \
        "push 4 y; pull 4 --out y" >job.kv
    flat 3 -n 2 -s 1
    flat 2 -n 2
}

@test "memory: rounds of sums" {
    script horovod "pushpull 3 x --out x" "" "pushpull 4 y --out y" >job.kv
    flat 2 -n 2
}

@test "memory: steps of dist_async, and compressed gradients" {
    script dist_async "push 3 x; pull 3 --out x" \
        "set-gradient-compression 2bit; set-optimizer test; init 3,4 [x, y]" \
        "push 4 y; pull 4 --out y" >job.kv
    flat 3 -n 2 -s 1
}

@test "memory: the first values of keys lie in their arrays, and beside them some megabytes at a time" {
    cat >job.kv <<'END'
create dist_sync
keys = [i for i in 1..25]
v = [ones(1000000) for i in keys]
init $keys $v
!awk '$2 == "start" { print $3 }' $KVSTORE_RUN_DIR/events | while read pid; do awk '/^VmHWM:/ { print $2 }' /proc/$pid/status; done >kb
END
    run -0 timeout 100 kvctl launch -n 1 -s 1 job.kv
    mapfile -t kb <kb
    assert_equal "${#kb[@]}" 2
    for n in "${kb[@]}"; do
        [ "$n" -le 150000 ] || fail "kilobytes, of 100,000 in arrays: ${kb[*]}"
    done
}
