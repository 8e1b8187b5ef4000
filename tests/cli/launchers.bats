# kvctl launch --launcher …: what it would run, and what it refuses. The launchers themselves are in
# tests/launch.

load help
needs=mpi

prepare()
{
    echo 'print 1' >train.kv
    printf '# two hosts\nn1 slots=4\n\nn2\tslots=2\r\n' >hosts
    export HADOOP_HOME=/opt/hadoop
}

root()
{
    [ "$(id -u)" != 0 ] || echo "--allow-run-as-root "
}

@test "launchers: the examples of the page" {
    prepare
    local n=0 line
    while read -r line; do
        n=$((n + 1))
        mentions "launch" ${line/launch/launch --dry-run}
    done < <(grep '^kvctl ' "$top/cli/launch/launchers.md")
    assert_equal "$n" 10
}

@test "launchers: each one has a dry run" {
    prepare
    local by names
    names=$(sed -nE 's/^ *X\(LAUNCH_[A-Z0-9]+, "([a-z0-9]+)"\).*/\1/p' "$top/cli/launch/launch_options.h")
    [ "$(wc -w <<<"$names")" -ge 7 ]
    for by in $names; do
        local -A more=([ssh]="-H hosts" [k8s]="--image x")
        run -0 kvctl launch --launcher "$by" ${more[$by]-} -n 2 --dry-run train.kv
    done
}

@test "launchers: ssh is mpirun with ssh and the hosts" {
    prepare
    run -0 kvctl launch -n 4 -s 2 -H hosts --env A=1 --env-worker B:2 --env-server C=3 --dry-run train.kv one
    local ssh="--host n1:4,n2:2 -x KVSTORE_SERVERS -x KVCTL_ENV_a_A" self=$build/kvctl
    assert_output "KVSTORE_SERVERS=2 KVCTL_ENV_a_A=1 KVCTL_ENV_w_B=2 KVCTL_ENV_s_C=3 mpirun $(root)--mca osc '^ucx' --bind-to none --mca plm '^slurm,tm,lsf,alps,pals' --mca plm_rsh_agent '$self launch-ssh ssh -x -o BatchMode=yes -o ConnectTimeout=11' --enable-recovery --map-by node $ssh -x KVCTL_ENV_w_B -x KVCTL_ENV_s_C -n 6 $self launch-rank train.kv one"
}

@test "launchers: a host instead of a file of hosts gets a hint" {
    : >train.kv
    mentions -5 '-H takes a file with a host in each line' kvctl launch -n 2 -H localhost --dry-run train.kv
}

@test "launchers: hosts without slots take turns; a port, and a folder to copy" {
    prepare
    printf 'n1:2222\nn2:2222 # slow\nn3:2222\n' >hosts
    run -0 kvctl launch -n 4 -H hosts --deadline 3 --sync-dst-dir '/tmp/my d' --dry-run train.kv
    for host in n1 n2 n3; do
        assert_line "rsync -a -s -e 'ssh -x -o BatchMode=yes -o ConnectTimeout=4 -p 2222' ./ '$host:/tmp/my d/'"
    done
    assert_line --index 3 --partial "--map-by node --host n1:2,n2:1,n3:1 --wdir '/tmp/my d' -n 4 "
    printf 'n1\nn2\nn3\n' >hosts
    run kvctl launch -n 2 -H hosts --dry-run train.kv
    assert_output --partial "--host n1:1,n2:1 -n 2 "
}

@test "launchers: mpi takes hosts from a file, or from Open MPI" {
    prepare
    run kvctl launch --launcher mpi -n 2 --dry-run train.kv
    assert_output "mpirun $(root)--mca osc '^ucx' --bind-to none --enable-recovery -n 2 $build/kvctl launch-rank train.kv"
    run kvctl launch --launcher mpi -n 2 -H hosts --dry-run train.kv
    assert_output "mpirun $(root)--mca osc '^ucx' --bind-to none --enable-recovery --map-by node --host n1:1,n2:1 -n 2 $build/kvctl launch-rank train.kv"
}

