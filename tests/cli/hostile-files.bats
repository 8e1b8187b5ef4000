# What can happen to files: missing, forbidden, changing, no files at all, full disks, a kill in the
# middle. Every refusal has its text here; the old file stays as it was, or the new one is whole.

load help

# refused CODE TEXT SCRIPT [OPTION…]: kvctl -c SCRIPT ends with the status CODE, and its first line on
# stderr is TEXT.
refused()
{
    local code=0
    timeout 60 kvctl "${@:4}" -c "$3" >"$BATS_TEST_TMPDIR/../out" 2>"$BATS_TEST_TMPDIR/../err" || code=$?
    assert_equal "$(head -n 1 "$BATS_TEST_TMPDIR/../err")" "$2"
    assert_equal "$code" "$1"
}

needs_nobody()
{
    [ "$(id -u)" != 0 ] || command -v setpriv >/dev/null || skip "root, and there is no setpriv"
    chmod 755 "$BATS_TEST_TMPDIR"
    as_nobody kvctl -V >/dev/null 2>&1 || skip "another user cannot run $build/kvctl"
}

# What the folder holds, and every content.
sums()
{
    ls -A
    md5sum -- * 2>/dev/null
}

@test "hostile: missing files, folders, no names" {
    mkdir folder.csv
    refused 5 '<cmd>:1:7: error[io]: cannot read "no.csv": No such file or directory' 'print @no.csv'
    refused 5 '<cmd>:1:7: error[io]: cannot read "no.npy": No such file or directory' 'print @no.npy'
    refused 5 '<cmd>:1:7: error[io]: cannot read "no.safetensors": No such file or directory' \
        'print @no.safetensors'
    refused 5 '<cmd>:1:7: error[io]: cannot read "folder.csv": Is a directory' 'print @folder.csv'
    refused 5 '<cmd>:1:15: error[io]: cannot write "folder.csv": Is a directory' \
        'write ones(2) folder.csv'
    refused 5 '<cmd>:1:15: error[io]: cannot write "no/x.csv": No such file or directory' \
        'write ones(2) no/x.csv'
    refused 5 '<cmd>:1:9: error[io]: cannot write "no/x.csv": No such file or directory' \
        'ones(2) >> no/x.csv'
    refused 2 '<cmd>:1:7: error[usage]: "" has no known ending' 'print @""'
    refused 2 '<cmd>:1:7: error[usage]: ".csv" has no known ending' 'print @.csv'
    ln -s loop.csv loop.csv
    refused 5 '<cmd>:1:7: error[io]: cannot read "loop.csv": Too many levels of symbolic links' \
        'print @loop.csv'
    local long
    long=$(printf 'n%.0s' {1..300}).csv
    refused 5 "<cmd>:1:7: error[io]: cannot read \"$long\": File name too long" "print @$long"
}

@test "hostile: no permission" {
    needs_nobody
    kvctl -c 'write ones(2) "x.csv"'
    local before
    before=$(sums)
    chmod 000 x.csv
    begins -5 '<cmd>:1:7: error[io]: cannot read "x.csv": Permission denied' as_nobody kvctl -c 'print @x.csv'
    begins -5 '<cmd>:1:16: error[io]: cannot write "x.csv": Permission denied' as_nobody kvctl -c 'write zeros(2) x.csv'
    begins -5 '<cmd>:1:10: error[io]: cannot read "x.csv": Permission denied' as_nobody kvctl -c 'zeros(2) >> x.csv'
    # a folder in which nothing can be made
    mkdir locked
    kvctl -c 'write ones(2) "locked/x.csv"'
    chmod 555 locked
    run -5 as_nobody kvctl -c 'write zeros(2) locked/x.csv'
    assert_line --index 0 --regexp 'error\[io\]: cannot write "locked/x.csv": Permission denied$'
    run -5 as_nobody kvctl -c 'write zeros(2) locked/y.csv'
    assert_line --index 0 --regexp 'error\[io\]: cannot write "locked/y.csv": Permission denied$'
    chmod 755 locked
    assert_equal "$(ls -A locked)" x.csv
    rm -r locked
    chmod 644 x.csv
    assert_equal "$(sums)" "$before"
}

