# The pods of kvctl launch --launcher k8s, without Kubernetes: hosts of this machine that have what pods
# would have. n0 runs the entry point of the launcher, n1 and n2 those of two workers, with the files of
# the ConfigMap as Kubernetes mounts them, and the keys, the file of hosts and the variables that the MPI
# operator adds. What kvctl prints, and kubectl: tests/cli/k8s.bats.

load ../cli/help
load cluster

setup_file()
{
    cluster_needs sshd ssh python3 || return 0
    if ! python3 -c 'import yaml' 2>/dev/null; then
        cluster_down
        skip_file "there is no yaml for python3: make test-launch installs it"
        return 0
    fi
    ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f "$work/id_rsa"
    cp "$work/id_rsa.pub" "$work/authorized_keys"
    mkdir "$work/volume"
    cp "$work/hosts" "$work/hosts.before"
    for host in n0 n1 n2; do
        on "$host" bash -e -c "$pod_mounts" pod "$work" "$top"
    done
}

teardown_file() { cluster_down; }

# Folders that a pod has for itself, where this machine has others. Kubernetes makes the folder of keys
# open to all users of the pod.
pod_mounts='
work=$1 top=$2
fresh() {
    mkdir -p "/tmp/before$1"
    mount --rbind "$1" "/tmp/before$1"
    mount -t tmpfs none "$1"
    case $top in "$1"/*) mkdir -p "$top" && mount --rbind "/tmp/before$top" "$top" ;; esac
}
mkdir /tmp/etc
cp -a /etc/. /tmp/etc
mount --bind /tmp/etc /etc
mount --bind "$work/hosts" /etc/hosts
fresh /root
fresh /mnt
mkdir -p /etc/mpi /mnt/kvctl
mkdir -m 1777 /root/.ssh
for one in id_rsa id_rsa.pub authorized_keys; do install -m 600 "$work/$one" /root/.ssh; done
'

# objects OPTION…: prints a job of two pods, checks it and mounts its files in all pods. The operator calls
# pods by the name of the job, its own one and the namespace.
objects()
{
    kvctl launch --launcher k8s --image i -n 4 -s 2 --slots 3 "$@" >job.yaml
    "$top/tests/launch/mpijob" unpack pod <job.yaml
    folder=$(sed -n '/workingDir/ { s/.*: //p; q }' job.yaml)
    for host in n0 n1 n2; do
        on "$host" sh -c 'rm -rf /mnt/kvctl/* && cp -a pod/. /mnt/kvctl && printf "$1" >/etc/mpi/hostfile' hosts \
            'train-worker-0.train.default.svc slots=3\ntrain-worker-1.train.default.svc slots=3\n'
    done
    cat "$work/hosts.before" >"$work/hosts" # it is mounted, and stays the same file
}

# entry HOST ROLE: the command of a pod.
entry()
{
    PATH=$PATH:/usr/sbin on "$1" env HOME=/root sh -c "cd $folder && exec /bin/sh /mnt/kvctl/entry/$2"
}

launcher()
{
    OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
        OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10' OMPI_MCA_orte_set_default_slots=3 \
        K_MPI_JOB_ROLE=launcher NVIDIA_VISIBLE_DEVICES='' timeout 200 "${BASH:-bash}" -c \
        "set -e; . ./pod.env; folder=$folder; $(declare -f on entry); entry n0 launcher"
}

worker()
{
    pkill --ns "$(cat "$work/$1.pid")" --nslist net -x sshd || true
    entry "$1" worker </dev/null >>"$work/$1.log" 2>&1 3>&- &
}

known()
{
    echo "10.79.0.$((${1#n} + 1)) train-worker-$((${1#n} - 1)).train.default.svc" >>"$work/hosts"
}

both_ready()
{
    worker n1
    worker n2
    known n1
    known n2
    for host in n1 n2; do
        until on "$host" bash -c ': </dev/tcp/localhost/22' 2>/dev/null; do sleep 0.05; done
    done
}

@test "k8s: pods whose names and servers appear late" {
    cat >train.kv <<'END'
create dist_sync
init 3 zeros(2)
push 3 @data/ones.npy * (rank() + 1)
pull 3
print env("A"), args
END
    mkdir data
    kvctl -c 'ones(2) > data/ones.npy'
    objects --file data/ones.npy --env 'A=$(touch made) "' train.kv 'it'"'"'s; $(touch made)'
    launcher >out 2>err &
    local launcher=$! status=0
    until grep -q 'waits up to 600 s for all hosts' err; do sleep 0.1; done
    known n1
    sleep 0.5
    worker n2
    sleep 0.5
    known n2
    sleep 0.5
    worker n1
    wait "$launcher" || status=$?
    cat err
    assert_equal "$status" 0
    for rank in 0 1 2 3; do
        grep -qxF "[$rank] [10. 10.]" out
        grep -qxF "[$rank] "'$(touch made) " ["it'"'"'s; $(touch made)"]' out
    done
    assert_equal "$(wc -l <out) $(wc -l <err)" "8 1"
    assert_nothing_left
}

@test "k8s: the exit code of a rank that fails is that of the launcher" {
    echo 'create dist_sync; if rank() == 3 { quit 9 }; barrier' >train.kv
    objects train.kv
    both_ready
    matches -9 '^kvctl: rank 3 \(worker\) on n[12] ended with exit code 9$' launcher
    assert_nothing_left
}

@test "k8s: pods whose names never appear are named" {
    objects --queue-timeout 2 --name train -c 'print 1'
    run -6 launcher
    assert_line --partial 'kvctl: error[peer]: launch: after 2 s hosts "train-worker-0.train.default.svc" and "train-worker-1.train.default.svc" cannot be reached: '
}

@test "k8s: a host that has another key than that of the job gets nothing" {
    objects --queue-timeout 2 --name train -c 'print 1'
    both_ready
    ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f other
    on n0 install -m 600 other.pub /root/.ssh/id_rsa.pub
    run launcher
    on n0 install -m 600 "$work/id_rsa.pub" /root/.ssh/id_rsa.pub
    assert_failure 6
    assert_line --partial 'cannot be reached: Host key verification failed.'
}

# A container that runs out of memory loses its sshd as well, and gets a new one.
@test "k8s: a pod that is lost comes back, and the job goes on from its checkpoint" {
    cat >train.kv <<'END'
create dist_sync
init 3 zeros(2)
for i in range(rounds(), 30) {
    if i == 25 and rank() == 0 {
        !test -e $VOLUME/lost || (touch $VOLUME/lost; pkill -9 --ns $$ --nslist net -x sshd; kill -9 $PPID)
    }
    push 3 ones(2)
}
if rank() == 0 { pull 3 }
END
    rm -f "$work/volume/lost"
    objects --volume "claim:$work/volume" --env VOLUME="$work/volume" --checkpoint "$work/volume/c.kvs" \
        --checkpoint-every 10 --max-restarts 1 train.kv
    both_ready
    launcher >out 2>err &
    local launcher=$! status=0
    until [ -e "$work/volume/lost" ] && grep -q 'waits up to 600 s' <(tail -n 1 err); do sleep 0.1; done
    worker n1
    wait "$launcher" || status=$?
    cat err
    assert_equal "$status" 0
    # rank 0 need not wait for the file of round 20
    grep -qxE "kvctl: restart 1 of 1 from $work/volume/c.kvs at round (20: 5|10: 15) rounds are repeated" err
    grep -qxF "[0] [4. 4.]" out
    assert_nothing_left
}
