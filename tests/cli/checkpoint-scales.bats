# Codes of narrow types whose scales are tensors beside them: no command takes either for numbers.

load help
bats_require_minimum_version 1.5.0

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

@test "FP8 with a scale: merge, convert to a float, diff with a tolerance, stat and @ refuse" {
    fp8 a.safetensors '[1, 2, 4, 448]' 0.01
    fp8 b.safetensors '[448, 224, 112, 1]' 1
    local rule
    for rule in average task_arithmetic ties ema slerp; do
        run -3 kvctl merge $rule a.safetensors b.safetensors --base a.safetensors --out m.safetensors
        refused a.safetensors l.weight '"l.weight_scale"'
    done
    run -3 kvctl merge average a.safetensors b.safetensors 'l.weight' --out m.safetensors
    refused a.safetensors l.weight '"l.weight_scale"'
    run -3 kvctl merge average a.safetensors b.safetensors '*scale' --out m.safetensors
    refused a.safetensors l.weight '"l.weight_scale"'
    local dtype
    for dtype in bf16 f32 f8_e5m2 l.weight=f16 '*_scale=bf16' '*=f64'; do
        run -3 kvctl convert a.safetensors m.safetensors --dtype "$dtype"
        refused a.safetensors l.weight '"l.weight_scale"'
    done
    run -3 kvctl diff a.safetensors b.safetensors --rtol 0.1
    refused a.safetensors l.weight '"l.weight_scale"'
    run -3 kvctl stat a.safetensors l.weight
    refused a.safetensors l.weight '"l.weight_scale"'
    run -3 kvctl -c 'print @a.safetensors#l.weight'
    assert_output --partial 'error[dtype]: a.safetensors: "l.weight" holds F8_E4M3 codes, which are numbers only'
    assert_output --partial 'hint: convert --raw makes a file of the codes as numbers: --raw --dtype f32'
    run -3 kvctl -c 'init * @a.safetensors'
    run -3 kvctl -c 'x = load("a.safetensors", name="l.weight")'
    kvctl -q -c 'init l.weight,l.weight_scale [ones(2, dtype="int8"), ones(1)]; save i.safetensors'
    run -3 kvctl -s i.safetensors -c 'pull l.weight'
    assert_output --partial 'i.safetensors: "l.weight" holds I8 codes, which are numbers only'
    [ ! -e m.safetensors ]
    # what has nothing to do with it is as ever
    kvctl merge average a.safetensors b.safetensors norm --out m.safetensors
    kvctl merge average a.safetensors b.safetensors --exclude 'l.*' --out m.safetensors
    kvctl convert a.safetensors m.safetensors --dtype norm=f16
    kvctl stat a.safetensors norm
    kvctl -c 'print @a.safetensors#l.weight_scale, @a.safetensors#norm'
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
    run -0 kvctl -c 'print @m.safetensors#l.weight, @m.safetensors#l.weight_scale'
    assert_output "[224.5 113.   58.  224.5] 0.505"
    kvctl convert --raw a.safetensors m.safetensors --dtype f32
    run -0 kvctl -c 'print @m.safetensors#l.weight'
    assert_output "[  1.   2.   4. 448.]"
    run -0 kvctl stat a.safetensors --raw l.weight
    run -1 kvctl diff a.safetensors b.safetensors --raw --rtol 0.1
    assert_output --partial "l.weight_scale"
}

# pair CODES DTYPE SCALES...: a file of codes in a dtype and of these scales is refused, naming them.
pair()
{
    local i scales='' type=$2 list="$1"
    case $2 in U8) type=uint8 ;; I8) type=int8 ;; I32) type=int32 ;; *) type=float32 ;; esac
    for i in "${@:3}"; do
        list+=",$i"
        scales+=", ones(1)"
    done
    kvctl -q -c "init $list [ones((2, 32), dtype=\"$type\")$scales]; save w.safetensors --dtype '$1=$2'"
    run -3 kvctl convert w.safetensors m.safetensors --dtype bf16
    assert_output --partial "\"$1\" holds $2 codes"
    for i in "${@:3}"; do
        assert_output --partial "\"$i\""
    done
    run -3 kvctl merge average w.safetensors w.safetensors --out m.safetensors
    run -3 kvctl merge average w.safetensors w.safetensors "$3" --out m.safetensors
    run -3 kvctl stat w.safetensors
    run -3 kvctl diff w.safetensors w.safetensors --atol 1
    [ ! -e m.safetensors ]
}

@test "the names of every scheme" {
    local t
    for t in F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F4 F6_E2M3 F6_E3M2 I8; do
        pair l.weight $t l.weight_scale
        pair l.weight $t l.weight_scale_inv
        pair l.weight $t l.scale_weight
        pair l.weight $t l.weight_scale l.weight_zero_point
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

@test "scales stand in another shard, or in another input" {
    mkdir m
    kvctl -q -c 'init l.weight ones(4); save m/one.safetensors --dtype f8_e4m3'
    kvctl -q -c 'init l.weight_scale_inv ones(1); save m/two.safetensors'
    run -3 kvctl convert m/ out.safetensors --dtype bf16
    refused m/ l.weight '"l.weight_scale_inv"'
    run -3 kvctl convert m/one.safetensors m/two.safetensors out.safetensors --dtype bf16
    refused m/one.safetensors l.weight '"l.weight_scale_inv"'
    kvctl convert m/one.safetensors out.safetensors --dtype bf16 # codes without scales are numbers
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
