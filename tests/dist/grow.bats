# Workers that join a job which runs: launch --spares and --grow. No ULFM is needed for that; the
# tests that also lose workers take one, see elastic.bats.

load ../cli/help
load jobs
needs=mpi

needs_ulfm()
{
    kvctl launch --elastic -n 1 -s 1 --dry-run -c 'print 1' >/dev/null 2>&1 || skip "Open MPI has no ULFM here"
}

# Before round $1 worker 0 asks for one worker more, $2 of them; the job has it, or them, when the
# round begins. The ranks read the launcher's file ten times a second.
grows()
{
    echo "if rank() == 0 and i == $1 { !for k in \$(seq ${2:-1}); do kvctl launch --grow; done; sleep 2
    }"
}

# sums EXTRA ROUNDS EVENT...: each worker contributes an element of its own, and says at the end in
# how many rounds which of them were.
sums()
{
    local rounds=$2
    cat <<END
create dist_sync
$1
me = rank()
mine = zeros(8); mine[me] = 1
init a,b,c [zeros(8), zeros(3), zeros(300000)]
barrier
set-optimizer sgd --learning-rate 1
seen = zeros(8)
for i in range(rounds(), $rounds) {
END
    shift 2
    printf '    %s\n' "$@"
    cat <<'END'
    push a -mine; push c -ones(300000)
    if i % 3 == 0 { push b -ones(3) }
    pull a -> x; pull c -> z
    assert sum(x) == z[7], "round {i}: {sum(x)} of one key and {z[7]} of another"
    assert x[me] > 0
}
barrier
pull a -> x; pull b -> y; pull c -> z
print "all", x, y[0], z[299999], num_workers()
barrier
if me == 0 { info --cluster
}
END
}

@test "grow: without spares, or with what has no rounds of all, it is refused" {
    echo 'create dist_sync' >job.kv
    gives -2 "kvctl: error[usage]: launch: --spares needs servers that are not workers: -s SERVERS" kvctl launch --spares 1 -n 2 job.kv
    run -2 kvctl launch --launcher ssh -H hosts --spares 1 -n 2 -s 1 job.kv
    assert_output "kvctl: error[usage]: launch: --spares is for the launcher local, and this is ssh"
    run -2 kvctl launch --spares 1 -n 2 -s 1 -i
    assert_output "kvctl: error[usage]: launch: --spares needs a FILE, which a new worker runs from its first line"
    gives -2 "kvctl: error[usage]: launch: --grow stands alone: kvctl launch --grow [JOB]" kvctl launch -n 2 --grow job.kv
    gives -2 "kvctl: error[usage]: launch: --grow stands alone: kvctl launch --grow [JOB]" kvctl launch --grow a b
    for type in dist_async horovod; do
        job -4 --spares 1 -n 1 -s 1 -c "create $type"
        assert_line --partial "a job with spares needs the rounds of dist_sync or dist_device_sync; a store of type \"$type\" has none at which a worker could join"
    done
    job -4 --spares 1 -n 1 -s 1 -c 'create dist_sync' -c 'b = kv.create("dist_sync")'
    assert_line --partial "a job with spares keeps one store, and this is the second"
}

@test "grow: no such job, one without spares, and one whose spares are all used" {
    export KVCTL_JOBS=$PWD/jobs
    says -3 "kvctl: error[name]: no job of yours is called night here" kvctl launch --grow night
    says -3 "kvctl: error[name]: no job of yours runs here" kvctl launch --grow
    echo '!kvctl launch --grow; echo $?
    create dist_sync
    init a zeros(2); push a ones(2)' >job.kv
    job -0 --name day -n 1 -s 1 job.kv
    assert_line "[0] kvctl: error[peer]: job day: it has no spare: launch --spares starts some"
    assert_line "[0] 6"
    sums "" 6 "$(grows 3 2)" >job.kv
    job -0 --name day --spares 1 -n 1 -s 1 job.kv
    assert_line "[0] job day: rank 1 becomes a worker at the next round"
    assert_line "[0] kvctl: error[peer]: job day: no spare is left of the 1 that it began with"
}