@test "hostile: a pipe instead of a file" {
    mkfifo in.csv out.csv
    echo '1,2' >in.csv &
    gives '[[1. 2.]]' timeout 20 kvctl -c 'print @in.csv'
    cat out.csv >got &
    run -0 timeout 20 kvctl -c 'write [[1, 2]] out.csv'
    wait
    gives '1,2' cat got
    [ -p out.csv ]
    # no writer: Ctrl-C ends the wait
    run -130 signalled INT -c 'print @in.csv'
    begins '<cmd>:1:7: error[interrupted]: interrupted' cat err
    # a writer that says nothing, and stdin that says nothing
    exec 9<>in.csv
    run -130 signalled INT -c 'print @in.csv' 9>&-
    run -143 signalled TERM -c 'print @-' <in.csv 9>&-
    exec 9>&-
}

@test "hostile: a file that grows or shrinks while it is read" {
    kvctl -c 'write uniform(300000, 8, seed=1) big.csv; write uniform(200000, 8, seed=1) big.json'
    for kind in csv json; do
        while :; do echo '1,2,3,4,5,6,7,8' >>big.$kind; done &
        local writer=$!
        run kvctl -c "x = @big.$kind"
        kill $writer
        wait $writer || true
        assert_failure 5
        assert_line --index 0 "<cmd>:1:5: error[io]: cannot read \"big.$kind\": it changed while it was read"
        while :; do truncate -s 20000000 big.$kind; truncate -s 10000000 big.$kind; done &
        writer=$!
        run kvctl -c "x = @big.$kind"
        kill $writer
        wait $writer || true
        assert_failure 5
        assert_line --index 0 "<cmd>:1:5: error[io]: cannot read \"big.$kind\": it changed while it was read"
    done
    # files without a size are read to their end
    run -0 kvctl -c 'assert load("/proc/sys/kernel/pid_max", format="csv") > 0'
}

@test "hostile: a full disk" {
    [ -w /dev/full ] || skip "no /dev/full"
    ln -s /dev/full full.csv
    ln -s /dev/full full.json
    ln -s /dev/full full.npy
    for kind in csv json npy; do
        refused 5 "<cmd>:1:15: error[io]: cannot write \"full.$kind\": No space left on device" \
            "write ones(9) full.$kind"
    done
    mkdir disk
    mount -t tmpfs -o size=64k none disk 2>/dev/null || skip "the rest needs the right to mount"
    local code=0
    (
        cd disk
        kvctl -c 'init w1,w2 [ones(3), zeros(3)]; write ones(3) x.csv; write ones(3) x.json; write ones(3) x.npy
            pull w* > x.safetensors; pull w* > w-{key}.csv; [1, 2] >> log.csv'
        before=$(sums)
        for kind in csv json npy safetensors; do
            refused 5 "<cmd>:1:31: error[io]: cannot write \"x.$kind\": No space left on device" \
                "init w ones(100000)/3; pull w > x.$kind"
            assert_equal "$(sums)" "$before"
        done
        refused 5 '<cmd>:1:53: error[io]: cannot write "w-w2.csv": No space left on device' \
            'init w1,w2 [zeros(3), uniform(100000, 2)]; pull w* > w-{key}.csv'
        assert_equal "$(sums)" "$before"
        refused 5 '<cmd>:1:19: error[io]: cannot write "log.csv": No space left on device' \
            'uniform(100000, 2) >> log.csv'
        assert_equal "$(sums)" "$before"
    ) || code=$?
    umount disk
    return $code
}

@test "hostile: an output that is closed" {
    run -0 bash -c "kvctl -c 'write arange(1000000) -; write ones(2) done.csv' | head -n 1; echo \${PIPESTATUS[0]}"
    assert_output $'# shape=1000000 dtype=float32\n0'
    [ -e done.csv ]
    run -5 bash -c "kvctl -c 'print ones(2); write ones(2) closed.csv' >&-"
    opens -5 'error[io]: the command `exit 3` ended with status 3' bash -c "kvctl -c 'print \"x\" | exit 3'"
    run -0 bash -c "kvctl --format csv -c 'print arange(1000000) | true
        print arange(1000000) | head -n 2 | tail -n 1 | cut -c 1-7
        print 1 | yes | head -n 1' 2>&1"
    assert_output $'0\ny'
    run -0 bash -c "kvctl -c 'print arange(1000000) > big.txt
        !cat big.txt | head -n 1 | cut -c 1-9
        !yes | head -n 1' 2>&1"
    assert_output $'[0.00000e\ny'
}

