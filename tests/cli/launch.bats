# kvctl launch: what it runs, what it refuses before anything starts.

load help

@test "launch: every line has its rank, and all ranks see the sum" {
    needs_mpi
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(2)
push 3 ones(2) * (rank() + 1)
pull 3
print args
END
    for servers in "" "-s 1" "-s 2"; do
        says "[0] [3. 3.]" kvctl launch -n 2 $servers job.kv one
        assert_line "[1] [3. 3.]"
        assert_line --partial "[1] ["
        assert_equal "${#lines[@]}" 4
    done
}

# Which ranks are joined depends on when they come: test_script_output.c has the rules.
@test "launch: a mistake of all ranks is said once" {
    needs_mpi
    printf 'print 1\npush 3 (2\n' >job.kv
    for words in "-n 4 job.kv" "-n 4 --launcher mpi job.kv" "-n 2 -c print(1) -f job.kv" "-n 2 --dry-run job.kv"; do
        run -2 kvctl launch $words # no rank starts
        assert_output 'job.kv:2:8: error[syntax]: the `(` that opens here is not closed
    2 : push 3 (2
      :        ^'
    done
    for words in '-np 2' --np=2 --nproc_per_node=2 '--nproc-per-node 2'; do # mpirun, torchrun
        run kvctl launch $words --dry-run -c 'print 1'
        assert_output --regexp ' -np? 2 '
    done
    begins -2 'kvctl: error[usage]: there is no file "nosuch", and no command of that name' kvctl launch -n 2 nosuch 3
    begins -2 "<cmd>:1:1: error[usage]: push needs KEYS" kvctl launch -n 2 -c 'push'
    run -3 kvctl launch -n 3 -c 'print rank()' -c 'print y' # found when it runs
    assert_line --partial "] <cmd>:1:7: error[name]: there is no variable \`y\`"
    assert_line --regexp '^kvctl: (rank [0-2] \(worker\)|[23] ranks) ended with exit code 3$'
    says -2 '[0] 4' kvctl launch -n 2 -k -c 'print (' -c 'print 4' # the ranks go on
}

@test "launch: stdin goes to rank 0" {
    needs_mpi
    # a line, not all: mpirun of Open MPI 5 sometimes loses the end of its input
    run -0 sh -c "echo hello | kvctl launch -n 2 -c '!head -n 1'"
    assert_equal "$(sort <<<"$output")" $'[0] hello\n[0] note: 2 ranks ran alone: create dist_sync joins them'
}

@test "launch: no folder stays behind" {
    needs_mpi
    TMPDIR=$PWD says "[0] 7" kvctl launch -n 2 -c 'print 7'
    assert_line "[1] 7"
    run ls -A
    assert_output ""
}

@test "launch: a folder that a dead job left is removed, and no other" {
    needs_mpi
    mkdir kvctl-dead00 kvctl-lives0 kvctl-noneof kvctl-other
    touch kvctl-dead00/{held,events} kvctl-lives0/held kvctl-noneof/events kvctl-other/held
    TMPDIR=$PWD run flock -s kvctl-lives0/held kvctl launch -n 1 -c 'print 7'
    assert_output "[0] 7"
    run ls
    assert_output "kvctl-lives0
kvctl-noneof
kvctl-other"
}

@test "launch: output that cannot be written" {
    needs_mpi
    says -5 'kvctl: error[io]: cannot write "stdout": No space left on device' sh -c "kvctl launch -n 2 -c 'print 7' >/dev/full"
    run sh -c "kvctl launch -n 2 -c 'print 7' | true"
    assert_output '[0] note: 2 ranks ran alone: create dist_sync joins them'
}

@test "launch: options of launch behind the script" {
    needs_mpi
    echo 'print args' >job.kv
    gives "[0] ['-H', 'hosts']" kvctl launch -n 1 job.kv -H hosts
    run -2 kvctl launch -n 1 --chekpoint=c.kvs job.kv
    assert_output "kvctl: error[usage]: there is no option --chekpoint
 hint: did you mean --checkpoint?"
    for words in "-n 2 --server 1" "--server 1 -n 2"; do
        run -2 kvctl launch $words job.kv
        assert_output "kvctl: error[usage]: there is no option --server
 hint: did you mean --num-servers?"
    done
    run -2 kvctl launch -n 2 -c 'print 1' -H hosts
    assert_output "kvctl: error[usage]: there is no option -H
 hint: options of launch stand before FILE; kvctl launch --help lists them"
}

@test "launch: --dry-run prints the command" {
    needs_mpi
    run -0 kvctl launch -n 2 -s 1 --dry-run -c 'print "it'\''s"'
    assert_output --regexp "^KVSTORE_SERVERS=1 mpirun .*--oversubscribe .*-n 3 .*/kvctl launch-rank -c 'print \"it'\\\\''s\"'$"
}

# What stands in front of a word of kvctl belongs to the word; of launch, to its workers.
@test "launch, attach, jobs: options in front of the word" {
    export KVCTL_JOBS=$PWD/none
    echo 'print 1' >x.kv
    [ "$(kvctl --seed 7 -qv -s w.kvs launch -n 1 -s 1 --dry-run x.kv a)" = "$(kvctl launch -n 1 -s 1 --dry-run --seed 7 -qv -s w.kvs x.kv a)" ]
    [ "$(kvctl --color=never --json launch -n 2 --dry-run -c 'print 1')" = "$(kvctl launch -n 2 --dry-run --color=never --json -c 'print 1')" ]
    run kvctl --seed 7 launch -n 2
    assert_output --partial 'kvctl: error[usage]: launch: which script? kvctl launch -n WORKERS FILE'
    run -2 kvctl --seed x launch -n 2 x.kv
    mentions -2 'launch: the store w.kvs is a file of one process, and here are 2 workers' kvctl -s w.kvs launch -n 2 x.kv
    assert_line ' hint: --checkpoint FILE keeps the store of a job'
    mentions -2 'launch: the store w.kvs is a file of one process' env KVCTL_STORE=w.kvs kvctl launch -n 2 x.kv
    mentions -2 'launch: --record p.md is a file of one process, and here are 2 workers' kvctl launch -n 2 --record p.md x.kv
    run -0 kvctl --read-only -s w.kvs launch -n 2 --dry-run x.kv
    gives -2 'kvctl: error[usage]: launch: --grow stands alone: kvctl launch --grow [JOB]' kvctl -q launch --grow
    run kvctl -q attach
    assert_output --partial 'kvctl: error[name]: no job of yours runs here'
    gives 'kvctl: no job of yours runs here' kvctl jobs
    for words in '-q jobs' 'jobs -q' 'jobs --quiet'; do
        gives '' kvctl $words
    done
    [ "$(kvctl --json jobs)$(kvctl jobs --json)" = '{"jobs":[]}{"jobs":[]}' ]
    gives -2 $'kvctl: error[usage]: jobs: there is no option --seed\n hint: kvctl jobs --help' kvctl --seed 7 jobs
    gives "['jobs']" kvctl -c 'print args' jobs # a word of the script
}

@test "launch: --dry-run with a checkpoint" {
    needs_mpi
    run -0 kvctl launch -n 2 --checkpoint 'my c.kvs' --checkpoint-every 5 --dry-run -c 'print 1'
    assert_output --regexp "^KVSTORE_CHECKPOINT_EVERY=5 KVSTORE_CHECKPOINT='my c.kvs' mpirun "
}

@test "launch: what is wrong is said before anything starts" {
    local names=([2]=usage [3]=value [4]=unsupported [5]=io)
    needs_mpi
    echo 'print 1' | tee job.kv >serve
    cases=("2|job.kv|launch: how many workers? kvctl launch -n WORKERS FILE"
        "2|-n 0 job.kv|launch: -n needs a whole number from 1 to 4096, not \"0\""
        "2|-n 2 -s x job.kv|launch: -s needs a whole number from 0 to 4096, not \"x\""
        "2|-n 2 --deadline 0 job.kv|launch: --deadline needs seconds, more than 0, not \"0\""
        "2|-n|launch: -n needs a value"
        "2|-n 2|launch: which script? kvctl launch -n WORKERS FILE"
        "2|-n 2 -q|launch: which script? kvctl launch -n WORKERS FILE"
        "2|-n 2 --nonsense job.kv|there is no option --nonsense"
        "2|-n 2 missing.kv|there is no file \"missing.kv\", and no command of that name"
        "2|-n 2 kvctl -f job.kv|launch: \`kvctl\` is a program, and kvctl runs in every rank"
        "2|-n 2 /usr/bin/python3 job.py|launch: \`/usr/bin/python3\` is a program, and kvctl runs in every rank"
        "2|-n 2 serve|launch: \"serve\" is a word of kvctl"
        "2|-n 2 --env $(printf 'A%.0s' {1..201})=1 job.kv|launch: --env: a name has at most 200 letters"
        "5|-n 2 -f missing.kv|cannot read \"missing.kv\": No such file or directory"
        "2|-n 2 --max-restarts 3 job.kv|launch: --max-restarts needs --checkpoint FILE"
        "2|-n 2 --checkpoint-every 3 job.kv|launch: --checkpoint-every needs --checkpoint FILE"
        "2|-n 2 --checkpoint c.kvs job.kv|launch: --checkpoint needs --checkpoint-every: rounds, 50, or seconds, 30s"
        "2|-n 2 --checkpoint-every 0 job.kv|launch: --checkpoint-every needs rounds, 50, or seconds, 30s, not \"0\""
        "2|-n 2 --checkpoint c.kvs --checkpoint-every 0s job.kv|launch: --checkpoint-every needs rounds, 50, or seconds, 30s, not \"0s\""
        "2|-n 2 --checkpoint c.kvs --checkpoint-every 30m job.kv|launch: --checkpoint-every needs rounds, 50, or seconds, 30s, not \"30m\""
        "5|-n 2 --checkpoint no/c.kvs --checkpoint-every 3 job.kv|cannot write into \"no/\": No such file or directory"
        "3|-n 2 --checkpoint new.kvs --checkpoint-every 3 job.kv|new.kvs: no checkpoint of a job: nothing was pushed")
    kvctl -s new.kvs -c 'init 3 ones(2)'
    for one in "${cases[@]}"; do
        IFS='|' read -r code words text <<<"$one"
        run kvctl launch $words
        assert_equal "$status ${lines[0]}" "$code kvctl: error[${names[code]}]: $text"
    done
    run kvctl launch -n 2 venv/bin/python job.py
    assert_line " hint: KVCTL_PYTHON=venv/bin/python kvctl launch -n WORKERS --python FILE"
}

@test "launch: without mpirun" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    begins -4 "kvctl: error[unsupported]: launch: mpirun is not in \$PATH" env PATH=/nowhere "$build/kvctl" launch -n 2 -c 'print 1'
}

