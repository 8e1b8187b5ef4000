# Codes of narrow types whose scales are tensors beside them are one value where numbers are read; where it
# is not clear which, no command takes either for numbers.

load help
# fp8 FILE CODES SCALE: l.weight in F8_E4M3, l.weight_scale, and a key that has neither.
fp8()
{
    kvctl -q -c "init l.weight,l.weight_scale,norm [array($2), array($3), ones(2)]
        save $1 --dtype l.weight=f8_e4m3"
}

# refused FILE CODES SCALES: $output is the refusal of these names.
refused()
{
    assert_output --partial "error[dtype]: $1: \"$2\" holds "
    assert_output --partial " codes"
    assert_output --partial ", which are numbers only together with $3"
    assert_output --partial "hint: --raw carries codes and scales as they are"
}

@test "FP8 with a scale: merge, convert to a float, diff with a tolerance, stat and @ see the numbers" {
    fp8 a.safetensors '[1, 2, 4, 448]' 0.5
    fp8 b.safetensors '[448, 224, 112, 1]' 2
    local applied='note: applied the scales of 1 key (weight_scale) and left 1 scale key out'
    gives "$applied" kvctl merge average a.safetensors b.safetensors --out m.safetensors
    gives "[448. 224. 113. 113.] ['l.weight', 'norm']" kvctl -c 'print @m.safetensors#l.weight, keys("m.safetensors")'
    mentions 'l.weight  BF16 ' kvctl ls m.safetensors l.weight
    kvctl -q merge average a.safetensors b.safetensors l.weight --out m.safetensors --dtype f32
    mentions 'l.weight  F32 ' kvctl ls m.safetensors
    # a model that stores its numbers plainly, and one without scales
    kvctl -q -c 'init l.weight,norm [array([0.5, 1, 2, 224]), ones(2)]; save p.safetensors --dtype bf16'
    kvctl -q -c 'init l.weight,norm [array([1, 2, 4, 448]), ones(2)]; save q.safetensors --dtype l.weight=f8_e4m3'
    kvctl -q merge '{ merged = models[0] - models[1] }' a.safetensors p.safetensors --out m.safetensors
    gives '[0. 0. 0. 0.]' kvctl -c 'print @m.safetensors#l.weight'
    kvctl -q merge '{ merged = models[0] - models[1] }' q.safetensors a.safetensors --out m.safetensors --dtype f32
    gives '[  0.5   1.    2.  224. ]' kvctl -c 'print @m.safetensors#l.weight'
    # whichever model has the scales, the result is not codes: it would need a scale of its own
    kvctl -q merge average q.safetensors a.safetensors --out m.safetensors
    mentions 'l.weight  BF16 ' kvctl ls m.safetensors l.weight
    local dtype
    for dtype in bf16 f32 l.weight=f16 '*=f64'; do
        gives "$applied" kvctl convert a.safetensors m.safetensors --dtype "$dtype"
        gives '[  0.5   1.    2.  224. ] 2' kvctl -c 'print @m.safetensors#l.weight, len(keys("m.safetensors"))'
    done
    gives "$applied" kvctl convert a.safetensors m.safetensors l.weight --dtype f32
    run -3 kvctl convert a.safetensors m2.safetensors --dtype '*_scale=bf16'
    refused a.safetensors l.weight '"l.weight_scale"'
    gives "$applied" kvctl diff a.safetensors p.safetensors --rtol 0 l.weight norm
    gives "$applied" kvctl diff p.safetensors a.safetensors --rtol 0
    run -1 kvctl diff a.safetensors p.safetensors l.weight
    run -0 --separate-stderr kvctl stat a.safetensors
    assert_equal "$stderr" "$applied"
    assert_output --partial '224.0'
    refute_output --partial l.weight_scale
    run -0 kvctl -c 'print @a.safetensors#l.weight, @a.safetensors#l.weight_scale, keys("a.safetensors")'
    assert_output "[  0.5   1.    2.  224. ] 0.5 ['l.weight', 'norm']"
    run -0 kvctl -c 'init * @a.safetensors; print keys(); x = load("a.safetensors", name="l.weight"); print x'
    assert_output "['l.weight', 'norm']
[  0.5   1.    2.  224. ]"
    # a store that is opened holds what its file holds
    kvctl -q -c 'init l.weight,l.weight_scale [ones(2, dtype="int8"), ones(1)]; save i.safetensors'
    run -3 kvctl -s i.safetensors -c 'pull l.weight'
    assert_output --partial 'i.safetensors: "l.weight" holds I8 codes, which are numbers only together with "l.weight_scale"'
    assert_output --partial 'hint: convert --dtype f32 makes a file of the numbers'
    [ ! -e m2.safetensors ]
}

