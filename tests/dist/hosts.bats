# Several hosts: network namespaces of this machine.

load ../cli/help

hosts()
{
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    cd "$top/examples" || return
    run timeout 60 env KVCTL="$build/kvctl" "$top/tests/dist/hosts" "$@"
    [ "$status" -ne 77 ] || skip "this machine makes no network namespaces"
}

@test "hosts: two of them with two workers each train as one does" {
    hosts train-dist.kv
    assert_success
    assert_output "loss 5.3803, workers: 4"
}

@test "hosts: the servers on the second of them" {
    hosts --servers 2 train-dist.kv
    assert_success
    assert_output "loss 5.3803, workers: 2"
}

@test "hosts: a link of 100 Mb a second" {
    hosts --rate 100mbit --ranks 2 "$top/tests/dist/slow.kv"
    assert_success
    assert_output "[2. 2. 2.]"
}

@test "hosts: closed forms of all types, the servers in the workers and on the second of them" {
    local kind
    for kind in dist_sync dist_device_sync; do
        { echo "kind = \"$kind\""; cat "$top/tests/dist/documents.kv"; } >job.kv
        hosts "$PWD/job.kv"
        assert_success
        assert_output "fine with 4 workers"
        cd "$BATS_TEST_TMPDIR"
    done
    hosts --servers 2 "$PWD/job.kv"
    assert_success
    assert_output "fine with 2 workers"
}
