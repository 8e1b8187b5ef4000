# kvctl WORD…: words of the shell as a command on checkpoints. Each is one argument, as it stands.

load help
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
    mentions -3 'no name matches "--json"' kvctl ls m.safetensors --exclude --json # a value, which matches nothing
    run kvctl ls m.safetensors lm_head --json
    [[ $output == *'"cmd":"ls","ok":true'*'"entries":[{"key":"lm_head"'* ]]
    mentions -3 'no name matches "--exclude"' kvctl ls m.safetensors -- --exclude
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
    run -2 kvctl merge ties m.safetensors m.safetensors --out t.safetensors --weights 'ones(2)'
    [[ $output == *"--weights ones(2)"$'\n'* ]]
    [ "$(kvctl print 'sum(ones(3))' 'ones(2) .sum()' 'sum(ones(3)) # 3')" = "3.0 2.0 3.0" ]
}

@test "a rule that the shell cut into words, and types as tools for models call them" {
    model
    run -2 kvctl merge { merged = max\(models\) } m.safetensors --out x.safetensors
    [[ $output == *"hint: merge '{ … }' A B: quotes keep a shell from cutting the rule"* ]]
    mentions -2 "hint: did you mean average?" kvctl merge avg m.safetensors --out x.safetensors
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
    says "dry run: would write x.patch" kvctl --dry-run patch a.safetensors b.safetensors --out x.patch
    says "dry run: would write x.patch" kvctl --dry-run patch --chain 1.patch 2.patch --out x.patch
    run -5 kvctl --dry-run patch a.safetensors missing.safetensors --out x.patch
    refute_line "dry run: would write x.patch"
    run -2 kvctl --dry-run patch a.safetensors b.safetensors --out b.safetensors
    run -1 kvctl --dry-run patch --chain 1.patch 1.patch --out x.patch
    [ ! -e x.patch ]
}

# a.safetensors has a.w and a.bias; b.safetensors a.w, and z, which is all zero; cut.safetensors is broken.
several()
{
    kvctl -c 'init a.w,a.bias [ones(2), ones(3)]; save a.safetensors'
    kvctl -c 'init a.w,z [ones(2), zeros(2)]; save b.safetensors'
    head -c 60 a.safetensors >cut.safetensors
}

@test "ls, stat and hash take several files, each behind a line with its name" {
    several
    local word
    for word in ls stat hash; do
        run -0 kvctl "$word" a.safetensors b.safetensors
        [ "$output" = "a.safetensors:"$'\n'"$(kvctl "$word" a.safetensors)"$'\n'"b.safetensors:"$'\n'"$(kvctl "$word" b.safetensors)" ]
        run -0 kvctl "$word" a.safetensors b.safetensors '*.bias' z # each is in one of them
        [ "$output" = "a.safetensors:"$'\n'"$(kvctl "$word" a.safetensors a.bias)"$'\n'"b.safetensors:"$'\n'"$(kvctl "$word" b.safetensors z)" ]
        mentions -3 'no name matches "none"' kvctl "$word" a.safetensors b.safetensors none
        run -5 --separate-stderr kvctl "$word" a.safetensors missing.safetensors z
        [ -z "$output" ]
        [[ $stderr == *'cannot read "missing.safetensors": No such file or directory'* ]]
    done
    cp b.safetensors z # what exists is a file, whatever its name
    run -0 kvctl ls a.safetensors z
    [[ $output == *$'\nz:\nkey '* ]]
    gives "$(kvctl ls a.safetensors b.safetensors a.w)" kvctl -c 'files = ["a.safetensors", "b.safetensors"]; ls $files a.w'
    mentions -2 'the list of files is empty' kvctl -c 'files = []; ls $files'
    mentions -2 '--verify compares one file with its list' kvctl hash a.safetensors b.safetensors --verify sums
}

