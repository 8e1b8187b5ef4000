# Numbers that the dtype of an output cannot hold: counted, warned of, refused with --strict.

load help
# The file of most tests.
model()
{
    kvctl -q -c 'init w,lm_head,norm,ids [array([1, 70000, -1e30, inf, nan, 1e-30]), array([[1, 2], [3, 65520]]),
        ones(2), array([16777216, 16777217, -16777219, 5], dtype="int64")]; save m.safetensors'
}

# loses TEXT COMMAND...: it succeeds, with this warning, and with --strict it is refused.
loses()
{
    run -0 --separate-stderr kvctl "${@:2}"
    assert_equal "$stderr" "<cmd>:1: warning: $1"
    mentions -3 "error[value]: " kvctl "${@:2}" --strict
    assert_output --partial "hint: without --strict it is written, with a warning"
}

@test "convert: inf, nan, the largest, and whole numbers that are rounded" {
    model
    loses '3 elements of 2 keys became inf (w, lm_head)' convert m.safetensors o.safetensors --dtype f16
    rm o.safetensors
    run -3 kvctl convert m.safetensors o.safetensors --dtype f16 --strict
    assert_output --partial 'm.safetensors: "w" is 70000 at [1], which F16 cannot hold'
    [ ! -e o.safetensors ]
    loses '3 elements of 2 keys became nan (w, lm_head)' convert m.safetensors o.safetensors --dtype f8_e4m3
    loses '3 elements of 2 keys became inf (w, lm_head)' convert m.safetensors o.safetensors --dtype f8_e5m2
    loses '1 element of 1 key became the largest that F4 holds (lm_head)' \
        convert m.safetensors o.safetensors --dtype lm_head=f4
    loses '1 element of 1 key became nan (w)' convert m.safetensors o.safetensors --dtype w=f8_e8m0
    loses '2 whole numbers of 1 key were rounded (ids)' convert m.safetensors o.safetensors --dtype ids=f32
    loses '3 elements of 1 key became inf (ids), 1 element of 1 key became nan (w)' \
        convert m.safetensors o.safetensors --dtype ids=f16 --dtype w=f8_e8m0
}

@test "what is no loss is not counted" {
    model
    local dtype
    for dtype in f32 f64 bf16 ids=f64 ids=i32 norm=f4; do
        run -0 --separate-stderr kvctl convert m.safetensors o.safetensors --dtype $dtype --strict
        [ -z "$stderr" ]
    done
    kvctl -q -c 'init x array([65519, 448, 464, -7.74, 29.9, 6.9, inf, -inf]); save x.safetensors'
    run -0 --separate-stderr kvctl convert x.safetensors o.safetensors --dtype f16 --strict
    [ -z "$stderr" ]
    kvctl -q -c 'init y [448, 464, -464, 0]; init z [7.74, -7.74, 0, 0]; init v [29.9, 0, 0, 0]; init u [6.99, 0]; save y.safetensors'
    run -0 --separate-stderr kvctl convert y.safetensors o.safetensors --dtype y=f8_e4m3 --dtype z=f6_e2m3 \
        --dtype v=f6_e3m2 --dtype u=f4 --strict
    [ -z "$stderr" ]
    kvctl -q -c 'init y [464.1]; init z [7.75, 0, 0, 0]; init v [30, 0, 0, 0]; init u [7, 0, 0, 0]; save y.safetensors'
    run -0 --separate-stderr kvctl convert y.safetensors o.safetensors --dtype y=f8_e4m3 --dtype z=f6_e2m3 \
        --dtype v=f6_e2m3 --dtype u=f6_e2m3
    assert_equal "$stderr" "<cmd>:1: warning: 1 element of 1 key became nan (y), 2 elements of 2 keys became the largest that F6_E2M3 holds (z, v)"
}

