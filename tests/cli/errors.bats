# Wrong and doubtful calls, which MXNet 1.9.1 refuses, answers by accident or does not survive: what
# kvctl makes of each. A refusal has its text and its exit status here, and what works its value.

bats_require_minimum_version 1.5.0
load help

# kvctl -c with these lines as the script; its streams are in the files out and err.
script()
{
    local code=0
    timeout 60 kvctl -c "$(printf '%s\n' "$@")" >out 2>err || code=$?
    return $code
}

# refused CODE TEXT LINE…: the script ends with the status CODE, TEXT is the first line on stderr.
refused()
{
    local code=0
    script "${@:3}" || code=$?
    assert_equal "$(head -n 1 err)" "$2"
    assert_equal "$code" "$1"
    assert_equal "$(cat out)" ""
}

# works [-o OUTPUT] LINE…: it ends well, and prints OUTPUT or nothing.
works()
{
    local output=
    if [ "$1" = -o ]; then
        output=$2
        shift 2
    fi
    script "$@" || fail "$(cat err)"
    assert_equal "$(cat out)" "$output"
    assert_equal "$(cat err)" ""
}

# warns TEXT LINE…: it ends well, with a warning.
warns()
{
    script "${@:2}" || fail "$(cat err)"
    assert_equal "$(cat out)" ""
    assert_equal "$(cat err)" "$1"
}

# ---- stores ----

@test "errors: a capability that there is not" {
    refused 2 '<cmd>:1:12: error[usage]: there is no capability "sprase"' 'is-capable sprase'
}

@test "errors: an optimizer for a teststore" {
    refused 4 \
        '<cmd>:2:15: error[unsupported]: stores of type "teststore" have no optimizer' \
        'create teststore' 'set-optimizer sgd --learning-rate 0.1'
}

@test "errors: a name that is taken" {
    refused 3 \
        '<cmd>:1:10: error[name]: there is a store type "local" already' \
        'register local --base device'
}

@test "errors: an unknown type" {
    refused 4 '<cmd>:1:8: error[unsupported]: there is no store type "foo"' 'create foo'
}

@test "errors: a barrier in one process" {
    works 'barrier'
}

# ---- keys ----

@test "errors: a key that is not a whole number" {
    refused 2 '<cmd>:1:6: error[syntax]: `3.5` is not a number' 'init 3.5 ones(2)'
}

@test "errors: a value that is no array" {
    refused 3 '<cmd>:1:8: error[dtype]: a text is no array and no list of numbers' 'init 3 "text"'
}

@test "errors: an integer key of 64 bits" {
    works \
        'init 2147483648 ones(2)' 'pull 2147483648 -> r' 'assert r == 1' \
        'expect-error key { pull -2147483648 -> r }'
}

@test "errors: an integer key beyond 64 bits" {
    refused 3 \
        '<cmd>:1:6: error[value]: an integer key has 64 bits, this one needs more' \
        'init 9223372036854775808 ones(2)'
}

@test "errors: a key that is the begin of others" {
    run kvctl -c 'init lm_head.weight ones(2); init lm_head.bias ones(2); init other ones(1); pull lm_head'
    assert_failure 3
    assert_line ' hint: did you mean lm_head.weight or lm_head.bias?'
    run kvctl -c 'init m.{1..9} [ones(2)]*9; pull m'
    assert_line ' hint: 9 keys begin so, among them m.1: list m*'
    run kvctl -c 'init m.{1..9} [ones(2)]*9; pull m.33'
    assert_line --partial ' hint: did you mean m.3'
}

@test "errors: more keys than values" {
    refused 3 '<cmd>:1:12: error[value]: 2 keys need 2 values, there is 1' 'init [3,4] [ones(2)]'
    for command in push pushpull; do
        run kvctl -c "$command 3,4 ones(2)*3"
        assert_failure 3
        assert_line --partial 'error[value]: 2 keys need 2 values, there is 1'
        assert_line ' hint: the same for each key: [ones(2)*3]*2'
        run kvctl -c "$command 3,4 0"
        assert_line ' hint: the same for each key: [array(0)]*2'
    done
    run kvctl -c 'init 3,4 [1, 2]'
    assert_failure 3
    assert_line --partial 'error[value]: 2 keys need 2 values, there is 1'
    run kvctl -c 'init 3,4 0; init 5,6 ones(2)*3; broadcast 7,8 ones(2); pull 4; pull 5'
    assert_output --partial '[3. 3.]'
}

