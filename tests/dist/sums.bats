# The types that keep nothing, as ranks of this machine.

load ../cli/help

setup_file()
{
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

ranks()
{
    needs_mpi
    run timeout 60 mpirun --oversubscribe --bind-to none "$@"
}

@test "sums: horovod with 1, 2 and 4 ranks" {
    { echo "create horovod"; cat "$top/tests/dist/sums.kv"; } >sums.kv
    for n in 1 2 4; do
        ranks -n $n kvctl -f sums.kv
        assert_success
        assert_equal "$(grep -c fine <<<"$output")" $n
    done
}

@test "sums: byteps with servers of its own, and without shared memory" {
    { echo "create byteps"; cat "$top/tests/dist/sums.kv"; } >sums.kv
    ranks -x KVSTORE_SERVERS=2 -n 5 kvctl launch-rank -f sums.kv
    assert_success
    assert_equal "$(grep -c fine <<<"$output")" 3
    ranks -x KVSTORE_SHARED_MEMORY=0 -n 2 kvctl -f sums.kv
    assert_success
    assert_equal "$(grep -c fine <<<"$output")" 2
}

@test "sums: what these types do not have is refused by name" {
    ranks -n 1 kvctl -c 'create dist_sync; is-capable updater; is-capable sparsity; is-capable "gradient compression"'
    assert_success
    assert_output $'True\nTrue\nTrue'
    ranks -n 1 kvctl -c 'create horovod; is-capable updater; is-capable optimizer; init 3 ones(2)'
    assert_failure
    assert_output --partial False
    assert_output --partial 'error[unsupported]: stores of type "horovod" have no init'
    ranks -n 1 kvctl -c 'create byteps; push 3 ones(2)'
    assert_failure
    assert_output --partial 'error[unsupported]: stores of type "byteps" have no push'
    ranks -n 1 kvctl -c 'create byteps; set-optimizer sgd'
    assert_failure
    assert_output --partial 'error[unsupported]: stores of type "byteps" have no optimizer'
}

@test "sums: ranks that disagree are told" {
    ranks -n 2 kvctl -c 'create horovod; if rank() == 0 { pushpull 3 ones(2) } else { pushpull 3 ones(3) }'
    assert_failure
    assert_output --regexp 'error\[shape\]: key 3 holds \([23],\), this value has shape \([23],\)'
    ranks -n 2 kvctl -c 'create horovod; if rank() == 0 { pushpull 3 ones(2) } else { broadcast 3 ones(2) -> x }; wait'
    assert_failure
    assert_output --partial "some ranks broadcast the key while others push and pull it"
}

@test "sums: a broadcast without rank 0 gives no values" {
    ranks -n 2 kvctl -c 'create horovod; pushpull 3 ones(2) -> x; if rank() == 0 { done } else { broadcast 3 ones(2) -> y; wait }'
    assert_failure
    assert_output --partial "error[value]: key 3: rank 0 is done, and the others broadcast its value"
}
