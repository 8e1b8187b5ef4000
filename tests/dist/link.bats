# Links between ranks, without a store.

load ../cli/help

@test "link: urgent records overtake others, and nothing else does" {
    command -v mpirun >/dev/null || skip "there is no mpirun"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run timeout 60 mpirun --oversubscribe --bind-to none -n 2 "$build/dist_link"
    assert_success
    assert_output ""
}
