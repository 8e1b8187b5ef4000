# kvctl launch over ssh, on hosts of their own: network namespaces in which a server of ssh runs.

load ../cli/help
load cluster

setup_file()
{
    cluster_needs sshd ssh rsync || return 0
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
    job -H hosts --deadline 15 stop.kv
    assert_failure 6
    assert_line "kvctl: rank 1 on n2 has not been heard for 15 s"
    assert_nothing_left
}

# lose_host COMMAND… in round 26 of a job with the options of $more; one that goes on from its
# checkpoint ends well.
lose_host()
{
    setup_hosts
    cat >rounds.kv <<'END'
create dist_sync
init 3 zeros(2)
first = rounds()
for i in range(first, 30) {
    if first == 0 and i == 25 and rank() == 0 {
        !touch joined
        while true { pull 3 -> x; sleep 0.05 }
    }
    push 3 ones(2)
}
if rank() == 0 { pull 3 }
END
    rm -f joined
    (
        await joined
        "$@"
    ) 3>&- &
    job -H hosts "${more[@]}" rounds.kv
    wait
}

# All processes of n2 but its server of ssh end at once, by one call: what a rank's watcher still says of its end
# would be another loss. Parents, whose ids are smaller, are the first.
kill_n2()
{
    local pid pids=()
    for pid in $(ip netns pids "$(sed -n 3p "$work/spaces")" | sort -n); do
        [ "$pid" = "$(cat "$work/n2.pid")" ] || grep -qas 'sshd -D' "/proc/$pid/cmdline" || pids+=("$pid")
    done
    kill -9 "${pids[@]}" 2>/dev/null || true # one that has ended with another
}

link_n2()
{
    ip -n "$(sed -n 1p "$work/spaces")" link set v2 "$1"
}

# The daemon of Open MPI on the host ends when it hears of it again, and the watchers with it.
link_n2_back()
{
    link_n2 up
    for _ in {1..300}; do
        pgrep --ns "$(cat "$work/n2.pid")" --nslist net '^(orted|prted|kvctl)$' >/dev/null || break
        sleep 0.1
    done
}

# What lay on the host stays there until the next job.
@test "ssh: a host that dies" {
    ! ends_peers || skip "Open MPI 5 ends the ranks of the other host, too"
    more=()
    lose_host kill_n2
    assert_failure 6
    assert_line "kvctl: host n2 is lost, with ranks 1, 3 and 5"
    assert_equal "$(grep -c '^kvctl: ' <<<"$output")" 1
    run -0 on n0 timeout 100 kvctl launch -n 2 -H hosts --deadline 60 -c 'print 7'
    assert_nothing_left
}

@test "ssh: a job begins again when a host has died" {
    ! ends_peers || skip "Open MPI 5 ends the ranks of the other host, too"
    more=(--checkpoint c.kvs --checkpoint-every 10 --max-restarts 1)
    lose_host kill_n2
    assert_success
    assert_equal "$(grep '^kvctl: ' <<<"$output")" \
        "kvctl: host n2 is lost, with ranks 1, 3 and 5
kvctl: restart 1 of 1 from c.kvs at round 20: 5 rounds are repeated"
    assert_line "[0] [4. 4.]"
    assert_nothing_left
}

# With many files, so that the watcher that removes the folder is still at it when another has ended.
@test "ssh: a host that is cut off" {
    more=(--deadline 15)
    lose_host link_n2 down
    on n2 sh -c 'cd /tmp/kvctl-* && seq 5000 | xargs touch'
    link_n2_back
    assert_failure 6
    assert_line "kvctl: host n2 is lost, with ranks 1, 3 and 5"
    for rank in 0 2; do
        assert_line --regexp "^\[$rank\] .*error\[peer\]: rank [135] on n2 has not been heard for 15 s$"
    done
    assert_nothing_left
}

# TCP waits twice as long before each time that it sends again: a cut of up to half of the deadline is
# no loss.
@test "ssh: a link that is cut for a while costs time only" {
    setup_hosts
    cat >cut.kv <<'END'
create dist_sync
init 3 zeros(20000)
for i in 1..60 {
    if i == 25 and rank() == 0 {
        !touch joined
    }
    push 3 ones(20000)
    pull 3 -> x
    s = sum(x)
}
if rank() == 0 { print(i, s) }
END
    rm -f joined
    (
        await joined
        link_n2 down
        sleep 4
        link_n2 up
    ) 3>&- &
    job -H hosts --deadline 20 cut.kv
    wait
    assert_success
    assert_line "[0] 60 80000.0"
    assert_nothing_left
}

