# The examples for merges and patches: soup.sh, federated.sh, fold-lora.sh, nightly.sh.

load ../cli/help
soup() { sh "$top/examples/soup.sh" "$@"; }
federated() { sh "$top/examples/federated.sh" "$@"; }
nightly() { sh "$top/examples/nightly.sh" "$@"; }

# model FILE VALUE: a checkpoint with two keys.
model()
{
    kvctl -q -c "init w,b [full((2,3), $2), full(4, $2, dtype=\"float64\")]; save $1"
}

@test "soup: begins with the best, and takes what does not make it worse" {
    model low.safetensors 1
    model high.safetensors 3
    model far.safetensors 100
    # The best weights are 2: a mean of low and high, which far would spoil.
    fake score 'kvctl -q -c "print 0 - abs(mean(load(args[0], name=\"w\")) - 2)" "$1"'
    run -0 soup out.safetensors score far.safetensors low.safetensors high.safetensors
    assert_output --regexp "^with low.safetensors: -1(\.0)?
with high.safetensors: -?0(\.0)?
without far.safetensors: -32\.66[0-9]+$"
    model two.safetensors 2
    run -0 kvctl diff two.safetensors out.safetensors
    [ -z "$(find . -name '.soup-*')" ]
}

@test "soup: a score that fails or is not a number is an error, and nothing is written" {
    model low.safetensors 1
    fake score 'exit 7'
    gives -7 "soup: score low.safetensors failed with exit status 7" soup out.safetensors score low.safetensors
    fake score 'echo good'
    gives -3 'soup: score low.safetensors printed "good", not one number' soup out.safetensors score low.safetensors
    gives -2 "usage: sh soup.sh OUT SCORE CHECKPOINT CHECKPOINT..." soup out.safetensors score
    [ ! -e out.safetensors ]
    [ -z "$(find . -name '.soup-*')" ]
}

@test "federated: the last client counts, also without an end of its line" {
    model a.safetensors 1
    model b.safetensors 3
    printf '1 a.safetensors\n1 b.safetensors' | federated mean.safetensors
    model two.safetensors 2
    run -0 kvctl diff two.safetensors mean.safetensors
}

@test "federated: clients count as much as their examples" {
    model a.safetensors 1
    model b.safetensors 4
    model c.safetensors 9
    kvctl convert c.safetensors c/
    run -0 federated out.safetensors <<'END'
# count and model
120 a.safetensors
40 b.safetensors

300 c/
0 gone.safetensors
END
    assert_output ""
    run -0 kvctl -q -c 'x = @out.safetensors#b; print x[0] * 460'
    assert_output "2980.0" # 120 + 160 + 2700
}

@test "federated: a client with NaN is refused, also beside findings that do no harm" {
    model a.safetensors 0
    kvctl -q -c 'init w,b [full((2,3), nan), full(4, 1, dtype="float64")]; save b.safetensors'
    run -1 federated out.safetensors <<<$'1 a.safetensors\n1 b.safetensors'
    assert_line "federated: b.safetensors is not averaged"
    assert_line --partial "w: 6 of 6 elements are NaN"
    [ ! -e out.safetensors ]
    run -0 federated out.safetensors <<<'5 a.safetensors' # all of its keys are zero
    run -2 federated out.safetensors <<<'many a.safetensors'
    assert_output 'federated: "many" is not a count of examples'
    run -2 federated out.safetensors <<<'0 a.safetensors'
    assert_output 'federated: no client was trained on anything'
    run -5 federated out.safetensors <<<'1 gone.safetensors'
    model other.safetensors 1
    kvctl convert other.safetensors less.safetensors w
    run -3 federated out.safetensors <<<$'1 a.safetensors\n1 less.safetensors'
}

@test "lora: the example folds an adapter in, with the scale of its configuration" {
    run -0 sh "$top/examples/fold-lora.sh"
    assert_output "[[ 3.  5.  7.]
 [-1. -3. -5.]]"
}

@test "nightly: copies of every night come up to the newest one, and are checked" {
    mkdir old
    local night
    for night in 0 1 2 3; do
        kvctl -q -c "x = uniform(shape=5000, seed=1); x[$night] = $night
            init w x; init night full(1, $night, dtype=\"int64\"); save model.safetensors"
        says "night $night" nightly publish folder model.safetensors
        cp model.safetensors old/$night.safetensors
    done
    # A patch holds little of a model of 20 KB.
    [ "$(wc -c <folder/3.patch)" -lt 5000 ]
    for night in 0 1 2 3; do
        cp old/$night.safetensors copy.safetensors
        says "night $night to 3" nightly update folder copy.safetensors
        run -0 kvctl hash copy.safetensors --verify folder/3.hash
        cmp copy.safetensors old/3.safetensors
    done
    [ -z "$(find . -name '.nightly-*')" ]
}

@test "nightly: a copy of no night, and a patch that is damaged, change nothing" {
    local night
    for night in 0 1 2; do
        model model.safetensors $night
        nightly publish folder model.safetensors
    done
    model copy.safetensors 7
    cp copy.safetensors before
    gives -1 "nightly: copy.safetensors is of no night of folder" nightly update folder copy.safetensors
    cmp copy.safetensors before
    kvctl convert folder/0.safetensors copy.safetensors
    cp copy.safetensors before
    printf 'x' | dd of=folder/2.patch bs=1 seek=$(($(wc -c <folder/2.patch) - 3)) conv=notrunc 2>dd
    mentions -5 folder/2.patch nightly update folder copy.safetensors
    cmp copy.safetensors before
    gives -2 "usage: sh nightly.sh publish|update FOLDER CHECKPOINT" nightly forget folder copy.safetensors
}
