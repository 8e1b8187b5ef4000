# Checkpoints that lie, as the tool meets them: every command refuses them with the file, the place
# and the reason, and ends with 5; nothing is written, what was there stays, and no byte of a name
# reaches a terminal that could move its cursor. tests/fuzz has many more lies.

load help

# safetensors FILE HEADER BYTES: a file with this header, and so many bytes of data.
safetensors()
{
    local LC_ALL=C i n=${#2} length=
    for ((i = 0; i < 8; i++)); do
        length+=$(printf '\\x%02x' $((n >> 8 * i & 255)))
    done
    { printf "$length"; printf %s "$2"; head -c "$3" /dev/zero; } >"$1"
}

# What the folder holds, and every content.
sums()
{
    find . -type f -exec md5sum {} + | sort
    find . ! -type f | sort
}

# says_no TEXT COMMAND…: it ends with 5 and says so in its first line behind the place, and prints nothing.
says_no()
{
    local code=0 first
    timeout 60 kvctl "${@:2}" >"$BATS_TEST_TMPDIR/../out" 2>"$BATS_TEST_TMPDIR/../err" || code=$?
    IFS= read -r first <"$BATS_TEST_TMPDIR/../err" || true
    [[ $first =~ ^'<cmd>:'[0-9:]*' '(.*)$ ]] && first=${BASH_REMATCH[1]}
    assert_equal "$first" "$1"
    assert_equal "$code" 5
    [ ! -s "$BATS_TEST_TMPDIR/../out" ]
}

# refused TEXT COMMAND…: the same, and it leaves the folder as it is.
refused()
{
    local before
    before=$(sums)
    says_no "$@"
    assert_equal "$(sums)" "$before"
}

# all_refuse TEXT PATH: every command that reads a checkpoint does, and none changes the folder; there is a
# good.safetensors. With `check` it is a finding, or no checkpoint at all.
all_refuse()
{
    local command before
    before=$(sums)
    for command in ls stat hash; do
        says_no "$1" "$command" "$2"
    done
    says_no "$1" diff good.safetensors "$2"
    says_no "$1" diff "$2" good.safetensors
    says_no "$1" convert "$2" old.safetensors
    says_no "$1" convert good.safetensors "$2" old.npz
    says_no "$1" convert "$2" new/
    says_no "$1" -c "init * @\"$2\""
    run timeout 60 kvctl check "$2"
    [ "$status" = 1 ] || [ "$status" = 5 ] || fail "check $2 ends with $status"
    assert_equal "$(sums)" "$before"
}

good_and_old()
{
    safetensors good.safetensors '{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
    echo old >old.safetensors
    echo old >old.npz
}

# plain FILE…: no control character but tabs and ends of lines, none of bidirectional text.
plain()
{
    local raw
    raw=$(LC_ALL=C grep -aP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]' "$@" || true)
    assert_equal "$raw" ""
}

@test "hostile checkpoints: headers that lie" {
    good_and_old
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}}' 2
    all_refuse 'error[format]: bad.safetensors: tensor "x" of shape (3,) and dtype U8 needs 3 bytes, its data_offsets give it 2' \
        bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}}' 2
    all_refuse 'error[format]: bad.safetensors: tensor "x": its data_offsets are not a begin and an end' \
        bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[2],"data_offsets":[900000000000000,900000000000002]}}' 2
    all_refuse 'error[format]: bad.safetensors: 900000000000000 bytes of data before tensor "x" belong to no tensor' \
        bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"I64","shape":[4294967296,4294967296],"data_offsets":[0,2]}}' 2
    all_refuse 'error[format]: bad.safetensors: tensor "x" of shape (4294967296, 4294967296) is too large' \
        bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}' 2
    all_refuse 'error[format]: bad.safetensors: byte 36: the numbers of a header are whole and not negative' \
        bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"x":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}' 2
    all_refuse 'error[format]: bad.safetensors: two tensors have the name "x"' bad.safetensors
    safetensors bad.safetensors '{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 1
    all_refuse 'error[format]: bad.safetensors: cut within its data: 1 of 2 bytes are missing' \
        bad.safetensors
    safetensors bad.safetensors '{"x":[[[[[[[[' 2
    all_refuse 'error[format]: bad.safetensors: the header ends before its last bracket' \
        bad.safetensors
}

# times N TEXT
times()
{
    yes "$2" | head -n "$1" | tr -d '\n'
}

# Many brackets, names, and twice the same name, within the time of a header.
@test "hostile checkpoints: long headers" {
    local names
    good_and_old
    safetensors bad.safetensors "{\"x\":$(times 100000 '[')" 0
    refused 'error[format]: bad.safetensors: byte 139: brackets are nested deeper than 127' \
        ls bad.safetensors
    names=$(times 100000 '"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},')
    safetensors bad.safetensors "{${names%,}}" 0
    refused 'error[format]: bad.safetensors: two tensors have the name "x"' ls bad.safetensors
    begins -1 'bad.safetensors: two tensors have the name "x"' kvctl check bad.safetensors
    safetensors long.safetensors "{\"$(times 1000000 n)\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,2]}}" 2
    refused "error[format]: long.safetensors: tensor \"$(times 80 n)\" of shape (3,) and dtype U8 needs 3 bytes, its data_offsets give it 2" \
        ls long.safetensors
}

