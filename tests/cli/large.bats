# -s and files that are larger than memory should be: a session holds the keys that it uses, and a
# file that another program changes meanwhile is an error, never wrong numbers or a signal.

load help

# A file of another tool with the key big, MB megabytes without room on the disk but for one number
# in their middle, and the key k of two numbers.
sparse_file()
{
    local mb=$2 bytes=$(($2 << 20)) header
    header='{"big":{"dtype":"F32","shape":['$((bytes / 4))'],"data_offsets":[0,'$bytes']},'
    header+='"k":{"dtype":"F32","shape":[2],"data_offsets":['$bytes','$((bytes + 8))']}}'
    header=$(printf '%-248s' "$header")
    printf '\xf8\0\0\0\0\0\0\0%s' "$header" >"$1"
    truncate -s $((256 + bytes + 8)) "$1"
    printf '\0\0\x80\x3f' | dd of="$1" bs=1 seek=$((256 + (mb << 19))) conv=notrunc status=none
    touch -d '1 minute ago' "$1" # whoever writes to it later sets another time
}

# held MB FILE STATEMENTS [OPTION…]: runs a session, and fails if it has ever held more than so many
# MB of memory.
held()
{
    local most=$1 file=$2 statements=$3 kb
    shift 3
    rm -f held
    kvctl -s "$file" "$@" -c "$statements"'
        !grep VmHWM /proc/$PPID/status | tr -dc 0-9 >held' || return
    kb=$(<held)
    [ "$kb" -lt $((most << 10)) ] || { echo "$kb KB are held: $statements"; return 1; }
}

# narrow FILE STATEMENTS [OPTION…]: runs a session that has no room for 300 MB.
narrow()
{
    (ulimit -v 250000; KVSTORE_THREADS=2 kvctl -s "$1" -c "$2" "${@:3}")
}

# With a sanitizer, memory is another.
needs_plain()
{
    if grep -qE '__(a|t|ub)san_' "$build/kvctl"; then
        skip "memory is not counted with a sanitizer"
    fi
}

# The number in the middle of big, which a file of MB megabytes has.
middle()
{
    kvctl -q -s "$1" --read-only -c "pull big -> x; print x[$(($2 << 17))], sum(x)"
}

@test "large: a session holds the keys that it uses, of another tool's file" {
    needs_plain
    sparse_file m.safetensors 300
    gives '[0. 0.]' held 60 m.safetensors 'pull k'
    run held 60 m.safetensors 'list; info; info big; begin; rename big large
        rollback; pull k -> x; print x' --read-only
    assert_line --partial '(78643200,)'
    assert_line '[0. 0.]'
    run -0 narrow m.safetensors 'push k [1, 2]; rename big large; rename large big' --dry-run
    assert_output $'dry run: "m.safetensors" would change:\n  changed  k: float32 (2,), 2 of 2 elements'
    run -0 held 100 m.safetensors 'push k [1, 2]; commit --disk; push k [3, 4]; commit --disk'
    run -0 narrow m.safetensors 'push k [5, 6]'
    gives '[5. 6.]' kvctl -s m.safetensors -c 'pull k'
    run middle m.safetensors 300
    assert_output '1.0 1.0'
}

@test "large: a session holds the keys that it uses, of kvctl's own file" {
    needs_plain
    sparse_file m.safetensors 300
    run -0 held 100 m.safetensors 'set-optimizer sgd --learning-rate 1; push k [-1, -2]; commit --disk' --force
    run held 60 m.safetensors 'pull k'
    assert_output '[1. 2.]'
    run -0 held 100 m.safetensors 'push k [-1, -2]; commit --disk'
    run -0 narrow m.safetensors 'push k [0, -1]'
    run -0 kvctl check m.safetensors
    begins '[2. 5.]' kvctl -s m.safetensors -c 'pull k; info k'
    assert_line --regexp '^k .* 3 +0$'
    run middle m.safetensors 300
    assert_output '1.0 1.0'
}

@test "large: a loop over the keys of a file holds one of them" {
    needs_plain
    local key
    for key in a b c d e f; do
        kvctl -s w.kvs -c "init $key ones(2621440)"
    done
    # 10 MB each, and 60 MB in all
    run -0 held 40 w.kvs 'for key in ["a", "b", "c", "d", "e", "f"] { pull $key -> x; print sum(x) }'
    assert_output $'2621440.0\n2621440.0\n2621440.0\n2621440.0\n2621440.0\n2621440.0'
}