@test "errors: integer and text keys in one call" {
    refused 3 \
        '<cmd>:1:6: error[key]: one call takes keys of one kind, "a" is a text key and 3 an integer' \
        'init [3,"a"] [ones(2), ones(2)]'
}

@test "errors: a text key in a store of integer keys" {
    refused 3 \
        '<cmd>:2:6: error[key]: this store holds integer keys, "a" is a text key' \
        'init 3 ones(2,3)' 'push "a" ones(2,3)'
}

@test "errors: an integer key in a store of text keys" {
    refused 3 \
        '<cmd>:2:6: error[key]: this store holds text keys, 3 is an integer key' \
        'init "a" ones(2)' 'pull 3 -> r'
}

@test "errors: a failed call does not fix the kind of the keys" {
    works 'expect-error key { pull "a" -> r }' 'init 3 ones(2)' 'pull 3 -> r' 'assert r == 1'
}

@test "errors: a text key in a pushpull on integer keys" {
    refused 3 \
        '<cmd>:2:10: error[key]: this store holds integer keys, "a" is a text key' \
        'init 3 ones(2)' 'pushpull "a" ones(2)'
}

@test "errors: an integer key in a row-sparse-pull on text keys" {
    refused 3 \
        '<cmd>:2:17: error[key]: this store holds text keys, 3 is an integer key' \
        'init "a" row_sparse(ones(2,2))' 'row-sparse-pull 3 --row-ids [0]'
}

@test "errors: init of an existing integer key" {
    refused 3 \
        '<cmd>:2:6: error[key]: key 3 is initialised already' 'init 3 ones(2)' 'init 3 ones(2)'
}

@test "errors: init of an existing text key" {
    refused 3 \
        '<cmd>:2:6: error[key]: key "a" is initialised already' 'init "a" ones(2)' \
        'init "a" ones(2)'
    refute grep "did you mean" err
}

@test "errors: broadcast of an existing key" {
    refused 3 \
        '<cmd>:2:11: error[key]: key 3 is initialised already' 'init 3 ones(2)' \
        'broadcast 3 ones(2)'
}

@test "errors: init with two values for one key" {
    refused 3 \
        '<cmd>:1:8: error[dtype]: a list of 2 stands where one array is needed' \
        'init 3 [ones(2), ones(2)]'
}

@test "errors: a key twice in one init" {
    refused 3 '<cmd>:1:6: error[key]: key 3 stands twice in the call' 'init 3,3 [ones(2)]*2'
}

@test "errors: push of an unknown text key" {
    works 'push "a" ones(2)*5' 'pull "a" -> r' 'assert r[0] == 5'
}

@test "errors: pull of an unknown text key" {
    refused 3 '<cmd>:1:6: error[key]: key "a" was never initialised' 'pull "a" -> r'
}

@test "errors: pushpull of an unknown text key with an updater" {
    refused 3 \
        '<cmd>:2:10: error[key]: key "a" was never initialised' 'set-updater { stored += input }' \
        'pushpull "a" ones(2)'
}

@test "errors: row-sparse-pull of an unknown text key" {
    refused 3 \
        '<cmd>:1:17: error[key]: key "a" was never initialised' \
        'row-sparse-pull "a" --row-ids [1]'
}

@test "errors: push of an unknown integer key" {
    works 'push 3 ones(2)*5' 'pull 3 -> r' 'assert r[0] == 5'
}

@test "errors: push of an unknown key, row_sparse" {
    works 'push 3 row_sparse(ones(2,2))' 'pull 3 -> r' 'assert dense(r) == ones(2,2)'
}

@test "errors: push of an unknown key, two values" {
    works 'push 3 [ones(2), ones(2)*2]' 'pull 3 -> r' 'assert r[0] == 3'
}

@test "errors: push of an unknown key, two values, device" {
    works 'create device' 'push 3 [ones(2), ones(2)*2]' 'pull 3 -> r' 'assert r[0] == 3'
}

@test "errors: push of an unknown key with an updater" {
    refused 3 \
        '<cmd>:2:6: error[key]: key 3 was never initialised' 'set-updater { stored += input }' \
        'push 3 ones(2)'
}