# ends_in_old_or_new SIGNAL: kvctl is ended in the middle of writing; the file is one of two.
ends_in_old_or_new()
{
    local signal=$1 kind=$2 old new
    kvctl -c "write ones(200000, 4)/3 x.$kind; write ones(200000, 4)/7 y.$kind"
    old=$(md5sum <x.$kind) new=$(md5sum <y.$kind)
    rm y.$kind
    local seen
    for delay in 0.00 0.01 0.02 0.03 0.05 0.08 0.1 0.15 0.2; do
        kvctl -c "a = ones(200000, 4)/3; b = ones(200000, 4)/7
            while true { write b x.$kind; write a x.$kind }" 2>"$BATS_FILE_TMPDIR/said" &
        local writer=$!
        sleep 0.05
        sleep $delay
        kill -"$signal" $writer || fail "it had ended: $(cat "$BATS_FILE_TMPDIR/said")"
        wait $writer || true
        seen=$(md5sum <x.$kind)
        [ "$seen" = "$old" ] || [ "$seen" = "$new" ] || fail "half a file after $delay s"
    done
}

@test "hostile: kill -9 leaves the old file or the new one" {
    for kind in csv npy safetensors; do
        [ $kind = safetensors ] || ends_in_old_or_new KILL $kind
    done
    # what a killed kvctl leaves is hidden and belongs to nobody
    gives -1 "" bash -c 'ls -A | grep -vE "^([xy]\.(csv|npy)|\.kv-[0-9]+-[0-9]+\.tmp)$"'
}

@test "hostile: SIGTERM in the middle of a write leaves nothing behind" {
    ends_in_old_or_new TERM csv
    gives x.csv ls -A
}

@test "hostile: two that add to one file lose nothing" {
    for i in 1 2 3 4; do
        kvctl -c "repeat 10 { [$i, 1] >> log.csv }" &
    done
    wait
    gives '(40, 2) 140.0' kvctl -c 'a = @log.csv; print shape(a), sum(a)'
    gives log.csv ls -A
}

@test "hostile: names of files" {
    for name in 'two words.csv' "it's.csv" 'a"b.csv' $'new\nline.csv' '-c.csv' '--help.csv' '#x.csv' \
        '$HOME.csv' '{a}.csv' '*.csv' 'ümlaut.csv' '\n.csv' '%s%n.csv' ' .csv'; do
        printf 'write [[1, 2]] ($args[0])\nx = load(args[0])\nassert x == [[1, 2]]\nprint @$name\n' >s.kv
        sed -i 's/(\$args\[0\])/(args[0])/; s/@\$name/@(args[0])/' s.kv
        gives '[[1. 2.]]' kvctl s.kv "$name"
        [ -e "./$name" ] || fail "there is no $name"
        rm -- "./$name"
        run -5 kvctl s.kv "no/$name"
    done
    # bytes that are not UTF-8 are a file name like any other
    printf 'write [[1, 2]] (args[0])\nprint @(args[0])\n' >s.kv
    gives '[[1. 2.]]' kvctl s.kv $'a\xffb.csv'
    [ -e $'a\xffb.csv' ]
    begins -5 's.kv:1:16: error[io]: cannot write "no/a\xffb.csv": No such file or directory' kvctl s.kv $'no/a\xffb.csv'
    # scripts too
    printf 'print 7\n' >'-x y.kv'
    gives 7 kvctl -- '-x y.kv'
    run -0 kvctl -f '-x y.kv'
}

@test "hostile: an error leaves the store and files as they were" {
    printf '1,2\n3\n' >ragged.csv
    kvctl -c 'write ones(2, 2) x.csv; init a,b [ones(2), zeros(2)]; pull a,b > m.safetensors'
    local before
    before=$(sums)
    run -5 kvctl -k -c 'init a,b [ones(2, 2), zeros(2, 2)]
        init c,d [ones(2), @ragged.csv]
        push a,b [ones(2, 2), @ragged.csv]
        push a,b [ones(2, 2), ones(3)]
        init e* @m.safetensors
        init * @m.safetensors
        pull a,b > x.csv
        pull a,nobody > w-{key}.csv
        pull a,b > no/w-{key}.csv
        write @ragged.csv x.csv
        ones(3) >> x.csv
        list
        pull a
        pull b'
    run bash -c "sed -n '/^a\$/,\$p' <<<'$output'"
    assert_output "a
b
[[1. 1.]
 [1. 1.]]
[[0. 0.]
 [0. 0.]]"
    assert_equal "$(sums)" "$before"
    # the same for a store in a file
    kvctl -s w.kvs -c 'init w ones(2)'
    before=$(sums)
    refused 5 '<cmd>:1:24: error[format]: ragged.csv:2:2: the row has 1 cell, those above have 2' \
        'push w ones(2); push w @ragged.csv' -s w.kvs
    assert_equal "$(sums)" "$before"
}
