# A file that is changed in place, and a writer that is killed, or fails, or loses its power: what
# kvctl finds is the file before or after, never a mixture. The programs are those of tests/faults.
#
# KILLS=1000 bats tests/cli/in-place.bats kills at more random moments; STATES=1000000 tries more
# states of the disk behind a call.

load help

setup_file()
{
    [ -x "${KVCTL_BUILD:-$BATS_TEST_DIRNAME/../../build}/faults/change" ] ||
        skip_file "the programs of tests/faults are not built: make tests"
}

# make_models BYTES EVERY: a.st and b.st, of which one element in EVERY differs, and p.st, the patch.
# shellcheck disable=SC2154 # of help.bash
make_models()
{
    "$build/faults/change" make "$1" "$2" a.st b.st
    kvctl hash a.st >a.hash
    kvctl hash b.st >b.hash
    kvctl patch a.st b.st --out p.st >/dev/null
}

# calls VARIABLES…: changes m/m.st, made anew as a.st, behind the library that watches.
calls()
{
    rm -rf m
    mkdir m
    cp a.st m/m.st
    env CALLS_FOLDER="$PWD/m" LD_PRELOAD="$build/faults/calls.so" "$@" \
        "$build/kvctl" apply p.st m/m.st --in-place
}

# What a reader finds is a.st or b.st, whose name is left in `found`, and nothing is left.
finds_a_or_b()
{
    kvctl hash m/m.st >m.hash
    if cmp -s m.hash a.hash; then found=a; else found=b; fi
    cmp m.hash $found.hash
    cmp m/m.st $found.st
    [ "$(ls -A m)" = m.st ]
}

@test "in place: killed behind every call" {
    local n=0 as=0 bs=0 status=137
    make_models 300000 20
    while [ "$status" = 137 ]; do
        n=$((n + 1))
        status=0
        calls CALLS_KILL=$n 2>/dev/null || status=$?
        finds_a_or_b
        if [ $found = a ]; then as=$((as + 1)); else bs=$((bs + 1)); fi
    done
    [ "$status" = 0 ] && [ $found = b ]
    [ $n -gt 15 ] && [ $as -gt 4 ] && [ $bs -gt 8 ]
}

@test "in place: a file written over one whose change was cut short is what was written" {
    local n=0
    make_models 3000 20
    until [ -e m/.m.st.kv-journal ]; do
        n=$((n + 1))
        calls CALLS_KILL=$n 2>/dev/null || true
    done
    mv m/m.st m/m.safetensors
    mv m/.m.st.kv-journal m/.m.safetensors.kv-journal
    cp -r m each
    kvctl -c 'ones(3) > m/m.safetensors'
    [ "$(ls -A m)" = m.safetensors ]
    [ "$(kvctl -c 'print @m/m.safetensors')" = "[1. 1. 1.]" ]
    kvctl -c 'init m ones(3); pull m* > each/{key}.safetensors'
    [ "$(ls -A each)" = m.safetensors ]
}

# The disk is full once. Behind the mark the change is tried again. Removing a file may fail without a word: what stays is
# removed by the reader.
@test "in place: every call fails once" {
    local n failed=0 status
    make_models 300000 20
    for n in {1..20}; do
        status=0
        calls CALLS_FAIL=$n 2>said || status=$?
        if [ "$status" = 0 ]; then
            cmp m/m.st b.st
        else
            failed=$((failed + 1))
            grep -q 'No space left on device$' said
            ! grep -q 'half changed' said
            [ "$(head -c 7 m/m.st | tr -d '\0')" != kv-half ] # with no reader that ends something
        fi
        finds_a_or_b
    done
    [ $failed -gt 4 ] && [ $failed -lt 12 ]
}

# Calls that fail from the N-th on for ever, until the file has its mark and keeps it; the error says what to do.
@test "in place: every call fails for ever" {
    local kind n failed=0 kept=0 back=0 status
    make_models 300000 20
    for kind in write sync; do
        for n in {1..16}; do
            status=0
            calls FAULT="$kind $n ever" 2>said || status=$?
            [ $status = 0 ] || failed=$((failed + 1))
            if [ "$(head -c 7 m/m.st | tr -d '\0')" = kv-half ]; then
                [ $status = 5 ]
                grep -qF 'hint: "m/m.st" is half changed, and no other program opens it: kvctl ls m/m.st ends the' said
                grep -qF 'which is kept in "m/.m.st.kv-journal"' said
                kept=$((kept + 1))
                kvctl ls m/m.st >/dev/null
                cmp m/m.st b.st
            fi
            finds_a_or_b
        done
    done
    [ $failed -gt 5 ] && [ $kept -gt 2 ]
}

# A disk that takes no new bytes, but the old ones: they come back.
@test "in place: what fails twice is taken back" {
    make_models 300000 20
    local n back=0
    for n in {2..12}; do
        calls FAULT="write $n twice" 2>said || grep -qF 'hint: the file is as it was' said && back=$((back + 1))
        [ "$(head -c 7 m/m.st | tr -d '\0')" != kv-half ]
        finds_a_or_b
    done
    [ $back -gt 0 ]
}

# make_state CALL: m/m.safetensors, killed behind that call, with its journal.
make_state()
{
    calls CALLS_KILL="$1" 2>/dev/null || true
    mv m/m.st m/m.safetensors
    [ ! -e m/.m.st.kv-journal ] || mv m/.m.st.kv-journal m/.m.safetensors.kv-journal
    [ ! -e m/.m.st.kv-journal.tmp ] || mv m/.m.st.kv-journal.tmp m/.m.safetensors.kv-journal.tmp
    rm -rf before
    cp -r m before
}