@test "grow: a worker joins at a round, and a second one" {
    sums "" 12 "$(grows 4)" "$(grows 8)" >job.kv
    for shared in 1 0; do
        KVSTORE_SHARED_MEMORY=$shared job -0 --spares 3 -n 2 -s 2 job.kv
        # of 12 rounds; every third has a push of b
        for rank in 0 1 2 3; do
            assert_line "[$rank] all [12. 12.  8.  4.  0.  0.  0.  0.] 11.0 36.0 4"
        done
        for rank in 0 1; do
            assert_equal "$(grep -cF "[$rank] note: rank 2 (worker) joined at round 4" <<<"$output")" 1
        done
        for rank in 0 1 2; do
            assert_equal "$(grep -cF "[$rank] note: rank 3 (worker) joined at round 8" <<<"$output")" 1
        done
        assert_equal "$(grep -c "joined" <<<"$output")" 5
        assert_line --regexp '^\[0\] 2 +worker '
        assert_line --regexp '^\[0\] 4 +spare '
        assert_line --regexp '^\[0\] 5 +server .* 4$'
    done
}

@test "grow: two at once, before the first round and between its calls" {
    sums "" 5 "$(grows 0 2)" >job.kv
    job -0 --spares 2 -n 1 -s 2 job.kv
    assert_line "[2] all [5. 5. 5. 0. 0. 0. 0. 0.] 6.0 15.0 3"
    sums "" 5 >job.kv
    sed "s/push c -ones(300000)/if i == 2 and me == 0 { !kvctl launch --grow; sleep 2\n    }\n    &/" job.kv >within.kv
    job -0 --spares 2 -n 1 -s 2 within.kv
    assert_line "[0] note: rank 1 (worker) joined at round 3"
    assert_line "[1] all [5. 2. 0. 0. 0. 0. 0. 0.] 3.0 7.0 2"
}

@test "grow: a job ends with spares that were never asked for, or too late, and fails with them" {
    sums "" 3 >job.kv
    printf 'if me == 0 { !kvctl launch --grow; sleep 1\n}\n' >>job.kv
    job -0 --spares 2 -n 2 -s 1 job.kv
    assert_line "[0] job $(grep -o 'job [0-9]*' <<<"$output" | head -1 | cut -d' ' -f2): rank 2 becomes a worker at the next round"
    refute_output --partial "joined"
    job -0 --spares 2 -n 1 -s 1 -c 'print num_workers()'
    assert_output "[0] 1"
    # a command of a worker has the environment of a rank, and is not one
    job -0 --spares 2 -n 2 -s 1 -c 'create dist_sync' -c 'if rank() == 0 { !kvctl -c "print num_workers()"
    }'
    assert_output "[0] 2"
    job -1 --spares 2 -n 2 -s 1 -c 'create dist_sync' -c 'barrier' -c 'assert rank() == 0' -c barrier
    assert_line "kvctl: rank 1 (worker) ended with exit code 1"
    refute_line --partial "[2]"
    job -6 --spares 1 -n 1 -s 1 -c 'create dist_sync' -c "!awk '\$1 == 1 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events | xargs kill -9" -c 'repeat 3 barrier'
    assert_line "kvctl: rank 1 (spare) was killed by signal 9"
}

@test "grow: states, compression and checkpoints go on with the new worker" {
    cat >job.kv <<END
create dist_sync
set-gradient-compression 2bit --threshold 0.5
set-optimizer sgd --learning-rate 0.1 --momentum 0.9
init a ones(300)
for i in range(rounds(), 20) {
    $(grows 7)
    push a ones(300) / 3; pull a -> x
}
save-states s.states
if rank() == 2 { print "rounds", rounds(), x[0]
}
if rank() == 0 { print "rounds", rounds(), x[0]
}
END
    job -0 --checkpoint c.kvs --checkpoint-every 5 --spares 1 -n 2 -s 2 job.kv
    kvctl -s c.kvs -c 'assert rounds() == 20'
    one=$(grep -o '^\[0\] rounds 20 .*' <<<"$output")
    assert_line "[2]${one#\[0\]}"
    # and a job that begins from there grows
    sed 's/ 20)/ 40)/; s/ 20,/ 40,/; s/i == 7/i == 33/' job.kv >more.kv
    job -0 --checkpoint c.kvs --checkpoint-every 5 --spares 1 -n 2 -s 2 more.kv
    assert_line "[0] note: rank 2 (worker) joined at round 33"
    kvctl -s c.kvs -c 'assert rounds() == 40'
}