@test "errors: push of an unknown key with an optimizer" {
    refused 3 \
        '<cmd>:2:6: error[key]: key 3 was never initialised' \
        'set-optimizer sgd --learning-rate 0.1' 'push 3 ones(2)'
}

@test "errors: pushpull of an unknown key creates it" {
    works 'pushpull 3 [ones(2), ones(2)*2] -> r' 'assert r == 3'
}

@test "errors: pull of an unknown integer key" {
    refused 3 '<cmd>:1:6: error[key]: key 8 was never initialised' 'pull 8 -> r'
}

@test "errors: row-sparse-pull of an unknown integer key" {
    refused 3 \
        '<cmd>:1:17: error[key]: key 9 was never initialised' \
        'row-sparse-pull 9 --row-ids [1] -> r'
}

@test "errors: init of no keys" {
    works 'k = []' 'init $k []' 'assert len(keys()) == 0'
}

@test "errors: a key twice in one init changes nothing" {
    works \
        'expect-error key { init [1,2,1] [ones(2), ones(2), ones(2)] }' 'init 2 ones(2)' \
        'pull 2 -> r' 'assert r == 1' 'expect-error key { pull 1 -> r }'
}

@test "errors: init after a failed push" {
    works \
        'set-updater { stored += input }' 'expect-error key { push 3 ones(2) }' 'init 3 ones(2)' \
        'pull 3 -> r' 'assert r == 1'
}

@test "errors: init after a failed pull" {
    works 'expect-error key { pull 3 -> r }' 'init 3 ones(2)' 'pull 3 -> r' 'assert r == 1'
}

@test "errors: push of no keys" {
    works 'k = []' 'init 3 ones(2)' 'push $k []' 'pull 3 -> r' 'assert r == 1'
}

# ---- shapes, dtypes, storage ----

@test "errors: several dense values, then several row_sparse ones" {
    works \
        'init 3 ones(2,3)' 'push 3 [ones(2,3), ones(2,3)]' \
        'push 3 [row_sparse(ones(2,3)), row_sparse(ones(2,3))]' 'pull 3 -> r' \
        'assert dense(r) == ones(2,3)*2'
}

@test "errors: several row_sparse values, then several dense ones" {
    works \
        'init 3 ones(2,3)' 'push 3 [row_sparse(ones(2,3)), row_sparse(ones(2,3))]' \
        'push 3 [ones(2,3), ones(2,3)]' 'pull 3 -> r' 'assert dense(r) == ones(2,3)*2'
}

@test "errors: push of one value of another shape" {
    refused 3 \
        '<cmd>:2:8: error[shape]: key 3 holds (2, 3), this value has shape (3, 2)' \
        'init 3 ones(2,3)' 'push 3 ones(3,2)'
}

@test "errors: push of two values of another shape" {
    refused 3 \
        '<cmd>:2:8: error[shape]: key 3 holds (2, 3), this value has shape (3, 2)' \
        'init 3 ones(2,3)' 'push 3 [ones(3,2), ones(3,2)]'
}

@test "errors: the second value has another shape" {
    refused 3 \
        '<cmd>:2:8: error[shape]: key 3 holds (2, 3), this value has shape (3, 2)' \
        'init 3 ones(2,3)' 'push 3 [ones(2,3), ones(3,2)]'
}

@test "errors: pull into another shape" {
    refused 3 \
        '<cmd>:3:8: error[shape]: key 3 holds (2, 3), this array has shape (3, 2)' \
        'init 3 ones(2,3)' 'o = zeros(3,2)' 'pull 3 --out o'
}

@test "errors: pushpull of another shape" {
    refused 3 \
        '<cmd>:2:12: error[shape]: key 3 holds (2, 3), this value has shape (3, 2)' \
        'init 3 ones(2,3)' 'pushpull 3 ones(3,2)'
}

@test "errors: pushpull into another shape" {
    refused 3 \
        '<cmd>:3:28: error[shape]: key 3 holds (2, 3), this array has shape (3, 2)' \
        'init 3 ones(2,3)' 'o = zeros(3,2)' 'pushpull 3 ones(2,3) --out o'
}

@test "errors: broadcast into another shape" {
    refused 3 \
        '<cmd>:2:13: error[shape]: key 3 holds (2, 3), this array has shape (3, 2)' \
        'o = zeros(3,2)' 'broadcast 3 ones(2,3) --out o'
}

