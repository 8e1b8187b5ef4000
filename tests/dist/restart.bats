# Jobs with checkpoints: a rank is lost, the job begins again from the last file, and ends with the
# bits of one that nothing happened to.

load ../cli/help
load jobs
needs=mpi

# once ROUND RANK COMMAND: a rank runs a shell command before a round, unless it did it already.
once()
{
    printf 'if i == %s and rank() == %s {\n    !test -e done%s || (touch done%s; %s)\n}\n' \
        "$1" "$2" "$1" "$1" "$3"
}

# written ROUND: a shell command that waits for the file of a round, which is written while rounds
# go on.
written()
{
    printf "until [ -e c.kvs ] && %s/kvctl -s c.kvs -c 'assert rounds() >= %s' >/dev/null 2>&1; " "$build" "$1"
    echo "do sleep 0.05; done;"
}

# kill_server: a shell command for a script: kills rank 2, the server of a job of two workers.
kill_server="awk '\$1 == 2 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events | xargs kill -9"

# script OPTIMIZER EVENT [ROUNDS]: trains keys of several kinds for 40 rounds; EVENT stands in front
# of each.
script()
{
    cat <<END
create dist_sync
set-optimizer $1
init a ones(5, 3)
init half ones(7, dtype="float16")
init rows zeros(6, 2, stype="row_sparse")
pull a -> x
for i in range(rounds(), ${3:-40}) {
s = sum(x) # which waits for the round before
$2
    push a x / 8 + (arange(15).reshape(5, 3) - i) * (rank() + 1) / 16
    push half ones(7, dtype="float16") * (i - rank())
    push rows row_sparse(ones(2, 2) * (i + 1), [0, 1 + (i + rank()) % 5], shape=(6, 2))
    pull a -> x; pull half -> y
}
pull rows -> z
save-states s.safetensors
if rank() == 0 { write x x.npy; write y y.npy; write z z.npy }
END
}

