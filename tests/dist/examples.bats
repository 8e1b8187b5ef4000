# The examples for several machines.

load ../cli/help

launch()
{
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    cd "$top/examples" || return
    run -0 timeout 60 kvctl launch "$@"
}

@test "examples: training with servers inside the workers" {
    launch -n 3 train-dist.kv
    assert_output "[0] loss 5.3803, workers: 3"
}

@test "examples: training with two servers" {
    launch -n 2 -s 2 train-dist.kv
    assert_output "[0] loss 5.3803, workers: 2"
}

@test "examples: sums of all workers, steps in each" {
    launch -n 2 --set kind=horovod train-reduce.kv
    assert_output "[0] loss 5.3803, workers: 2"
    launch -n 2 -s 1 --set kind=byteps train-reduce.kv
    assert_output "[0] loss 5.3803, workers: 2"
}

@test "examples: fine-tuning pulls what changed" {
    launch -n 2 fine-tuning.kv
    assert_line --regexp '^\[0\] 20 steps: the loss went from 2\.6e-05 to 2\.5[0-9]e-05$'
    assert_line --regexp '^\[0\] each worker pulled 1\.[0-9] MB of 83\.9 MB: [45][0-9] times less$'
}

@test "examples: what the seed documents say of several machines" {
    for ranks in "-n 1" "-n 2" "-n 3 -s 2" "-n 4 -s 1"; do
        for kind in dist_sync dist_device_sync; do
            launch $ranks --set kind=$kind "$top/tests/dist/documents.kv"
            assert_output --regexp "^\[0\] fine with ${ranks:3:1} workers$"
        done
    done
}

@test "examples: a rank pulls what another made, without an array of its own" {
    launch -n 2 -c 'create dist_sync; if rank() == 0 { init 5 ones(3); init 7 row_sparse(ones(1,2), [1], shape=(3,2)) }
        barrier; pull 5 -> x; assert x == 1; row-sparse-pull 7 --row-ids [1] -> r; assert dense(r)[1,1] == 1
        if rank() == 1 { expect-error key { pull 9 -> z } }; barrier'
}