@test "launch: a build without MPI" {
    mkdir bin
    cp "$build/kvctl" "$build"/libkvstore.so* bin
    opens -4 'dist_sync' bin/kvctl launch -n 2 -c 'print 1'
}

@test "launch: a rank that mpirun cannot start" {
    needs_mpi
    mkdir bin
    printf '#!/bin/sh\necho no room today\nexit 3\n' >bin/mpirun
    chmod +x bin/mpirun
    gives -6 $'no room today\nkvctl: mpirun ended with exit code 3' env PATH="$PWD/bin:$PATH" kvctl launch -n 2 -c 'print 1'
    printf '#!/bin/sh\nexec sleep 60\n' >bin/mpirun
    run -6 env PATH="$PWD/bin:$PATH" kvctl launch -n 2 -s 1 --deadline 1 -c 'print 1'
    assert_output "kvctl: expected 2 workers + 1 servers, have 0 + 0 after 1 s"
}

@test "launch: help" {
    begins "usage: kvctl launch -n WORKERS [-s SERVERS] [OPTIONS] FILE [ARG...]" kvctl launch --help
    words=$output
    gives "$words" kvctl -c 'help launch'
}

@test "launch: serve is for ranks" {
    gives -2 'kvctl: error[usage]: serve takes no words, and here is "now"' kvctl serve now
    needs_mpi
    opens -4 "was not started as a rank" kvctl serve
}