@test "large: the states of a key are read with it" {
    needs_plain
    kvctl -s w.kvs -c 'init big zeros(6291456); init k zeros(2); set-optimizer adam
        push big,k [ones(6291456), ones(2)]'
    kvctl -s w.kvs --read-only -c 'push big,k [ones(6291456), ones(2)]; pull k
        pull big -> x; print x[0], x[6291455]; save-states once.states' >once
    run -0 held 24 w.kvs 'push k ones(2); pull k; info --states; commit --disk; save-states s.states'
    run kvctl -s w.kvs -c 'push big ones(6291456); pull k; pull big -> x; print x[0], x[6291455]
        save-states twice.states'
    assert_output "$(<once)"
    cmp once.states twice.states
}

@test "large: another program changes the file meanwhile" {
    local after="m.safetensors: the file was changed while it was in use"
    sparse_file m.safetensors 8
    run -5 kvctl -s m.safetensors -c 'push k [1, 2]; pull k
        !printf x | dd of=m.safetensors bs=1 seek=5000 conv=notrunc status=none
        pull big'
    assert_line --index 0 '[1. 2.]'
    assert_line --partial "error[io]: $after"
    sparse_file m.safetensors 8
    run -5 kvctl -s m.safetensors -c 'push k [1, 2]
        !printf x | dd of=m.safetensors bs=1 seek=5000 conv=notrunc status=none; cp -p m.safetensors n'
    assert_output --partial "$after"
    cmp m.safetensors n # nothing was written
    sparse_file m.safetensors 8
    run -5 kvctl -s m.safetensors -c 'pull k; !truncate -s 100000 m.safetensors
        pull big'
    assert_line --partial 'error[io]: m.safetensors: the file became shorter while it was read'
    sparse_file m.safetensors 8
    run -5 kvctl -s m.safetensors -c 'push k [1, 2]; !truncate -s 100000 m.safetensors'
    assert_output --partial 'm.safetensors: the file became shorter while it was read'
    [ "$(stat -c %s m.safetensors)" = 100000 ]
}

@test "large: a change in place waits for the session" {
    local session
    kvctl -c 'push w,k [ones(100000), ones(2)]; pull * >a.safetensors; push w ones(100000)*2
        pull * >b.safetensors'
    kvctl -q patch a.safetensors b.safetensors --out p
    for session in '--read-only' '-q'; do
        run -5 kvctl -s a.safetensors "$session" -c '!kvctl apply p a.safetensors --in-place'
        assert_line --partial 'error[busy]: cannot change "a.safetensors" in place'
        gives 100000.0 kvctl -s a.safetensors "$session" -c 'pull w -> x; print sum(x)'
    done
    kvctl apply p a.safetensors --in-place
    gives 200000.0 kvctl -s a.safetensors -c 'pull w -> x; print sum(x)'
}

@test "large: what was pushed stays, whatever becomes of the file" {
    sparse_file m.safetensors 8
    run kvctl -s m.safetensors --read-only -c 'push big ones(2097152)
        !printf x | dd of=m.safetensors bs=1 seek=5000 conv=notrunc status=none
        pull big -> y; print sum(y); pull k'
    assert_line --index 0 2097152.0
    assert_line --index 1 '[0. 0.]'
    sparse_file m.safetensors 8
    run -0 kvctl -s m.safetensors --read-only -c '!mv m.safetensors away; printf no >m.safetensors
        pull big -> x; print sum(x)'
    assert_output 1.0
}

@test "large: rollback, discard and another file" {
    sparse_file m.safetensors 8
    cp m.safetensors before
    run -0 kvctl -s m.safetensors -c 'push big ones(2097152); push k [1, 2]; rollback
        pull big -> x; print sum(x); begin; delete big; rename k j; rollback; list
        save n.safetensors'
    assert_output $'1.0\nbig\nk'
    cmp m.safetensors before
    run middle n.safetensors 8
    assert_output '1.0 1.0'
    run -0 kvctl -s m.safetensors -c 'push k [1, 2]; delete big; quit --discard'
    cmp m.safetensors before
    # twice in a run, with the names of keys exchanged between
    kvctl -s m.safetensors --force -c 'rename big a; push k [1, 2]; commit --disk; init b zeros(2097152)
        commit --disk; rename a x; rename b a; rename x b; push k [3, 4]'
    gives '1.0 0.0' kvctl -s m.safetensors --read-only -c 'pull b -> x; pull a -> y; print sum(x), sum(y)'
}