@test "errors: two values of another dtype" {
    works \
        'init 3 zeros(2)' 'push 3 [ones(2, dtype="float64"), ones(2, dtype="float64")*2]' \
        'pull 3 -> r' 'assert r[0] == 3'
}

@test "errors: one value of another dtype" {
    works 'init 3 zeros(2)' 'push 3 ones(2, dtype="float64")*0.5' 'pull 3 -> r' 'assert r[0] == 0.5'
}

@test "errors: values of mixed dtypes" {
    works \
        'init 3 zeros(2)' 'push 3 [ones(2), ones(2, dtype="int32")*3, ones(2, dtype="float16")]' \
        'pull 3 -> r' 'assert r[0] == 5'
}

@test "errors: pull of a float64 row_sparse key into a dense out" {
    works \
        'init 3 row_sparse(ones(2,3, dtype="float64"))' 'pull 3 -> r' \
        'assert dense(r) == ones(2,3)'
}

@test "errors: the stored value is a copy of what was pushed" {
    works 'init 3 zeros(2)' 'a = ones(2)' 'push 3 a' 'a += 8' 'pull 3 -> r' 'assert r[0] == 1'
}

@test "errors: an updater after a push of several values" {
    works \
        'init 3 ones(2)' 'push 3 [ones(2), ones(2)]' 'set-updater { stored += input * 10 }' \
        'push 3 [ones(2)*3, ones(2)*4]' 'pull 3 -> r' 'assert r[0] == 72'
}

@test "errors: pull into a row_sparse out" {
    warns \
        '<cmd>:3: warning: a row_sparse array in `o` stays as it was; `pull --ignore-sparse false` fills it, row-sparse-pull takes rows' \
        'init 3 ones(2,3)' 'o = zeros("row_sparse",(2,3))' 'pull 3 --out o' \
        'assert dense(o) == zeros(2,3)'
}

@test "errors: more values than in an earlier push" {
    works \
        'init 3 ones(2)' 'push 3 [ones(2), ones(2)]' \
        'push 3 [ones(2), ones(2), ones(2), ones(2), ones(2)]' 'pull 3 -> r' 'assert r[0] == 5'
}

# ---- rows ----

@test "errors: row-sparse-pull without row ids" {
    refused 2 \
        '<cmd>:2:1: error[usage]: row-sparse-pull needs --row-ids IDS' \
        'init 3 row_sparse(ones(5,2))' 'row-sparse-pull 3 -> r'
}

@test "errors: pull without out prints" {
    works -o $'[1. 1.]' 'init 3 ones(2)' 'pull 3'
}

@test "errors: row-sparse-pull without out prints" {
    works -o $'[[0. 0.]\n [1. 1.]]' 'init 3 row_sparse(ones(2,2))' 'row-sparse-pull 3 --row-ids [1]'
}

@test "errors: two lists of row ids for three arrays" {
    refused 3 \
        '<cmd>:3:29: error[value]: there are 2 lists of row ids for 3 arrays of 1 key' \
        'init 3 row_sparse(ones(5,2))' 'o = [zeros("row_sparse",(5,2)) for 3 cpus]' \
        'row-sparse-pull 3 --row-ids [[1],[2]] --out o'
}

@test "errors: row-sparse-pull into a dense out" {
    refused 3 \
        '<cmd>:3:17: error[value]: rows of key 3 go into a row_sparse array, this one is not' \
        'init 3 row_sparse(ones(5,2))' 'd = zeros(5,2)' 'row-sparse-pull 3 --row-ids [1] --out d'
}

@test "errors: row_sparse row ids" {
    refused 3 \
        '<cmd>:2:17: error[value]: row ids stand in a default array, not in a row_sparse one' \
        'init 3 row_sparse(ones(5,2))' 'row-sparse-pull 3 --row-ids row_sparse(ones(2,1))'
}

@test "errors: row-sparse-pull of a dense key" {
    refused 3 \
        '<cmd>:2:17: error[value]: key 3 is not row_sparse, its rows are not pulled by id' \
        'init 3 ones(5,2)' 'row-sparse-pull 3 --row-ids [1] -> r'
}

@test "errors: a row id out of range" {
    refused 3 \
        '<cmd>:2:29: error[index]: key 3 has no row 7, they go from 0 to 4' \
        'init 3 row_sparse(ones(5,2))' 'row-sparse-pull 3 --row-ids [0, 7] -> r'
}