# The ranks have left, and each waits two seconds before it ends MPI: it then makes no connection.
@test "ssh: a link that is cut for a while as the ranks leave costs time only" {
    setup_hosts
    cat >late.c <<'END'
#include <dlfcn.h>
#include <unistd.h>
static void *late(const char *name)
{
    sleep(2);
    return dlsym(dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD), name);
}
int MPI_Barrier(void *c) { return ((int (*)(void *))late("PMPI_Barrier"))(c); }
int MPI_Finalize(void) { return ((int (*)(void))late("PMPI_Finalize"))(); }
END
    gcc -shared -fPIC -o late.so late.c -ldl
    mkdir bin
    printf '#!/bin/bash\nset -- "${@/ orted/ LD_PRELOAD=%s orted}"\nexec %s "${@/ prted/ LD_PRELOAD=%s prted}"\n' \
        "$PWD/late.so" "$work/bin/ssh" "$PWD/late.so" >bin/ssh
    chmod +x bin/ssh
    rm -f joined
    (
        await joined
        sleep 0.5
        link_n2 down
        for host in n0 n1 n2; do on "$host" ip neigh flush all; done
        sleep 5
        link_n2 up
    ) 3>&- &
    PATH=$PWD/bin:$PATH job -H hosts --deadline 20 \
        -c 'create dist_sync; init 3 1; push 3 1; pull 3; barrier; if rank() == 0 { !touch joined
}'
    wait
    assert_success
    assert_nothing_left
}

# Nobody waits for it: launch alone finds out.
@test "ssh: a host that is cut off from ranks that have not joined" {
    setup_hosts
    printf '!touch began.$OMPI_COMM_WORLD_RANK\nwhile true { sleep 0.1 }\n' >alone.kv
    on n0 timeout 100 kvctl launch -n 2 -H hosts --deadline 15 alone.kv >out 2>&1 3>&- &
    local launch=$! status=0
    await began.0 began.1
    link_n2 down
    wait "$launch" || status=$?
    link_n2_back
    assert_equal "$status $(grep '^kvctl' out)" "6 kvctl: host n2 is lost, with rank 1"
    assert_nothing_left
}

@test "ssh: a job begins again only when every host answers" {
    more=(--deadline 15 --checkpoint c.kvs --checkpoint-every 10 --max-restarts 2)
    lose_host link_n2 down
    link_n2_back
    assert_failure 6
    assert_line "kvctl: host n2 is lost, with ranks 1, 3 and 5"
    assert_line --partial 'kvctl: error[peer]: launch: host "n2" cannot be reached: '
    refute_output --partial "restart 1 of 2"
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
while true { sleep 0.1 }
END
    rm -f joined
    on n0 kvctl launch -n 4 -s 2 -H hosts endless.kv >out 2>&1 3>&- &
    local launch=$! status=0
    await joined
    pkill -INT -P "$launch"
    wait "$launch" || status=$?
    assert_equal "$status $(grep '^kvctl' out)" "130 kvctl: the job was ended by signal 2"
    assert_nothing_left
}

@test "ssh: a look at a job, from the host of its launcher and from one with a worker" {
    setup_hosts
    on n0 kvctl launch -n 2 -H hosts --name far -c 'create dist_sync; init 3 ones(2); barrier
while len(glob("end")) == 0 { sleep 0.05 }' >out 2>&1 3>&- &
    local launch=$!
    until [ "$(on n2 kvctl attach far -c rank 2>/dev/null)" = 1 ]; do
        kill -0 "$launch"
        sleep 0.1
    done
    run -6 on n0 kvctl attach far -c rank
    assert_output 'kvctl: error[peer]: job far: none of its workers runs on this host now'
    run -6 on n0 kvctl attach far --rank 1 -c rank
    assert_output 'kvctl: error[peer]: job far: worker 1 runs on n2: attach there'
    run -0 on n0 kvctl jobs far
    assert_line --regexp '^1 +worker +[0-9]+ +- .*worker 1 runs on n2: attach there'
    run -0 on n1 kvctl attach far -c 'print rank(), kv.pull(3)'
    assert_output '0 [1. 1.]'
    run -6 on n2 kvctl attach far --rank 0 -c rank
    assert_output 'kvctl: error[peer]: job far: worker 0 does not listen on this host'
    run -0 on n2 kvctl jobs
    assert_line --regexp '^far +- +2 +0 +runs '
    run -0 on n2 kvctl jobs far
    assert_line --regexp '^1 +worker +- +<cmd> +2 '
    touch end
    wait "$launch"
    assert_equal "$(on n2 ls -A "/tmp/kvctl.$(id -u)")" ""
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
    run -0 on n0 timeout 100 kvctl launch -n 2 -H hosts --checkpoint c.kvs --checkpoint-every 2 \
        --max-restarts 1 restart.kv
    assert_line "kvctl: rank 1 (worker) on n2 was killed by signal 9"
    # the file of round 6 was being written
    assert_line --regexp "^kvctl: restart 1 of 1 from c.kvs at round (6: 0|4: 2) rounds are repeated$"
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
    run -3 on n0 timeout 100 kvctl launch -n 2 -H hosts --checkpoint /tmp/c.kvs --checkpoint-every 1 \
        -c 'create dist_sync'
    assert_line --partial 'the job goes on from round 3, and "/tmp/c.kvs" on n2 is of round 0: '
}

