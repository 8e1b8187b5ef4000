# Hosts of this machine for the tests of launchers: network namespaces with names and addresses of
# their own, each with its own /tmp and /run, so that nothing reaches from one to another but the
# net and the files below $work. `load cluster`.
#
#     cluster_up 3          hosts n0, n1, n2 with the addresses 10.79.0.1, …; n0 is where one types
#     on n1 COMMAND…        runs a command there
#     serve n1 COMMAND…     starts a program there that stays until cluster_down
#     cluster_down          ends all that runs there, and removes the hosts
#
# Nothing of the machine's own configuration is read or changed: what a host has over /etc/hosts,
# /tmp and /run is mounted in its own namespace.

# The lines that a host runs first: $1 its name, $2 the folder of the cluster, then folders that it
# shares with the others.
cluster_host='
hostname "$1"; work=$2 own=$2/$1.tmp; shift 2
mount --make-rprivate /
mkdir -p "$own" && mount -t tmpfs none "$own" && chmod 1777 "$own"
for one; do
    case $one in
    /tmp/*) mkdir -p "$own${one#/tmp}" && mount --bind "$one" "$own${one#/tmp}" ;;
    esac
done
mount --rbind "$own" /tmp
mount -t tmpfs none /run
mkdir /run/sshd
mount --bind "$work/hosts" /etc/hosts
exec sleep 1000000'

cluster_up()
{
    export work=$BATS_FILE_TMPDIR/cluster
    mkdir -p "$work"
    chmod 755 "$work"
    printf '127.0.0.1 localhost\n' >"$work/hosts"
    for ((i = 0; i < $1; i++)); do
        echo "10.79.0.$((i + 1)) n$i" >>"$work/hosts"
    done
    for ((i = 0; i < $1; i++)); do
        cluster_add "$i" || return 77
    done
}

cluster_add()
{
    local first=kvl$$n0 ns=kvl$$n$1
    ip netns add "$ns" 2>/dev/null || return 1
    echo "$ns" >>"$work/spaces"
    if [ "$1" = 0 ]; then
        ip -n "$ns" link add br0 type bridge && ip -n "$ns" link set br0 up &&
            ip -n "$ns" addr add 10.79.0.1/24 dev br0
    else
        ip -n "$ns" link add eth0 type veth peer name "v$1" netns "$first" &&
            ip -n "$first" link set "v$1" master br0 up && ip -n "$ns" link set eth0 up &&
            ip -n "$ns" addr add "10.79.0.$(($1 + 1))/24" dev eth0
    fi || return 1
    ip -n "$ns" link set lo up
    ip netns exec "$ns" unshare -um bash -c "$cluster_host" host "n$1" "$work" \
        "$top" "$(dirname "$(command -v kvctl)")" "$BATS_RUN_TMPDIR" </dev/null >"$work/n$1.log" 2>&1 3>&- &
    echo "$!" >"$work/n$1.pid"
    for _ in {1..1000}; do
        on "n$1" test -e /run/sshd 2>/dev/null && on "n$1" grep -q n0 /etc/hosts && return 0
        sleep 0.05
    done
    cat "$work/n$1.log"
    return 1
}

on()
{
    local host=$1
    shift
    nsenter -t "$(cat "$work/$host.pid")" -n -u -m --wd="$PWD" "$@"
}

serve()
{
    on "$@" </dev/null >>"$work/$1.log" 2>&1 3>&- &
}

# All that is in the namespaces of the hosts, whoever started it.
cluster_down()
{
    local ns pids
    [ -e "${work:=$BATS_FILE_TMPDIR/cluster}/spaces" ] || return 0
    while read -r ns; do
        for _ in {1..20}; do
            pids=$(ip netns pids "$ns")
            [ -n "$pids" ] || break
            kill -9 $pids 2>/dev/null || true
            sleep 0.1
        done
        ip netns del "$ns"
    done <"$work/spaces"
    rm -f "$work/spaces"
}

# A server of ssh on each host named, with keys of its own, and an ssh in $PATH that uses them.
cluster_ssh()
{
    local host
    mkdir -p "$work/bin"
    ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    cp "$work/key.pub" "$work/authorized"
    printf '%s\n' "HostKey $work/host_key" "AuthorizedKeysFile $work/authorized" \
        'StrictModes no' 'PermitRootLogin yes' 'PasswordAuthentication no' 'UsePAM no' \
        'PidFile none' >"$work/sshd_config"
    printf '%s\n' "IdentityFile $work/key" "UserKnownHostsFile $work/known" \
        'StrictHostKeyChecking accept-new' 'LogLevel ERROR' >"$work/ssh_config"
    printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$work/ssh_config" >"$work/bin/ssh"
    chmod 755 "$work/bin/ssh"
    for host; do
        serve "$host" /usr/sbin/sshd -D -e -f "$work/sshd_config"
        until on "$host" bash -c ': </dev/tcp/localhost/22' 2>/dev/null; do sleep 0.05; done
    done
    PATH=$work/bin:$PATH
}

# await FILE…: until all of them are there.
await()
{
    local file
    for file; do
        for _ in {1..600}; do [ ! -e "$file" ] || continue 2; sleep 0.1; done
        return 1
    done
}

# What every launcher must do, on n0 with the options given: closed forms, a killed rank, exit codes.

job()
{
    # shellcheck disable=SC2154
    run on n0 timeout 100 kvctl launch -n 4 -s 2 "$@"
}

# A daemon of Open MPI 4 that nothing can wake: now and then it ends its second thread while that holds a lock which it
# takes itself as it ends (PMIx_server_finalize).
is_locked()
{
    local name waits='' threads
    read -r name 2>/dev/null <"/proc/$1/comm" && [ "$name" = orted ] || return
    read -r waits 2>/dev/null <"/proc/$1/wchan" || true # without an end of line
    threads=("/proc/$1/task"/*)
    [[ $waits == *futex* && ${#threads[@]} = 1 ]]
}

# What of the job is left: processes in the namespaces of the hosts, folders in their /tmp. It is asked again and
# again, so by few processes.
left_behind()
{
    local host pid words
    for host in n0 n1 n2; do
        compgen -G "/proc/$(<"$work/$host.pid")/root/tmp/kvctl-*"
    done
    while read -r host; do
        for pid in $(ip netns pids "$host"); do
            if is_locked "$pid"; then
                kill -9 "$pid"
            elif mapfile -d '' -t words 2>/dev/null <"/proc/$pid/cmdline"; then
                [[ "${words[*]} " != *@('kvctl '|mpirun|orted|prte)* ]] || echo "${words[*]}"
            fi
        done
    done <"$work/spaces"
    return 0
}

# A host learns from its own side that the job is over, so it may tidy up a moment after launch has
# returned.
assert_nothing_left()
{
    local tries left
    for ((tries = 0; tries < 300; tries++)); do
        left=$(left_behind)
        [ -n "$left" ] || return 0
        sleep 0.2
    done
    assert_equal "$left" ""
}

job_sums()
{
    cat >sums.kv <<'END'
create dist_sync
init 3 zeros(2)
push 3 ones(2) * (rank() + 1)
pull 3
END
    job "$@" sums.kv
    assert_success
    for rank in 0 1 2 3; do assert_line "[$rank] [10. 10.]"; done
    assert_equal "${#lines[@]}" 4
    assert_nothing_left
}

# Open MPI 5 without ULFM ends the ranks whose link to a lost one closes, before they can say why.
ends_peers()
{
    [[ $(mpirun --version) =~ \(Open\ MPI\)\ [5-9] ]]
}

job_killed()
{
    cat >killed.kv <<'END'
create dist_sync
init 3 zeros(1000)
barrier
if rank() == 1 {
    !kill -9 $PPID
}
while true { barrier }
END
    job "$@" killed.kv
    assert_failure 6
    by_rank
    assert_line --regexp '^kvctl: rank 1 \(worker\) on n[12] was killed by signal 9$'
    for rank in 0 2 3; do
        ! ends_peers || break
        assert_line --regexp "^\[$rank\] .*error\[peer\]: rank 1 \(worker\) on n[12] was killed by signal 9$"
    done
    refute_line --regexp '^\[s[01]\] kvctl: ' # servers have nothing to add
    assert_nothing_left
}

job_fails()
{
    job "$@" -c 'create dist_sync; if rank() == 3 { assert 1 == 2 }; barrier'
    assert_failure 1
    assert_line --regexp '^kvctl: rank 3 \(worker\) on n[12] ended with exit code 1$'
    assert_nothing_left
}

# job_interrupted LAUNCHER COMMAND…: Ctrl-C ends a job of a queue, whose list, as the command prints it,
# is empty then.
job_interrupted()
{
    local launcher=$1 launch status=0
    shift
    cat >endless.kv <<'END'
create dist_sync
barrier
if rank() == 0 {
    !touch joined
}
while true { sleep 0.1 }
END
    on n0 kvctl launch --launcher "$launcher" -n 4 endless.kv >out 2>&1 3>&- &
    launch=$!
    await joined
    pkill -INT -P "$launch"
    wait "$launch" || status=$?
    assert_equal "$status" 130
    grep -x "kvctl: the job was ended by signal 2" out
    for _ in {1..600}; do
        [ -n "$(on n0 "$@")" ] || break
        sleep 0.2
    done
    assert_equal "$(on n0 "$@")" ""
}

# What setup_file of each launcher begins with. Where this machine cannot do it, the tests of the file
# are skipped and the answer is no.
cluster_needs()
{
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    export PATH=${KVCTL_BUILD:-$top/build}:$PATH:/usr/sbin
    if ! file_needs mpi "$@"; then
        SKIP_FILE+=": make test-launch installs it"
        return 1
    fi
    cluster_up 3 && return
    cluster_down
    skip_file "this machine makes no hosts: network namespaces with mounts of their own"
    return 1
}

# Slurm with the controller on n0 and two nodes, n1 and n2, of four processors each.
cluster_slurm()
{
    local host
    mkdir -p "$work"/slurm/{state,n1,n2}
    dd if=/dev/urandom of="$work/munge.key" bs=128 count=1 2>/dev/null
    chmod 600 "$work/munge.key"
    cat >"$work/slurm/slurm.conf" <<END
ClusterName=kvl
SlurmctldHost=n0
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
ReturnToService=2
KillWait=3
NodeName=n[1-2] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
END
    # No part of this needs control groups, which a container may lack.
    echo CgroupPlugin=cgroup/v1 >"$work/slurm/cgroup.conf"
    export SLURM_CONF=$work/slurm/slurm.conf
    for host in n0 n1 n2; do
        on "$host" mkdir -p /run/munge
        serve "$host" munged --foreground --force --key-file="$work/munge.key" \
            --pid-file=/run/munge/pid --seed-file=/run/munge/seed --log-file=/run/munge/log
    done
    for host in n0 n1 n2; do
        until on "$host" test -S /run/munge/munge.socket.2; do sleep 0.1; done
    done
    serve n0 slurmctld -D
    for host in n1 n2; do
        serve "$host" slurmd -D -N "$host"
    done
    for _ in {1..300}; do
        [ "$(on n0 sinfo -h -t idle -o %D 2>/dev/null)" != 2 ] || return 0
        sleep 0.2
    done
    cat "$work"/n?.log
    return 1
}

# Grid Engine with its master on n0 and two hosts, n1 and n2, of four slots each; the parallel
# environment is called orte.
cluster_sge()
{
    local host
    export SGE_ROOT=$work/sge SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445
    mkdir -p "$SGE_ROOT"/default/common "$SGE_ROOT"/{spool,master,run}
    ln -s /var/lib/gridengine/{bin,lib,util,utilbin} "$SGE_ROOT"
    echo n0 >"$SGE_ROOT/default/common/act_qmaster"
    sed -e 's/^admin_user .*/admin_user none/' -e "s|^spooling_params .*|spooling_params $SGE_ROOT/spool|" \
        -e "s|^qmaster_spool_dir .*|qmaster_spool_dir $SGE_ROOT/master|" \
        /usr/share/gridengine/default-bootstrap >"$SGE_ROOT/default/common/bootstrap"
    sed -e 's/^min_\(.\)id .*/min_\1id 0/' -e 's|^mailer .*|mailer /bin/true|' \
        -e "s|^execd_spool_dir .*|execd_spool_dir $SGE_ROOT/run|" \
        /usr/share/gridengine/default-configuration >"$SGE_ROOT/configuration"
    cd "$SGE_ROOT" || return
    on n0 /usr/lib/gridengine/spoolinit berkeleydb libspoolb "$SGE_ROOT/spool" init &&
        on n0 /usr/lib/gridengine/spooldefaults configuration "$SGE_ROOT/configuration" &&
        on n0 /usr/lib/gridengine/spooldefaults complexes /usr/share/gridengine/util/resources/centry &&
        on n0 /usr/lib/gridengine/spooldefaults usersets /usr/share/gridengine/util/resources/usersets &&
        on n0 /usr/lib/gridengine/spooldefaults managers root || return
    export SGE_ND=1 # stays in the foreground
    serve n0 /usr/sbin/sge_qmaster
    for _ in {1..600}; do
        ! on n0 qconf -sm >/dev/null 2>&1 || break
        sleep 0.1
    done
    for host in n0 n1 n2; do
        on n0 qconf -ah "$host"
        on n0 qconf -as "$host"
    done
    for host in n1 n2; do
        serve "$host" /usr/sbin/sge_execd
    done
    for host in n1 n2; do
        for _ in {1..600}; do
            ! on n0 qconf -se "$host" >/dev/null 2>&1 || break
            sleep 0.1
        done
    done
    cluster_sge_edit -ap orte -e 's/^slots .*/slots 99/' -e 's/^allocation_rule .*/allocation_rule $round_robin/' \
        -e 's/^control_slaves .*/control_slaves TRUE/' -e 's/^job_is_first_task .*/job_is_first_task FALSE/'
    cluster_sge_edit -aq all.q -e 's/^hostlist .*/hostlist n1 n2/' -e 's/^slots .*/slots 4/' \
        -e 's/^pe_list .*/pe_list make orte/' -e 's|^shell .*|shell /bin/sh|' \
        -e 's/^load_thresholds .*/load_thresholds NONE/'
    cluster_sge_edit -msconf '' -e 's/^schedule_interval .*/schedule_interval 0:0:1/' \
        -e 's/^flush_submit_sec .*/flush_submit_sec 1/' -e 's/^flush_finish_sec .*/flush_finish_sec 1/'
    cd - >/dev/null || return
    for _ in {1..600}; do
        [ "$(on n0 qhost | grep -c '^n[12] .*[0-9]G')" != 2 ] || return 0
        sleep 0.2
    done
    on n0 qhost
    return 1
}

# cluster_sge_edit OPTION NAME EDIT…: what one would do in the editor that qconf opens.
cluster_sge_edit()
{
    local option=$1 name=$2
    shift 2
    printf '#!/bin/sh\nexec sed -i' >"$work/edit"
    printf " '%s'" "$@" >>"$work/edit"
    printf ' "$1"\n' >>"$work/edit"
    chmod 755 "$work/edit"
    on n0 env EDITOR="$work/edit" qconf $option $name
}
