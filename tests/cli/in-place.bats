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
    hash_a=$(<a.hash) hash_b=$(<b.hash)
    kvctl patch a.st b.st --out p.st >/dev/null
}

# Tests call these up to 170 times, hence few programs: each takes longer than what it does.

# calls VARIABLES…: changes m/m.st, made anew as a.st, behind the library that watches. When cp fails (the disk is full), the
# test ends here with its message, since callers take stderr and the status for those of kvctl.
calls()
{
    if [ -d m ]; then find m -mindepth 1 -delete; else mkdir m; fi
    cp a.st m/m.st 2>&1 || exit 1
    env CALLS_FOLDER="$PWD/m" LD_PRELOAD="$build/faults/calls.so" "$@" \
        "$build/kvctl" apply p.st m/m.st --in-place
}

# What a reader finds is a.st or b.st, whose name is left in `found`, and nothing is left.
finds_a_or_b()
{
    local hash left
    hash=$(kvctl hash m/m.st)
    if [ "$hash" = "$hash_a" ]; then found=a; else found=b; fi
    [ "$hash" = "$hash_a" ] || [ "$hash" = "$hash_b" ]
    cmp m/m.st $found.st
    left=(m/* m/.[!.]*)
    [ "${left[*]}" = 'm/m.st m/.[!.]*' ]
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

# has_mark FILE
has_mark()
{
    local begin=
    IFS= read -r -d '' -N 7 begin <"$1" || true
    [ "$begin" = kv-half ]
}

# EINTR, EIO and ENOSPC of the N-th call, of that and the next, and of all behind it. What fails is A with its
# first bytes, or keeps the mark, and the error says what to do. A signal that cuts a sync short is nothing. Writes
# that signals cut short for ever are not tried: they would go on for ever.
@test "in place: every call fails with every error, once, twice and for ever" {
    local kind errno n more status ended=0 back=0 kept=0
    make_models 300000 20
    for kind in write sync; do
        for errno in 4 5 28; do
            for more in '' twice ever; do
                [ "$kind $errno $more" != 'write 4 ever' ] || continue
                for n in {1..11}; do
                    status=0
                    calls FAULT="$kind $n $more" FAULT_ERRNO=$errno 2>said || status=$?
                    if [ $status = 0 ]; then
                        ended=$((ended + 1))
                        cmp m/m.st b.st
                    else
                        [ $status = 5 ]
                        [ $errno != 4 ] || [ "$kind $more" = 'sync ever' ]
                    fi
                    said=$(<said)
                    if [[ $said == *'hint: the file is as it was'* ]]; then
                        back=$((back + 1))
                        cmp m/m.st a.st
                    fi
                    if has_mark m/m.st; then
                        grep -qF 'hint: "m/m.st" is half changed, and no other program opens it: kvctl ls m/m.st ends the' said
                        grep -qF 'which is kept in "m/.m.st.kv-journal"' said
                        kept=$((kept + 1))
                        kvctl ls m/m.st >/dev/null
                        cmp m/m.st b.st
                    fi
                    finds_a_or_b
                done
            done
        done
    done
    [ $ended -gt 100 ] && [ $back = 4 ] && [ $kept -gt 6 ]
}

# The disk takes no more writes of the file: all behind its mark come into a copy, which takes its place. One that has
# another name keeps the mark: there the next reader ends the change, by the journal.
@test "in place: what the disk does not take comes into a copy" {
    local fault n=0
    make_models 300000 20
    chmod 640 a.st
    for fault in 'sync 2 ever' 'sync 3 ever' 'write 2 ever' 'write 3 ever'; do
        calls FAULT="$fault" FAULT_PATH=m.st
        cmp m/m.st b.st
        [ "$(ls -A m)" = m.st ]
        [ "$(stat -c %a m/m.st)" = 640 ]
        cp a.st m/m.st
        ln m/m.st other.st
        run -5 env LD_PRELOAD="$build/faults/calls.so" FAULT="$fault" FAULT_PATH=m.st "$build/kvctl" apply p.st m/m.st --in-place
        assert_output --partial 'which is kept in "m/.m.st.kv-journal"'
        has_mark m/m.st || [ "$fault" = 'sync 3 ever' ]
        kvctl hash m/m.st >m.hash
        cmp m.hash b.hash
        cmp other.st b.st
        rm other.st
    done
    # a reader that finds the journal
    until has_mark m/m.st; do
        n=$((n + 1))
        calls CALLS_KILL=$n 2>/dev/null || true
    done
    env LD_PRELOAD="$build/faults/calls.so" FAULT='sync 1 ever' FAULT_PATH=m.st "$build/kvctl" hash m/m.st >m.hash
    cmp m.hash b.hash
    cmp m/m.st b.st
    [ "$(ls -A m)" = m.st ]
}

# Where the file system clones files the pages come into a clone, which takes the place of the file.
@test "in place: a clone that is killed, or fails, behind every call" {
    local n=0 as=0 bs=0 status=137 failed=0
    make_models 300000 20
    while [ "$status" = 137 ]; do
        n=$((n + 1))
        status=0
        calls CALLS_CLONE=copy CALLS_KILL=$n 2>/dev/null || status=$?
        cmp m/m.st a.st 2>/dev/null || cmp m/m.st b.st # with no reader that ends something
        finds_a_or_b
        if [ $found = a ]; then as=$((as + 1)); else bs=$((bs + 1)); fi
    done
    [ "$status" = 0 ] && [ $found = b ] && [ $as -gt 3 ] && [ $bs -gt 1 ]
    for n in {1..8}; do
        status=0
        calls CALLS_CLONE=copy CALLS_FAIL=$n 2>said || status=$?
        cmp m/m.st a.st 2>/dev/null || cmp m/m.st b.st
        [ "$status" = 0 ] || failed=$((failed + 1))
        [ "$status" != 0 ] || cmp m/m.st b.st
        finds_a_or_b
    done
    [ $failed -gt 3 ]
    mkdir a
    cp a.st a/m.st
    calls CALLS_CLONE=copy CALLS_LOG="$PWD/log"
    run -0 "$build/faults/states" -m "${STATES:-1000}" log a m
    assert_output --regexp '^[0-9]+ states behind [0-9]+ calls \([0-9]+ of them sampled\), '
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
        run -5 as_nobody "$build/kvctl" ls m/m.st
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
    run -0 "$build/faults/kill" -n "${KILLS:-60}" "$build/kvctl" m.st a.st b.st \
        "$build/kvctl" apply p.st m.st --in-place
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
    run -1 grep -vxF -e "$(cat a.hash)" -e "$(cat b.hash)" hashes
}

@test "in place: every state of the disk that a crash can leave" {
    make_models 40000 6
    calls CALLS_LOG="$PWD/log"
    cmp m/m.st b.st
    mkdir a
    cp a.st a/m.st
    run -0 "$build/faults/states" -m "${STATES:-10000}" log a m
    assert_output --regexp '^[0-9]{4,} states behind 15 calls \(0 of them sampled\), '
    # pages that are torn: more states than can be tried
    run -0 "$build/faults/states" -m "${STATES:-300}" -n 20 -p 512 log a m
    assert_output --regexp '^[0-9]{4,} states behind 15 calls \([1-9] of them sampled\), '
}

# The writer alone is killed, so that nothing of what it wrote is lost; then the power fails while a reader ends the
# change, or behind that. Every state is A or B.
@test "in place: every state of the disk behind a reader of what a killed writer left" {
    local n both=0
    make_models 40000 6
    mkdir a b
    cp a.st a/m.st
    cp b.st b/m.st
    for n in {8..15}; do # from the mark on
        calls CALLS_KILL=$n CALLS_LOG="$PWD/log$n" 2>/dev/null || true
        env CALLS_FOLDER="$PWD/m" CALLS_LOG="$PWD/log$n" LD_PRELOAD="$build/faults/calls.so" "$build/kvctl" hash m/m.st >/dev/null
        run "$build/faults/states" -m 300 -n 20 "log$n" a b
        assert_output --partial ' states behind '
        refute_output --partial ' is left in '
        both=$((both + !status))
    done
    [ $both -gt 5 ]
}

# The last sync is that of the folder that lost the journal, which would do no harm.
@test "in place: a sync that is left out is found" {
    make_models 20000 50
    mkdir a
    cp a.st a/m.st
    for n in 1 2 3 4 5; do
        calls CALLS_LOG="$PWD/log$n" CALLS_DROP=$n
        mentions -1 'in the state that is left in ' "$build/faults/states" "log$n" a m
        rm -r "${lines[0]##* }"*
    done
    calls CALLS_LOG="$PWD/log6" CALLS_DROP=6
    run -0 "$build/faults/states" log6 a m
}
