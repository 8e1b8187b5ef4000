# The examples for checkpoints, average-checkpoints.sh and ci-gate.sh: what they give, and each way in
# which they refuse.

load ../cli/help

average() { sh "$top/examples/average-checkpoints.sh" "$@"; }
gate() { sh "$top/examples/ci-gate.sh" "$@"; }

# of_torch FILE BYTES: a checkpoint as PyTorch's tools write it, with one bfloat16 number as `w`.
of_torch()
{
    local header='{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s$2" "$header" >"$1"
}

# Three checkpoints of one model.
checkpoints()
{
    kvctl -q -s a.safetensors -c 'init w,b [ones(2,3), ones(3,dtype="float64")]; init steps full(1, 7, dtype="int64")'
    kvctl -q -s b.safetensors -c 'init w,b [ones(2,3)*2, ones(3,dtype="float64")/3]; init steps full(1, 7, dtype="int64")'
    kvctl -q -s c.safetensors -c 'init w,b [ones(2,3)*6, ones(3,dtype="float64")/7]; init steps full(1, 7, dtype="int64")'
}

@test "average: means of float32 and float64, integers that are alike stay" {
    checkpoints
    run average out.safetensors [abc].safetensors
    assert_success
    assert_output ""
    run kvctl --format json -s out.safetensors -c 'pull w; pull b; pull steps'
    assert_output '[[3,3,3],[3,3,3]]
{"dtype":"float64","shape":[3],"data":[0.49206349206349204,0.49206349206349204,0.49206349206349204]}
{"dtype":"int64","shape":[1],"data":[7]}'
    [ -z "$(find . -name '.average-*')" ]
}

@test "average: bfloat16 is added up in float32 and rounded once; the metadata stay" {
    of_torch a.safetensors '\xaa\x42' # 85
    of_torch b.safetensors '\xb0\x42' # 88
    cp b.safetensors c.safetensors
    run average out.safetensors [abc].safetensors
    assert_success
    run kvctl -s out.safetensors -c 'print "%g" % load("out.safetensors", name="w")[0], dtype(load("out.safetensors", name="w"))'
    assert_output "87 bfloat16" # the sum, 261, is no bfloat16; rounded first it would give 86.5
    grep -q '"format":"pt"' out.safetensors
}

@test "average: the output may be one of the inputs, and keeps no optimizer" {
    checkpoints
    kvctl -q -s a.safetensors -c 'set-optimizer sgd --momentum 0.9; push w zeros(2,3)'
    run average a.safetensors a.safetensors b.safetensors
    assert_success
    run kvctl -s a.safetensors -c 'pull w; push w ones(2,3)*5; pull w'
    assert_output "[[1.5 1.5 1.5]
 [1.5 1.5 1.5]]
[[5. 5. 5.]
 [5. 5. 5.]]"
}

@test "average: what is wrong is said with file and tensor, and the output stays as it was" {
    checkpoints
    echo before >out.safetensors
    run average out.safetensors a.safetensors
    assert_failure 2
    assert_output "usage: sh average-checkpoints.sh OUT CHECKPOINT CHECKPOINT..."

    run average out.safetensors a.safetensors gone.safetensors
    assert_failure 5
    assert_output "average-checkpoints: cannot read gone.safetensors"

    kvctl -q -s less.safetensors -c 'init w ones(2,3)'
    run average out.safetensors a.safetensors less.safetensors
    assert_failure 3
    assert_output --partial '"less.safetensors" holds no array `'
    run average out.safetensors less.safetensors a.safetensors
    assert_failure 3
    assert_output --regexp 'average-checkpoints: a.safetensors holds (b|steps), which less.safetensors does not'

    kvctl -q -s flat.safetensors -c 'init w ones(3)'
    kvctl -q -s wide.safetensors -c 'init w ones(2,3)'
    run average out.safetensors wide.safetensors flat.safetensors # (3,) would broadcast
    assert_failure 1
    assert_output --partial 'flat.safetensors: w has the shape (3,), in wide.safetensors it has (2, 3)'

    kvctl -q -s later.safetensors -c 'init w,b [ones(2,3), ones(3,dtype="float64")]; init steps full(1, 8, dtype="int64")'
    run average out.safetensors a.safetensors later.safetensors
    assert_failure 1
    assert_output --partial 'later.safetensors: steps is int64, which has no mean, and differs from a.safetensors'

    head -c 100 b.safetensors >cut.safetensors
    run average out.safetensors a.safetensors cut.safetensors
    assert_failure 5
    assert_output --partial 'cut.safetensors'

    assert_equal "$(cat out.safetensors)" before
    [ -z "$(find . -name '.average-*')" ]
}