@test "grow: what ranks owe that a file has and the job has not is that of the last worker" {
    printf '%s\n' 'create dist_sync' 'set-gradient-compression 2bit --threshold 10' \
        'init 1 zeros(4)' 'set-optimizer sgd --learning-rate 0.1' >begin.kv
    { cat begin.kv; printf '%s\n' 'push 1 ones(4)*(rank()+1)' 'wait' 'save-states four.safetensors' 'barrier'; } >job.kv
    job -0 -n 4 -s 1 job.kv
    { cat begin.kv; printf '%s\n' 'load-states four.safetensors' 'save-states two.safetensors' 'barrier'; } >job.kv
    for spares in 1 2; do
        job -0 --spares $spares -n 2 -s 1 job.kv
        run kvctl -c 'print load("two.safetensors", name="__residual__/1/0"), load("two.safetensors", name="__residual__/1/1")'
        assert_output '[1. 1. 1. 1.] [9. 9. 9. 9.]'
    done
}

@test "grow: what the others have loaded and saved, a new worker does not wait for" {
    for dump in "" "--dump-optimizer"; do
        cat >begin.kv <<END
create dist_sync
init a zeros(300)
set-optimizer adam --learning-rate 0.1
for i in 0..3 { push a ones(300) * (i + 1) }
save-states first.safetensors $dump
END
        job -0 -n 1 -s 1 begin.kv
        cat >job.kv <<END
create dist_sync
init a zeros(300)
set-optimizer $([ -n "$dump" ] && echo sgd || echo adam --learning-rate 0.1)
load-states first.safetensors
save-states second.safetensors
barrier
for i in range(rounds(), 12) {
    $(grows 4)
    push a ones(300) / (i + 1); pull a -> x
}
save-states s.safetensors $dump
print "all", rounds(), x[0]
if rank() == 2 { info --states
}
barrier
END
        KVSTORE_TIMEOUT=60 job -0 --spares 1 -n 2 -s 2 job.kv
        one=$(grep -o '^\[0\] all 12 .*' <<<"$output")
        assert_line "[2]${one#\[0\]}"
        assert_line --partial "[2] optimizer adam, "
    done
}

@test "grow: the sums have the bits of a job that had the worker from the beginning" {
    cat >job.kv <<END
create dist_sync
set-optimizer adam --learning-rate 0.01
init a,b [ones(1000), ones(70000)]
for i in range(rounds(), 20) {
    $(grows 5)
    g = (arange(70000) * (7 + 3 * i + rank()) % 101 - 50) / 7
    if rank() == 2 and i < 5 { g = zeros(70000) # in a job that has this worker so early
    }
    push a g[0:1000]; push b g
    pull a -> x; pull b -> y
}
if rank() == 2 { print "sums", sum(x), sum(y), x[17], y[69999]
}
END
    sed 's/kvctl launch --grow/true/' job.kv >all.kv
    job -0 -n 3 -s 2 all.kv
    there=$(grep '^\[2\] sums' <<<"$output")
    job -0 --spares 1 -n 2 -s 2 job.kv
    assert_line "$there"
}

@test "grow: after a loss, and losses of those that joined" {
    needs_ulfm
    sums "" 16 "$(grows 8)" 'if me == 1 and i == 4 { !kill -9 $PPID
    }' 'if me == 2 and i == 12 { !kill -9 $PPID
    }' "$(grows 14)" >job.kv
    sed -i '/assert x\[me\]/d' job.kv
    job -0 --elastic --spares 3 -n 2 -s 2 job.kv
    assert_line "[0] note: rank 2 (worker) joined at round 8"
    assert_line "[0] warning: rank 2 (worker) was killed by signal 9; the others go on"
    assert_line "[0] note: rank 3 (worker) joined at round 14"
    assert_line --regexp '^\[0\] all \[16.  4.  4.  2.  0.  0.  0.  0.\] '
    assert_line "kvctl: the job went on without ranks 1 and 2, which were lost"
    # a spare that is lost while it waits is passed over
    sums "" 8 "if me == 0 and i == 2 { !awk '\$1 == 1 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events | xargs kill -9; sleep 2
    }" "$(grows 4)" >job.kv
    job -0 --elastic --spares 2 -n 1 -s 1 job.kv
    assert_line "[0] note: rank 2 (worker) joined at round 4"
    assert_line "[2] all [8. 0. 4. 0. 0. 0. 0. 0.] 4.0 12.0 2"
    assert_line "kvctl: the job went on without rank 1, which was lost"
}
