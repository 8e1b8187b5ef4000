# KVSTORE_TRACE=1: a note of each record between ranks.

load ../cli/help

# traced VALUE: what a job of two ranks says that pushes a key; its server is rank 0.
traced()
{
    needs_mpi
    printf '%s\n' 'create dist_sync' 'init 3 zeros(4)' 'push 3 ones(4)' 'pull 3 -> x' \
        'assert x == 2' >job.kv
    # without --mca, Open MPI 5.0.7 says that there is no network where there is none
    run -0 timeout 100 mpirun --oversubscribe --bind-to none --mca btl ^tcp -x KVSTORE_TIMEOUT=60 \
        -x KVSTORE_TRACE="$1" -n 2 kvctl -f job.kv
}

@test "trace: what is sent and what is received" {
    traced 1
    assert_output --partial 'note: rank 0 from rank 0: call create'
    refute_output --partial warning
    assert_output --partial 'rank 1 to rank 0: push part 0, round 1, offset 0 of 16, pulls 0'
    assert_output --partial 'rank 0 from rank 1: push part 0, round 1, offset 0 of 16, pulls 0'
    assert_output --partial 'rank 1 to rank 0: pull part 0, round 1'
    assert_output --partial 'rank 0 to rank 1: value part 0, round 1, chunk 0, offset 0 of 16'
    assert_output --partial 'rank 1 from rank 0: value part 0, round 1, chunk 0, offset 0 of 16'
    assert_output --partial 'rank 0 from rank 1: left'
}

@test "trace: ranks that share no memory" {
    export KVSTORE_SHARED_MEMORY=0
    traced 1
    assert_output --partial 'rank 1 to rank 0: push part 0, round 1, offset 0 of 16, pulls 0'
    assert_output --partial 'rank 0 from rank 1: push part 0, round 1, offset 0 of 16, pulls 0'
}

@test "trace: nothing unless it is asked for" {
    traced 0
    assert_output ''
}
