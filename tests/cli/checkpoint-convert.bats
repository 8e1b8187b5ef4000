# convert: files that are large, that change meanwhile, that cannot be written; what is left behind.

load help
bats_require_minimum_version 1.5.0

# sparse FILE ELEMENTS: a safetensors file with one key w of F32, all of it a hole.
sparse()
{
    local header='{"w":{"dtype":"F32","shape":['$2'],"data_offsets":[0,'$(($2 * 4))']}}'
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >"$1"
    truncate -s $((8 + ${#header} + $2 * 4)) "$1"
}

# begun: waits until something is written beside the output.
begun()
{
    local i
    for ((i = 0; i < 1000; i++)); do
        compgen -G '.kv-*.tmp' >/dev/null && return
        sleep 0.005
    done
    return 1
}

@test "what -s opens: the file stays one of other tools while it only holds values" {
    kvctl -c 'init w,b [ones(2,2), zeros(2)]; save m.safetensors --metadata format=pt'
    kvctl convert m.safetensors s.kvs --dtype f16
    run kvctl -s s.kvs -c 'push b [3,4]; pull b; list; type'
    [ "$output" = $'[3. 4.]\nw\nb\nlocal' ]
    run ! grep -q 'kvstore\.' s.kvs
    kvctl -s s.kvs --force -c 'set-optimizer sgd --learning-rate 1; push w ones(2,2)'
    grep -q 'kvstore\.' s.kvs
    kvctl convert s.kvs back.safetensors
    run kvctl ls back.safetensors
    [ "${lines[1]%% *} ${lines[2]%% *} ${lines[3]}" = "w b 2 keys, 6 elements, 12 bytes" ]
    run ! grep -q 'kvstore\.' back.safetensors
    grep -q '"format":"pt"' back.safetensors
}

@test "killed in the middle: the old file and the old folder stay, and the next one cleans up" {
    sparse m.safetensors 400000000
    echo old >o.kvs
    mkdir o
    echo old >o/old
    for out in o.kvs o/; do
        kvctl convert m.safetensors $out --force --dtype bf16 &
        begun
        kill -9 $!
        wait $! || [ $? = 137 ]
        [ "$(cat o.kvs o/old)" = $'old\nold' ]
        compgen -G '.kv-*.tmp'
        kvctl -c 'init a 1; save small.safetensors'
        kvctl convert small.safetensors new.kvs
        run ! compgen -G '.kv-*.tmp'
    done
}

@test "Ctrl-C: nothing is left, and the old file stays" {
    sparse m.safetensors 400000000
    echo old >o.kvs
    for out in o.kvs o/; do
        bash -c "set -m; kvctl convert m.safetensors $out --dtype bf16 2>err & echo \$! >pid
            wait \$!; echo \$? >status" &
        begun
        kill -INT "$(cat pid)"
        wait
        [ "$(cat status)" = 130 ]
        grep -q 'error\[interrupted\]' err
        rm -f pid status err
        [ "$(ls -A)" = $'m.safetensors\no.kvs' ]
    done
    [ "$(cat o.kvs)" = old ]
}

@test "an input that is cut meanwhile is an error, and nothing is written" {
    for dtype in f32 bf16; do
        sparse m.safetensors 400000000
        kvctl convert m.safetensors o.kvs --dtype $dtype 2>err &
        local pid=$! status=0
        begun
        truncate -s 4096 m.safetensors
        wait $pid || status=$?
        cat err
        [ $status = 5 ]
        grep -q 'error\[io\]: m.safetensors: the file became shorter while it was read' err
        rm err
        [ "$(ls -A)" = m.safetensors ]
    done
}

@test "memory stays small, whatever the size" {
    sparse m.safetensors 1000000000
    run bash -c "ulimit -v 1500000; KVSTORE_THREADS=2 kvctl convert m.safetensors o/ --shard-size 1G --dtype f8_e4m3"
    [ "$status" = 0 ]
    [ "$(stat -c %s o/model.safetensors)" = 1000004096 ]
}

@test "no room, no permission: an error, and everything is as it was" {
    kvctl -c 'init w zeros(3000); save m.safetensors'
    cp m.safetensors before
    run -5 bash -c "ulimit -f 4; kvctl convert m.safetensors m.safetensors --dtype f64"
    [[ $output == *'cannot write "m.safetensors": File too large'* ]]
    run -5 bash -c "ulimit -f 4; kvctl convert m.safetensors out/ --dtype f64"
    [[ $output == *'cannot write "out/model.safetensors": File too large'* ]]
    run -5 bash -c "ulimit -f 4; kvctl convert m.safetensors m.npz"
    [[ $output == *'cannot write "m.npz": File too large'* ]]
    cmp m.safetensors before
    [ "$(ls -A)" = $'before\nm.safetensors' ]
    if [ "$(id -u)" != 0 ]; then
        mkdir -m 555 closed
        run -5 kvctl convert m.safetensors closed/x.kvs
        [[ $output == *'cannot write "closed/x.kvs": Permission denied'* ]]
        run -5 kvctl convert m.safetensors closed/x/
        [[ $output == *'cannot write "closed/x/": Permission denied'* ]]
        chmod 444 m.safetensors
        run -5 kvctl convert m.safetensors m.safetensors
        [[ $output == *'cannot write "m.safetensors": Permission denied'* ]]
    fi
}

@test "--dry-run lists old and new names" {
    kvctl -c 'init m.0.w,m.1.w,head [ones(1)]*3; save m.safetensors'
    run --separate-stderr kvctl --dry-run convert m.safetensors n.safetensors --exclude head \
        --rename 's/^m\.(?P<n>\d+)/layer\g<n>/' --rename 's/w/\g<0>eight/'
    assert_success
    assert_output $'key    becomes\nm.0.w  layer0.weight\nm.1.w  layer1.weight'
    run kvctl --dry-run --json convert m.safetensors n.safetensors head
    assert_output --partial '"entries":[{"key":"head","becomes":"head"}]'
    [ ! -e n.safetensors ]
    run kvctl convert m.safetensors n.safetensors --rename 's/^((\w|\d|\.)+)+!/x/'
    assert_failure 3
    assert_output --partial 'error[key]: `s/^((\w|\d|\.)+)+!/x/` matches no name'
    kvctl -c "init $(printf 'w%.0s' {1..60}).x 1; save long.safetensors"
    run kvctl convert long.safetensors n.safetensors --rename 's/^((w|ww)+)+$/x/'
    assert_failure 3
    assert_output --partial 'error[value]: the regular expression needs more than a million steps on this text'
}

@test "--safe and --dry-run write nothing" {
    kvctl -c 'init w zeros(3); save m.safetensors'
    run -4 kvctl --safe convert m.safetensors o.kvs
    [[ $output == *'error[unsupported]: --safe forbids writing "o.kvs"'* ]]
    run -0 kvctl --dry-run convert m.safetensors o/
    [[ ${lines[0]} == 'dry run: would write o/' ]]
    run -3 kvctl --dry-run convert m.safetensors o/ zz
    [ "$(ls -A)" = m.safetensors ]
}

@test "OUT is one of the inputs, and a stream is one, too" {
    kvctl -c 'init w,b [ones(2,2), zeros(2)]; save m/ ; save n.safetensors w'
    cp m/model.safetensors whole
    kvctl convert m/ m/ --force --dtype f16 'w'
    run kvctl ls m/
    [ "${lines[1]}" = 'w    F16    (2, 2)  8' ]
    kvctl convert - n.safetensors --exclude w <whole
    run kvctl ls n.safetensors
    [ "${lines[1]%% *} ${lines[2]}" = "b 1 key, 2 elements, 8 bytes" ]
    kvctl convert whole n.safetensors c.kvs --rename 's/^w$/v/' 2>err || grep -q '"b" stands in whole and in n' err
}