@test "launchers: variables of the store go to other hosts" {
    prepare
    KVSTORE_THREADS=3 run kvctl launch --launcher mpi -n 2 --checkpoint c.kvs --checkpoint-every 5 --dry-run train.kv
    assert_output --regexp "^KVSTORE_CHECKPOINT_EVERY=5 KVSTORE_CHECKPOINT=c.kvs mpirun .* -x KVSTORE_CHECKPOINT_EVERY -x KVSTORE_CHECKPOINT -x KVSTORE_THREADS -n 2 "
    KVSTORE_THREADS=3 run kvctl launch -n 2 --dry-run train.kv
    refute_output --partial KVSTORE_THREADS
}

@test "launchers: the job of Grid Engine" {
    prepare
    run -0 kvctl launch --launcher sge -n 4 -s 2 --queue all.q --timeout 60 --env A='x y' --dry-run train.kv one
    assert_output "mkdir -p kvctl-job
cat >kvctl-job/job <<'END'
#!/bin/sh
#\$ -S /bin/sh
#\$ -N kvctl
#\$ -cwd
#\$ -r n
#\$ -pe orte 6
#\$ -q all.q
#\$ -o kvctl-job/out
#\$ -e kvctl-job/err
: >kvctl-job/started
export KVCTL_ENV_a_A='x y'
exec $build/kvctl launch --launcher mpi -n 4 -s 2 --deadline 10.000 --timeout 60.000 --env A train.kv one
END
qsub -sync y kvctl-job/job"
}

@test "launchers: values of variables are on no command line" {
    prepare
    for how in "" "-H hosts" "--launcher mpi"; do
        TOKEN=zzz run -0 kvctl launch -n 2 -s 1 $how --env-worker TOKEN --dry-run train.kv
        refute_output --partial zzz
        assert_output --partial 'KVCTL_ENV_w_TOKEN="$TOKEN" mpirun '
    done
    # another launch takes them from there, and gives them to mpirun alone
    stub mpirun 'env | grep ^KVCTL_ENV_; echo "${!#}"; [ "$TOKEN" = here ]'
    TOKEN=here KVCTL_ENV_s_TOKEN=sent run kvctl launch --launcher mpi -n 2 -s 1 --env-server TOKEN --env PATH=/x -c 'print 1'
    assert_line "KVCTL_ENV_s_TOKEN=sent"
    assert_line "KVCTL_ENV_a_PATH=/x"
    assert_line "print 1"
}

# The mpirun of Open MPI 5.0.7 crashes on a command of several parts.
@test "launchers: one part of a command starts workers and servers" {
    prepare
    for how in "" "--python" "--elastic" "--launcher mpi" "--launcher mpi -H hosts" "-H hosts" "-H hosts --sync-dst-dir /tmp/x"; do
        run kvctl launch -n 4 -s 2 $how --dry-run train.kv
        [[ $how == --elastic && $output == *"has none"* ]] && continue # an Open MPI without ULFM
        assert_success
        assert_output --partial " -n 6 $build/kvctl launch-rank "
        refute_output --partial " : "
    done
}

@test "launchers: the number of a rank says whether it serves" {
    needs_mpi
    cat >train.kv <<'END'
create dist_sync
init 3 zeros(2)
push 3 ones(2)
pull 3 -> x
if rank() == 0 { print x, num_workers(), env("ROLE"), env("ALL"); info --cluster }
END
    for servers in 1 2; do
        matches "0.*\[2\. 2\.\] 2 w a$" kvctl launch -n 2 -s $servers --env ALL=a --env-worker ROLE=w --env-server ROLE=s train.kv
        assert_equal "$(grep -c ' server ' <<<"$output")" $servers
    done
    # what --dry-run prints is the same job by hand
    eval "$(kvctl launch -n 2 -s 1 --env ALL=a --env-worker ROLE=w --dry-run train.kv)" >said
    grep -q '\[2\. 2\.\] 2 w a' said
    # there nobody watches, and a rank that is killed must not look like one that ended well
    run ! mpirun --oversubscribe -n 1 kvctl launch-rank -c '!kill -9 $PPID'
}

