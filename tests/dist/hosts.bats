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
    assert_output "loss 5.3803 with 4 workers"
}

@test "hosts: the servers on the second of them" {
    hosts --servers 2 train-dist.kv
    assert_success
    assert_output "loss 5.3803 with 2 workers"
}

@test "hosts: a link of 100 Mb a second" {
    hosts --rate 100mbit --ranks 2 "$top/tests/dist/slow.kv"
    assert_success
    assert_output "[2. 2. 2.]"
}