@test "errors: a negative row id" {
    refused 3 \
        '<cmd>:2:29: error[index]: key 3 has no row -1, they go from 0 to 4' \
        'init 3 row_sparse(ones(5,2))' 'row-sparse-pull 3 --row-ids [-1] -> r'
}

@test "errors: a row id with a fraction" {
    refused 3 \
        '<cmd>:2:29: error[dtype]: a row id is a whole number, not 0.5' \
        'init 3 row_sparse(ones(5,2))' 'row-sparse-pull 3 --row-ids [0.5]'
}

# ---- compression ----

@test "errors: compression on local" {
    refused 4 \
        '<cmd>:2:1: error[unsupported]: stores of type "local" do not compress gradients' \
        'create local' 'set-gradient-compression 2bit'
}

@test "errors: compression without a type" {
    refused 2 \
        '<cmd>:2:1: error[usage]: set-gradient-compression needs 2bit|1bit|none' 'create device' \
        'set-gradient-compression'
}

@test "errors: a threshold that is not a number" {
    refused 3 \
        '<cmd>:2:43: error[dtype]: the threshold is "x", not a number' 'create device' \
        'set-gradient-compression 2bit --threshold "x"'
}

@test "errors: an unknown compression" {
    refused 3 \
        '<cmd>:2:26: error[value]: there is no gradient compression "3bit"' 'create device' \
        'set-gradient-compression 3bit'
}

@test "errors: 1bit, which MXNet has later" {
    works \
        'create device' 'set-gradient-compression 1bit' 'init 3 zeros(2)' 'push 3 ones(2)' \
        'pull 3 -> r' 'assert r == 1'
}

@test "errors: a threshold of 0" {
    refused 3 \
        '<cmd>:2:43: error[value]: the threshold of 2bit is a float32 greater than 0, not 0' \
        'create device' 'set-gradient-compression 2bit --threshold 0'
}

@test "errors: a threshold below 0" {
    refused 3 \
        '<cmd>:2:43: error[value]: the threshold of 2bit is a float32 greater than 0, not -1' \
        'create device' 'set-gradient-compression 2bit --threshold -1'
}

@test "errors: an unknown compression parameter" {
    refused 2 \
        '<cmd>:2:31: error[usage]: `set-gradient-compression` has no option --foo' 'create device' \
        'set-gradient-compression 2bit --foo 3'
}

@test "errors: compression of float16" {
    refused 3 \
        '<cmd>:3:8: error[dtype]: key 3 is float16, gradient compression takes float32 keys' \
        'create device' 'set-gradient-compression 2bit' 'init 3 ones(6, dtype="float16")' \
        'push 3 ones(6, dtype="float16")'
}

@test "errors: another threshold begins without a residual" {
    works \
        'create device' 'set-gradient-compression 2bit --threshold 2.0' 'init 3 zeros(2)' \
        'push 3 ones(2)*3' 'set-gradient-compression 2bit --threshold 0.25' 'push 3 ones(2)*0' \
        'pull 3 -> r' 'assert r[0] == 0'
}

@test "errors: compression after a push of several values" {
    works \
        'create device' 'init 3 ones(2)' 'push 3 [ones(2), ones(2)]' \
        'set-gradient-compression 2bit --threshold 0.5' 'push 3 [ones(2), ones(2)]' 'pull 3 -> r' \
        'assert r[0] == 1'
}

@test "errors: compression of row_sparse values" {
    refused 3 \
        '<cmd>:3:6: error[value]: key 3 is row_sparse, gradient compression takes default arrays' \
        'create device' 'set-gradient-compression 2bit' 'init 3 row_sparse(ones(2,2))' \
        'push 3 row_sparse(ones(2,2))'
}

# ---- updaters ----

@test "errors: an updater taken away" {
    works \
        'init 3 ones(2)' 'set-updater { stored += input }' 'set-updater assign' 'push 3 ones(2)*5' \
        'pull 3 -> r' 'assert r[0] == 5'
}

@test "errors: save-states without an optimizer" {
    refused 3 \
        '<cmd>:1:1: error[value]: no optimizer is in use, so there are no states' \
        'save-states "x.states"'
}