@test "launchers: what --dry-run prints is one job, whatever it holds" {
    prepare
    touch_it=$'x\nEND\ntouch made\nEND_1\ntouch made'
    for how in "sge" "slurm"; do
        kvctl launch --launcher "$how" -n 2 --env "A=$touch_it" --dry-run train.kv >said
        stub qsub :
        stub salloc :
        run -0 sh said
        [ ! -e made ]
        grep -qx "cat >kvctl-job/job <<'END_2'" said
        run sh -c '. /dev/stdin && printf %s "$KVCTL_ENV_a_A"' < <(grep -v "^exec" kvctl-job/job)
        assert_output "$touch_it"
        rm -r kvctl-job said
    done
}

# A terminal must not act on what is looked at, and what is pasted must be the same job. Each text has what is hidden,
# and a digit behind it; the shells that read $'...' read all of it.
@test "launchers: --dry-run shows by numbers what cannot be seen" {
    prepare
    local text how value hidden
    hidden=$(printf '[\001-\010\013-\037\177]|\302[\200-\237]|\330\234|\342\200[\216\217\250-\256]|\363\240|\377')
    stub mpirun 'printf "%s\0" "${@: -1}" "$KVCTL_ENV_a_A" >got'
    stub qsub 'sh kvctl-job/job'
    stub salloc 'sh kvctl-job/job'
    for text in $'\e[31m\0331' $'a\rb' $'a\nb\n' $'\t' $'it\'s \\ \u202e7' $'\u061c' $'\U000e0041' $'\x9b1' $'\u9b' 'ü "$A"'; do
        for how in local mpi sge slurm; do
            rm -rf got kvctl-job
            kvctl launch --launcher $how -n 1 --env "A=$text" --dry-run train.kv "$text" >said
            run -1 env LC_ALL=C grep -aP "$hidden" said
            bash said >told 2>&1 || grep -qx "kvctl: mpirun ended with exit code 0" told # no rank began
            printf '%s\0' "$text" "$text" | cmp - got
        done
        kvctl launch --launcher ssh -H hosts -n 1 --sync-dst-dir "/tmp/$text" --dry-run train.kv >said 2>&1 || true
        run -1 env LC_ALL=C grep -aP "$hidden" said
    done
}

@test "launchers: names of queues and environments are one word" {
    for option in --queue --pe; do
        for name in $'all.q\ntouch made' $'a\rb' "a b" $'a\tb' ""; do
            mentions -2 "launch: $option needs a name" kvctl launch -n 2 --launcher sge "$option" "$name" --dry-run train.kv
            refute_output --partial $'\n'touch
        done
    done
    run kvctl launch -n 2 --launcher sge --queue $'all.q\ntouch made' train.kv
    assert_output 'kvctl: error[usage]: launch: --queue needs a name without blanks, not "all.q?touch made"'
}

@test "launchers: the job of Slurm" {
    prepare
    run -0 kvctl launch --launcher slurm -n 4 --queue fast --checkpoint c.kvs --checkpoint-every 5 --max-restarts 2 --dry-run train.kv
    assert_output "mkdir -p kvctl-job
cat >kvctl-job/job <<'END'
#!/bin/sh
export SLURM_OVERLAP=1
: >kvctl-job/started
exec $build/kvctl launch --launcher mpi -n 4 --deadline 10.000 --checkpoint c.kvs --checkpoint-every 5 --max-restarts 2 train.kv
END
salloc -Q -J kvctl -n 4 -p fast sh kvctl-job/job"
}

# stub PROGRAM TEXT: a program in front of $PATH.
stub()
{
    mkdir -p bin
    printf '#!/bin/bash\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
    PATH=$PWD/bin:$PATH
}