@test "every form of scales, markers, and the matrix with swapped axes" {
    local file=$BATS_TEST_DIRNAME/../checkpoint/scaled.safetensors
    run -0 kvctl convert "$file" f.safetensors --dtype f32
    assert_output 'note: applied the scales of 15 keys (weight_scale) and left 19 scale keys out'
    kvctl diff "$file" f.safetensors --rtol 0 --exclude mx.weight
    gives '(2, 64, 3) 16' kvctl -c 'a = @f.safetensors#moe; print a.shape, len(keys("f.safetensors"))'
    # a rule for some of them leaves the others, and the marker, as they are
    run -0 kvctl convert "$file" g.safetensors --dtype 'packed.weight_packed=bf16'
    assert_output 'note: applied the scales of 1 key (weight_scale) and left 1 scale key out'
    mentions 'packed.weight ' kvctl ls g.safetensors
    assert_output --partial scaled_fp8
    assert_output --partial moe_scales
    kvctl -q -c "init packed.weight,x [ones(2), ones(2)]; save clash.safetensors"
    kvctl -q convert "$file" h.safetensors packed.weight_packed packed.weight_scale
    run -3 kvctl convert h.safetensors clash.safetensors i.safetensors --dtype f32
    assert_output --partial '"packed.weight" stands in h.safetensors and in clash.safetensors'
}

@test "bits and --raw go on as they are" {
    fp8 a.safetensors '[1, 2, 4, 448]' 0.01
    fp8 b.safetensors '[448, 224, 112, 1]' 1
    kvctl convert a.safetensors m.safetensors
    kvctl diff a.safetensors m.safetensors
    run -0 --separate-stderr kvctl diff a.safetensors m.safetensors
    [ -z "$stderr" ]
    run -1 --separate-stderr kvctl diff a.safetensors b.safetensors
    assert_equal "${stderr_lines[0]}" 'note: 2 of 3 keys are codes and scales, whose numbers here are each by itself: "l.weight"'
    run -1 --separate-stderr kvctl diff a.safetensors b.safetensors --raw
    assert_equal "$stderr" "kvctl: error[assert]: 2 of 3 keys differ"
    run -1 --separate-stderr kvctl diff a.safetensors b.safetensors --brief
    assert_equal "$stderr" "kvctl: error[assert]: 2 of 3 keys differ"
    kvctl hash a.safetensors >list
    kvctl hash m.safetensors --verify list
    kvctl check a.safetensors
    kvctl patch a.safetensors b.safetensors --out p
    kvctl merge average a.safetensors b.safetensors --raw --dtype f32 --out m.safetensors
    gives "[224.5 113.   58.  224.5] 0.505" kvctl -c 'print @m.safetensors#l.weight, @m.safetensors#l.weight_scale'
    kvctl convert --raw a.safetensors m.safetensors --dtype f32
    gives "[  1.   2.   4. 448.]" kvctl -c 'print @m.safetensors#l.weight'
    run -0 kvctl stat a.safetensors --raw l.weight
    mentions -1 "l.weight_scale" kvctl diff a.safetensors b.safetensors --raw --rtol 0.1
}

# pair CODES DTYPE SCALES...: a file of codes in a dtype and of these scales, of three numbers each, is
# refused, naming them.
pair()
{
    local i scales='' type=$2 list="$1"
    case $2 in U8) type=uint8 ;; I8) type=int8 ;; I32) type=int32 ;; *) type=float32 ;; esac
    for i in "${@:3}"; do
        list+=",$i"
        scales+=", ones(3)"
    done
    kvctl -q -c "init $list [ones((2, 32), dtype=\"$type\")$scales]; save w.safetensors --dtype '$1=$2'"
    mentions -3 "\"$1\" holds $2 codes" kvctl convert w.safetensors m.safetensors --dtype bf16
    for i in "${@:3}"; do
        assert_output --partial "\"$i\""
    done
    assert_output --partial ", in a way that is not read"
    run -3 kvctl merge average w.safetensors w.safetensors --out m.safetensors
    run -3 kvctl merge average w.safetensors w.safetensors "$3" --out m.safetensors
    run -3 kvctl stat w.safetensors
    run -3 kvctl diff w.safetensors w.safetensors --atol 1
    run -3 kvctl -c "print @w.safetensors#$1"
    [ ! -e m.safetensors ]
}

