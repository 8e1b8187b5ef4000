# stat and diff on files that are large, or that change meanwhile.

load help
# sparse FILE ELEMENTS: a safetensors file with one key w of F32, all of it a hole.
sparse()
{
    local header='{"w":{"dtype":"F32","shape":['$2'],"data_offsets":[0,'$(($2 * 4))']}}'
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" >"$1"
    truncate -s $((8 + ${#header} + $2 * 4)) "$1"
}

@test "a file that is cut while stat reads it is an error" {
    sparse m.safetensors 2000000000
    kvctl stat m.safetensors >out 2>err &
    local pid=$! status=0
    sleep 0.2
    truncate -s 4096 m.safetensors
    wait $pid || status=$?
    cat out err
    [ $status = 5 ]
    [ ! -s out ]
    grep -q 'error\[io\]: m.safetensors: the file became shorter while it was read' err
}

@test "quantised keys have the numbers of their blocks, and those that are not decoded none" {
    local file=$BATS_TEST_DIRNAME/../checkpoint/types.gguf
    run --separate-stderr kvctl --json stat "$file" t.BF16 t.IQ2_XS t.Q4_0 four
    [ $status = 0 ]
    [[ $output == *'{"key":"t.IQ2_XS","elements":1536,"min":null,"max":null,"mean":null,"std":null,"absmax":null,"zeros":null,"nan":null,"inf":null}'* ]]
    [[ $output == *'{"key":"t.Q4_0","elements":192,"min":-'* ]]
    [[ $output == *'{"key":"four","elements":120,"min":0,"max":119,"mean":59.5,'* ]]
    [ "$stderr" = 'note: 1 of 4 keys have no numbers to look at, such as "t.IQ2_XS" (IQ2_XS)' ]
    mentions -3 'error[dtype]: "t.IQ2_XXS" has no numbers to look at: its type is IQ2_XXS' kvctl stat "$file" 't.IQ[123]*'
    mentions -3 'error[dtype]: "t.Q4_0" has no numbers to look at: its type is Q4_0' kvctl stat "$file" t.Q4_0 --raw
}

@test "quantised keys are compared by bits, and with a tolerance by numbers" {
    local file=$BATS_TEST_DIRNAME/../checkpoint/types.gguf
    cp "$file" a.gguf
    local at
    at=$(kvctl --json ls a.gguf t.Q8_0 --long | sed 's/.*"offset":\([0-9]*\).*/\1/')
    # The last byte of the fourth of its six blocks of 34 bytes, which has elements 96 to 127.
    printf '\x55' | dd of=a.gguf bs=1 seek=$((at + 4 * 34 - 1)) conv=notrunc status=none
    run kvctl diff "$file" "$file" --atol 1 'four' 't.*F*' 't.Q4*'
    [ $status = 0 ]
    [ -z "$output" ]
    run --separate-stderr kvctl --json diff "$file" a.gguf
    [ $status = 1 ]
    [[ $output == *'"entries":[{"key":"t.Q8_0","state":"differs","equal":0.8333333333333334,"max_abs":null,"where":[1,32],"ulps":null,"nonfinite":null,"rms":null,"rel":null,"cosine":null}]'* ]]
    run --separate-stderr kvctl --json diff "$file" a.gguf --rtol 0 t.Q8_0
    [ $status = 1 ]
    [[ $output == *'"entries":[{"key":"t.Q8_0","state":"differs","equal":0.9947916666666666,"max_abs":'*'"where":[1,63],'* ]]
    # the codes are compared with --raw
    mentions -1 '"equal":0.8333333333333334' kvctl --json diff "$file" a.gguf --rtol 1 --raw
}

@test "quantised keys become F32 wherever numbers are written, and what is not decoded is refused by name" {
    local file=$BATS_TEST_DIRNAME/../checkpoint/types.gguf
    run -0 kvctl convert "$file" v.safetensors --exclude 't.IQ[123]*' --exclude t.Q8_K --exclude t.Q1_0
    assert_output 'note: decoded 16 quantised keys as F32'
    mentions 't.Q6_K  F32    (3, 512)  6144' kvctl ls v.safetensors t.Q6_K
    kvctl diff "$file" v.safetensors --rtol 0 't.Q[456]_[01]' t.TQ2_0 t.NVFP4
    gives 'note: decoded 2 quantised keys as BF16' kvctl convert "$file" w.safetensors 't.Q[45]_K' --dtype bf16
    kvctl merge average "$file" v.safetensors t.Q6_K --out m.safetensors
    kvctl diff m.safetensors v.safetensors t.Q6_K
    gives True kvctl -c "a = load(\"$file\", name=\"t.Q4_0\"); b = load(\"v.safetensors\", name=\"t.Q4_0\"); print all(a == b)"
    run -0 kvctl -q -c "init t.Q4_0 @$file; save s.safetensors"
    kvctl diff s.safetensors v.safetensors t.Q4_0
    # bits stay bits
    [ "$(kvctl hash "$file" t.Q4_0)" != "$(kvctl hash v.safetensors t.Q4_0)" ]
    mentions -3 '"t.Q8_K" is quantised, Q8_K, which only GGUF files hold' kvctl convert "$file" x.safetensors
    mentions -3 t.IQ1_S kvctl merge average "$file" "$file" t.IQ1_S --out x.safetensors
    mentions -3 '"t.Q4_0" is quantised, Q4_0, which only GGUF files hold' kvctl convert "$file" x.safetensors t.Q4_0 --raw
    mentions -2 'Q4_0 is a quantised type, and kvctl writes none' kvctl convert "$file" x.safetensors four --dtype q4_0
    [ ! -e x.safetensors ]
}

@test "one checkpoint in several containers does not differ" {
    kvctl -c 'create local --name t; init a.w,b.w,c [arange(6).reshape(2,3), ones(4), zeros(2)]
        save w.safetensors; save w.npz; save only.npz c'
    mkdir m
    kvctl -c 'create local --name t; init a.w arange(6).reshape(2,3); save m/one.safetensors'
    kvctl -c 'create local --name t; init b.w,c [ones(4), zeros(2)]; save m/two.safetensors'
    run kvctl diff w.safetensors m/
    [ "$status $output" = "0 " ]
    run kvctl diff m/ w.npz
    [ "$status $output" = "0 " ]
    run kvctl diff - w.npz <w.safetensors
    [ "$status $output" = "0 " ]
    run -1 kvctl diff m/ only.npz --brief
    [ "${lines[0]} ${lines[1]}" = "a.w b.w" ]
    [[ $output == *"error[assert]: 2 of 3 keys differ" ]]
    run -1 kvctl diff m/ w.npz --rename 's/^(.)\.w$/\1/' a b
    [[ $output == *"2 of 2 keys differ" ]]
    kvctl -c 'create local --name t; init x.a,x.b [arange(6).reshape(2,3), ones(4)]; save x.safetensors'
    run kvctl diff m/ x.safetensors --rename 's/^(.)\.w$/x.\1/' --exclude c
    [ "$status $output" = "0 " ]
    run kvctl diff m/ x.safetensors --rename 's/\.w$//' --rename 's/^(.)$/x.\1/' --exclude '*c'
    [ "$status $output" = "0 " ]
}

@test "stat and diff give the same bytes for any number of threads" {
    kvctl -c 'seed = 3; create local --name t
        init a,b [normal((700, 1000)), normal((300, 1000)) + 5]; save a.safetensors
        create local --name u; init a,b [normal((700, 1000)), normal((300, 1000))]; save b.safetensors'
    local threads
    for threads in 1 2 3 8; do
        KVSTORE_THREADS=$threads kvctl stat a.safetensors >"stat.$threads"
        KVSTORE_THREADS=$threads kvctl diff a.safetensors b.safetensors >"diff.$threads" || [ $? = 1 ]
        cmp stat.1 "stat.$threads"
        cmp diff.1 "diff.$threads"
    done
    [ "$(wc -l <stat.1)" = 3 ]
    [ "$(wc -l <diff.1)" = 3 ]
}