@test "ssh: the folder is copied to hosts that do not have it" {
    setup_hosts
    on n0 mkdir /tmp/train
    printf 'create dist_sync\ninit 3 ones(2)\npull 3\n!pwd\n' >"$work/train.kv"
    on n0 cp "$work/train.kv" /tmp/train/train.kv
    cp hosts "$work/hosts.list"
    run -5 on n0 sh -c "cd /tmp/train && timeout 100 kvctl launch -n 2 -H $work/hosts.list train.kv"
    assert_line 'kvctl: error[io]: launch: host "n1" has no folder "/tmp/train"'
    run -0 on n0 sh -c "cd /tmp/train &&
        timeout 100 kvctl launch -n 2 -H $work/hosts.list --sync-dst-dir /tmp/there train.kv"
    assert_line "[0] /tmp/there"
    assert_line "[1] /tmp/there"
    run -0 on n2 cat /tmp/there/train.kv
}

@test "ssh: a host that refuses, and one that nobody knows" {
    printf 'n1\nn0\n' >hosts
    job -H hosts -c 'print 1'
    assert_failure 6
    local why='ssh: connect to host n0 port 22: Connection refused'
    assert_output "kvctl: error[peer]: launch: host \"n0\" cannot be reached: $why"
    printf 'n1\nnobody.invalid\n' >hosts
    job -H hosts -c 'print 1'
    assert_failure 6
    assert_output --partial \
        'kvctl: error[peer]: launch: host "nobody.invalid" cannot be reached: ssh: Could not resolve hostname'
}

@test "ssh: hosts whose names become known late" {
    printf 'late1 slots=3\nlate2 slots=3\n' >hosts
    cp "$work/hosts" "$work/hosts.before"
    (
        until [ -e asked ]; do sleep 0.1; done
        echo 10.79.0.2 late1 >>"$work/hosts"
        sleep 1
        echo 10.79.0.3 late2 >>"$work/hosts"
    ) 3>&- &
    on n0 timeout 100 kvctl launch -n 4 -s 2 -H hosts --queue-timeout 90 \
        -c 'create dist_sync; init 3 zeros(2); push 3 ones(2); pull 3' 2>&1 >out |
        tee >(while read -r line; do [[ $line != *'waits up to 90 s'* ]] || touch asked; done) >err
    local status=${PIPESTATUS[0]}
    wait
    cat "$work/hosts.before" >"$work/hosts" # the file is mounted: it stays the same one
    assert_equal "$status $(grep -cx '\[[0-3]\] \[4. 4.\]' out)" "0 4"
    assert_equal "$(cut -d : -f 1-3 err)" 'kvctl: launch: host "late1" cannot be reached'
    assert_nothing_left
}

@test "ssh: hosts that stay away, and Ctrl-C while they are awaited" {
    printf 'n1\nnobody.invalid\nn0\n' >hosts
    run -6 on n0 timeout 100 kvctl launch -n 3 -H hosts --queue-timeout 1 -c 'print 1'
    assert_line --partial \
        'kvctl: error[peer]: launch: after 1 s hosts "nobody.invalid" and "n0" cannot be reached: ssh: Could not resolve'
    on n0 kvctl launch -n 3 -H hosts --queue-timeout 1000 -c 'print 1' >out 2>&1 3>&- &
    local launch=$! status=0
    for _ in {1..300}; do [ ! -s out ] || break; sleep 0.1; done
    pkill -INT -P "$launch"
    wait "$launch" || status=$?
    assert_equal "$status $(tail -n 1 out)" "130 kvctl: the job was ended by signal 2"
    assert_nothing_left
}
