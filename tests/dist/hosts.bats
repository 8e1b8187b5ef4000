# Several hosts: network namespaces of this machine.

load ../cli/help

# hosts OUTPUT WORD…
hosts()
{
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    cd "$top/examples" || return
    run timeout 60 env KVCTL="$build/kvctl" "$top/tests/dist/hosts" "${@:2}"
    [ "$status" -ne 77 ] || skip "this machine makes no network namespaces"
    assert_success
    assert_output "$1"
}

@test "hosts: two of them with two workers each train as one does, also with the servers on the second" {
    hosts "loss 5.3803, workers: 4" train-dist.kv
    cd "$BATS_TEST_TMPDIR"
    hosts "loss 5.3803, workers: 2" --servers 2 train-dist.kv
}

@test "hosts: a link of 100 Mb a second" {
    hosts "[2. 2. 2.]" --rate 100mbit --ranks 2 "$top/tests/dist/slow.kv"
}

@test "hosts: closed forms of all types, the servers in the workers and on the second of them" {
    local kind
    for kind in dist_sync dist_device_sync; do
        { echo "kind = \"$kind\""; cat "$top/tests/dist/documents.kv"; } >job.kv
        hosts "fine with 4 workers" "$PWD/job.kv"
        cd "$BATS_TEST_TMPDIR"
    done
    hosts "fine with 2 workers" --servers 2 "$PWD/job.kv"
}