@test "average: the script alone says how it is used" {
    run kvctl "$top/examples/average-checkpoints.kv"
    assert_failure 2
    assert_line --index 0 'usage: kvctl -s COPY average-checkpoints.kv CHECKPOINT CHECKPOINT...'
}

@test "gate: arrays that agree, within a tolerance too" {
    printf '1,2\n3,4\n' >old.csv
    printf '1,2\n3,4.002\n' >new.csv
    run gate old.csv old.csv
    assert_success
    assert_output "ci-gate: old.csv agrees with old.csv (rtol 1e-5, atol 1e-8)"
    run gate old.csv new.csv 1e-3
    assert_success
    run gate old.csv new.csv 0 0.01
    assert_success
}

@test "gate: 1 is for numbers that differ, and for nothing else" {
    printf '1,2\n3,4\n' >old.csv
    printf '1,2\n3,4.002\n' >new.csv
    printf '1,2\n' >short.csv
    printf '1,x\n3,4\n' >broken.csv
    run gate old.csv new.csv
    assert_failure 1
    assert_line --partial '[1, 1]  4.002  4'
    assert_line 'ci-gate: new.csv DIFFERS from old.csv by more than rtol 1e-5, atol 1e-8'
    run gate old.csv short.csv
    assert_failure 3
    assert_output "(2, 2) became (1, 2)
ci-gate: short.csv cannot be compared with old.csv"
    run gate old.csv gone.csv
    assert_failure 5
    assert_output "ci-gate: cannot read gone.csv; nothing was compared"
    run gate old.csv broken.csv
    assert_failure 5
    assert_line --partial 'broken.csv:1:2'
    assert_line 'ci-gate: a file cannot be read; nothing was compared'
}

@test "gate: wrong arguments are 2, with the usage" {
    : >x.csv
    run gate x.csv
    assert_failure 2
    assert_output "ci-gate: two files and at most two tolerances, not 1 arguments
usage: sh ci-gate.sh OLD NEW [RTOL [ATOL] | TOLERANCES]"
    run gate x.csv x.csv tight
    assert_failure 2
    assert_line "ci-gate: tight is no tolerance, and no file of them"
    run gate x.csv x.csv 0 -1
    assert_failure 2
    assert_line --index 0 --partial "is no tolerance"
}

@test "gate: checkpoints are compared tensor by tensor, both ways" {
    checkpoints
    run gate a.safetensors a.safetensors
    assert_success
    run gate a.safetensors b.safetensors
    assert_failure 1
    assert_line "key  state    equal  max_abs    where   ulps              rms        cosine"
    assert_line --regexp "^w +differs +0.0 +1.0 +\(0, 0\) +8388608"
    assert_line "kvctl: error[assert]: 2 of 3 keys differ"
    assert_line "ci-gate: b.safetensors DIFFERS from a.safetensors by more than rtol 1e-5, atol 1e-8"
    kvctl -q -s less.safetensors -c 'init w ones(2,3)'
    run gate a.safetensors less.safetensors
    assert_failure 1
    assert_line --regexp "^b .*only_a"
    run gate less.safetensors a.safetensors
    assert_failure 1
    assert_line --regexp "^b .*only_b"
    kvctl -q -s wide.safetensors -c 'init w,b [ones(2,3), ones(2)]; init steps full(1, 7, dtype="int64")'
    run gate a.safetensors wide.safetensors
    assert_failure 1
    assert_line --regexp "^b .*shape"
    kvctl convert a.safetensors shards/ --shard-size 1
    run gate a.safetensors shards/
    assert_success
    head -c 100 b.safetensors >cut.safetensors
    run gate a.safetensors cut.safetensors
    assert_failure 5
    cmp a.safetensors a.safetensors
}

