# Ranks that are killed while states or a checkpoint are written: the file is the one before or the
# new one, whole, the message names the rank, and nothing stays behind.

load ../cli/help

setup_file()
{
    file_needs mpi || return 0
    ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$BATS_FILE_TMPDIR/kill_at.so" \
        "$BATS_TEST_DIRNAME/kill_at.c" -ldl
}

# job POINT RANK ARGUMENTS...: runs kvctl launch, in which a rank is killed at a point of kill_at.c,
# and looks that it left nothing.
job()
{
    local point=$1 rank=$2 found
    shift 2
    rm -f killed
    export TMPDIR=$BATS_TEST_TMPDIR
    run env LD_PRELOAD="$BATS_FILE_TMPDIR/kill_at.so" KILL_AT="$point" KILL_RANK="$rank" \
        ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}" timeout 120 kvctl launch "$@"
    found=$(grep -lzs "^KVSTORE_RUN_DIR=$TMPDIR" /proc/[0-9]*/environ || true)
    assert_equal "processes left: $found" "processes left: "
    found=$(find "$TMPDIR" -maxdepth 1 -name 'kvctl-*')
    assert_equal "folders left: $found" "folders left: "
}

# Two workers and a server: the states of one round, and of two over them.
states_script()
{
    cat <<'END'
create dist_sync
set-optimizer adam
init 3 ones(30000)
push 3 ones(30000) * (rank() + 1)
save-states s.safetensors
barrier
if rank() == 0 { !cp s.safetensors before.safetensors; touch armed
}
push 3 ones(30000) * (rank() - 2)
pull 3 -> x
barrier
END
    echo "$1"
    echo "save-states s.safetensors"
    echo "barrier"
}

assert_killed()
{
    local kinds=(worker worker server)
    assert_failure 6
    assert_line "kvctl: rank $1 (${kinds[$1]}) was killed by signal 9"
}

is_before()
{
    cmp s.safetensors before.safetensors
}

is_after()
{
    cmp s.safetensors after.safetensors
}

@test "saves: states are those before or the new ones, whoever is killed" {
    states_script "" >job.kv
    job none 0 -n 2 -s 1 job.kv
    assert_success
    mv s.safetensors after.safetensors
    run ! cmp -s before.safetensors after.safetensors
    for point in write sync rename; do
        rm -f armed
        job $point 0 -n 2 -s 1 job.kv
        assert_killed 0
        is_before
    done
    rm armed
    job renamed 0 -n 2 -s 1 job.kv
    assert_killed 0
    is_after
    for rank in 1 2; do
        rm armed
        job write $rank -n 2 -s 1 job.kv
        assert_killed $rank
        is_before || is_after
    done
}

# A server that is stopped has the states asked of it, and does not answer: then it is killed. Its
# threads stop one after the other, and one of them could still answer.
@test "saves: a server that is killed while it is asked for states leaves those before" {
    local server="awk '\$1 == 2 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events"
    local stopped="until ! grep -L '^State:.T' /proc/\$($server)/task/*/status | grep -q .; do sleep 0.02; done"
    states_script "if rank() == 0 { !$server | xargs kill -STOP; $stopped; (sleep 2; $server | xargs kill -9) >/dev/null 2>&1 &
}" >job.kv
    job none 0 -n 2 -s 1 job.kv
    assert_killed 2
    is_before
}

# The same of checkpoints, from which the job goes on with the bits of one that lost nobody.
checkpoint_script()
{
    cat <<'END'
create dist_sync
set-optimizer adam --learning-rate 0.1
init 3 ones(30000)
pull 3 -> x
for i in range(rounds(), 9) {
    if i == 5 and rank() == 0 { s = sum(x)
        !until [ -e c.kvs -o ! -e keeps ]; do sleep 0.05; done; touch armed
    }
    push 3 x * (rank() + 1) - i
    pull 3 --out x
}
if rank() == 0 { print x[0], x[29999], sum(x) } # and no file: any would be one to be killed at
END
}

@test "saves: a checkpoint is the one before or the new one, and the job goes on from it" {
    local whom whole from kinds=(worker worker server)
    checkpoint_script >job.kv
    job none 0 -n 2 -s 1 job.kv
    assert_success
    whole=$output
    touch keeps # from now on the file of round 4 is awaited
    # point, rank, the rounds that the file holds
    for whom in write:0:4 sync:0:4 rename:0:4 renamed:0:8 write:1:[489] write:2:[489]; do
        rm -f armed c.kvs
        IFS=: read -r point rank from <<<"$whom"
        job "$point" "$rank" -n 2 -s 1 --checkpoint c.kvs --checkpoint-every 4 --max-restarts 1 job.kv
        assert_success
        assert_line "$whole"
        # With ULFM nobody misses a worker that has made its last push and pull.
        [ "$rank:$output" != "1:$whole"$'\n''kvctl: the job went on without rank 1, which was lost' ] || continue
        assert_line "kvctl: rank $rank (${kinds[$rank]}) was killed by signal 9"
        assert_line --regexp "^kvctl: restart 1 of 1 from c.kvs at round $from: [0-9] rounds? (is|are) repeated$"
    done
}