@test "launch: variables for all ranks, or for those of one kind" {
    needs_mpi
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(1)
print env("A", "-"), env("B", "-"), env("C", "-")
if rank() == 0 {
    !tr '\000' '\n' </proc/$(awk '$1 == 2 && $2 == "start" { print $3 }' $KVSTORE_RUN_DIR/events)/environ | grep '^[ABC]='
}
barrier
END
    C=here says "[0] 1 2 here" kvctl launch -n 2 -s 1 --env A=1 --env-worker B=2 --env-server B=3 --env C job.kv
    assert_line "[1] 1 2 here"
    assert_line "[0] A=1"
    assert_line "[0] B=3"
    assert_line "[0] C=here"
}

@test "launch: the value of a variable is on no command line, and of its way nothing stays" {
    needs_mpi
    cat >job.kv <<'END'
create dist_sync
!cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' '\n' | grep -c "sec[r]et13" || true
!env | grep -c KVCTL_ENV || true
print env("TOKEN")
END
    TOKEN=secret13 run -0 kvctl launch -n 1 --env TOKEN job.kv
    assert_output "[0] 0
[0] 0
[0] secret13"
}

@test "launch: ranks of this machine listen at no port" {
    needs_mpi
    cat >listens <<'END'
for f in /proc/$PPID/fd/*; do
    inode=$(readlink "$f")
    [[ $inode == socket:* ]] || continue
    inode=${inode//[!0-9]/}
    awk -v inode="$inode" '$4 == "0A" && $10 == inode { print "listens at " $2 }' /proc/net/tcp /proc/net/tcp6
done
END
    gives "" kvctl launch -n 2 -c 'create dist_sync; !exec bash listens'
}

@test "launch: the deadline is an option, or that of the environment" {
    needs_mpi
    KVSTORE_DEADLINE=7.5 gives "[0] 7.500" kvctl launch -n 1 -c 'create dist_sync; !echo $KVSTORE_DEADLINE'
    KVSTORE_DEADLINE=7.5 run kvctl launch -n 1 --deadline 20 -c 'create dist_sync; !echo $KVSTORE_DEADLINE'
    assert_output "[0] 20.000"
    KVSTORE_DEADLINE=0 gives "[0] 31536000.000" kvctl launch -n 1 -c 'create dist_sync; !echo $KVSTORE_DEADLINE'
    KVSTORE_DEADLINE=soon run -2 kvctl launch -n 1 -c 'create dist_sync'
    assert_output 'kvctl: error[usage]: launch: KVSTORE_DEADLINE needs seconds, more than 0, not "soon"'
}