# A yarn that runs the script it is given, as a container would, and keeps its lines.
yarn_stub()
{
    export HADOOP_HOME=$PWD/hadoop STUB=$PWD
    mkdir -p hadoop/share/hadoop/yarn
    jar=$HADOOP_HOME/share/hadoop/yarn/hadoop-yarn-applications-distributedshell-3.3.6.jar
    : >"$jar"
    stub yarn 'echo "$*" >>$STUB/words
[ "$1" = jar ] || exit 9
while [ "$1" != -shell_script ]; do shift; done
echo "INFO impl.YarnClientImpl: Submitted application application_17_0001"
(cd / && sh "$2") >$STUB/log 2>&1 || exit 2'
}

@test "launchers: yarn runs a job in a container, and its client says how it ends" {
    command -v mpirun >/dev/null || skip "there is no mpirun"
    yarn_stub
    echo 'create dist_sync; init 3 zeros(2); push 3 ones(2); pull 3' >train.kv
    run -0 kvctl launch --launcher yarn -n 2 -s 1 --memory 500 --queue q train.kv
    assert_output "INFO impl.YarnClientImpl: Submitted application application_17_0001"
    run sort log
    assert_output '[0] [2. 2.]
[1] [2. 2.]'
    run head -n 1 words
    assert_output --regexp "^jar $jar -jar $jar -appname kvctl -shell_script [^ ]*/kvctl-[^ ]*/job -num_containers 1 -container_vcores 3 -container_memory 1500 -timeout 2147483647 -queue q$"
    run -6 kvctl launch --launcher yarn -n 2 -c 'if env("OMPI_COMM_WORLD_RANK") == "1" { assert 1 == 2 }'
    assert_line "kvctl: error[peer]: launch: the job of yarn failed: yarn ended with exit code 2"
    assert_line " hint: yarn logs -applicationId ID prints what it wrote"
    grep -qx "kvctl: rank 1 (worker) ended with exit code 1" log
}

