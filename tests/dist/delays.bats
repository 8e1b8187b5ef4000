# Delays that a seed draws wherever records are moved (delays.c): jobs have the bits of one process all
# the same, whoever comes first.

load ../cli/help

setup_file()
{
    command -v mpirun >/dev/null || skip "there is no mpirun"
    [ -e "${KVCTL_BUILD:-$BATS_TEST_DIRNAME/../../build}/kvstore_mpi.so" ] || skip "built without MPI"
    OMPI_CC=${CC:-cc} mpicc -D_GNU_SOURCE -shared -fPIC -o "$BATS_FILE_TMPDIR/delays.so" \
        "$BATS_TEST_DIRNAME/delays.c" -ldl
    ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$BATS_FILE_TMPDIR/clock_step.so" \
        "$BATS_TEST_DIRNAME/clock_step.c" -ldl
}

# job SEED ARGUMENTS...: runs kvctl launch, whose output is then $output.
job()
{
    local seed=$1
    shift
    run env LD_PRELOAD="$BATS_FILE_TMPDIR/delays.so" DELAYS="$seed" \
        ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" timeout 60 kvctl launch --deadline 30 "$@"
}

# Keys of several kinds and places.
keys()
{
    cat <<'END'
init 3,-1,100 [ones(5,3), uniform((70000,), seed=4), row_sparse(uniform((2,30), seed=5), [3,30], (40,30))]
END
}

# Pushes ahead of what is waited for, under an optimizer and then one with a number that all keys share.
# ranks: those whose values one push has.
rounds()
{
    cat <<'END'
for i in 0..5 {
    push 3,100,-1 [[uniform((5,3), low=-1, seed=10*i+r) for r in ranks], [row_sparse(uniform((1,30), low=-1, seed=10*i+r), [i+r], (40,30)) for r in ranks], [uniform((70000,), low=-1, seed=10*i+r) for r in ranks]]
    pull 3 -> a
    push 3 [uniform((5,3), low=-1, seed=99*i+r) for r in ranks]
    pull 3,-1,100 -> w
    if i == 2 {
        set-optimizer nadam --learning-rate 0.01
    }
}
END
}

@test "delays: a job has the bits of one process" {
    {
        echo "set-optimizer adam"
        keys
        echo "ranks = [0,1,2]"
        rounds
        echo "write a a1.npy; write w[0] x1.npy; write w[1] y1.npy; write w[2] z1.npy"
    } >one.kv
    {
        echo "create dist_sync"
        echo "set-optimizer adam"
        # rank 1 learns of the keys when it needs them
        echo "if rank() != 1 {"
        keys
        echo "}"
        echo "ranks = [rank()]"
        rounds
        echo "if rank() == 1 { write a a2.npy; write w[0] x2.npy; write w[1] y2.npy; write w[2] z2.npy }"
    } >job.kv
    run -0 kvctl -f one.kv
    for seed in 1 2 3; do
        KVSTORE_SHARED_MEMORY=$((seed % 2)) job "$seed" -n 3 -s $((seed % 3)) job.kv
        assert_success
        for x in a x y z; do
            cmp ${x}1.npy ${x}2.npy
        done
    done
}

@test "delays: the value of rank 0 holds, whoever has pushed before" {
    cat >job.kv <<'END'
create dist_sync
if rank() == 1 {
    push 100 ones(2,3)
    !touch pushed
}
if rank() == 0 {
    !until [ -e pushed ]; do sleep 0.02; done
    expect-error value { init [7, 100] [1, ones(3,3)] }
    init [7, 100] [1, ones(2,3) * 5]
    expect-error key { init 100 ones(2,3) }
}
if rank() == 2 {
    pull 100
}
if rank() != 1 {
    push 100 ones(2,3)
}
pull 7,100 -> w
if rank() == 1 {
    print(sum(w[0]), sum(w[1]))
}
END
    for seed in 2 3; do
        rm -f pushed
        job "$seed" -n 3 -s $((seed % 3)) job.kv
        assert_success
        assert_line "[2] [[5. 5. 5.]"
        assert_line "[1] 1.0 18.0"
    done
}

