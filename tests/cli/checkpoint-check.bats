# check on files that lie, and hash across containers: what no session can make by itself.

load help
# file NAME HEADER DATA: a safetensors file; DATA as of printf.
file()
{
    local n=${#2}
    { printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\0\0\0\0\0\0%s" "$2" && printf "$3"; } >"$1"
}

# finds NAME LINE…: check of the file gives these lines and exit status 1.
finds()
{
    local name=$1
    shift
    run -1 --separate-stderr kvctl check "$name"
    [ "$output" = "$(printf '%s\n' "$@")" ] || { printf 'found:\n%s\n' "$output"; return 1; }
    [ "$stderr" = "kvctl: error[assert]: $# finding$([ $# = 1 ] || echo s) in $name" ] || { echo "$stderr"; return 1; }
}

@test "a broken rule of the header is a finding, and the rest is looked at" {
    file overlap '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' '\1\0\0'
    finds overlap 'overlap: tensors "a" and "b" overlap' 'overlap: b: all of its elements are 0'
    file gap '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' '\1\1'
    finds gap 'gap: 1 bytes of data before tensor "a" belong to no tensor'
    file behind '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' '\1\1\1'
    finds behind 'behind: 2 bytes behind the data belong to no tensor'
    file type '{"a":{"dtype":"U7","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}' '\1\0\0\xc0\x7f'
    run -1 kvctl check type
    [[ $output == *'tensor "a" has the dtype "U7", which is not read'*'type: b: 1 of 1 elements is NaN'* ]]
    file cut '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}}' '\0\1'
    run -1 kvctl check cut
    [[ $output == *'cut within its data: 3 of 5 bytes are missing'*'cut: a: all of its elements are 0'* ]]
}

@test "BOOL bytes, small floats, keys without elements" {
    file odd '{"on":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"none":{"dtype":"F32","shape":[0,4],"data_offsets":[3,3]},"e":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[3,5]},"f":{"dtype":"F4","shape":[2],"data_offsets":[5,6]},"c":{"dtype":"C64","shape":[1],"data_offsets":[6,14]}}' '\1\2\3\x7f\xff\x88\0\0\x80\xff\0\0\0\0'
    finds odd 'odd: on: 2 of 3 bytes are neither 0 nor 1' 'odd: e: 2 of 2 elements are NaN, the first at (0,)' \
        'odd: f: all of its elements are 0' 'odd: c: 1 of 2 parts is Inf, at (0,)'
}

@test "what is no checkpoint is an error, not a finding" {
    echo 'a,b' >a.csv
    run -5 kvctl check a.csv
    run -5 kvctl check no-such-file
    mkdir empty
    run -5 kvctl check empty
}

@test "a shard that is missing is a finding, with its name" {
    mkdir m
    kvctl -c 'init a,b [ones(2), ones(3)]; save m/one.safetensors'
    echo '{"metadata":{},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}}' >m/model.safetensors.index.json
    run -1 --separate-stderr kvctl check m
    [[ $output == *two.safetensors* ]]
    run -5 kvctl hash m
}

@test "findings are records, names are shown without their control characters" {
    file bad '{"a\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' '\0\0\x80\x7f'
    finds bad 'bad: "a\x1b[2J": 1 of 1 elements is Inf, at (0,)'
    run -1 --separate-stderr kvctl --json check bad
    jq -e '.ok == false and .value == false and
           .entries == [{key: "a\u001b[2J", file: "bad", finding: "1 of 1 elements is Inf, at (0,)"}]' <<<"$output"
    run -0 kvctl hash bad
    [[ $output == *'  "a\x1b[2J"' ]]
    echo "$output" >bad.hashes
    run -0 kvctl hash bad --verify bad.hashes
    [ -z "$output" ]
}

@test "a hash is the same in one file, in shards and from a stream, in npz" {
    kvctl -c 'init a,b,c [array([1, 2, 3]), ones(2,3), zeros(4)]; save all.safetensors; save all.npz
              delete c; save m-1.safetensors; delete a,b; init c zeros(4); save m-2.safetensors'
    mkdir m
    mv m-*.safetensors m
    kvctl hash all.safetensors | sort >all.hashes
    [ "$(wc -l <all.hashes)" = 3 ]
    kvctl hash m | sort | diff - all.hashes
    kvctl hash m --verify all.hashes
    kvctl hash all.npz | sort | diff - all.hashes
    kvctl hash - <all.safetensors | sort | diff - all.hashes
}

@test "a command that stops within its walk leaves nothing, and says so" {
    kvctl -c 'init a ones(2); save m.safetensors'
    cp m.safetensors cut.safetensors
    truncate -s -1 cut.safetensors
    run -5 kvctl hash cut.safetensors
    run -1 kvctl check cut.safetensors
}

@test "check: of a file of lies the first 100,000 findings are listed, all are counted" {
    awk 'BEGIN { printf "{"; for (i = 0; i < 100002; i++) printf "%s\"%d\":{\"dtype\":\"F32\"}", i ? "," : "", i; printf "}" }' >header
    n=$(wc -c <header)
    printf "$(printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24)) 0 0 0 0)" | cat - header >m.safetensors
    run -1 --separate-stderr kvctl check m.safetensors
    assert_equal "${#lines[@]}" 100000
    assert_equal "$stderr" "kvctl: error[assert]: 100002 findings in m.safetensors; the first 100,000 are listed"
}

@test "check: says that quantised keys are not looked at for NaN" {
    local file=$BATS_TEST_DIRNAME/../checkpoint/types.gguf
    run -0 kvctl check "$file" t.BF16 't.Q4_*'
    [ "$output" = 'note: NaN and Inf are not looked for in 3 of 4 keys, quantised such as "t.Q4_0" (Q4_0)' ]
    run -0 kvctl check "$file" t.BF16
    [ -z "$output" ]
}

@test "keys that are all zero may be allowed, or left out" {
    kvctl -q -c 'init w,bias [ones(2), zeros(2)]; save m.safetensors'
    finds m.safetensors 'm.safetensors: bias: all of its elements are 0'
    gives '' kvctl check m.safetensors --allow-zeros
    run -0 kvctl check m.safetensors --exclude bias
    run -3 kvctl check m.safetensors --exclude none
    kvctl -q -c 'init w,bias [array([nan, 1]), zeros(2)]; save m.safetensors'
    run -1 --separate-stderr kvctl check m.safetensors --allow-zeros
    [ "$output" = 'm.safetensors: w: 1 of 2 elements is NaN, at (0,)' ]
}