@test "launchers: a client that fails" {
    for pair in "qsub sge" "salloc slurm"; do
        stub "${pair% *}" 'echo no such queue >&2; exit 3'
        run -6 kvctl launch --launcher "${pair#* }" -n 2 -c 'print 1'
        assert_output "no such queue
kvctl: error[peer]: launch: ${pair#* } did not run the job: ${pair% *} ended with exit code 3"
    done
    run ! ls -d kvctl-*
}

@test "launchers: a dry run for YARN names the jar where Hadoop is not installed" {
    prepare
    unset HADOOP_HOME
    run -0 kvctl launch -n 2 --launcher yarn --dry-run train.kv
    assert_output --partial "'\$HADOOP_HOME/share/hadoop/yarn/hadoop-yarn-applications-distributedshell-*.jar'"
    mkdir bin
    ln -s /bin/true bin/yarn
    PATH=$PWD/bin:$PATH run -4 kvctl launch -n 2 --launcher yarn train.kv
    assert_output "kvctl: error[unsupported]: launch: --launcher yarn needs HADOOP_HOME, the folder of Hadoop"
}

@test "launchers: what is wrong is said before anything starts" {
    local names=([2]=usage [3]=value [4]=unsupported [5]=io)
    prepare
    unset HADOOP_HOME
    printf 'n1 slots=2\nn2 slots=x\n' >bad-slots
    printf 'n1\nn2 cpus=4\n' >bad-word
    printf '\nn1:\n' >bad-port
    printf 'n1:22\nn2:23\n' >two-ports
    printf -- '-oProxyCommand=x\n' >bad-host
    printf -- '-lann\n' >option
    printf '%0256d\n' 0 >long
    printf '# nobody\n\n' >no-hosts
    printf 'n1\nh1\0x\nh2\n' >nul
    echo 'ann@n1' >user
    echo 'fe80::1' >address
    echo 'n1:2222' >port
    cases=("2|-n 2 --launcher pbs train.kv|launch: there is no launcher \"pbs\"; there are local, mpi, ssh, sge, slurm, yarn and k8s"
        "2|-n 2 --launcher ssh train.kv|launch: --launcher ssh needs the hosts: -H HOSTFILE"
        "2|-n 2 --launcher local -H hosts train.kv|launch: -H is for the launchers mpi and ssh, and this is local"
        '2|-n 2 -H hosts --sync-dst-dir x train.kv|launch: --sync-dst-dir needs a path from /, not "x"'
        '2|-n 2 -H hosts --sync-dst-dir= train.kv|launch: --sync-dst-dir needs a path from /, not ""'
        "2|-n 2 --launcher mpi --sync-dst-dir /tmp/x train.kv|launch: --sync-dst-dir is for the launcher ssh, and this is mpi"
        "2|-n 2 --queue-timeout 5 train.kv|launch: --queue-timeout is for the launchers ssh, sge, slurm and k8s, and this is local"
        "2|-n 2 --p3 train.kv|launch: --p3 has no meaning here: what is pushed and pulled always goes in parts, by priority"
        "2|-n 2 --env-server A=1 train.kv|launch: --env-server needs servers: -s SERVERS"
        "2|-n 2 --env NOT_SET_HERE train.kv|launch: --env NOT_SET_HERE: it is not set here"
        "2|-n 2 --env-worker 1A=2 train.kv|launch: --env-worker needs NAME or NAME=VALUE, not \"1A=2\""
        "5|-n 2 -H missing train.kv|cannot read \"missing\": No such file or directory"
        "3|-n 5 -s 2 -H hosts train.kv|launch: 5 workers + 2 servers need 7 slots, and \"hosts\" has 6"
        "5|-n 2 -H bad-slots train.kv|bad-slots:2: this is not a number of slots: \"x\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H bad-word train.kv|bad-word:2: what is \"cpus=4\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H bad-port train.kv|bad-port:2: this is not a port: \"\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H two-ports train.kv|two-ports:2: all hosts of a job have one port; others belong into the configuration of ssh"
        "5|-n 2 -H bad-host train.kv|bad-host:1: this is not a host: \"-oProxyCommand=x\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H option train.kv|option:1: this is not a host: \"-lann\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H long train.kv|long:1: this is not a host: \"$(printf '%080d' 0)\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H nul train.kv|nul:2: there is a NUL byte; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H user train.kv|user:1: this is not the name of a host: \"ann@n1\"; a line is HOST[:PORT] [slots=N]"
        "5|-n 2 -H address train.kv|address:1: this is not the name of a host: \"fe80::1\"; a line is HOST[:PORT] [slots=N]"
        "5|--launcher mpi -n 2 -H port train.kv|port: ports are for ssh, and the launcher is mpi"
        "2|-n 2 --dry-run=no train.kv|launch: --dry-run takes no value, and here is \"no\""
        "5|-n 2 -H no-hosts train.kv|no-hosts names no host"
        "4|-n 2 -H hosts -i|launch: -i and - are for ranks of this machine, --launcher local"
        "2|-n 2 --max-restarts 1 --checkpoint c.kvs --checkpoint-every 1 -i|launch: --max-restarts runs a FILE again, and cannot type again"
        "2|-n 2 -f - -f train.kv|launch: - stands behind the other scripts"
        "2|-n 2 --name= train.kv|launch: --name needs a name, not \"\""
        "2|-n 2 --name 12 train.kv|--name needs letters, digits, -, _ and ., and not only digits, not \"12\""
        "2|-n 2 --name $(printf 'x%.0s' {1..65}) train.kv|--name has at most 64 characters, not 65"
        "2|-n 2 -H -x train.kv|launch: -H needs a name, not \"-x\""
        "2|-n 2 --launcher k8s --image x --file= train.kv|launch: --file needs a name, not \"\"")
    for one in "${cases[@]}"; do
        IFS='|' read -r code words text <<<"$one"
        run kvctl launch $words
        [[ $code != 5 || $text == cannot* ]] || names[5]=format # of a file of hosts
        assert_equal "$status ${lines[0]}" "$code kvctl: error[${names[code]}]: $text"
    done
}

@test "launchers: a program of the platform is missing" {
    prepare
    mkdir only
    ln -s "$(command -v env)" only
    for pair in "sge qsub" "slurm salloc" "yarn yarn" "ssh mpirun"; do
        hosts=()
        [ "${pair% *}" != ssh ] || hosts=(-H hosts)
        run env PATH="$PWD/only" "$build/kvctl" launch --launcher "${pair% *}" "${hosts[@]}" -n 2 train.kv
        assert_equal "$status ${lines[0]}" "4 kvctl: error[unsupported]: launch: ${pair#* } is not in \$PATH"
    done
}

# An ssh that runs the command here.
ssh_stub()
{
    stub ssh 'while [[ $1 == -* ]]; do case $1 in -o | -p) shift ;; esac; shift; done
case $1 in gone) echo "ssh: connect to host gone port 22: No route to host" >&2; echo "of a shell"; exit 255 ;; slow) exec sleep 100 ;; esac
shift
exec sh -c "$*"'
}

