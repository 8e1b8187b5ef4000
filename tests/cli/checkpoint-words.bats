# kvctl WORD…: words of the shell as a command on checkpoints. Each is one argument, as it stands.

load help
bats_require_minimum_version 1.5.0

# A checkpoint of three keys, m.safetensors.
model()
{
    kvctl -c 'init model.0.mlp,model.0.norm,lm_head [ones(2,3), ones(4), zeros(2)]; save m.safetensors'
}

# listed WORD…: the keys that `kvctl ls WORD…` lists, in one line.
listed()
{
    kvctl ls "$@" | sed '1d;$d' | awk '{ printf "%s ", $1 }'
}

@test "patterns and options stand in any order, and -- ends options" {
    model
    [ "$(listed m.safetensors)" = "model.0.mlp model.0.norm lm_head " ]
    [ "$(listed m.safetensors '*norm*' 'lm*')" = "model.0.norm lm_head " ]
    [ "$(listed --exclude '*norm*' m.safetensors --exclude=lm_head)" = "model.0.mlp " ]
    [ "$(listed m.safetensors 'lm*' --exclude '*norm' '*.mlp')" = "model.0.mlp lm_head " ]
    [ "$(listed -- m.safetensors)" = "model.0.mlp model.0.norm lm_head " ]
    run -3 kvctl ls m.safetensors --exclude --json # a value, which matches nothing
    [[ $output == *'no name matches "--json"'* ]]
    run kvctl ls m.safetensors lm_head --json
    [[ $output == *'"cmd":"ls","ok":true'*'"entries":[{"key":"lm_head"'* ]]
    run -3 kvctl ls m.safetensors -- --exclude
    [[ $output == *'no name matches "--exclude"'* ]]
}

@test "a word is a path as it stands: blanks, quotes, signs of the language, numbers" {
    model
    local name
    for name in 'a b.safetensors' "it's.safetensors" 'x="1",y=$HOME.safetensors' '12.safetensors' \
        'a;b|c>d#e.safetensors' 'back\slash.safetensors' '[a]*.safetensors' '(1).safetensors' \
        '{a}.safetensors' '-l.safetensors' '--exclude.safetensors' $'two\nlines.safetensors' 'é.safetensors'; do
        cp -- m.safetensors "$name"
        [ "$(listed -- "$name" lm_head)" = "lm_head " ] || { echo "not read: $name"; return 1; }
    done
}

# Each of these patterns excludes model.0.mlp, if it comes to fnmatch(3) as it was written.
@test "the value of an option is a text as it stands" {
    model
    local value
    for value in 'model.?.mlp' '[m]odel.0.mlp' "*[l'].0.mlp" '*[l"].0.mlp' 'm\odel.0.m\lp' '*[l ;|>#$(].0.mlp' \
        $'*[l\n\\]].0.mlp'; do
        [ "$(listed m.safetensors --exclude "$value")" = "model.0.norm lm_head " ] ||
            { echo "not excluded by $value"; return 1; }
    done
}

@test "a value that is a call stands in an error as it was typed" {
    model
    run -2 kvctl merge ties m.safetensors m.safetensors --out t.safetensors --ctx 'gpu(0)'
    [[ $output == *"--ctx gpu(0)"$'\n'* ]]
    [ "$(kvctl print 'sum(ones(3))' 'ones(2) .sum()' 'sum(ones(3)) # 3')" = "3.0 2.0 3.0" ]
}

@test "a rule that the shell cut into words, and types as tools for models call them" {
    model
    run -2 kvctl merge { merged = max\(models\) } m.safetensors --out x.safetensors
    [[ $output == *"hint: merge '{ … }' A B: quotes keep a shell from cutting the rule"* ]]
    run -2 kvctl merge avg m.safetensors --out x.safetensors
    [[ $output == *"hint: did you mean average?"* ]]
    local name
    for name in fp64 FP32 fp16; do
        kvctl convert m.safetensors $name.safetensors --dtype $name
        kvctl ls $name.safetensors lm_head | grep -q " F${name#??} "
    done
}

@test "- is stdin of the command, not of the reader of scripts" {
    model
    [ "$(listed - lm_head <m.safetensors)" = "lm_head " ]
    [ "$(cat m.safetensors | listed -)" = "model.0.mlp model.0.norm lm_head " ]
}

@test "a file of the command's name is a script, a folder is not" {
    model
    mkdir ls
    [ "$(listed m.safetensors lm_head)" = "lm_head " ]
    rmdir ls
    echo 'print "a script"' >ls
    [ "$(kvctl ls)" = "a script" ]
}

@test "every command can be a word: help, doctor and their exit codes" {
    model
    run -0 kvctl help push
    run -0 kvctl version
    run -2 kvctl ls
    run -2 kvctl ls m.safetensors --no-such
    run -5 kvctl ls no.safetensors
    run -3 kvctl ls m.safetensors 'nope*'
}

@test "--dry-run of patch looks at what it is given, and writes nothing" {
    kvctl -c 'init w ones(3); save a.safetensors; push w zeros(3); save b.safetensors'
    kvctl patch a.safetensors b.safetensors --out 1.patch >made
    kvctl patch b.safetensors a.safetensors --out 2.patch >made
    run -0 kvctl --dry-run patch a.safetensors b.safetensors --out x.patch
    assert_line "dry run: would write x.patch"
    run -0 kvctl --dry-run patch --chain 1.patch 2.patch --out x.patch
    assert_line "dry run: would write x.patch"
    run -5 kvctl --dry-run patch a.safetensors missing.safetensors --out x.patch
    refute_line "dry run: would write x.patch"
    run -2 kvctl --dry-run patch a.safetensors b.safetensors --out b.safetensors
    run -1 kvctl --dry-run patch --chain 1.patch 1.patch --out x.patch
    [ ! -e x.patch ]
}
