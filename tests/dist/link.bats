# Links between ranks, without a store.

load ../cli/help

@test "link: urgent records overtake others, and nothing else does" {
    command -v mpirun >/dev/null || skip "there is no mpirun"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Open MPI 5.0.7 says that there is no network where there is none; memory is shared here
    gives "" timeout 60 mpirun --oversubscribe --bind-to none --mca btl ^tcp -n 2 "$build/dist_link"
}

# Else they would sleep where each could spin: sums of large arrays took eight times as long.
@test "link: ranks that are bound to processors of their own share all of these" {
    command -v mpirun >/dev/null || skip "there is no mpirun"
    [ "$(nproc)" -ge 2 ] || skip "there is one processor"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    run -0 timeout 60 mpirun -n 2 sh -c "taskset -c \$OMPI_COMM_WORLD_RANK '$build/dist_link' 2"
    run -0 timeout 60 mpirun --oversubscribe --bind-to none -n 2 taskset -c 0 "$build/dist_link" 1
    run -0 timeout 60 mpirun --oversubscribe --bind-to none -x KVSTORE_THREADS=1 -n 2 "$build/dist_link" 1
}

# Rounds of an elastic job stood still for ever, where its ranks are on several machines.
@test "link: records that come when another rank is gone are taken" {
    kvctl launch --elastic -n 1 -s 1 --dry-run -c 'print 1' >/dev/null 2>&1 || skip "Open MPI has no ULFM here"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 KVSTORE_ELASTIC=1 KVSTORE_SHARED_MEMORY=0
    for how in "3 $build/dist_link gone" "4 $build/dist_link gone-sending"; do
        run timeout 60 mpirun --oversubscribe --bind-to none --with-ft ulfm --enable-recovery --mca pml ob1 \
            --mca btl ^tcp,ofi --mca osc ^ucx -n $how
        assert_line "all came"
    done
}
