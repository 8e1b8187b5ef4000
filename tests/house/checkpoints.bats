# The examples for checkpoints, ci-gate.sh and git-diff.sh: what they give, and each way in which they refuse.

load ../cli/help

gate() { sh "$top/examples/ci-gate.sh" "$@"; }

# Three checkpoints of one model.
checkpoints()
{
    kvctl -q -s a.safetensors -c 'init w,b [ones(2,3), ones(3,dtype="float64")]; init steps full(1, 7, dtype="int64")'
    kvctl -q -s b.safetensors -c 'init w,b [ones(2,3)*2, ones(3,dtype="float64")/3]; init steps full(1, 7, dtype="int64")'
    kvctl -q -s c.safetensors -c 'init w,b [ones(2,3)*6, ones(3,dtype="float64")/7]; init steps full(1, 7, dtype="int64")'
}

@test "gate: wrong arguments are 2, with the usage" {
    gives -2 "usage: sh ci-gate.sh OLD NEW TOLERANCES" gate x y
    gives -5 "ci-gate: cannot read gone" gate x y gone
}

@test "gate: the status is that of the comparison, 1 for numbers that differ and nothing else" {
    checkpoints
    echo '* 1e-5 1e-8' >tolerances
    run -0 gate a.safetensors a.safetensors tolerances
    matches -1 "^w +differs +0.0 +1.0 +\(0, 0\) +8388608" gate a.safetensors b.safetensors tolerances
    assert_line "ci-gate: b.safetensors DIFFERS from a.safetensors"
    head -c 100 b.safetensors >cut.safetensors
    says -5 "ci-gate: nothing is known of cut.safetensors (exit status 5)" gate a.safetensors cut.safetensors tolerances
}

@test "gate: a list of tolerances, a line for the keys that match" {
    checkpoints
    printf '# comment\n\nw 1 0\nsteps\nb 3\n' >tolerances
    gives "ci-gate: b.safetensors agrees with a.safetensors" gate a.safetensors b.safetensors tolerances
    echo 'w 1 0' >tolerances # b has no line: it must be equal
    run -1 gate a.safetensors b.safetensors tolerances
    refute_line --regexp '^w '
    assert_line --regexp '^b .*differs'
    printf 'w 0.1 0\n* 3 0\n' >tolerances # the first line that matches counts
    matches -1 '^w .*differs' gate a.safetensors b.safetensors tolerances
    refute_line --regexp '^b '
    # relative to the old numbers: 2 to 6 is twice as much as 2, and less than 6
    printf 'w 0.7 0\n* 3 0\n' >tolerances
    run -1 gate b.safetensors c.safetensors tolerances
    run -0 gate c.safetensors b.safetensors tolerances
    echo 'x* 1' >tolerances
    mentions -3 'no name matches "x*"' gate a.safetensors b.safetensors tolerances
}

@test "gate: in a workflow of GitHub the table is on the summary" {
    checkpoints
    : >tolerances
    GITHUB_STEP_SUMMARY=$PWD/summary run -1 gate a.safetensors b.safetensors tolerances
    begins "### b.safetensors DIFFERS from a.safetensors" cat summary
    assert_line --regexp "^w    differs"
}

@test "git: a diff of checkpoints shows names, shapes and statistics" {
    says "-b,3,0.0,0.0,0.0,0.0,0.0,3,0,0" sh "$top/examples/git-diff.sh"
    assert_line --regexp "^\+b,3,0.0,0.5,0.1666666666666666.,0.2357022603955158.,0.5,2,0,0$"
    assert_line " w,6,1.0,1.0,1.0,0.0,1.0,0,0,0"
    refute_line --partial Binary
}

# A model w, b in a repository whose settings are made; then what is typed changes it.
changed()
{
    kvctl -q -s m.safetensors -c 'init w,b [array([1, 2, 3]), zeros(3)]'
    git add .
    git -c user.name=user -c user.email=user@example.org commit -q -m model
    kvctl -q -s m.safetensors -c "$1"
    run -0 git diff
}

@test "git: numbers that only change places show, by the hash" {
    git init -q .
    sed -n 's/^#     \(echo .*\)/\1/p; s/^#     \(git config .*\)/\1/p' "$top/examples/git-diff.sh" >lines
    sh lines
    changed 'push w array([3, 1, 2])'
    assert_line --regexp '^-[0-9a-f]{32} +w$'
}

@test "git: kvctl diff as the command of a diff" {
    git init -q .
    echo '*.safetensors diff=kvctl' >.gitattributes
    git config diff.kvctl.command 'f() { kvctl diff "$2" "$5" || test $? = 1; }; f'
    changed 'push b array([0, 0, 0.5])'
    assert_line --regexp '^b +differs .* 0.5 +\(2,\)'
    refute_line --regexp '^w '
}