@test "errors: load-states of a missing file" {
    refused 5 \
        '<cmd>:1:13: error[io]: cannot read "x.states": No such file or directory' \
        'load-states "x.states"'
}

@test "errors: an unknown optimizer" {
    refused 2 '<cmd>:1:15: error[usage]: there is no optimizer `foo`' 'set-optimizer foo'
}

@test "errors: names in a hint are whole, and the others are counted" {
    kvctl -c 'for i in 0..40 { k = "model.layers." + f"{i}" + ".mlp.up_proj"; init $k 1 }; pull * > m.safetensors'
    run kvctl -c '@m.safetensors'
    assert_line --index 3 " hint: say which: @m.safetensors#model.layers.0.mlp.up_proj; it holds model.layers.0.mlp.up_proj, model.layers.1.mlp.up_proj, model.layers.2.mlp.up_proj, model.layers.3.mlp.up_proj, model.layers.4.mlp.up_proj and 36 more"
    run kvctl -c 'load("m.safetensors", name="x")'
    assert_line --partial "model.layers.6.mlp.up_proj and 34 more"
    run kvctl -c 'load("m.safetensors", name="model.layers.40.mlp.pu_proj")'
    assert_line --index 3 " hint: did you mean model.layers.40.mlp.up_proj, model.layers.0.mlp.up_proj or model.layers.4.mlp.up_proj?"
}

@test "errors: a second command on a line is told from a variable" {
    run kvctl -c 'push 3 ones(2) pull 3'
    assert_failure 3
    assert_line --index 0 '<cmd>:1:16: error[name]: there is no variable `pull`'
    assert_line --index 3 ' hint: `pull` is a command: begin it on a new line or behind `;`'
    run -2 kvctl -c 'init w ones(2); push w pull(w) * 2'
    assert_line --index 0 '<cmd>:1:24: error[usage]: there is no function `pull`'
    assert_line --index 3 ' hint: kv.pull("w") is the value of key w'
}

@test "errors: a device that is an array points at dot" {
    run kvctl -c 'gpu = ones(2,2); gpu@gpu'
    assert_failure 3
    assert_line --index 0 '<cmd>:1:22: error[dtype]: a device such as gpu(1) is needed here, not an array'
    assert_line --index 3 ' hint: dot(a, b) multiplies matrices'
}

