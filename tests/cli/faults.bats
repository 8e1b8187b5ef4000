# Calls of the C library that fail: see tests/faults/calls.h and tests/faults/run.c. `make faults` lets all of
# them fail.

load help

setup_file()
{
    [ -x "${KVCTL_BUILD:-$BATS_TEST_DIRNAME/../../build}/faults/faults" ] ||
        skip_file "the programs of tests/faults are not built: make tests"
}

# failing VARIABLES… -- ARGUMENTS…: kvctl with a call that fails.
failing()
{
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    env LD_PRELOAD="$build/faults/calls.so" "${variables[@]}" "$build/kvctl" "$@"
}

@test "faults: >> adds nothing to a file that it cannot look at" {
    kvctl -c 'write zeros(2,2) g.csv'
    cp g.csv before
    run -5 failing FAULT='stat 1 ever' FAULT_PATH=g.csv -- -c 'init w ones(2,2); pull w >> g.csv'
    assert_line --index 0 --partial 'error[io]: cannot read "g.csv": Input/output error'
    cmp g.csv before
    run -5 failing FAULT='read 1' FAULT_PATH=g.csv -- -c 'init w ones(2,2); pull w >> g.csv'
    assert_line --index 0 --partial 'error[io]: cannot read "g.csv": Input/output error'
    cmp g.csv before
    run ls -A
    assert_output $'before\ng.csv'
    kvctl -c 'init w ones(2,2); pull w >> g.csv; pull w >> new.csv'
    run cat new.csv g.csv
    assert_output $'1,1\n1,1\n0,0\n0,0\n1,1\n1,1'
}

@test "faults: a state file that cannot be looked at is not taken for another" {
    kvctl -s w.kvs -c 'init 3 1'
    cp w.kvs before
    run -5 timeout 20 env LD_PRELOAD="$build/faults/calls.so" FAULT='stat 1 ever' FAULT_PATH=w.kvs \
        "$build/kvctl" -s w.kvs -c 'push 3 2'
    assert_output 'kvctl: error[io]: cannot read "w.kvs": Input/output error'
    cmp w.kvs before
}

@test "faults: a signal that ends a write to stdout loses nothing" {
    gives $'1\n2' failing FAULT='write 1' FAULT_ERRNO=4 -- -c 'print 1; print 2'
}

# A file system of a network lets a signal end a sync: of a file, of a model's folder with its copies, of a store.
@test "faults: a sync that a signal cuts short is repeated" {
    local n
    kvctl -c 'init a ones(3); save m.safetensors'
    mkdir parts
    kvctl convert m.safetensors parts/ --force
    echo '{}' >parts/config.json
    for n in 1 2 3; do
        failing FAULT="sync $n twice" FAULT_ERRNO=4 -- -c 'write ones(3) x.csv'
        failing FAULT="sync $n twice" FAULT_ERRNO=4 -- convert m.safetensors x.npz
        failing FAULT="sync $n twice" FAULT_ERRNO=4 -- convert parts/ "new$n/"
        failing FAULT="sync $n twice" FAULT_ERRNO=4 -- -s w.kvs -c "init $n 1"
    done
}

@test "faults: a command that cannot be given its input" {
    run -5 failing FAULT='write 1' FAULT_ERRNO=28 -- -c 'ones(3) | cat >/dev/null'
    assert_line --index 0 '<cmd>:1:9: error[io]: cannot write to `cat >/dev/null`: No space left on device'
}

@test "faults: the time limit ends a write to a pipe that nobody reads" {
    mkfifo x.csv
    run -6 timeout 20 kvctl --timeout 0.3 -c 'write ones(9) x.csv' # waits for a reader
    assert_line --index 0 --partial 'error[timeout]: gave up after 0.3 s (--timeout)'
    sleep 30 <x.csv 3>&- &
    run timeout 20 kvctl --timeout 0.5 -c 'write ones(300000) x.csv'
    kill $!
    assert_failure 6
    assert_line --index 0 --partial 'error[timeout]: gave up after 0.5 s (--timeout)'
}

# lacks TEXT ARGUMENTS…: some allocation, when it fails, gives this text.
lacks()
{
    local n out
    for n in {10..200}; do
        out=$(env LD_PRELOAD="$build/faults/faults.so" FAULT="memory $n" "$build/kvctl" "${@:2}" 2>&1 >/dev/null) || true
        [[ $out != *"]: $1"* && $out != *"launch: $1"* ]] || return 0
    done
    fail "nothing says \"$1\""
}

@test "faults: what has no memory says for what, also where a library asks for it" {
    ! grep -q __asan_init "$build/kvctl" || skip "the address sanitizer has a memory of its own"
    kvctl -c 'init a ones(300); save m.safetensors; push a ones(300)*2; save n.safetensors'
    lacks 'out of memory for a hash' hash m.safetensors
    lacks 'out of memory for libzstd' patch m.safetensors n.safetensors --out p.kvp
    lacks 'SHA-256 needs libcrypto, which cannot be loaded: ' hash m.safetensors --sha256
    lacks 'no memory for the files that match' -c 'glob("*.safetensors")'
    lacks 'there are no letters beyond ASCII without the locale C.UTF-8' -c '"\u00c9".lower()'
    local alone=$build/faults/alone # the library of Open MPI 5 does not live without memory
    KVSTORE_PLUGINS=$alone KVSTORE_MPI=$alone/libmpi.so.40 lacks 'no memory for a command' launch -n 1 --dry-run -c 'print 1'
}