@test "the names of every scheme, and scales of other shapes" {
    local t
    for t in F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F4 F6_E2M3 F6_E3M2 I8; do
        pair l.weight $t l.weight_scale
        pair l.weight $t l.weight_scale_inv
        pair l.weight $t l.scale_weight
        pair l.weight $t l.weight_scale l.weight_zero_point
        pair l.weight $t l.weight_scale l.scale_weight
        pair experts.up $t experts.up_scale
        pair experts.up $t experts.up_scale_inv
    done
    pair e.gate_blocks U8 e.gate_scales
    pair l.weight_packed U8 l.weight_scale l.weight_global_scale
    pair l.weight U8 l.weight_scale l.weight_scale_2
    pair l.weight_packed I32 l.weight_scale l.weight_shape
    pair l.qweight I32 l.scales l.qzeros
    assert_output --partial "codes of AWQ,"
    pair l.qweight I32 l.scales l.qzeros l.g_idx
    assert_output --partial "codes of GPTQ,"
    pair l.weight U8 l.weight.absmax l.weight.quant_map
    assert_output --partial "codes of bitsandbytes,"
    pair l.weight I8 l.SCB
    pair l_weight_qdata I8 l_weight_scale
    assert_output --partial "codes of torchao,"
}

@test "scales stand in another shard, or in another input; their size is that of the configuration" {
    mkdir m
    kvctl -q -c 'init l.weight full((3, 4), 2); save m/one.safetensors --dtype f8_e4m3'
    kvctl -q -c 'init l.weight_scale_inv array([[1, 2], [3, 4]]); save m/two.safetensors'
    run -3 kvctl convert m/ out.safetensors --dtype bf16
    refused m/ l.weight '"l.weight_scale_inv"'
    echo '{"quantization_config": {"weight_block_size": [2, 3], "a": 1},
 "dtype": "float8", "text_config": {"x": 1, "quantization_config": {}}, "b": [{"quantization_config": 1}]}' >m/config.json
    kvctl -q convert m/ out.safetensors --dtype bf16
    run -0 kvctl -c 'print @out.safetensors#l.weight'
    assert_output '[[2. 2. 2. 4.]
 [2. 2. 2. 4.]
 [6. 6. 6. 8.]]'
    kvctl -q convert m/one.safetensors m/two.safetensors out2.safetensors --dtype bf16
    kvctl diff out.safetensors out2.safetensors
    kvctl convert m/one.safetensors out.safetensors --dtype bf16 # codes without scales are numbers
    # the configuration of the output says what it holds
    kvctl -q convert m/ f/ --dtype bf16
    run -0 cat f/config.json
    assert_output '{
 "dtype": "bfloat16", "text_config": {"x": 1}, "b": [{"quantization_config": 1}]}'
    kvctl -q convert m/ g/
    cmp m/config.json g/config.json
    kvctl -q merge average m/ m/ --out h/
    cmp f/config.json h/config.json
    echo '{"quantization_config": {"weight_block_size": [2, 3]}}' >m/config.json
    kvctl -q convert m/ k/ --dtype 'l.*=f16'
    assert_equal "$(cat k/config.json)" '{}'
}

# header TEXT DATA: x.safetensors of this header and data.
header()
{
    printf "$(printf '\\x%02x' $((${#1} & 255)) $((${#1} >> 8)))"'\0\0\0\0\0\0%s%b' "$1" "$2" >x.safetensors
}

@test "hostile sizes: no elements of huge axes, a name that is taken, nan and inf as scales" {
    local huge='"shape":[0,562949953421312,562949953421312],"data_offsets":[0,0]'
    header '{"w":{"dtype":"F8_E4M3",'$huge'},"w_scale":{"dtype":"F32",'$huge'}}' ''
    mentions '{"key":"w","elements":0,' kvctl --json stat x.safetensors
    header '{"e_blocks":{"dtype":"U8","shape":[0,562949953421312,16],"data_offsets":[0,0]},"e_scales":{"dtype":"U8","shape":[0,562949953421312],"data_offsets":[0,0]}}' ''
    mentions '{"key":"e","elements":0,' kvctl --json stat x.safetensors
    header '{"p.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},"p.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]},"p.weight":{"dtype":"U8","shape":[1],"data_offsets":[17,18]}}' '0123456789abcdef\177x'
    mentions -3 'x.safetensors: there are codes of "p.weight" and a tensor of that name' kvctl stat x.safetensors
    run -0 kvctl stat x.safetensors --raw
    header '{"w":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},"w_scale":{"dtype":"F16","shape":[2,1],"data_offsets":[4,8]}}' '\001\002\001\000\000\0176\000\0174'
    run -0 kvctl -c 'print @x.safetensors#w'
    assert_output '[[nan nan]
 [inf nan]]'
}