@test "check goes on behind a broken file, and the worst error is its exit status" {
    several
    gives $'a.safetensors: clean, 2 keys\na.safetensors: clean, 2 keys' kvctl check a.safetensors a.safetensors
    run -1 --separate-stderr kvctl check b.safetensors a.safetensors
    [ "$output" = $'b.safetensors:\nb.safetensors: z: all of its elements are 0\na.safetensors: clean, 2 keys' ]
    [ "$stderr" = 'kvctl: error[assert]: 1 finding in b.safetensors' ]
    run -1 --separate-stderr kvctl check b.safetensors a.safetensors b.safetensors
    [ "$stderr" = 'kvctl: error[assert]: 1 finding in b.safetensors, the first of 2 files with findings' ]
    run -5 --separate-stderr kvctl check missing.safetensors cut.safetensors b.safetensors
    [ "$output" = "missing.safetensors:
cannot read \"missing.safetensors\": No such file or directory
cut.safetensors:
$(kvctl check cut.safetensors)
b.safetensors:
b.safetensors: z: all of its elements are 0" ]
    [[ $stderr == *':7: error[io]: cannot read "missing.safetensors"'* ]]
    run -0 kvctl check b.safetensors a.w # the others are not looked at
    run -0 kvctl check b.safetensors --like a.safetensors a.w
    run -3 kvctl check b.safetensors none
}

@test "several files have a record each, and a table of several has a column for them" {
    several
    kvctl --json stat a.safetensors b.safetensors a.w |
        jq -se 'map(.file) == ["a.safetensors", "b.safetensors"] and map(.seq) == [1, 2] and
                all(.ok and (.entries | length) == 1 and .entries[0].key == "a.w")'
    run -5 --separate-stderr kvctl --json check missing.safetensors a.safetensors b.safetensors
    jq -se 'map(.file) == ["missing.safetensors", "a.safetensors", "b.safetensors"] and
            map(.ok) == [false, true, false] and map(.value) == [null, true, false] and
            map(.error.code) == ["io", null, "assert"]' <<<"$output"
    [ "$(kvctl --json ls a.safetensors | jq -c .file)" = '"<cmd>"' ]
    kvctl ls a.safetensors b.safetensors a.w --format csv >t.csv
    [ "$(cat t.csv)" = $'file,key,dtype,shape,bytes\na.safetensors,a.w,F32,"(2,)",8\nb.safetensors,a.w,F32,"(2,)",8' ]
    run -1 kvctl -c 'check a.safetensors b.safetensors > c.csv'
    [ "$(cat c.csv)" = $'checkpoint,key,file,finding\nb.safetensors,z,b.safetensors,all of its elements are 0' ]
}

@test "NAME=VALUE is an option, a parameter or an argument, and a path stays one" {
    model
    kvctl -s s.kvs init w 'ones(2)'
    kvctl -s s.kvs set-optimizer optimizer=adam learning_rate=0.1 wd=0.01
    kvctl -s s.kvs push key=w value='ones(2)' priority=1
    assert_equal "$(kvctl -s s.kvs info --states | head -1)" 'optimizer adam, num_update 1, learning_rate 0.1'
    kvctl -s d.kvs create type=device
    assert_equal "$(kvctl -s d.kvs type)" device
    cp m.safetensors epoch=3.safetensors
    kvctl merge ties epoch=3.safetensors m.safetensors base=m.safetensors density=0.5 out=t.safetensors dtype=bf16
    kvctl ls t.safetensors long=true | grep -q BF16
    cp m.safetensors density=5
    mentions -2 '--force takes no value' kvctl merge ties m.safetensors density=5 --base m.safetensors out=u.safetensors force=false
    kvctl merge ties m.safetensors density=5 --base m.safetensors out=u.safetensors # a file
    mentions -3 'no name matches "long=true"' kvctl ls m.safetensors -- long=true
    kvctl -s s.kvs set-optimizer adam lr=0.1
    says -2 ' hint: did you mean learning_rate?' kvctl -s s.kvs set-optimizer adam learningrate=0.1
    says -2 ' hint: did you mean --priority?' kvctl -s s.kvs push w 'ones(2)' priorty=1
    says -2 ' hint: did you mean density?' kvctl merge ties m.safetensors --base m.safetensors densty=0.5 --out u.safetensors
    says -2 ' hint: --out, not --output' kvctl merge average m.safetensors --output u.safetensors
}
