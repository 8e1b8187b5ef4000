# convert: files that are large, that change meanwhile, that cannot be written; what is left behind.

load help
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
    sparse m.safetensors 250000000
    run bash -c "ulimit -v 600000; KVSTORE_THREADS=2 kvctl convert m.safetensors o/ --shard-size 1G --dtype f8_e4m3"
    [ "$status" = 0 ]
    [ "$(stat -c %s o/model.safetensors)" = 250004096 ]
}

@test "no room, no permission: an error, and everything is as it was" {
    kvctl -c 'init w zeros(3000); save m.safetensors'
    cp m.safetensors before
    run -5 bash -c "ulimit -f 4; kvctl convert m.safetensors m.safetensors --dtype f64"
    [[ $output == *'cannot write "m.safetensors": File too large'* ]]
    run -5 bash -c "ulimit -f 4; kvctl convert m.safetensors out/ --dtype f64"
    [[ $output == *'cannot write "out/model.safetensors": File too large'* ]]
    mentions -5 'cannot write "m.npz": File too large' bash -c "ulimit -f 4; kvctl convert m.safetensors m.npz"
    cmp m.safetensors before
    [ "$(ls -A)" = $'before\nm.safetensors' ]
    if [ "$(id -u)" != 0 ]; then
        mkdir -m 555 closed
        mentions -5 'cannot write "closed/x.kvs": Permission denied' kvctl convert m.safetensors closed/x.kvs
        mentions -5 'cannot write "closed/x/": Permission denied' kvctl convert m.safetensors closed/x/
        chmod 444 m.safetensors
        mentions -5 'cannot write "m.safetensors": Permission denied' kvctl convert m.safetensors m.safetensors
    fi
}

@test "a rename that leaves further matches of a name says how many, and how to replace all" {
    kvctl -c 'init m.0.w,m.1.w,m.n [ones(1)]*3; save m.safetensors'
    run -0 --separate-stderr kvctl convert m.safetensors n.safetensors --rename 's/\./_/' --rename s/^/x/
    [ "$stderr" = 'note: `s/\./_/` replaced only the first match in 2 of 3 names; with g behind it, it replaces all' ]
    for each in 's/\./_/g' 's/m/mm/' 's/^/a.b./' 's/\.w$/.weight/'; do
        gives '' kvctl convert m.safetensors n.safetensors --rename "$each"
    done
    run -1 kvctl diff m.safetensors m.safetensors --rename 's/\.|m/_/' --brief
    assert_line 'note: `s/\.|m/_/` replaced only the first match in 3 of 3 names; with g behind it, it replaces all'
}

@test "--dry-run lists the names and dtypes that change" {
    kvctl -c 'init m.0.w,m.1.w,head [ones(1)]*3; save m.safetensors'
    run -0 --separate-stderr kvctl --dry-run convert m.safetensors n.safetensors --exclude head \
        --rename 's/^m\.(?P<n>\d+)/layer\g<n>/' --rename 's/w/\g<0>eight/'
    assert_output $'key    becomes\nm.0.w  layer0.weight\nm.1.w  layer1.weight'
    run --separate-stderr kvctl --dry-run convert m.safetensors n.safetensors --rename 's/head/tail/'
    assert_output $'key   becomes\nhead  tail'
    [[ $stderr == *'note: 2 of 3 keys keep name and dtype' ]]
    run --separate-stderr kvctl --dry-run convert m.safetensors n.safetensors --dtype 'm.*=bf16'
    assert_output $'key    from  to\nm.0.w  F32   BF16\nm.1.w  F32   BF16'
    run kvctl --dry-run --json convert m.safetensors n.safetensors --dtype head=f16 --rename s/m.0/x/
    assert_output --partial '"entries":[{"key":"m.0.w","becomes":"x.w","from":"F32","to":"F32"},{"key":"head","becomes":"head","from":"F32","to":"F16"}]'
    [ ! -e n.safetensors ]
    run -3 kvctl convert m.safetensors n.safetensors --rename 's/^((\w|\d|\.)+)+!/x/'
    assert_output --partial 'error[key]: `s/^((\w|\d|\.)+)+!/x/` matches no name'
    kvctl -c "init $(printf 'w%.0s' {1..60}).x 1; save long.safetensors"
    run -3 kvctl convert long.safetensors n.safetensors --rename 's/^((w|ww)+)+$/x/'
    assert_output --partial 'error[value]: the regular expression needs more than a million steps on this text'
}

@test "--safe and --dry-run write nothing" {
    kvctl -c 'init w zeros(3); save m.safetensors'
    mentions -4 'error[unsupported]: --safe forbids writing "o.kvs"' kvctl --safe convert m.safetensors o.kvs
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

# model FOLDER: a model with what tools put beside its weights.
model()
{
    mkdir "$1" "$1/runs"
    kvctl -c "init w,b [ones(2,2), zeros(2)]; save $1/model.safetensors"
    printf '%s' '{"torch_dtype": "float32", "x": [1.50, Infinity, {"dtype":"auto"}], "dtype": null,
 "quantization_config": {"torch_dtype": "float32"}, "é": {"torch_dtype" : "float16"}}' >"$1/config.json"
    printf '{}' >"$1/tokenizer.json"
    for name in tokenizer.model vocab.txt LICENSE README.md modeling.py chat.jinja .hidden.json \
        optimizer.pt scheduler.pt trainer_state.json training_args.bin pytorch_model.bin odd.json.gz; do
        printf '%s' "$name" >"$1/$name"
    done
    ln -s README.md "$1/NOTICE.txt"
    ln -s nowhere "$1/gone.json"
}

