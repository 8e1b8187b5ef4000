# The examples for several machines.

load ../cli/help

launch()
{
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    cd "$top/examples" || return
    run timeout 60 kvctl launch "$@"
}

@test "examples: training with servers inside the workers" {
    launch -n 3 train-dist.kv
    assert_success
    assert_output "[0] loss 5.3803 with 3 workers"
}

@test "examples: training with two servers" {
    launch -n 2 -s 2 train-dist.kv
    assert_success
    assert_output "[0] loss 5.3803 with 2 workers"
}

@test "examples: sums of all workers, steps in each" {
    launch -n 2 --set kind=horovod train-reduce.kv
    assert_success
    assert_output "[0] loss 5.3803 with 2 workers"
    launch -n 2 -s 1 --set kind=byteps train-reduce.kv
    assert_success
    assert_output "[0] loss 5.3803 with 2 workers"
}
