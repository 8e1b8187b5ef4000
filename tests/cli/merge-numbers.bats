# merge: numbers that are few, very large or very small, and what a dtype cannot hold.

load help
bats_require_minimum_version 1.5.0

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
    run -0 kvctl -c 'print max(abs(@a.safetensors#w * 2 - @out.safetensors#w)) < 1e-10'
    assert_output True
    hold 'array(1)' 'array(2)' 'array(0)'
    assert_equal "$(merged model_stock)" 1
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
            run -0 kvctl -c "print max(abs(@out.safetensors#w / sqrt(0.5) / @a.safetensors#w[0] - 1)) < 1e-4"
            assert_output True
        done
    done
}