@test "hostile checkpoints: names that leave the folder" {
    good_and_old
    mkdir model
    mv good.safetensors model/
    ln -s model/good.safetensors .
    local name
    for name in ../good.safetensors /etc/passwd .. . sub/x.safetensors; do
        printf '{"weight_map":{"x":"%s"}}' "$name" >model/model.safetensors.index.json
        all_refuse 'error[format]: model/model.safetensors.index.json: the file of tensor "x" is a name that leaves the folder' \
            model/
    done
    # but a tensor's name is only a name: no file is called like it
    safetensors model.safetensors '{"../../x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 2
    rm -r model
    kvctl convert model.safetensors model/
    assert_equal "$(find model | sort)" "$(printf 'model\nmodel/model.safetensors')"
    kvctl convert model.safetensors model.npz
    assert_equal "$(kvctl hash model.npz)" "$(kvctl hash model)"
}

@test "hostile checkpoints: names with control characters" {
    local c=0
    safetensors names.safetensors '{"__metadata__":{"k\u001b]0;t\u0007":"v\u009b2J"},"a\u001b[2J\u009b31m\u202e\u0007\n\r":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
    safetensors bad.safetensors '{"a\u001b[2J\u009b31m\u202e\u0007\n\r":{"dtype":"U8\u009b","shape":[2],"data_offsets":[0,1]}}' 1
    safetensors $'f\e[2J\u009b.safetensors' '{"a\u001b[2J":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}' 1
    safetensors $'f\xff\e.safetensors' '{"a\u001b[2J":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}' 1
    for file in *.safetensors; do
        for command in ls stat hash check "diff names.safetensors" "convert names.safetensors"; do
            for option in "" --json; do
                kvctl $option $command "$file" >"out.$c" 2>"err.$c" || [ $? -lt 6 ]
                plain "out.$c" "err.$c"
                [ -z "$option" ] || iconv -f UTF-8 -t UTF-8 "out.$c" >/dev/null
                c=$((c + 1))
            done
        done
    done
    kvctl ls names.safetensors >list
    assert_equal "$(sed -n 2p list)" '"a\x1b[2J\u{9b}31m\u{202e}\x07\x0a\x0d"  U8     (1,)   1'
    # a name that is no UTF-8
    cp "$top/tests/checkpoint/npz/shapes.npz" bad.npz
    for at in $(grep -abo scalar.npy bad.npz | cut -d: -f1); do
        printf '\xff' | dd of=bad.npz bs=1 seek="$at" conv=notrunc status=none
    done
    for option in "" --json; do
        run -1 kvctl $option check bad.npz
        kvctl $option check bad.npz >out 2>err || true
        plain out err
        iconv -f UTF-8 -t UTF-8 out err >/dev/null
    done
}

@test "hostile checkpoints: what is no file" {
    good_and_old
    refused 'error[io]: /dev/zero: a device, which may have no end; - reads stdin' ls /dev/zero
    refused 'error[io]: /dev/zero: a device, which may have no end; - reads stdin' check /dev/zero
    refused 'error[format]: /proc/self/maps: the file is empty' hash /proc/self/maps
    mkdir model
    mkfifo model/m.safetensors
    all_refuse 'error[io]: model/m.safetensors: a shard has to be a regular file' model/
    mkfifo model/m.safetensors.index.json
    all_refuse 'error[io]: model/m.safetensors.index.json: an index has to be a regular file' model/
    # a pipe that somebody writes to is read
    cat good.safetensors >model/m.safetensors &
    run -0 timeout 60 kvctl ls model/m.safetensors
    wait
}

# 10 TB that are not there.
@test "hostile checkpoints: files that claim much" {
    local huge=10000000000000
    good_and_old
    safetensors huge.safetensors "{\"x\":{\"dtype\":\"U8\",\"shape\":[$huge],\"data_offsets\":[0,$huge]}}" 0
    all_refuse "error[format]: huge.safetensors: cut within its data: $huge of $huge bytes are missing" \
        huge.safetensors
    local header
    header=$(stat -c %s huge.safetensors)
    truncate -s $((header + huge)) huge.safetensors || skip "no files of 10 TB here"
    run -0 kvctl ls huge.safetensors
    assert_line --index 1 "x    U8     ($huge,)  $huge"
    run -5 kvctl convert huge.safetensors old.safetensors
    assert_equal "$(cat old.safetensors)" old
    run ! kvctl -c 'print @huge.safetensors'
    [ "$status" -lt 10 ]
    rm huge.safetensors
}

# A hole that is mapped takes memory from /dev/shm, and none left is a signal: lib/checkpoint/file_window.c.
@test "hostile checkpoints: a file with holes in memory does not grow when it is read" {
    local in=${TEST_MEMORY:-$BATS_TEST_TMPDIR}/holes.safetensors blocks
    safetensors "$in" '{"a":{"dtype":"F32","shape":[4194304],"data_offsets":[0,16777216]}}' 0
    truncate -s $((8 + 67 + 16777216)) "$in"
    blocks=$(stat -c %b "$in")
    kvctl hash "$in" && kvctl stat "$in" && kvctl check "$in" || true
    assert_equal "$(stat -c %b "$in")" "$blocks"
    rm "$in"
}