@test "launchers: hosts that cannot be used" {
    command -v mpirun >/dev/null || skip "there is no mpirun"
    prepare
    ssh_stub
    printf 'localhost\ngone\n' >hosts
    run -6 kvctl launch -H hosts -n 2 train.kv
    assert_output 'kvctl: error[peer]: launch: host "gone" cannot be reached: ssh: connect to host gone port 22: No route to host'
    echo slow >hosts
    run -6 kvctl launch -H hosts -n 2 --deadline 1 train.kv
    assert_output 'kvctl: error[peer]: launch: host "slow" cannot be reached: it does not answer in time'
    run -130 timeout --foreground --preserve-status -s INT 3 kvctl launch -H hosts -n 2 --deadline 60 train.kv
    assert_output 'kvctl: the job was ended by signal 2'
    echo localhost >hosts
    mkdir daemons
    stub mpirun 'exit 9'
    stub ssh "exec env PATH='$PWD/daemons' /bin/sh -c \"\${!#}\""
    for daemon in orted prted; do # of Open MPI 4.1 and 5.0
        ln -s "$(type -P true)" "daemons/$daemon"
        run kvctl launch -H hosts -n 2 train.kv
        refute_output --partial 'launch: host'
        rm "daemons/$daemon"
    done
    run kvctl launch -H hosts -n 2 train.kv
    assert_equal "$status ${lines[0]}" '4 kvctl: error[unsupported]: launch: host "localhost" has neither orted nor prted in $PATH'
    stub ssh 'exit 84'
    run kvctl launch -H hosts -n 2 --sync-dst-dir /tmp/d train.kv
    assert_output $'kvctl: error[unsupported]: launch: host "localhost" has no rsync in $PATH\n hint: apt-get install rsync'
    stub ssh 'exit 82'
    run kvctl launch -H hosts -n 2 train.kv
    assert_equal "$status ${lines[0]}" '4 kvctl: error[unsupported]: launch: host "localhost" has no such kvctl as this one'
    stub ssh 'exit 83'
    run kvctl launch -H hosts -n 2 train.kv
    assert_equal "$status ${lines[0]}" "5 kvctl: error[io]: launch: host \"localhost\" has no folder \"$PWD\""
    run kvctl launch -H hosts -n 2 --sync-dst-dir /tmp/d train.kv
    assert_output 'kvctl: error[io]: launch: host "localhost" cannot make "/tmp/d"'
    stub rsync 'echo rsync: no space >&2; exit 11'
    stub ssh 'exit 0'
    run kvctl launch -H hosts -n 2 --sync-dst-dir /tmp/d train.kv
    assert_equal "$status ${lines[0]}" '5 kvctl: error[io]: launch: this folder cannot be copied to "/tmp/d" on "localhost": rsync: no space'
}