@test "what is named like a scale and is none is a key like others" {
    kvctl -q -c 'init l.weight,l.weight_scale,logit,logit_scale,k,k_scale,mask,mask_scale [ones(2), ones(2),
        ones(2), ones(2), ones(2), ones(2), ones(2, dtype="uint8"), ones(2)]
        save w.safetensors --dtype logit=f8_e4m3 --dtype k=f8_e4m3'
    kvctl convert w.safetensors m.safetensors --dtype bf16
    kvctl stat w.safetensors
    kvctl merge average w.safetensors w.safetensors --out m.safetensors
    kvctl -c 'print @w.safetensors#k, @w.safetensors#mask'
}

@test "a shard whose scale stands in another one: a line says that codes are read as numbers" {
    local note='note: 1 key is of F8 without a scale in this file, read as numbers: b.weight'
    local applied='note: applied the scales of 1 key (weight_scale) and left 1 scale key out'
    kvctl -q -c 'init a.weight,b.weight,a.weight_scale [ones(2), ones(2), array(2)]; save s.safetensors --dtype *.weight=f8_e4m3'
    run -0 --separate-stderr kvctl stat s.safetensors
    assert_equal "$stderr" "$applied"$'\n'"$note"
    gives "$applied"$'\n'"$note" kvctl convert s.safetensors o.safetensors --dtype bf16
    gives "$applied"$'\n'"$note" kvctl merge average s.safetensors s.safetensors --out o.safetensors
    gives "$applied"$'\n'"$note" kvctl diff s.safetensors s.safetensors --rtol 0
    # as values too, of an expression, of a key and of many; beside others of the file that are not read
    local command
    for command in 'print @s.safetensors#b.weight' 'init b.weight @s.safetensors' 'init *.weight @s.safetensors' \
        'print load("s.safetensors", name="b.weight")' 'init b.weight ones(2); push b.weight @s.safetensors'; do
        run -0 --separate-stderr kvctl -c "$command"
        assert_equal "$stderr" "$note"
    done
    run -0 --separate-stderr kvctl stat s.safetensors b.weight
    assert_equal "$stderr" "$note"
    run -0 --separate-stderr kvctl -c 'print @s.safetensors#a.weight'
    assert_equal "$stderr" ''
    # where none is seen, config.json says that there are some
    kvctl -q convert s.safetensors b.safetensors b.weight
    run -0 --separate-stderr kvctl stat b.safetensors
    assert_equal "$stderr" ''
    echo '{"quantization_config":{"quant_method":"fp8"}}' >config.json
    run -0 --separate-stderr kvctl stat b.safetensors
    assert_equal "$stderr" "$note"
    for words in 'stat b.safetensors --raw' 'convert b.safetensors o.safetensors' \
        'convert b.safetensors o.safetensors --dtype f32 --raw'; do
        run -0 --separate-stderr kvctl $words
        assert_equal "$stderr" ''
    done
}

@test "merge: config.json has the dtype of the first model, whichever of them has codes" {
    kvctl -q -c 'init l.weight,l.weight_scale [array([1, 2, 4, 448]), array(2)]; save f8/ --dtype l.weight=f8_e4m3'
    kvctl -q -c 'init l.weight array([1, 2, 4, 448]); save f16/ --dtype f16'
    echo '{"dtype":"float16"}' >f16/config.json
    echo '{"dtype":"float8_e4m3fn","quantization_config":{"quant_method":"fp8"}}' >f8/config.json
    kvctl -q merge average f16 f8 --out m/
    assert_equal "$(cat m/config.json)" '{"dtype":"float16"}'
    kvctl -q merge average f8 f16 --out n/
    assert_equal "$(cat n/config.json)" '{"dtype":"bfloat16"}'
}

@test "a scale beside a weight of BF16, or without a weight, is a key like others, and a line says so" {
    local note='without a weight of codes, and stay' file
    kvctl -q -c 'init l.weight,l.weight_scale [array([1, 2], dtype="bfloat16"), array(4)]; save a.safetensors'
    kvctl -q -c 'init l.bias,l.weight_scale_inv [array([1, 2]), array(4)]; save n.safetensors'
    for file in a n; do
        run -0 --separate-stderr kvctl stat $file.safetensors
        assert_regex "$stderr" "^note: 1 key is a scale $note""s as it is: l.weight_scale"
        assert_line --regexp 'l.weight_scale(_inv)?  1  *4.0'
        run -0 --separate-stderr kvctl convert $file.safetensors b.safetensors --dtype f32
        assert_regex "$stderr" "$note"
        run -0 --separate-stderr kvctl merge average $file.safetensors $file.safetensors --out m.safetensors
        assert_regex "$stderr" "$note"
        run -0 --separate-stderr kvctl diff $file.safetensors b.safetensors --rtol 0.1
        assert_regex "$stderr" "$note"
    done
    gives '[1. 2.]' kvctl -c 'print @b.safetensors#l.bias'
}
