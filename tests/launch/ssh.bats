# kvctl launch over ssh, on hosts of their own: network namespaces in which a server of ssh runs.

load ../cli/help
load cluster

setup_file()
{
    cluster_needs sshd ssh rsync
    cluster_ssh n1 n2
}

teardown_file() { cluster_down; }

setup_hosts()
{
    printf 'n1 slots=3\nn2 slots=3\n' >hosts
}

@test "ssh: sums" {
    setup_hosts
    job_sums -H hosts
}

@test "ssh: a killed rank is named on every host" {
    setup_hosts
    job_killed -H hosts
}

@test "ssh: a rank that fails" {
    setup_hosts
    job_fails -H hosts
}

@test "ssh: a stopped rank is found by its silence" {
    setup_hosts
    cat >stop.kv <<'END'
create dist_sync
barrier
if rank() == 1 {
    !kill -STOP $PPID
}
while true { barrier }
END
    job -H hosts --deadline 4 stop.kv
    assert_failure 6
    assert_line "kvctl: rank 1 on n2 has not been heard for 4 s"
    assert_nothing_left
}

@test "ssh: a rank that never joins" {
    setup_hosts
    job -H hosts -c 'if env("OMPI_COMM_WORLD_RANK") == "1" { quit }; create dist_sync'
    assert_failure 6
    assert_line "kvctl: rank 1 has ended without joining"
    assert_nothing_left
}

@test "ssh: Ctrl-C ends every rank" {
    setup_hosts
    cat >endless.kv <<'END'
create dist_sync
barrier
if rank() == 0 {
    !touch joined
}
while true { x = 1 }
END
    rm -f joined
    on n0 kvctl launch -n 4 -s 2 -H hosts endless.kv >out 2>&1 3>&- &
    local launch=$! status=0
    for _ in {1..300}; do [ ! -e joined ] || break; sleep 0.1; done
    pkill -INT -f -o "kvctl launch -n 4 -s 2 -H hosts endless.kv"
    wait "$launch" || status=$?
    assert_equal "$status $(grep '^kvctl' out)" "130 kvctl: the job was ended by signal 2"
    assert_nothing_left
}

@test "ssh: a job goes on from its checkpoint" {
    setup_hosts
    cat >restart.kv <<'END'
create dist_sync
init 1 zeros(4)
pull 1 -> x
for i in range(rounds(), 9) {
    s = sum(x)
    if i == 6 and rank() == 1 {
        !test -e done || (touch done; kill -9 $PPID)
    }
    push 1 x + rank() + i
    pull 1 --out x
}
if rank() == 0 { print x }
END
    kvctl launch -n 2 restart.kv >one-machine 2>&1 || true # rank 1 is killed: only `done` stays
    kvctl launch -n 2 restart.kv >one-machine
    rm done
    run on n0 timeout 100 kvctl launch -n 2 -H hosts --checkpoint c.kvs --checkpoint-every 2 \
        --max-restarts 1 restart.kv
    assert_success
    assert_line "kvctl: rank 1 (worker) on n2 was killed by signal 9"
    assert_line "kvctl: restart 1 of 1 from c.kvs at round 6: 0 rounds are repeated"
    assert_line "$(cat one-machine)"
    assert_nothing_left
}

@test "ssh: every host must see the checkpoint" {
    setup_hosts
    kvctl launch -n 1 --checkpoint c.kvs --checkpoint-every 1 \
        -c 'create dist_sync; init 1 zeros(4); repeat 3 { push 1 ones(4) }'
    on n1 cp c.kvs /tmp/c.kvs
    cp c.kvs "$work/n0.copy"
    on n0 cp "$work/n0.copy" /tmp/c.kvs
    run on n0 timeout 100 kvctl launch -n 2 -H hosts --checkpoint /tmp/c.kvs --checkpoint-every 1 \
        -c 'create dist_sync'
    assert_failure 3
    assert_line --partial 'the job goes on from round 2, and "/tmp/c.kvs" on n2 is of round 0: '
}

@test "ssh: the folder is copied to hosts that do not have it" {
    setup_hosts
    on n0 mkdir /tmp/train
    printf 'create dist_sync\ninit 3 ones(2)\npull 3\n!pwd\n' >"$work/train.kv"
    on n0 cp "$work/train.kv" /tmp/train/train.kv
    cp hosts "$work/hosts.list"
    run on n0 sh -c "cd /tmp/train && timeout 100 kvctl launch -n 2 -H $work/hosts.list train.kv"
    assert_failure 5
    assert_line 'kvctl: launch: host "n1" has no folder "/tmp/train"'
    run on n0 sh -c "cd /tmp/train &&
        timeout 100 kvctl launch -n 2 -H $work/hosts.list --sync-dst-dir /tmp/there train.kv"
    assert_success
    assert_line "[0] /tmp/there"
    assert_line "[1] /tmp/there"
    run on n2 cat /tmp/there/train.kv
    assert_success
}

@test "ssh: a host that refuses, and one that nobody knows" {
    printf 'n1\nn0\n' >hosts
    job -H hosts -c 'print 1'
    assert_failure 6
    local why='ssh: connect to host n0 port 22: Connection refused'
    assert_output "kvctl: launch: host \"n0\" cannot be reached: $why"
    printf 'n1\nnobody.invalid\n' >hosts
    job -H hosts -c 'print 1'
    assert_failure 6
    assert_output --partial \
        'kvctl: launch: host "nobody.invalid" cannot be reached: ssh: Could not resolve hostname'
}