@test "merge and save count as convert does" {
    model
    loses '3 elements of 2 keys became inf (w, lm_head)' \
        merge average m.safetensors m.safetensors --out o.safetensors --dtype f16
    kvctl -q -c 'init w array([40000, 1], dtype="float16"); save a.safetensors'
    kvctl -q -c 'init w array([0, 0], dtype="float16"); save base.safetensors'
    loses '1 element of 1 key became inf (w)' \
        merge task_arithmetic a.safetensors a.safetensors --base base.safetensors --out o.safetensors
    run -0 --separate-stderr kvctl -q -c 'init w,n [array([1e5, 2]), array([16777217], dtype="int64")]; save o.safetensors --dtype f16 --dtype n=f32'
    assert_equal "$stderr" '<cmd>:1: warning: 1 element of 1 key became inf (w), 1 whole number of 1 key was rounded (n)'
    run -3 kvctl -q -c 'init w [1, 1e5]; save new.safetensors --dtype f16 --strict'
    assert_output --partial '"w" is 100000 at [1], which F16 cannot hold'
    [ ! -e new.safetensors ]
    kvctl -q -c 'init w [1, 1]; save old.safetensors'
    run -0 --separate-stderr kvctl -q -c 'init w [1, 1e5]; save p --patch-from old.safetensors --dtype f16'
    assert_equal "$stderr" '<cmd>:1: warning: 1 element of 1 key became inf (w)'
}

@test "fractions that an integer type drops are counted, in convert, merge and save" {
    # 0.4 and 0.01 would become 0, 1.5 and 2.5 both 2; infinities and whole numbers lose nothing.
    kvctl -q -c 'init a,b,c [array([0.4, 1.5, 2.5, 3, -0.0]), array([0.01, -7]), array([127, -128])]; save m.safetensors'
    loses '4 elements of 2 keys lost their fractions in I8 (a, b)' \
        convert m.safetensors o.safetensors --dtype i8
    gives '[0 2 2 3 0] [ 0 -7] [ 127 -128]' kvctl -q -c 'print @o.safetensors#a, @o.safetensors#b, @o.safetensors#c'
    loses '1 element of 1 key lost its fraction in I64 (b)' convert m.safetensors o.safetensors b --dtype b=i64
    loses '4 elements of 2 keys lost their fractions in I32 (a, b)' \
        merge average m.safetensors m.safetensors --out o.safetensors --dtype i32
    run -0 --separate-stderr kvctl -q -c 'init w array([2.25, 4], dtype="float64"); save o.safetensors --dtype i16'
    assert_equal "$stderr" '<cmd>:1: warning: 1 element of 1 key lost its fraction in I16 (w)'
    run -3 kvctl convert m.safetensors new.safetensors --dtype i8 --strict
    assert_output --partial '"a" is 0.4000000059604645 at [0], which I8 cannot hold'
    [ ! -e new.safetensors ]
    # From integers to integers nothing has a fraction.
    run -0 --separate-stderr kvctl convert o.safetensors p.safetensors --dtype '*=i64'
    assert_equal "$stderr" ''
}

@test "--json has the counts, and at most five keys are named" {
    model
    run -0 --separate-stderr kvctl --json convert m.safetensors o.safetensors --dtype f16 --dtype ids=f32
    assert_output --partial '"about":{"lost":{"inf":3,"nan":0,"saturated":0,"rounded":2,"fraction":0,"keys":["w","lm_head","ids"]}}'
    run -0 --separate-stderr kvctl --json convert m.safetensors o.safetensors
    refute_output --partial lost
    kvctl -q -c 'for i in 1..17 { init f"k{i}" [1e9] }; save m.safetensors'
    run -0 --separate-stderr kvctl convert m.safetensors o.safetensors --dtype f16
    assert_output ''
    assert_equal "$stderr" "<cmd>:1: warning: 17 elements of 17 keys became inf (k1, k2, k3, k4, k5 and 12 more)"
}