@test "delays: an init that does not fit what was pushed names the rank" {
    cat >job.kv <<'END'
create dist_sync
if rank() == 1 {
    push 100 row_sparse(ones(2,3))
    !touch pushed
}
if rank() == 0 {
    !until [ -e pushed ]; do sleep 0.02; done
    init [7, 100] [1, ones(2,3)]
}
END
    job 1 -n 2 job.kv
    assert_failure 3
    assert_line "[0] job.kv:8:10: error[value]: rank 1 has pushed key 100 as row_sparse float32 (2, 3) before this init as float32 (2, 3)"
    assert_line "[0]  hint: let the others come to a barrier behind init before they push"
}

@test "delays: pulls of what changed have the bits of whole ones" {
    cat >since.kv <<'END'
create $kind
set-optimizer sgd --learning-rate 0.01
init 3,5 [array(ones(70000), dtype="bfloat16"), ones(300000)]
v = [zeros(70000, dtype="bfloat16"), zeros(300000)]
r = none
for i in 1..8 {
    push 3 uniform((70000,), seed=10*i+rank()) * (uniform((70000,), seed=i) < 0.02)
    push 5 uniform((300000,), seed=10*i+rank()) * (uniform((300000,), seed=i) < 0.02)
    if i % (rank() + 1) == 0 { pull 3,5 --out v --since r -> r }
}
wait
barrier
pull 3,5 --out v --since r -> r
pull 3,5 -> w
assert v[0] == w[0]
assert v[1] == w[1]
barrier
if rank() == 0 { print r }
END
    job 1 -n 2 --set kind=dist_sync since.kv
    assert_success
    assert_output "[0] [8, 8]"
    job 2 -n 2 -s 2 --set kind=dist_async since.kv
    assert_success
    assert_output "[0] [16, 16]"
}

# Ranks of Open MPI 5 that have left do not wait for the others to end: one that had not seen yet that all have joined
# once took one of those for a rank that never came, and the loss of another one for one before the job began.
@test "delays: a spare is late to see that all have joined, and the others have left, or one is lost" {
    export DELAYS_LATE=1
    job 1 --spares 2 -n 1 -s 1 -c 'create dist_sync; init a ones(2)'
    assert_success
    refute_output --partial error
    kvctl launch --elastic -n 1 -s 1 --dry-run -c 'print 1' >/dev/null 2>&1 || return 0 # it has no ULFM
    export DELAYS_LATE=2
    job 1 --elastic --spares 1 -n 2 -s 1 -c 'create dist_sync' -c 'if rank() == 1 { !kill -9 $PPID
}' -c 'barrier; !sleep 1'
    assert_success
    assert_line "kvctl: the job went on without rank 1, which was lost"
}

# Where it is set, a wait by it lasts an hour: ranks are given up after 15 s here, or nobody ends the job.
@test "delays: a clock that is set forth and back harms no job" {
    cat >job.kv <<'END'
create dist_sync
init a zeros(4)
for i in 1..15 {
    push a ones(4)
    pull a -> x
    wait
    !sleep 0.1
}
barrier
if rank() == 0 { print x }
END
    for shared in 0 1; do
        run -0 env KVSTORE_SHARED_MEMORY=$shared ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" \
            timeout -k 5 80 kvctl launch --deadline 15 -n 2 -s 1 --timeout 60 \
            --env LD_PRELOAD="$BATS_FILE_TMPDIR/clock_step.so" --env CLOCK_STEP=1000 job.kv
        assert_output '[0] [2. 2. 2. 2.]'
    done
}

@test "delays: who looks at a job while MPI starts makes it read no variable" {
    until [ -e ended ]; do kvctl jobs; done >looks 2>&1 3>&- &
    for seed in 1 2 3; do
        job "$seed" -n 2 -s 1 -c 'create dist_sync; init 3 ones(2)'
        [ "$status" = 0 ] || break
    done
    touch ended
    wait
    assert_success
}