@test "gate: a list of tolerances, a line for the keys that match" {
    checkpoints
    printf '# comment\n\nw 1 0\nsteps\nb 3\n' >tolerances
    run gate a.safetensors b.safetensors tolerances
    assert_success
    assert_output "ci-gate: b.safetensors agrees with a.safetensors (tolerances)"
    echo 'w 1 0' >tolerances # b has no line: it must be equal
    run gate a.safetensors b.safetensors tolerances
    assert_failure 1
    refute_line --regexp '^w '
    assert_line --regexp '^b .*differs'
    printf 'w 0.1 0\n* 3 0\n' >tolerances # the first line that matches counts
    run gate a.safetensors b.safetensors tolerances
    assert_failure 1
    assert_line --regexp '^w .*differs'
    refute_line --regexp '^b '
    echo 'x* 1' >tolerances
    run gate a.safetensors b.safetensors tolerances
    assert_failure 3
    assert_line --partial 'no name matches "x*"'
}

@test "gate: in a workflow of GitHub the table is on the summary" {
    checkpoints
    GITHUB_STEP_SUMMARY=$PWD/summary run gate a.safetensors b.safetensors
    assert_failure 1
    assert_line "::error title=ci-gate::b.safetensors DIFFERS from a.safetensors by more than rtol 1e-5, atol 1e-8"
    run cat summary
    assert_line --index 0 "### b.safetensors DIFFERS from a.safetensors by more than rtol 1e-5, atol 1e-8"
    assert_line --regexp "^w    differs"
    GITHUB_STEP_SUMMARY=$PWD/summary run gate a.safetensors a.safetensors
    assert_success
    refute_output --partial ::error
}

@test "git: a diff of checkpoints shows names, shapes and statistics" {
    run sh "$top/examples/git-diff.sh"
    assert_success
    assert_line "-b,3,0.0,0.0,0.0,0.0,0.0,3,0,0"
    assert_line --regexp "^\+b,3,0.0,0.5,0.1666666666666666.,0.2357022603955158.,0.5,2,0,0$"
    assert_line " w,6,1.0,1.0,1.0,0.0,1.0,0,0,0"
    refute_line --partial Binary
}

@test "git: kvctl diff as the command of a diff" {
    git init -q .
    echo '*.safetensors diff=kvctl' >.gitattributes
    git config diff.kvctl.command 'f() { kvctl diff "$2" "$5" || test $? = 1; }; f'
    kvctl -q -s m.safetensors -c 'init w,b [ones(2), zeros(3)]'
    git add .
    git -c user.name=user -c user.email=user@example.org commit -q -m model
    kvctl -q -s m.safetensors -c 'push b array([0, 0, 0.5])'
    run git diff
    assert_success
    assert_line --regexp '^b +differs .* 0.5 +\(2,\)'
    refute_line --regexp '^w '
}

@test "a kvctl that is not there is neither drift nor an average" {
    : >x.csv
    mkdir bin
    for tool in sh dirname; do ln -s "$(command -v $tool)" bin; done
    PATH=$PWD/bin run gate x.csv x.csv
    assert_failure 4
    assert_output "ci-gate: there is no kvctl on the path"
    PATH=$PWD/bin run average out x.csv x.csv
    assert_failure 4
    assert_output "average-checkpoints: there is no kvctl on the path"
}