@test "counts and the first refusal are the same for any number of threads" {
    kvctl -q -c 'x = ones(1000000); x[77777::1000] = 1e9; init a,b [x, x]; save m.safetensors'
    local n
    for n in 1 2 7; do
        run -0 --separate-stderr env KVSTORE_THREADS=$n kvctl convert m.safetensors o.safetensors --dtype f16
        assert_equal "$stderr" "<cmd>:1: warning: 1846 elements of 2 keys became inf (a, b)"
        run -3 env KVSTORE_THREADS=$n kvctl convert m.safetensors o2.safetensors --dtype f16 --strict
        assert_output --partial '"a" is 1000000000 at [77777]'
    done
}

@test "load: dtype= of a file with a dtype of its own refuses what the dtype cannot hold" {
    kvctl -q -c 'init f,i [array([1, 300.7, -5, 1e300, inf, nan], dtype="float64"), array([16777217, 2**33 + 1], dtype="int64")]
        pull f > f.npy; pull i > i.npy; save m.npz; save m.safetensors'
    local at
    refused() # ARGUMENTS NAME NUMBER
    {
        begins -3 "<cmd>:1:5: error[value]: $2: element $3" kvctl -c "x = load($1)"
    }
    for at in '"f.npy"' '"m.npz", name="f"' '"m.safetensors", name="f"'; do
        refused "$at, dtype=\"float32\"" "$(eval echo ${at%%,*})" '3 is 1e+300, which does not fit float32'
        refused "$at, dtype=\"uint8\"" "$(eval echo ${at%%,*})" '1 is 300.7, which does not fit uint8'
        gives '[ True  True  True  True  True  True]' kvctl -c "print load($at, dtype=\"bool\")"
    done
    for at in '"i.npy"' '"m.npz", name="i"' '"m.safetensors", name="i"'; do
        refused "$at, dtype=\"int32\"" "$(eval echo ${at%%,*})" '1 is 8589934593, which does not fit int32'
        refused "$at, dtype=\"float16\"" "$(eval echo ${at%%,*})" '0 is 16777217, which does not fit float16'
        gives '[1.6777216e+07 8.5899346e+09]' kvctl -c "print load($at, dtype=\"float32\")"
    done
    assert_equal "$(kvctl -c 'x = load("i.npy", dtype="int32")' 2>&1 | tail -1)" \
        ' hint: without dtype=, astype("int32") converts all of them'
    run -3 kvctl -c 'x = load("-", format="npy", dtype="int32")' <i.npy
    assert_line --index 0 '<cmd>:1:5: error[value]: stdin: element 1 is 8589934593, which does not fit int32'
    # a block further on, where numbers that are only rounded come first
    run -3 kvctl -c 'x = full((3000), 2049, dtype="int64"); x[2500] = 70000; print x > big.npy; y = load("big.npy", dtype="float16")'
    assert_line --index 0 --partial 'error[value]: big.npy: element 2500 is 70000, which does not fit float16'
}

@test "a --dtype for floats says so where no key has them" {
    kvctl -q -c 'init n,b [array([1, 300], dtype="int64"), array([1, 0], dtype="bool")]; save m.safetensors'
    local command
    for command in 'convert m.safetensors o.safetensors' 'merge average m.safetensors --out o.safetensors'; do
        run -0 --separate-stderr kvctl $command --dtype i8
        assert_equal "$stderr" "note: no key has floats, so --dtype I8 changes none: GLOB=I8 is for others"
    done
    run -0 --separate-stderr kvctl convert m.safetensors o.safetensors --dtype b=u8
    assert_equal "$stderr" ''
    run -0 --separate-stderr kvctl -c 'init n array([1], dtype="int64"); save o.safetensors --dtype f16'
    assert_equal "$stderr" "note: no key has floats, so --dtype F16 changes none: GLOB=F16 is for others"
    kvctl -q -c 'init n,w [array([1], dtype="int64"), ones(2)]; save m.safetensors'
    run -0 --separate-stderr kvctl convert m.safetensors o.safetensors --dtype f16
    assert_equal "$stderr" ''
}
