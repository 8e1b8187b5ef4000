# merge: numbers that are few, very large or very small, and what a dtype cannot hold.

load help
# merged RULE WORD...: w of the merge of a and b over base, as one line.
merged()
{
    kvctl merge "$1" a.safetensors b.safetensors --base base.safetensors --out out.safetensors "${@:2}"
    kvctl --format json -c '@out.safetensors#w' | sed 's/.*"data":\(.*\)}/\1/'
}

# hold BASE A B: files whose only key w is each of these values.
hold()
{
    local i names=(base a b)
    for i in 0 1 2; do
        kvctl -q -c "init w $1; save ${names[i]}.safetensors" && shift
    done
}

@test "a key of one or of few elements is merged, however small the density" {
    hold 'array(1)' 'array(3)' 'array(5)'
    assert_equal "$(merged ties)" 4
    assert_equal "$(merged ties --density 0.9)" 4
    assert_equal "$(merged ties --density 0)" 1
    assert_equal "$(merged breadcrumbs)" 7
    assert_equal "$(merged breadcrumbs --density 0.01)" 7
    assert_equal "$(merged breadcrumbs --density 0)" 1
    local rule seed
    for seed in 1 2 3 4 5 6 7 8; do
        assert_equal "$(merged dare_linear --density 0.1 --seed $seed)" 7
        assert_equal "$(merged dare_ties --density 0.1 --seed $seed)" 7
        assert_equal "$(merged della --density 0.2 --seed $seed)" 4
    done
    assert_equal "$(merged model_stock)" 4
    hold 'zeros(3)' 'array([1, 4, 2])' 'array([1, 2, 8])'
    assert_equal "$(merged ties)" "[0,4,8]"
    assert_equal "$(merged breadcrumbs --density 0.3)" "[0,4,8]"
    assert_equal "$(merged ties --density 0.7)" "[0,3,5]" # floor(0.7 * 3) is 2, as before
}

@test "model_stock: changes that are small count as large ones do, and opposite ones are the base" {
    hold 'zeros(2)' 'array([1e-5, 2e-5])' 'array([3e-5, 6e-5])'
    merged model_stock
    gives True kvctl -c 'print max(abs(@a.safetensors#w * 2 - @out.safetensors#w)) < 1e-10'
    hold 'array(1)' 'array(2)' 'array(0)'
    assert_equal "$(merged model_stock)" 1
}

# Of 12 changes one is 0, six are (s, 0), five (0, s): of 66 cosines 15 + 10 are 1.
@test "model_stock: of 12 models and more the angles follow from the sum of units" {
    local dtype s i
    for dtype in float32 float64; do
        for s in 1 1e-25 1e-40 3e37 1e-300 1e300; do
            [[ $dtype == float32 && $s == *300 ]] && continue
            hold "zeros(2, dtype=\"$dtype\")" "array([$s, 0], dtype=\"$dtype\")" "array([0, $s], dtype=\"$dtype\")"
            kvctl merge model_stock base.safetensors {a,a,a,b,b,b}.safetensors {a,a,a,b,b}.safetensors \
                --base base.safetensors --out out.safetensors
            gives True kvctl -c "c = 25.0 / 66; want = array([6, 5], dtype=\"float64\") * c / (1 + 11 * c)
                print max(abs(@out.safetensors#w / $s / want - 1)) < 1e-4"
        done
    done
    kvctl merge model_stock base.safetensors {a,a,a,b,b,b}.safetensors {a,a,a,b,b,b,a,a,a,a,a}.safetensors \
        {a,a,a,b,b,b,a,a,a,a,a}.safetensors {a,a,a,b,b,b,a,a,a,a,a}.safetensors {a,a,a,b,b,b,a,a,a,a,a}.safetensors \
        --base base.safetensors --out out.safetensors
}

# Half way from (s, 0) to (0, s) is s * sqrt(1/2) in each.
@test "slerp and model_stock neither overflow nor underflow" {
    local dtype s
    for dtype in float32 float64; do
        for s in 1 1e-25 1e-8 1e-40 1e25 3e38 1e-300 1e300; do
            [[ $dtype == float32 && $s == *300 ]] && continue
            hold "zeros(2, dtype=\"$dtype\")" "array([$s, 0], dtype=\"$dtype\")" "array([0, $s], dtype=\"$dtype\")"
            merged model_stock
            kvctl merge slerp a.safetensors b.safetensors --out out.safetensors
            gives True kvctl -c "print max(abs(@out.safetensors#w / sqrt(0.5) / @a.safetensors#w[0] - 1)) < 1e-4"
        done
    done
}

@test "a key that leaves float32 on the way is merged in float64" {
    hold 'array([3.4e38, -3e38, 2, 1])' 'array([-3.4e38, 3e38, 1, -inf])' 'array([-3.4e38, 2e38, 3, 1])'
    local rule out
    for rule in average median ties 'ties --density 1' 'task_arithmetic --normalize true' 'slerp'; do
        for out in out.safetensors out.npz out/; do
            rm -rf out out.*
            run -0 --separate-stderr kvctl merge $rule a.safetensors b.safetensors --base base.safetensors --out $out
            case $rule in
            slerp) # its angle is one of inf
                assert_equal "$stderr" '<cmd>:1: warning: 3 elements of 1 key became nan (w)'
                continue ;;
            ties) want='[-3.4e+38,-3e+38,2,"-inf"]' ;;
            'ties --density 1') want='[-3.4e+38,2.5e+38,3,"-inf"]' ;;
            *) want='[-3.4e+38,2.5e+38,2,"-inf"]' ;;
            esac
            [ -z "$stderr" ]
            gives "$want" kvctl --format json -c "@$out#w"
        done
    done
    hold 'zeros(8, dtype="float32")' 'full(8, 3.4e38)' 'full(8, 3.4e38)'
    merged average --dtype f4 # the largest that F4 holds, and no nan
    mentions '8 elements of 1 key became inf (w)' kvctl merge average a.safetensors b.safetensors --out out/ --force --dtype w=bf16
    run -0 kvctl check a.safetensors
}