# nobody_may WORD…: what a user says who may start neither processes nor threads (the tool is in $open). UCX, which Open
# MPI 5 loads, would say so, too.
nobody_may()
{
    run ! as_nobody env OMPI_ALLOW_RUN_AS_ROOT=1 UCX_LOG_LEVEL=fatal bash -c 'ulimit -u 1; exec "$@"' - "$open/kvctl" "$@"
}

@test "faults: no process and no thread can be started" {
    [ "$(id -u)" = 0 ] || skip "this user may have other processes"
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    # where another user can run it: the build folder may be root's alone
    local open
    open=$(mktemp -d /tmp/kvctl-open-XXXXXX)
    chmod a+rx "$open"
    cp "$build/kvctl" "$build/kvstore_mpi.so" "$open"
    cp -P "$build"/libkvstore.so* "$open"
    chmod a+rwx .
    nobody_may launch -n 1 -c 'print 1'
    assert_output 'kvctl: error[unsupported]: launch: no process can be started'
    nobody_may -c 'create dist_sync'
    rm -r "$open"
    assert_line --index 0 '<cmd>:1:8: error[memory]: no thread for the net'
}

# Each 97th call of each kind.
@test "faults: a slice of all of them" {
    ! grep -q __asan_init "$build/kvctl" || skip "the address sanitizer has a memory of its own"
    run -0 "$build/faults/faults" -j 2 -e 97 -c 20 "$build/kvctl" "$build/faults" "$top/tests/faults/sessions"
    assert_line --regexp '^ok - each of the [0-9]+ commands is used by a session$'
    assert_line --regexp '^[0-9]+ passed, 0 failed$'
}

@test "faults: a reason is that of the write that failed" {
    mentions -5 'kvctl: error[io]: cannot write "stdout": No space left on device' failing FAULT='write 1 ever' -- -c 'print 1'
}

@test "faults: a write that takes nothing is an error, and is not repeated for ever" {
    kvctl -s a.safetensors -c 'push w ones(900)'
    kvctl -s b.safetensors -c 'push w arange(900)'
    kvctl convert a.safetensors a.safetensors
    kvctl convert b.safetensors b.safetensors
    kvctl patch a.safetensors b.safetensors --out ab.patch
    local words
    for words in 'convert a.safetensors x.safetensors' 'convert a.safetensors x.npz' 'convert a.safetensors x/' \
        'apply ab.patch a.safetensors --in-place' 'patch a.safetensors b.safetensors --out x.patch' \
        '-c !cat --record x.md' 'ls a.safetensors'; do
        for call in 1 2; do
            run timeout -s KILL 20 env LD_PRELOAD="$build/faults/calls.so" FAULT="write $call ever" FAULT_ERRNO=0 \
                "$build/kvctl" $words
            [ $status = 5 ] || [ "$status:$call" = 0:2 ] || fail "$words: $status $output"
        done
    done
}

@test "faults: a script that cannot be looked at is no unknown command" {
    echo 'print 1' >s.kv
    gives 1 failing FAULT='stat 1' FAULT_PATH=s.kv -- s.kv
}

# recorded SYNC COMMANDS: calls of kvctl in the folder m, made anew from a, of which a sync is left out.
recorded()
{
    rm -rf m log
    cp -r a m
    env LD_PRELOAD="$build/faults/calls.so" CALLS_FOLDER="$PWD/m" CALLS_LOG="$PWD/log" CALLS_DROP="$1" \
        "$build/kvctl" -c "$2"
}

# The last sync of a file is that of the folder with its new name, which would do no harm; behind that
# of a folder in the place of another, the old one is removed.
@test "faults: a sync that is left out of a save is found by the states of the disk" {
    local n missed=()
    mkdir a
    kvctl -c 'init w,b [ones(9), ones(3)]; save a/m.safetensors; save a/parts/ --shard-size 30'
    for n in {1..9}; do
        recorded $n 'init w,b [ones(9)*2, ones(3)*2]; save m/m.safetensors; save m/parts/ --shard-size 30 --force'
        run "$build/faults/states" -p 512 log a m
        if [ "$status" = 1 ]; then
            assert_output --partial 'neither old nor new, in the state that is left in '
            rm -r "${lines[0]##* }"*
        else
            assert_success
            missed+=("$n")
        fi
    done
    assert_equal "${missed[*]}" '2 8 9'
}

# The files of the old folder are as large as the new ones: whoever replaces it hears of what is left of them.
@test "faults: a folder that cannot be removed behind the exchange is named" {
    local n left kept=0 status
    mkdir a
    kvctl -c 'init w,b [ones(9), ones(3)]; save a/parts/ --shard-size 30'
    for n in {1..16}; do
        rm -rf m
        cp -r a m
        status=0
        failing CALLS_FOLDER="$PWD/m" CALLS_FAIL="$n" -- convert a/parts m/parts/ --dtype f16 --force >out 2>said ||
            status=$?
        left=$(find m -name '.kv-*' -prune)
        if [ -n "$left" ]; then
            kept=$((kept + 1))
            [ "$(grep -cx "note: the folder \"$PWD/$left\" could not be removed and stays: No space.*" said)" = 1 ]
        else
            [ "$(grep -c 'could not be removed' said)" = 0 ]
        fi
        [ $status = 0 ] || diff -r a/parts m/parts
    done
    [ $kept -ge 2 ]
}