@test "errors: a compressed file is named, with what unpacks it" {
    printf '1,2\n' >x.csv
    bzip2 -k x.csv
    xz -k x.csv
    tar -cf x.tar x.csv
    local end tool
    for end in bz2:bunzip2 xz:'xz -d' tar:'tar -xf'; do
        tool=${end#*:}
        run kvctl -c "x = @$(echo x*."${end%:*}")"
        assert_failure 5
        assert_line --index 0 --partial "error[format]: x"
        assert_line --index 0 --partial "this looks like a "
        assert_line --index 3 " hint: unpack it first: $tool FILE"
    done
}

@test "errors: a variable of an earlier -c that is called" {
    run kvctl -c 'f = 3' -c 'f(2)'
    assert_failure 2
    assert_line --index 0 '<cmd>:1:1: error[usage]: `f` is a variable here, and no function'
    assert_line --index 3 ' hint: f * (…) multiplies, f[…] takes a part; def f(x): … makes a function'
    run kvctl -c 'f = 3' -c 'g(2)'
    assert_line --index 0 '<cmd>:1:1: error[usage]: there is no function `g`'
}

@test "errors: files of PyTorch and pickles" {
    run kvctl -c 'x = @model.pt'
    assert_failure 5
    assert_line --index 0 '<cmd>:1:5: error[io]: cannot read "model.pt": No such file or directory'
    # one that is there is told for what it is, by what it holds
    printf '\x80\x02}q\x01' >model.pt
    run kvctl -c 'x = @model.pt'
    assert_failure 5
    assert_line --index 0 '<cmd>:1:5: error[format]: model.pt: this looks like a Python pickle, which would run code; it is not read'
    printf '\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >model.params
    for words in 'x = @model.params' 'ls model.params' 'convert model.params m.npz'; do
        run kvctl -c "$words"
        assert_failure 5
        assert_line --partial 'error[format]: model.params: cut within its header, array 0'
    done
    kvctl -c 'init w [1, 2]; save m.safetensors'
    mv m.safetensors model.bin
    run kvctl -c 'print @model.bin'
    assert_output '[1. 2.]'
}

@test "errors: a file of data that is something else is told by what it holds" {
    printf '1,2\n' | gzip >x.csv
    for name in x.npy x.npy.gz x.safetensors.gz; do
        [ -e "$name" ] || cp x.csv "$name"
        run kvctl -c "print @$name"
        assert_failure 5
        assert_line --index 0 "<cmd>:1:7: error[format]: $name: this looks like a file compressed with gzip, which is not read"
        assert_line " hint: zcat FILE | kvctl -c 'x = @-' reads it; gunzip FILE unpacks it"
    done
    # text is unpacked; an error names data that are cut or damaged, also behind numbers
    run kvctl -c "print @x.csv"
    assert_output '[[1. 2.]]'
    seq 100000 | gzip >z.csv.gz
    head -c -4 z.csv.gz >cut.csv.gz
    { head -c 5000 z.csv.gz; printf wrong; tail -c +5006 z.csv.gz; } >damaged.csv.gz
    printf '1,x\n' | gzip >word.csv.gz
    for name in cut damaged; do
        run kvctl -c "print @$name.csv.gz"
        assert_failure 5
        assert_line --index 0 "<cmd>:1:7: error[format]: $name.csv.gz: its compressed data are damaged, or cut"
    done
    run kvctl -c "print @word.csv.gz"
    assert_line --index 0 '<cmd>:1:7: error[format]: word.csv.gz:1:2: "x" is not a number'
    printf '1,2\n' | iconv -t UTF-16 >x.csv
    run kvctl -c 'print @x.csv'
    assert_failure 5
    assert_line --partial 'x.csv: this looks like a text in UTF-16, as PowerShell writes it, which is not read'
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >x.npy
    run kvctl -c 'print @x.npy'
    assert_failure 5
    assert_line --partial 'x.npy: this looks like a Git LFS pointer, which is not read'
    # a text that might be one keeps the place of its mistake
    printf '1,x\n' >x.csv
    run kvctl -c 'print @x.csv'
    assert_line --index 0 '<cmd>:1:7: error[format]: x.csv:1:2: "x" is not a number'
}

@test "errors: a name is suggested once" {
    run kvctl -c 'help rnak'
    assert_line --index 3 " hint: did you mean rank?"
}

# ---- programs ----

@test "errors: a program of Python that is run as a script" {
    printf 'import os\n' >a.py
    run kvctl a.py
    assert_failure 4
    assert_line --partial 'kvctl launch --python'
}

@test "a block that shall fail and ends in a NUL byte is not closed" {
    printf 'expect-error syntax { \0' >nul.kv
    run --separate-stderr timeout 10 kvctl nul.kv
    assert_equal "$status" 2
    assert_equal "${stderr_lines[0]}" \
        'nul.kv:1:21: error[syntax]: the `{` that opens here is not closed'
}

@test "a NUL byte ends a script that keeps going, and is said once" {
    printf 'print 1\nprint \0\nprint 2\n' >nul.kv
    for option in -k --check; do
        run bash -c "kvctl $option nul.kv 2>&1 >/dev/null"
        assert_failure 2
        assert_line --index 0 'nul.kv:2:7: error[syntax]: a NUL byte does not belong into a script'
        assert_equal ${#lines[@]} 3
    done
}

@test "a NUL byte is no blank where statements come one by one" {
    run bash -c "printf '\0\nexit\0\nprint 2\n' | kvctl -q -i"
    assert_failure 2
    assert_line '<repl>:1:1: error[syntax]: a NUL byte does not belong into a script'
    assert_line '<repl>:2:5: error[syntax]: a NUL byte does not belong into a script'
    assert_line 2
}

@test "the prompt says when its input cannot be read" {
    run --separate-stderr kvctl -i <.
    assert_equal "$status" 5
    assert_equal "$stderr" 'kvctl: error[io]: cannot read the standard input: Is a directory'
}

@test "undo says what undoes, as a command and in a script" {
    run -2 kvctl undo
    assert_output 'kvctl: error[usage]: there is no file "undo", and no command of that name
 hint: rollback takes back all since begin, or since -s opened its file; without both nothing is kept to go back to'
    run -3 kvctl -c undo
    assert_line --partial 'hint: rollback takes back all since begin, or since -s opened its file; without both nothing is kept to go back to'
}