# The files of a job to which nothing happened, and those of one that began again.
keep_whole()
{
    mkdir whole
    mv ./*.npy ./*.safetensors whole
}

assert_whole()
{
    local one
    for one in whole/*; do
        cmp "$one" "$(basename "$one")"
    done
}

with_checkpoint=(--checkpoint c.kvs --checkpoint-every 10)

@test "restart: adam goes on with its states" {
    script "adam --learning-rate 0.1" "" >whole.kv
    script "adam --learning-rate 0.1" "$(once 23 0 "$(written 20) kill -9 \$PPID")" >job.kv
    job -0 -n 2 whole.kv
    keep_whole
    job -0 -n 2 "${with_checkpoint[@]}" --max-restarts 3 job.kv
    assert_line "kvctl: rank 0 (worker) was killed by signal 9"
    assert_line "kvctl: restart 1 of 3 from c.kvs at round 20: 3 rounds are repeated"
    assert_whole
}

@test "restart: a loop that never asks for rounds() begins anew, and launch says so" {
    local note='kvctl: note: the script never asks for rounds(): when it begins again, its loop does, too; `for i in range(rounds(), N)` makes the rounds left'
    local anew='; the script never asks for rounds(): its loop begins anew on top'
    cat >job.kv <<END
create dist_sync
init w zeros(2)
for i in range(20) { # not of rounds()
$(once 13 0 'until [ -e c.kvs ]; do sleep 0.05; done; kill -9 $PPID')
    push w ones(2); pull w -> x; y = sum(x)
}
print x
END
    job -0 -n 2 "${with_checkpoint[@]}" --max-restarts 1 job.kv
    assert_line "$note"
    assert_line "kvctl: restart 1 of 1 from c.kvs at round 10$anew"
    job -0 -n 2 "${with_checkpoint[@]}" -c 'create dist_sync; init w zeros(2); repeat 2 { push w ones(2) }'
    assert_line "kvctl: the job goes on from c.kvs, where 30 rounds are done$anew"
    refute_line "$note"
    # without a loop that pushes there is nothing to say, nor where the file may ask
    echo 'print rounds()' >asks.kv
    for script in 'for i in range(3) { print i }' 'push w ones(2)' 'source asks.kv; repeat 2 { push w ones(2) }'; do
        rm -f c.kvs
        job -0 -n 1 "${with_checkpoint[@]}" --max-restarts 1 -c "create dist_sync; init w zeros(2); $script"
        refute_output --partial "never asks"
    done
}

@test "restart: the loop of a program of Python that never asks for rounds()" {
    printf '%s\n' 'for i in range(9):' '    kv.push("w", x)' >job.py
    run -0 kvctl launch -n 1 "${with_checkpoint[@]}" --max-restarts 1 --dry-run --python job.py
    assert_line --partial 'its loop does, too; `for i in range(kv.rounds(), N)` makes the rounds left'
    printf '%s\n' 'for i in range(kv.rounds(), 9):' '    kv.push("w", x)' >job.py
    run -0 kvctl launch -n 1 "${with_checkpoint[@]}" --max-restarts 1 --dry-run --python job.py
    refute_output --partial "never asks"
}

@test "restart: mpirun itself is killed" {
    # kvctl, its watcher, mpirun
    local parent='cut -d " " -f 4 /proc/$p/stat'
    script adam "" >whole.kv
    script adam "$(once 20 1 "$(written 10) p=\$PPID; p=\$($parent); p=\$($parent); kill -9 \$p; sleep 30")" >job.kv
    job -0 -n 2 whole.kv
    keep_whole
    job -0 -n 2 "${with_checkpoint[@]}" --max-restarts 1 job.kv
    assert_line 'kvctl: mpirun was killed by signal 9'
    assert_line --regexp '^kvctl: restart 1 of 1 from c.kvs at round [12]0: '
    assert_whole
}

@test "restart: several losses, of a worker and a server; the file is one of this machine" {
    script "nag --learning-rate 0.1 --momentum 0.9" "" >whole.kv
    script "nag --learning-rate 0.1 --momentum 0.9" \
        "$(once 5 1 "kill -9 \$PPID")"$'\n'"$(once 31 0 "$(written 30) $kill_server")" >job.kv
    job -0 -n 2 -s 1 whole.kv
    keep_whole
    job -0 -n 2 -s 1 "${with_checkpoint[@]}" --max-restarts 2 job.kv
    assert_line "kvctl: restart 1 of 2 from the beginning: 5 rounds are repeated"
    assert_line --regexp "^kvctl: restart 2 of 2 from c.kvs at round 30: [12] rounds? (is|are) repeated$"
    assert_whole
    gives "device 40 3" kvctl -s c.kvs -c 'print type(), rounds(), len(keys())'
}

@test "restart: states that are saved, described or loaded before the first push are those of the file" {
    cat >job.kv <<'END'
create dist_sync
init a,b [zeros(4), zeros(70000)]
set-optimizer adam --learning-rate 0.1
if env("LOADS", "") == "1" { load-states first.safetensors
}
if rank() == 1 and rounds() == 5 { info --states
}
barrier
if rounds() == 0 { save-states first.safetensors
}
for i in range(rounds(), int(env("ROUNDS"))) { push a ones(4) * (i + 1); push b ones(70000) / (i + 1) }
wait
save-states s.safetensors
barrier
END
    ROUNDS=8 job -0 -n 2 -s 1 job.kv
    mv s.safetensors whole.safetensors
    ROUNDS=5 job -0 -n 2 -s 1 --checkpoint c.kvs --checkpoint-every 2 job.kv
    mv s.safetensors five.safetensors
    ROUNDS=5 job -0 -n 2 -s 2 --checkpoint c.kvs --checkpoint-every 2 job.kv
    assert_line --partial '[1] optimizer adam, num_update 5'
    cmp s.safetensors five.safetensors
    for loads in 0 1; do
        cp c.kvs copy.kvs
        LOADS=$loads ROUNDS=8 job -0 -n 2 -s 1 --checkpoint copy.kvs --checkpoint-every 100 job.kv
        cmp s.safetensors whole.safetensors
    done
}

@test "restart: compressed gradients keep what they owe" {
    for event in "" "$(once 17 0 "$(written 10) kill -9 \$PPID")"; do
        cat >job.kv <<END
create dist_sync
set-gradient-compression 2bit --threshold 0.5
set-optimizer sgd --learning-rate 0.1 --momentum 0.5
init w zeros(9)
pull w -> x
for i in range(rounds(), 25) {
s = sum(x)
$event
    push w arange(9) * (rank() + 1) / 16
    pull w -> x
}
save-states s.safetensors
if rank() == 0 { write x x.npy }
END
        job -0 -n 3 "${with_checkpoint[@]}" --max-restarts 1 job.kv
        [ -n "$event" ] || { keep_whole && rm c.kvs; }
    done
    assert_line "kvctl: restart 1 of 1 from c.kvs at round 10: 7 rounds are repeated"
    assert_whole
}

@test "restart: files go on when a rank is done, with what it owes, and a rank that ends is missed at once" {
    local rounds every
    for how in "6 3 2 0.8" "9 4 2 0.4" "6 4 4 0.4" "6 6 2 0.6"; do
        read -r rounds done every owes <<<"$how"
        cat >job.kv <<END
create dist_sync
set-gradient-compression 2bit --threshold 1
init w zeros(4)
set-optimizer sgd --learning-rate 0.1
n = $rounds
if rank() == 1 { n = $done }
for i in range(rounds(), n) { push w ones(4) * 0.3 * (rank() + 1) }
wait
done
END
        rm -f c.kvs
        KVSTORE_TIMEOUT=60 job -0 -n 2 -s 1 --checkpoint c.kvs --checkpoint-every "$every" job.kv
        assert_output ''
        run kvctl -s c.kvs -c "assert rounds() == $rounds; save-states s.safetensors" -c 'print load("s.safetensors", name="__residual__/w/1")[0]'
        assert_output --regexp "^$owes(0|\$)"
    done
    sed '/^set-gradient/d; /^done/d' job.kv | sed 's/n = 6 }/n = 3 }/' >ends.kv
    rm c.kvs
    job -6 -n 2 -s 1 --checkpoint c.kvs --checkpoint-every 2 ends.kv
    assert_line --partial 'error[peer]: rank 1 has ended; key "w" waits for its push of round 4'
}

@test "restart: without an updater the values stay" {
    for event in "" "$(once 6 1 "kill -9 \$PPID")"; do
        cat >job.kv <<END
create dist_device_sync
init 1 zeros(4)
init 2 ones(3)
pull 1 -> x
for i in range(rounds(), 9) {
s = sum(x)
$event
    push 1 x + rank() + i
    pull 1 --out x
}
if rank() == 0 { write x x.npy }
END
        job -0 -n 2 --checkpoint c.kvs --checkpoint-every 2 --max-restarts 1 job.kv
        [ -n "$event" ] || { mkdir whole && mv x.npy whole && rm c.kvs; }
    done
    assert_whole
}

@test "restart: the last round is in the file when the job ends well, and only then" {
    script adam "" >job.kv
    for servers in 0 2; do
        rm -f c.kvs
        job -0 -n 2 -s "$servers" --checkpoint c.kvs --checkpoint-every 100 job.kv
        assert_output ''
        gives 40 kvctl -s c.kvs -c 'print rounds(); pull a -> a; pull half -> half; write a a.npy; write half half.npy'
        cmp a.npy x.npy
        cmp half.npy y.npy
    done
    # a longer job goes on from there
    script adam "" 43 >job.kv
    job -0 -n 2 --checkpoint c.kvs --checkpoint-every 100 job.kv
    assert_output "kvctl: the job goes on from c.kvs, where 40 rounds are done"
    mkdir whole
    mv ./*.npy s.safetensors whole
    job -0 -n 2 job.kv
    rm whole/a.npy whole/half.npy
    assert_whole
    # a failure leaves what was there, here nothing; who is done before it has made all its rounds
    rm c.kvs
    printf 'create dist_sync\ninit a 1\npush a 2\npush a 3\nassert rank() == 0\nwait\n' >job.kv
    job -1 -n 2 --checkpoint c.kvs --checkpoint-every 100 job.kv
    [ ! -e c.kvs ]
    printf 'create dist_sync\ninit a 1\npush a 2\npush a 3\ndone\n!until [ -e c.kvs ]; do sleep 0.1; done\nassert rank() == 0\n' >job.kv
    job -1 -n 2 --checkpoint c.kvs --checkpoint-every 100 job.kv
    gives 2 kvctl -s c.kvs -c 'print rounds()'
}

@test "restart: attempts end, and the next job goes on from the file" {
    script sgd $'if i == 12 and rank() == 1 and env("SPARE", "") == "" {\n    !'"$(written 10)"$' kill -9 $PPID\n}' >job.kv
    job -6 -n 2 "${with_checkpoint[@]}" job.kv
    refute_output --partial restart
    rm c.kvs
    job -6 -n 2 "${with_checkpoint[@]}" --max-restarts 1 job.kv
    assert_line "kvctl: restart 1 of 1 from c.kvs at round 10: 2 rounds are repeated"
    assert_line "kvctl: the job was restarted 1 time and is given up"
    SPARE=1 job -0 -n 2 "${with_checkpoint[@]}" job.kv
    assert_line "kvctl: the job goes on from c.kvs, where 10 rounds are done"
}

@test "restart: an error of the script is no loss" {
    script sgd $'if i == 12 { assert 1 == 2 }' >job.kv
    job -1 -n 2 "${with_checkpoint[@]}" --max-restarts 3 job.kv
    refute_output --partial restart
}

@test "restart: a full disk leaves the checkpoint before" {
    mkdir disk
    mount -t tmpfs -o size=256k none disk 2>/dev/null || skip "no file system can be mounted here"
    script sgd "$(once 15 0 "until [ -e disk/c.kvs ]; do sleep 0.1; done; head -c 1M /dev/zero >disk/fill || true")" >job.kv
    job -n 2 --checkpoint disk/c.kvs --checkpoint-every 10 job.kv
    local ended=$status said=$output
    run kvctl -s disk/c.kvs -c 'print rounds()'
    umount disk
    assert_output 10
    assert_equal "$ended" 0
    [[ $said == *"[0] warning: no checkpoint of round 20: "*"No space left on device; the one before stays"* ]]
}

@test "restart: a folder that goes away leaves no checkpoint, and that is what the warning says" {
    mkdir gone
    script sgd "$(once 25 0 "rm -r gone")" >job.kv
    job -0 -n 2 --checkpoint gone/c.kvs --checkpoint-every 10 job.kv
    assert_output --regexp 'warning: no checkpoint of round 30: .*No such file or directory; there is none'
}

@test "restart: a file that does not fit is refused" {
    script sgd "" >job.kv
    job -0 -n 2 "${with_checkpoint[@]}" job.kv
    # a job that goes on beyond what the file holds
    script sgd "" 50 >job.kv
    script adam "" 50 >other.kv
    job -3 -n 2 "${with_checkpoint[@]}" other.kv
    assert_line --partial "error[value]: c.kvs: it holds the states of sgd, which is not the optimizer in use"
    sed 's/init a ones(5, 3)/init a ones(5, 4)/' job.kv >other.kv
    job -3 -n 2 "${with_checkpoint[@]}" other.kv
    assert_line --partial "[0] other.kv:3:6: error[value]: c.kvs: key \"a\" has another shape or dtype in it than this value"
    sed '/^init half/d; /push half/d; s/; pull half -> y//' job.kv >other.kv
    job -3 -n 2 "${with_checkpoint[@]}" other.kv
    assert_line --partial "c.kvs: it holds key \"half\", which was not initialised before the first push"
    truncate -s 100 c.kvs
    job -5 -n 2 "${with_checkpoint[@]}" job.kv
    # a device, which may have no end, is not read; only root may write into its folder
    ln -s /dev/zero zero
    job -5 -n 2 --checkpoint zero --checkpoint-every 3 job.kv
    assert_output 'kvctl: error[io]: cannot read "zero": it is not a regular file'
    KVSTORE_CHECKPOINT=zero KVSTORE_CHECKPOINT_EVERY=3 job -5 -n 2 job.kv
    # each rank refuses it; the slower one may first learn that the other has ended
    assert_line --regexp '^\[[01]\] job\.kv:1:8: error\[io\]: cannot read "zero": it is not a regular file$'
}

@test "restart: types without rounds of their own, and a second store" {
    for type in dist_async horovod; do
        job -4 -n 2 --checkpoint c.kvs --checkpoint-every 1 -c "create $type"
        assert_line --partial "a job with checkpoints needs the rounds of dist_sync or dist_device_sync"
    done
    job -4 -n 2 --checkpoint c.kvs --checkpoint-every 1 -c "create dist_sync; create dist_sync --name b"
    assert_line --partial "a job with checkpoints keeps one store, and this is the second"
}

@test "restart: a checkpoint keeps the metadata of other tools" {
    foreign c.kvs
    kvctl --force -s c.kvs -c 'push fc.weight,fc.bias [ones(1), ones(1)]'
    cat >job.kv <<'END'
create dist_sync
set-updater { stored += input }
init fc.weight,fc.bias [zeros(1), zeros(1)]
for i in range(rounds(), 6) { push fc.weight,fc.bias [ones(1), ones(1)]; pull fc.bias -> x }
END
    job -0 -n 1 --checkpoint c.kvs --checkpoint-every 2 job.kv
    run -0 kvctl -s c.kvs -c 'assert rounds() > 1; pull * > all.safetensors'
    grep -aq '"format":"pt","author":"me"' c.kvs
    grep -aq '"format":"pt","author":"me"' all.safetensors
}

@test "restart: checkpoints by seconds" {
    cat >job.kv <<END
create dist_sync
set-optimizer sgd --learning-rate 0.1
init w zeros(9)
pull w -> x
for i in range(rounds(), 1000) {
    s = sum(x)
    if i == 3 and rank() == 0 and rounds() < 4 { !sleep 0.3
    }
    if i == 4 and rank() == 0 { !$(written 3)
    }
    if i == 5 { assert rounds() == 5; !kill -9 \$PPID
    }
    push w ones(9) * (rank() + 1)
    pull w -> x
}
END
    job -6 -n 2 --checkpoint c.kvs --checkpoint-every 0.2s --max-restarts 1 job.kv
    # where the wait itself took 0.2 s, round 4 may have one too
    assert_line --regexp "^kvctl: restart 1 of 1 from c.kvs at round (3: 2 rounds are|4: 1 round is) repeated$"
    # by an hour there is the last one
    rm c.kvs
    sed -i 's/1000/7/; /if i == 4/,/^    }/d; /if i == 5/,/^    }/d' job.kv
    job -0 -n 2 --checkpoint c.kvs --checkpoint-every 3600s job.kv
    gives 7 kvctl -s c.kvs -c 'print rounds()'
    # of rank 0's clock the others learn nothing, and their residuals belong into the file
    sed -i '1a set-gradient-compression 2bit' job.kv
    rm c.kvs
    job -4 -n 2 --checkpoint c.kvs --checkpoint-every 0.2s job.kv
    assert_line --partial "error[unsupported]: with gradient compression checkpoints go by rounds, not by seconds"
    KVSTORE_CHECKPOINT=c.kvs KVSTORE_CHECKPOINT_EVERY=2m job -3 -n 2 job.kv
    assert_line --partial 'KVSTORE_CHECKPOINT_EVERY is a number of rounds from 1 on, or seconds such as 30s, not "2m"'
}

@test "restart: what is left of a job ends at once" {
    local times begin whole
    script sgd "$(once 12 1 "kill -9 \$PPID")" >job.kv
    begin=$EPOCHREALTIME
    kvctl launch -n 2 -s 1 -c 'create dist_sync'
    whole=$(awk "BEGIN { print $EPOCHREALTIME - $begin }") # what a job takes on this machine
    for _ in 1 2 3 4 5; do # a busy machine may hold up some
        rm -f c.kvs done12
        kvctl launch -n 2 -s 1 "${with_checkpoint[@]}" --max-restarts 1 job.kv 2>&1 >/dev/null |
            while read -r line; do echo "$EPOCHREALTIME $line"; done >lines
        times=$(awk '/was killed by signal 9$/ { a = a ? a : $1 } /: restart 1 of 1/ { printf "%.3f", $1 - a }' lines)
        echo "${times:?}"
        # mpirun gives what it ends a second
        awk -v whole="$whole" -v took="$times" 'BEGIN { exit !(took < 0.6 + whole) }' && return
    done
    fail "none of the jobs began again within 0.6 s and what a job takes, $whole s"
}
