# Merges beside what mergekit's own functions gave for the same models: tests/checkpoint/make_merges.py,
# which made both, says how close they must be and why. And the random rules beside the binomial
# distribution, which needs no recorded numbers.

load help
models=$BATS_TEST_DIRNAME/../checkpoint/merge

# as_recorded NAME: runs the line of cases.txt, the output is NAME.out.safetensors.
as_recorded()
{
    local name rtol atol words
    read -r name rtol atol words < <(grep "^$1 " "$models/cases.txt")
    kvctl merge $words --out "$name.out.safetensors"
    kvctl diff "$name.out.safetensors" "$models/$name.safetensors" --rtol "$rtol" --atol "$atol"
}

@test "every merge is as mergekit's function gave it, but for float32 rounding" {
    local name count=0
    cp "$models"/{base,m?}{,-bf16}.safetensors .
    while read -r name _; do
        as_recorded "$name"
        count=$((count + 1))
    done <"$models/cases.txt"
    [ $count -ge 13 ]
}

@test "the recorded merges tell rules, densities and weights apart" {
    local rtol atol
    cp "$models"/{base,m?}.safetensors .
    read -r _ rtol atol _ < <(grep '^ties ' "$models/cases.txt")
    kvctl merge ties m?.safetensors --base base.safetensors --density 0.31 --out out.safetensors
    run -1 kvctl diff out.safetensors "$models/ties.safetensors" --rtol "$rtol" --atol "$atol"
    kvctl merge linear m?.safetensors --weights 120,40,300,8 --out out.safetensors
    run -1 kvctl diff out.safetensors "$models/linear.safetensors" --rtol "$rtol" --atol "$atol"
}

@test "types, order, shapes and metadata are those of the base or the first model" {
    cp "$models"/{base,m?}-bf16.safetensors .
    kvctl ls base-bf16.safetensors >expected
    kvctl merge ties m?-bf16.safetensors --base base-bf16.safetensors --out out.safetensors
    gives "$(cat expected)" kvctl ls out.safetensors
    kvctl merge average m?-bf16.safetensors --out out.safetensors
    gives "$(cat expected)" kvctl ls out.safetensors
    grep -q '"format":"pt"' out.safetensors
    run -0 kvctl diff base-bf16.safetensors out.safetensors steps # integers are carried
}

@test "a NaN or an infinity of one model is seen in the merge, whatever signs were elected" {
    local rule bad
    kvctl -q -c 'init w zeros(6); save base.safetensors'
    kvctl -q -c 'init w array([1, 2, 3, 4, 5, 6]); save a.safetensors'
    for bad in nan inf; do
        kvctl -q -c "init w array([1, -2, 3, $bad, 5, 6]); save b.safetensors"
        for rule in average task_arithmetic ties 'ties --density 1' 'dare_ties --density 1' median; do
            kvctl merge $rule a.safetensors b.safetensors $([[ $rule == [am]* ]] || echo --base base.safetensors) \
                --out out.safetensors
            mentions -1 "w: 1 of 6 elements is " kvctl check out.safetensors
        done
    done
}

# within NAME VALUE MEAN SIGMA: VALUE is at most 6 SIGMA from MEAN, which chance exceeds twice in 10^9.
within()
{
    awk -v x="$2" -v m="$3" -v s="$4" 'BEGIN { exit !(x - m <= 6 * s && m - x <= 6 * s) }' ||
        fail "$1 is $2, expected $3 with a standard deviation of $4"
}

# column NAME FILE: a column of stat's only row.
column()
{
    kvctl --json stat "$2" w | sed -E 's/.*"'"$1"'":([^,}]*).*/\1/'
}

@test "dare: elements are kept with the density as probability, and divided by it" {
    local n=200000 seed kept one
    kvctl -q -c "init w zeros($n); save base.safetensors"
    kvctl -q -c "init w ones($n); save m.safetensors"
    one=$(kvctl -q -c 'print float(array([1], dtype="float32") / 0.3)')
    for seed in 0 1 2 3 4 5 6 7; do
        kvctl merge dare_linear m.safetensors --base base.safetensors --density 0.3 --seed $seed \
            --out out.safetensors
        kept=$((n - $(column zeros out.safetensors)))
        within "seed $seed: kept" $kept 60000 "$(awk 'BEGIN { print sqrt(200000 * 0.3 * 0.7) }')"
        assert_equal "$(column max out.safetensors)" "$one"
        kvctl hash out.safetensors w >>hashes
    done
    assert_equal "$(sort hashes | uniq -d)" "" # no two seeds have a mask in common
}

@test "dare: masks of models and of keys have nothing to do with each other" {
    local n=200000 both
    kvctl -q -c "init w,v [zeros($n), zeros($n)]; save base.safetensors"
    kvctl -q -c "init w,v [ones($n), ones($n)]; save m.safetensors"
    kvctl merge dare_linear m.safetensors m.safetensors --base base.safetensors --density 0.5 --seed 1 \
        --out out.safetensors
    # Each element is 0, 2 or 4, of which 4 has the probability 1/4 if the two models' masks are independent.
    both=$(kvctl -q -c 'print int(sum(@out.safetensors#w == 4))')
    within "kept of both models" "$both" 50000 194
    kvctl merge dare_linear m.safetensors --base base.safetensors --density 0.5 --seed 1 --out one.safetensors
    both=$(kvctl -q -c 'print int(sum((@one.safetensors#w == 2) * (@one.safetensors#v == 2)))')
    within "kept in both keys" "$both" 50000 194
    # Neighbours: an element and the next one.
    both=$(kvctl -q -c 'x = @one.safetensors#w == 2; print int(sum(x[1:] * x[:-1]))')
    within "kept beside one that is kept" "$both" 50000 250 # pairs overlap: var n(p^2 + 2p^3 - 3p^4)
}

@test "della: large differences are kept more often, by their rank in the row" {
    local n=200000 low high
    kvctl -q -c "init w zeros($n); save base.safetensors"
    kvctl -q -c "init w arange(1, $n + 1); save m.safetensors"
    kvctl merge della m.safetensors --base base.safetensors --density 0.5 --epsilon 0.2 --seed 3 \
        --out out.safetensors
    # The probability goes from 0.3 to 0.7: 0.4 on average below, 0.6 above; p (1 - p) is 0.2367 there.
    low=$(kvctl -q -c 'print int(sum((@out.safetensors#w)[:100000] != 0))')
    high=$(kvctl -q -c 'print int(sum((@out.safetensors#w)[100000:] != 0))')
    within "kept of the smaller half" "$low" 40000 153.9
    within "kept of the larger half" "$high" 60000 153.9
}
