# What strangers' scripts and data files may hold. Every refusal has its text here, a large one is
# found within seconds and without much memory, and nothing is changed by it.

load help

# refused CODE TEXT SCRIPT: kvctl -c SCRIPT ends with the status CODE, and its first line on stderr is TEXT.
refused()
{
    local code=0
    timeout 60 kvctl -c "$3" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || code=$?
    assert_equal "$(head -n 1 "$BATS_TEST_TMPDIR/err")" "$2"
    assert_equal "$code" "$1"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/out")" ""
}

# The programs that check themselves need more memory and time.
is_sanitized()
{
    grep -qE '__(a|t|ub)san_' "$build/kvctl"
}

# times N TEXT
times()
{
    yes "$2" | tr -d '\n' | head -c $(($1 * ${#2}))
}

@test "hostile: a byte order mark and CRLF are fine" {
    local bom=$'\xef\xbb\xbf'
    printf '%sprint 1\r\nif true {\r\n  print 2\r\n}\r\n' "$bom" >s.kv
    printf '%s1,2\r\n3,4\r\n' "$bom" >x.csv
    printf '%s1\t2\r\n3\t4\r\n' "$bom" >x.tsv
    printf '%s[[1,2],\r\n[3,4]]\r\n' "$bom" >x.json
    printf '%s[1,2]\r\n\r\n[3,4]\r\n' "$bom" >x.ndjson
    gives $'1\n2' kvctl s.kv
    for value in @x.csv @x.tsv @x.json 'stack(@x.ndjson)' 'load("x.csv", header=false)'; do
        gives $'[[1. 2.]\n [3. 4.]]' kvctl -c "print $value"
    done
    for file in x.csv x.json; do
        gives $'[[1. 2.]\n [3. 4.]]' kvctl -c 'print @-' <$file
    done
}

@test "hostile: NUL bytes" {
    printf 'print 1\nprint "a\0b"\n' >s.kv
    printf '1,2\n3,4\0\n' >x.csv
    printf '[1,2,\0 3]' >x.json
    printf '[1]\n[2\0]\n' >x.ndjson
    begins -2 's.kv:2:9: error[syntax]: a NUL byte does not belong into a script' kvctl s.kv
    refused 5 '<cmd>:1:7: error[format]: x.csv:2:2: the cell holds a NUL byte' 'print @x.csv'
    refused 5 '<cmd>:1:7: error[format]: x.json:1:6: a NUL byte' 'print @x.json'
    refused 5 '<cmd>:1:7: error[format]: x.ndjson:2:3: a NUL byte' 'print @x.ndjson'
}

@test "hostile: bytes that are not UTF-8" {
    printf 'print 1\nprint \xff\n' >s.kv
    printf '1,2\n3,a\xff\n' >x.csv
    printf '[1,\xff]' >x.json
    printf '[1,"\xff"]' >y.json
    begins -2 's.kv:2:7: error[syntax]: the byte \xff is not UTF-8' kvctl s.kv
    assert_line --index 1 '    2 : print \xff'
    printf 'init "\xff" 1\n' >s.kv
    begins -2 's.kv:1:7: error[syntax]: the byte \xff is not UTF-8' kvctl s.kv
    for text in 'print "a\xff"' '# caf\xe9' 'x = 1 # \xc3' '!echo \xff' 'write 1 a\xff.csv'; do
        printf 'print 1\n'"$text"'\n' >s.kv
        for how in '' -n -k; do
            run -2 kvctl $how s.kv
            assert_line --index 0 --regexp '^s.kv:2:[0-9]+: error\[syntax\]: the byte .x[a-f0-9]+ is not UTF-8$'
        done
    done
    printf 'init $k 1\n' >s.kv
    begins -3 's.kv:1:6: error[key]: the key "a\xffb" is not UTF-8' kvctl --set $'k=a\xffb' s.kv
    refused 5 '<cmd>:1:7: error[format]: x.csv:2:2: "a\xff" is not a number' 'print @x.csv'
    refused 5 '<cmd>:1:7: error[format]: x.json:1:4: the byte \xff is not UTF-8' 'print @x.json'
    refused 5 '<cmd>:1:7: error[format]: y.json:1:4: "\xff" is not a number' 'print @y.json'
}

@test "hostile: control characters in a message cannot reach the terminal" {
    printf '\x1b[2J\n1,2\n' >x.csv
    refused 5 '<cmd>:1:7: error[format]: x.csv:1:1: "?[2J" is not a number' \
        'print load("x.csv", header=false)'
    printf '["\xc2\x9b2J"]' >x.json
    refused 5 '<cmd>:1:7: error[format]: x.json:1:2: "\u{9b}2J" is not a number' 'print @x.json'
}

# Whatever is in names of files, keys, variables' texts, stores: no control character comes out.
@test "hostile: no name moves the cursor or turns the order of what is shown" {
    local LC_ALL=C.UTF-8 name
    name=$'x\e[31m\xc2\x9b2J\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8' # as bytes: \u follows the locale of the file
    printf 'init "k\\u{1b}\\u{9b}\\u{202e}" 1; x = "\\u{9b}\\u{2069}"; print x; x; vars; list; info; pull *
explain push "k\\u{1b}\\u{9b}\\u{202e}" 2; push "k\\u{202e}" 1; pull "n\\u{202e}"; !true "\u202e"
write 1 "f\\u{1b}\\u{202e}.csv"; source ("\\u{9b}"); assert x == 1, x
expect <<END\n\u009b\nEND' >"$name.kv"
    printf 'kv> print 1 # \u202e\e\n\u202e\n' >"$name.md"
    for options in "" -v -x --check --dry-run --json "-s $name.kvs" "-s $name.kvs --dry-run" --safe; do
        kvctl -k $options "$name.kv" >out 2>&1 || true
        kvctl $options -s "$name.kvs" -c "x = @'$name.csv'" >>out 2>&1 || true
        kvctl --verify "$name.md" >>out 2>&1 || true
        gives -1 "" grep -nP '[^\n\t -~]' out
    done
    mentions -5 'x\x1b[31m\u{9b}2J\u{202e}\u{2066}\u{2028}.kv:' kvctl "$name.kv" # the names can still be told
}

@test "hostile: lines of 20 MB, and of 100" {
    times 20000000 a >a
    { printf '# '; cat a; printf '\nprint 1\n'; } >comment.kv
    { printf 'x = "'; cat a; printf '"\nprint len(x)\n'; } >text.kv
    { printf 'init '; cat a; printf ' 1\n'; } >key.kv
    times 20000000 1 >1.csv
    { printf '1\n'; cat a; } >word.csv
    { printf '["'; cat a; printf '"]'; } >word.json
    times 50000000 1, >wide.csv
    printf '1\n' >>wide.csv
    rm a
    gives 1 timeout 60 kvctl comment.kv
    gives 20000000 timeout 60 kvctl text.kv
    begins -2 'key.kv:1:6: error[syntax]: a key has at most 4096 bytes' timeout 60 kvctl key.kv
    assert [ "${#output}" -lt 1000 ]
    local start=1111111111111111111111111111111111111111
    refused 5 "<cmd>:1:7: error[format]: 1.csv:1:1: $start... does not fit float32" 'print @1.csv'
    start=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    refused 5 "<cmd>:1:7: error[format]: word.csv:2:1: \"$start...\" is not a number" 'print @word.csv'
    refused 5 "<cmd>:1:7: error[format]: word.json:1:2: \"$start...\" is not a number" \
        'print @word.json'
    run -0 timeout 60 kvctl -c 'x = @wide.csv
        print shape(x)
        !grep VmHWM /proc/$PPID/status | tr -dc 0-9'
    assert_line --index 0 '(1, 50000001)'
    if is_sanitized; then
        skip "memory is not counted with a sanitizer"
    fi
    # 1.3 times the array and 32 MB
    assert [ "${lines[1]}" -lt $((200000 * 13 / 10 + 32000)) ]
}

@test "hostile: nested too deep" {
    times 10000 '[' >x.json
    { times 10000 '['; times 10000 ']'; } >closed.json
    times 5000 '{"data":' >object.json
    { printf '[1]\n'; cat closed.json; } >x.ndjson
    { printf 'x = '; times 10000 '['; printf '1'; times 10000 ']'; } >s.kv
    times 10000 '(' >p.kv
    refused 5 '<cmd>:1:7: error[format]: x.json:1:33: lists are nested deeper than 32' 'print @x.json'
    refused 5 '<cmd>:1:7: error[format]: closed.json:1:33: lists are nested deeper than 32' \
        'print @closed.json'
    refused 5 '<cmd>:1:7: error[format]: object.json:1:257: lists are nested deeper than 32' \
        'print @object.json'
    refused 5 '<cmd>:1:7: error[format]: x.ndjson:2:33: lists are nested deeper than 32' \
        'print @x.ndjson'
    begins -2 's.kv:1:205: error[syntax]: nested deeper than 200' kvctl s.kv
    begins -2 'p.kv:1:201: error[syntax]: nested deeper than 200' kvctl p.kv
}

@test "hostile: numbers that do not fit" {
    echo '1,1e999' >x.csv
    echo '[1,1e999]' >x.json
    echo '1,300' >i.csv
    echo '{"dtype":"int8","shape":[2],"data":[1,300]}' >i.json
    echo '[1.5]' >f.json
    refused 5 '<cmd>:1:7: error[format]: x.csv:1:2: 1e999 does not fit float32' 'print @x.csv'
    refused 5 '<cmd>:1:7: error[format]: x.json:1:4: 1e999 does not fit float32' 'print @x.json'
    refused 5 '<cmd>:1:7: error[format]: i.csv:1:2: 300 does not fit int8' \
        'print load("i.csv", dtype="int8")'
    refused 5 '<cmd>:1:7: error[format]: i.json:1:39: 300 does not fit int8' 'print @i.json'
    refused 5 '<cmd>:1:7: error[format]: f.json:1:2: 1.5 is not a whole number, as int32 needs' \
        'print load("f.json", dtype="int32")'
    opens -3 'error[value]: ' kvctl -c 'print array([1, 300], dtype="int8")'
    run ! kvctl -c 'print 1e999'
    assert_line --index 0 --partial '1e999'
}

@test "hostile: a script in which everything is wrong" {
    yes 'pull nobody' | head -n 100000 >s.kv
    local code=0
    timeout 60 kvctl -k s.kv >out 2>&1 || code=$?
    assert_equal "$code" 3
    gives 100000 grep -c 'error.key.: key "nobody" was never initialised' out
    run tail -n 4 out
    assert_output 's.kv:100000:6: error[key]: key "nobody" was never initialised
 100000 : pull nobody
      :      ^^^^^^
 hint: init it first'
}

# npy HEADER: a file of numpy with this header and 8 bytes of data.
npy()
{
    printf '\x93NUMPY\x01\x00\x80\x00%-127s\n12345678' "$1"
}

# tensors HEADER
tensors()
{
    printf '%b%s12345678' "\\x$(printf %02x "${#1}")\\0\\0\\0\\0\\0\\0\\0" "$1"
}

@test "hostile: shapes whose product needs more than 64 bits" {
    local big=4294967296
    echo "# shape=$big,$big,$big dtype=float32" >x.csv
    echo 1 >>x.csv
    echo "{\"shape\":[$big,$big,$big],\"data\":[[[1]]]}" >x.json
    npy "{'descr': '<f4', 'fortran_order': False, 'shape': ($big, $big, $big), }" >x.npy
    tensors "{\"a\":{\"dtype\":\"F32\",\"shape\":[$big,$big,$big],\"data_offsets\":[0,8]}}" \
        >x.safetensors
    refused 5 '<cmd>:1:7: error[format]: x.csv: 1 numbers do not fit shape (4294967296, 4294967296, 4294967296)' \
        'print @x.csv'
    refused 5 '<cmd>:1:7: error[format]: x.json:1:52: data of shape (1, 1, 1) do not fit "shape" (4294967296, 4294967296, 4294967296)' \
        'print @x.json'
    for file in x.npy x.safetensors; do
        opens -5 "<cmd>:1:7: error[format]: $file: " kvctl -c "print @$file"
    done
    for shape in "$big, $big, $big" "$big, $big" "0, -1" "9223372036854775807, 9223372036854775807"; do
        opens -3 'error[shape]: ' kvctl -c "print zeros($shape)"
    done
    run -3 kvctl -c "init 3 1; pull 3 -> x; print reshape(x, ($big, $big))"
}

@test "hostile: files cut at every byte, and every byte changed, are read or refused" {
    kvctl -c 'write [[1, 2], [3, 4.5]] x.csv; write arange(3, dtype="float64") x.json
              write ones(2, 2) x.npy; init a,b [ones(2), zeros(3)]; pull a,b > x.safetensors'
    for file in x.csv x.json x.npy x.safetensors; do
        local size kind=${file#x.} all
        all=$(od -An -v -tx1 $file | tr -d '\n' | sed 's/ /\\x/g') # printf is no process
        size=$((${#all} / 4))
        # One kvctl a file: each variant is a statement, and -k goes on behind a refusal.
        for ((i = 0; i < size; i += 1 + size / 100)); do
            printf %b "${all:0:4*i}" >"cut-$i.$kind"
            printf %b "${all:0:4*i}\\xff${all:4*i+4}" >"byte-$i.$kind"
            printf 'x = @cut-%d.%s\nx = @byte-%d.%s\n' $i $kind $i $kind
        done >$kind.kv
        run timeout 60 kvctl -k $kind.kv
        # only refusals that say which file: neither a crash nor another kind of error
        [ "$status" = 0 ] || [ "$status" = 5 ] || [ "$status" = 3 ] || [ "$status" = 4 ] || fail "$status: $output"
        run grep -vE "^$kind.kv:[0-9]+:5: error\[(format|value|unsupported)\]: |^ +[0-9]* :|^ hint: " <<<"$output"
        assert_output ""
    done
}