# To end a change is to write: --safe leaves that to others, but for the file of -s.
@test "in place: under --safe a change that was cut short is ended in the file of -s alone" {
    local n plain=0 refused=0 temps=0 status
    make_models 300000 20
    for n in {1..16}; do
        make_state $n
        [ ! -e m/.m.safetensors.kv-journal.tmp ] || temps=$((temps + 1))
        for command in "--safe hash m/m.safetensors" "--safe -s n.safetensors hash m/m.safetensors"; do
            status=0
            # shellcheck disable=SC2086
            kvctl $command >m.hash 2>said || status=$?
            if [ "$(head -c 7 m/m.safetensors | tr -d '\0')" = kv-half ]; then
                [ $status = 4 ]
                grep -qF 'cannot read "m/m.safetensors": a change of it was cut short, and a reader that writes no files leaves that to another' said
                grep -qF 'hint: end the change, without --safe, with: kvctl ls m/m.safetensors' said
                refused=$((refused + 1))
            else
                [ $status = 0 ]
                cmp m.hash a.hash || cmp m.hash b.hash
                plain=$((plain + 1))
            fi
            diff -r before m
        done
        kvctl --safe -s m/m.safetensors -c 'info' >/dev/null
        [ "$(ls -A m)" = m.safetensors ]
        cmp m/m.safetensors a.st || cmp m/m.safetensors b.st
    done
    [ $plain -gt 4 ] && [ $refused -gt 4 ] && [ $temps -gt 0 ]
}

@test "in place: what another user, or another process, does not let happen" {
    local n=0
    make_models 3000 20
    until [ "$(head -c 7 m/m.st 2>/dev/null | tr -d '\0')" = kv-half ]; do # behind the mark
        n=$((n + 1))
        calls CALLS_KILL=$n 2>/dev/null || true
    done
    if [ "$(id -u)" = 0 ]; then
        chmod -R a+rX .
        run as_nobody "$build/kvctl" ls m/m.st
        assert_failure 5
        assert_line --index 0 --partial 'error[io]: cannot read "m/m.st": a change of it was cut short, and this user may not end it, which is to write the file as ".m.st.kv-journal" says'
        assert_line ' hint: let its owner, or the user who changed it, read it once, as with: kvctl ls m/m.st'
    fi
    cp a.st held.st
    mkfifo go
    kvctl -q -s held.st -c $'list\n!touch open; cat go' >/dev/null 3>&- &
    until [ -e open ]; do
        kill -0 $!
        sleep 0.05
    done
    run kvctl apply p.st held.st --in-place
    echo >go
    wait $!
    assert_failure 6
    assert_line --index 0 --partial 'error[busy]: cannot change "held.st" in place: another process has it open; waited 3 s for it'
}

@test "in place: killed at random moments" {
    make_models 4000000 3000 # a file that changes nearly everywhere is written anew
    run "$build/faults/kill" -n "${KILLS:-60}" "$build/kvctl" m.st a.st b.st \
        "$build/kvctl" apply p.st m.st --in-place
    assert_success
    assert_output --regexp "^${KILLS:-60} kills, .* hit: A in [1-9][0-9]*, B in [1-9]"
}

# The next apply of the same patch ends what the first began, or begins again.
@test "in place: applied again after every call" {
    local n
    make_models 300000 20
    for n in {1..15}; do
        calls CALLS_KILL=$n 2>/dev/null || true
        kvctl apply p.st m/m.st --in-place
        cmp m/m.st b.st
        [ "$(ls -A m)" = m.st ]
    done
}

# A reader waits for a writer, and the other way round.
@test "in place: readers and writers at one time" {
    make_models 3000000 3000
    kvctl patch b.st a.st --out back.st >/dev/null
    mkdir m
    cp a.st m/m.st
    {
        while [ ! -e ended ]; do kvctl hash m/m.st; done >hashes 2>&1
    } 3>&- &
    for _ in {1..15}; do
        kvctl apply p.st m/m.st --in-place
        kvctl apply back.st m/m.st --in-place
    done
    touch ended
    wait
    cmp m/m.st a.st
    [ "$(wc -l <hashes)" -gt 15 ]
    run grep -vxF -e "$(cat a.hash)" -e "$(cat b.hash)" hashes
    assert_failure 1
}

@test "in place: every state of the disk that a crash can leave" {
    make_models 40000 6
    calls CALLS_LOG="$PWD/log"
    cmp m/m.st b.st
    mkdir a
    cp a.st a/m.st
    run "$build/faults/states" -m "${STATES:-10000}" log a m
    assert_success
    assert_output --regexp '^[0-9]{4,} states behind 15 calls \(0 of them sampled\), '
    # pages that are torn: more states than can be tried
    run "$build/faults/states" -m "${STATES:-300}" -n 20 -p 512 log a m
    assert_success
    assert_output --regexp '^[0-9]{4,} states behind 15 calls \([1-9] of them sampled\), '
}

# The last sync is that of the folder that lost the journal, which would do no harm.
@test "in place: a sync that is left out is found" {
    make_models 20000 50
    mkdir a
    cp a.st a/m.st
    for n in 1 2 3 4 5; do
        calls CALLS_LOG="$PWD/log$n" CALLS_DROP=$n
        run "$build/faults/states" "log$n" a m
        assert_failure 1
        assert_output --partial 'in the state that is left in '
        rm -r "${lines[0]##* }"*
    done
    calls CALLS_LOG="$PWD/log6" CALLS_DROP=6
    run "$build/faults/states" log6 a m
    assert_success
}