@test "a folder keeps configuration and tokenizer, and one line says so" {
    model hf
    run -0 --separate-stderr kvctl convert hf half/
    [ "$stderr" = 'note: copied 9 files of hf/ (config.json, tokenizer.json, …), not gone.json, odd.json.gz, optimizer.pt, pytorch_model.bin, runs/ and 3 more' ]
    [ "$(LC_ALL=C ls -A half | tr '\n' ' ')" = 'LICENSE NOTICE.txt README.md chat.jinja config.json model.safetensors modeling.py tokenizer.json tokenizer.model vocab.txt ' ]
    cmp hf/config.json half/config.json
    [ -f half/NOTICE.txt ] && [ ! -L half/NOTICE.txt ]
    [ "$(cat half/NOTICE.txt)" = README.md ]
    run --separate-stderr kvctl --json convert hf/ half/ --force
    [[ $output == *'"about":{"copied":["config.json","tokenizer.json","LICENSE","NOTICE.txt","README.md","chat.jinja","modeling.py","tokenizer.model","vocab.txt"],"not_copied":["gone.json","odd.json.gz","optimizer.pt","pytorch_model.bin","runs/","scheduler.pt","trainer_state.json","training_args.bin"]}'* ]]
    run --separate-stderr kvctl convert hf bare/ --weights-only
    [ -z "$stderr$output" ]
    [ "$(ls -A bare)" = model.safetensors ]
    # the folder itself, written anew
    rmdir hf/runs
    kvctl convert hf/ hf/ --dtype f16 --force
    [ "$(cat hf/tokenizer.json)" = '{}' ]
    [ ! -e hf/optimizer.pt ]
    # files are no folders
    run --separate-stderr kvctl convert half/model.safetensors one/
    [ -z "$stderr" ]
    run --separate-stderr kvctl convert half one.safetensors
    [ -z "$stderr" ]
}

@test "config.json says the new dtype, where a plain --dtype gave it" {
    model hf
    kvctl convert hf a/ --dtype bf16
    [ "$(cat a/config.json)" = '{"torch_dtype": "bfloat16", "x": [1.50, Infinity, {"dtype":"bfloat16"}], "dtype": null,
 "quantization_config": {"torch_dtype": "float32"}, "é": {"torch_dtype" : "bfloat16"}}' ]
    kvctl convert hf b/ --dtype f8_e4m3 --dtype w=f32
    grep -q '"torch_dtype": "float8_e4m3fn", "x"' b/config.json
    kvctl convert hf c/ --dtype w=bf16
    cmp hf/config.json c/config.json
    kvctl convert hf d/ --dtype i32
    cmp hf/config.json d/config.json
    printf '["float32"' >hf/config.json
    run -0 --separate-stderr kvctl convert hf e/ --dtype f16
    [[ $stderr == *'warning: hf/config.json is not a JSON object: copied as it is'* ]]
    cmp hf/config.json e/config.json
}

@test "merge and apply copy the files of the base, of the first folder, of what is patched" {
    model hf
    kvctl convert hf other/ --weights-only
    kvctl convert hf third/
    echo third >third/README.md
    run --separate-stderr kvctl merge average other third hf --out m/ --dtype f16
    [ -z "$stderr" ]
    [ "$(ls m)" = model.safetensors ]
    run --separate-stderr kvctl merge average other/model.safetensors third --out n/ --dtype f16
    [[ $stderr == 'note: copied 9 files of third/ ('* ]]
    [ "$(cat n/README.md)" = third ]
    grep -q '"torch_dtype": "float16", ' n/config.json
    kvctl merge task_arithmetic third other --base hf --out t/
    [ "$(cat t/README.md)" = README.md ]
    kvctl -c 'init w,b [ones(2,2), ones(2)]; save b.safetensors'
    kvctl patch hf b.safetensors --out p
    run --separate-stderr kvctl apply p hf --out q/
    [[ $stderr == 'note: copied 9 files of hf/ ('* ]]
    cmp hf/config.json q/config.json
    kvctl apply p hf --out r/ --weights-only
    [ "$(ls r)" = model.safetensors ]
}

@test "a file beside the weights that cannot be copied: nothing is written" {
    model hf
    head -c 9000 /dev/zero >hf/tokenizer.model
    mentions -5 'cannot write "o/tokenizer.model": File too large' bash -c "ulimit -f 4; kvctl convert hf o/"
    [ "$(ls -A)" = hf ]
}

@test "save, convert and merge say what they wrote to who typed them, scripts only with -v" {
    command -v tmux >/dev/null || skip "no tmux"
    load screen
    kvctl -c 'init w,b [ones(2,2), zeros(2)]; save m.safetensors'
    gives "wrote c.safetensors: 1 key" kvctl -v convert m.safetensors c.safetensors w
    run -0 kvctl merge average m.safetensors m.safetensors --out a.safetensors
    [ -z "$output" ]
    echo 'convert m.safetensors s.safetensors; print "done"' >s.kv
    terminal_with 60 20 sh -c "'kvctl s.kv; kvctl merge average m.safetensors m.safetensors --out a.safetensors; cat'"
    row 'wrote a.safetensors: 2 keys'
    on_screen 'done'
    run -1 on_screen 's.safetensors:'
}