@test "what float64 does not help is counted, and refused by --strict" {
    hold 'zeros(3)' 'array([3e38, -3e38, inf])' 'array([3e38, -3e38, 1])'
    run -0 --separate-stderr kvctl merge task_arithmetic a.safetensors b.safetensors --base base.safetensors --out out.npz
    assert_equal "$stderr" '<cmd>:1: warning: 2 elements of 1 key became inf (w)'
    run -3 kvctl merge task_arithmetic a.safetensors b.safetensors --base base.safetensors --out out2.npz --strict
    assert_output --partial 'which F32 cannot hold'
    [ ! -e out2.npz ]
    hold 'zeros(2)' 'array([1.7e308, 1], dtype="float64")' 'array([1.7e308, -1e300], dtype="float64")'
    run -0 --separate-stderr kvctl --json merge average a.safetensors b.safetensors --out out.npz
    assert_output --partial '"lost":{"inf":1,"nan":0,"saturated":0,"rounded":0,"fraction":0,"keys":["w"]}'
    run -3 kvctl merge average a.safetensors b.safetensors --out out.npz --strict
    assert_output --partial '"w" becomes inf at [0], which F64 cannot hold'
    run -0 --separate-stderr kvctl merge average a.safetensors b.safetensors --out out.npz --dtype f32
    assert_equal "$stderr" '<cmd>:1: warning: 2 elements of 1 key became inf (w)'
    run -0 --separate-stderr kvctl merge slerp base.safetensors base.safetensors --out out.npz
    [ -z "$stderr" ] # of nothing but zeros
}

@test "adapters: a product that leaves float32 comes back, and inf in them is no loss" {
    mkdir -p l
    kvctl -q -c 'init k.weight array([[-3e38, 1], [1, 2]]); save base.safetensors
        init base_model.model.k.lora_A.weight,base_model.model.k.lora_B.weight [array([[1e20, 0]]), array([[6e18], [0]])]
        delete k.weight; save l/adapter_model.safetensors'
    echo '{"peft_type": "LORA", "r": 1, "lora_alpha": 1}' >l/adapter_config.json
    run -0 --separate-stderr kvctl merge lora l/adapter_model.safetensors --base base.safetensors --out out.safetensors
    [ -z "$stderr" ]
    gives '[[2.9999998e+38,1],[1,2]]' kvctl --format json -c '@out.safetensors#k.weight'
    kvctl -q -c 'init base_model.model.k.lora_A.weight,base_model.model.k.lora_B.weight [array([[inf, 0]]), array([[1], [1]])]
        save l/adapter_model.safetensors'
    run -0 --separate-stderr kvctl merge lora l/adapter_model.safetensors --base base.safetensors --out out.safetensors
    [ -z "$stderr" ]
}

@test "keys that overflow come out the same for any number of threads, in shards too" {
    kvctl -q -c 'for i in 0..40 { x = uniform(100000, seed=i); if i % 7 == 0 { x[77777] = 3.4e38 }
        init f"k{i}" x; init f"h{i}" x.astype("bfloat16") }; save a.safetensors'
    local n
    for n in 1 2 5; do
        run -0 --separate-stderr env KVSTORE_THREADS=$n kvctl merge average a.safetensors a.safetensors \
            --out $n/ --shard-size 1M --exclude 'h*'
        [ -z "$stderr" ]
        run -0 --separate-stderr env KVSTORE_THREADS=$n kvctl merge average a.safetensors a.safetensors --out h$n.safetensors
        assert_equal "$stderr" ''
        run -0 kvctl check $n/
    done
    diff -r 1 2
    diff -r 1 5
    cmp h1.safetensors h2.safetensors
    cmp h1.safetensors h5.safetensors
}
