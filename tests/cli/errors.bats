# Mistakes that a session cannot show, by what they print and their exit status. error-calls.kv has the wrong and doubtful
# calls of MXNet.

load help

@test "errors: a key that is the begin of others" {
    run -3 kvctl -c 'init lm_head.weight ones(2); init lm_head.bias ones(2); init other ones(1); pull lm_head'
    assert_line ' hint: did you mean lm_head.weight or lm_head.bias?'
    says -3 ' hint: 9 keys begin so, among them m.1: list m*' kvctl -c 'init m.{1..9} [ones(2)]*9; pull m'
    mentions -3 ' hint: did you mean m.3' kvctl -c 'init m.{1..9} [ones(2)]*9; pull m.33'
}

@test "errors: more keys than values" {
    for command in push pushpull; do
        mentions -3 'error[value]: 2 keys need 2 values, there is 1' kvctl -c "$command 3,4 ones(2)*3"
        assert_line ' hint: the same for each key: [ones(2)*3]*2'
        says -3 ' hint: the same for each key: [array(0)]*2' kvctl -c "$command 3,4 0"
    done
    mentions -3 'error[value]: 2 keys need 2 values, there is 1' kvctl -c 'init 3,4 [1, 2]'
    mentions '[3. 3.]' kvctl -c 'init 3,4 0; init 5,6 ones(2)*3; broadcast 7,8 ones(2); pull 4; pull 5'
}

@test "errors: names in a hint are whole, and the others are counted" {
    kvctl -c 'for i in 0..40 { k = "model.layers." + f"{i}" + ".mlp.up_proj"; init $k 1 }; pull * > m.safetensors'
    run kvctl -c '@m.safetensors'
    assert_line --index 3 " hint: say which: @m.safetensors#model.layers.0.mlp.up_proj; it holds model.layers.0.mlp.up_proj, model.layers.1.mlp.up_proj, model.layers.2.mlp.up_proj, model.layers.3.mlp.up_proj, model.layers.4.mlp.up_proj and 36 more"
    mentions -3 "model.layers.6.mlp.up_proj and 34 more" kvctl -c 'load("m.safetensors", name="x")'
    run kvctl -c 'load("m.safetensors", name="model.layers.40.mlp.pu_proj")'
    assert_line --index 3 " hint: did you mean model.layers.40.mlp.up_proj, model.layers.0.mlp.up_proj or model.layers.4.mlp.up_proj?"
}

@test "errors: a second command on a line is told from a variable" {
    begins -3 '<cmd>:1:16: error[name]: there is no variable `pull`' kvctl -c 'push 3 ones(2) pull 3'
    assert_line --index 3 ' hint: `pull` is a command: begin it on a new line or behind `;`'
    begins -2 '<cmd>:1:24: error[usage]: there is no function `pull`' kvctl -c 'init w ones(2); push w pull(w) * 2'
    assert_line --index 3 ' hint: kv.pull("w") is the value of key w'
}

@test "errors: a device that is an array points at dot" {
    begins -3 '<cmd>:1:22: error[dtype]: a device such as gpu(1) is needed here, not an array' kvctl -c 'gpu = ones(2,2); gpu@gpu'
    assert_line --index 3 ' hint: dot(a, b) multiplies matrices'
}

@test "errors: a compressed file is named, with what unpacks it" {
    printf '1,2\n' >x.csv
    bzip2 -k x.csv
    xz -k x.csv
    tar -cf x.tar x.csv
    local end tool
    for end in bz2:bunzip2 xz:'xz -d' tar:'tar -xf'; do
        tool=${end#*:}
        opens -5 "error[format]: x" kvctl -c "x = @$(echo x*."${end%:*}")"
        assert_line --index 0 --partial "this looks like a "
        assert_line --index 3 " hint: unpack it first: $tool FILE"
    done
}

@test "errors: files of PyTorch and pickles" {
    begins -5 '<cmd>:1:5: error[io]: cannot read "model.pt": No such file or directory' kvctl -c 'x = @model.pt'
    # one that is there is told for what it is, by what it holds
    printf '\x80\x02}q\x01' >model.pt
    run -5 kvctl -c 'x = @model.pt'
    assert_line --index 0 '<cmd>:1:5: error[format]: model.pt: this looks like a Python pickle, which would run code; it is not read'
    printf '\x12\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >model.params
    for words in 'x = @model.params' 'ls model.params' 'convert model.params m.npz'; do
        mentions -5 'error[format]: model.params: cut within its header, array 0' kvctl -c "$words"
    done
    kvctl -c 'init w [1, 2]; save m.safetensors'
    mv m.safetensors model.bin
    gives '[1. 2.]' kvctl -c 'print @model.bin'
}

@test "errors: a file of data that is something else is told by what it holds" {
    printf '1,2\n' | gzip >x.csv
    for name in x.npy x.npy.gz x.safetensors.gz; do
        [ -e "$name" ] || cp x.csv "$name"
        run -5 kvctl -c "print @$name"
        assert_line --index 0 "<cmd>:1:7: error[format]: $name: this looks like a file compressed with gzip, which is not read"
        assert_line " hint: zcat FILE | kvctl -c 'x = @-' reads it; gunzip FILE unpacks it"
    done
    # text is unpacked; an error names data that are cut or damaged, also behind numbers
    gives '[[1. 2.]]' kvctl -c "print @x.csv"
    seq 100000 | gzip >z.csv.gz
    head -c -4 z.csv.gz >cut.csv.gz
    { head -c 5000 z.csv.gz; printf wrong; tail -c +5006 z.csv.gz; } >damaged.csv.gz
    printf '1,x\n' | gzip >word.csv.gz
    for name in cut damaged; do
        begins -5 "<cmd>:1:7: error[format]: $name.csv.gz: its compressed data are damaged, or cut" kvctl -c "print @$name.csv.gz"
    done
    begins -5 '<cmd>:1:7: error[format]: word.csv.gz:1:2: "x" is not a number' kvctl -c "print @word.csv.gz"
    printf '1,2\n' | iconv -t UTF-16 >x.csv
    mentions -5 'x.csv: this looks like a text in UTF-16, as PowerShell writes it, which is not read' kvctl -c 'print @x.csv'
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >x.npy
    mentions -5 'x.npy: this looks like a Git LFS pointer, which is not read' kvctl -c 'print @x.npy'
    # a text that might be one keeps the place of its mistake
    printf '1,x\n' >x.csv
    begins -5 '<cmd>:1:7: error[format]: x.csv:1:2: "x" is not a number' kvctl -c 'print @x.csv'
}

@test "errors: a name is suggested once" {
    run kvctl -c 'help rnak'
    assert_line --index 3 " hint: did you mean rank?"
}

@test "errors: a program of Python that is run as a script" {
    printf 'import os\n' >a.py
    mentions -4 'kvctl launch --python' kvctl a.py
}

@test "a block that shall fail and ends in a NUL byte is not closed" {
    printf 'expect-error syntax { \0' >nul.kv
    run -2 --separate-stderr timeout 10 kvctl nul.kv
    assert_equal "${stderr_lines[0]}" \
        'nul.kv:1:21: error[syntax]: the `{` that opens here is not closed'
}

@test "a NUL byte ends a script that keeps going, and is said once" {
    printf 'print 1\nprint \0\nprint 2\n' >nul.kv
    for option in -k --check; do
        run -2 bash -c "kvctl $option nul.kv 2>&1 >/dev/null"
        assert_line --index 0 'nul.kv:2:7: error[syntax]: a NUL byte does not belong into a script'
        assert_equal ${#lines[@]} 3
    done
}

@test "a NUL byte is no blank where statements come one by one" {
    run -2 bash -c "printf '\0\nexit\0\nprint 2\n' | kvctl -q -i"
    assert_line '<repl>:1:1: error[syntax]: a NUL byte does not belong into a script'
    assert_line '<repl>:2:5: error[syntax]: a NUL byte does not belong into a script'
    assert_line 2
}

@test "the prompt says when its input cannot be read" {
    run -5 --separate-stderr kvctl -i <.
    assert_equal "$stderr" 'kvctl: error[io]: cannot read the standard input: Is a directory'
}

@test "undo says what undoes, as a command and in a script" {
    run -3 kvctl undo
    assert_line --index 0 --partial 'error[value]: nothing was kept to go back to'
    assert_line ' hint: begin before a change keeps it for a rollback, and so does -s FILE'
    run -3 kvctl -c 'init w 1; begin; push w 1; undo'
    assert_line ' hint: rollback takes back all since begin'
}

@test "errors: calls of defs, and of functions in the language, are checked before they run" {
    while IFS='|' read -r text column message; do
        run -2 kvctl --check -c "$text"
        assert_line --index 0 "<cmd>:1:$column: error[usage]: $message"
    done <<'END'
print nanmean(zeros(3), 1, 2, 3)|7|nanmean() takes 1 to 3 arguments, not 4
print zeros(3).nanmean(axs=1)|24|nanmean() has no parameter `axs`
print relu(zeros(3), x=1)|7|relu() takes 1 argument, not 2
print softmax(axis=1, zeros(3))|23|softmax() has a plain argument behind a named one
def f(x, y=1) = x; print f(1, x=2)|31|f() has two values for `x`
def f(x, y=1) = x; print f(y=2)|26|f() needs a value for `x`
print square(2); print square(2, 3)|24|square() takes 1 argument, not 2
print sofmax(zeros(3))|7|there is no function `sofmax`
END
    assert_line ' hint: did you mean softmax?'
    gives "{'a': 1, 'b': 2}" kvctl -c 'def update(key, input, stored, scale=1) { stored += input }' \
        -c 'd = {"a": 1}; d.update({"b": 2}); print d'
    run -5 kvctl --check -c 'source nosuch.kv; print square(2, 3)'
    refute_output --partial 'square() takes'
    run -2 kvctl -c 'create local; set-optimizer sgd lr=.1 learning_rate=.2'
    assert_line --partial 'error[usage]: lr and learning_rate are one parameter, given twice'
    run -2 kvctl -c 'o = SGD(lr=.1, learning_rate=.2)'
    assert_line --partial 'error[usage]: SGD() has the argument learning_rate twice'
}

@test "errors: functions of the language behind -k, under --check, and beside a def of their name" {
    printf 'nansum = 3\nprint nanmean(ones(2))\nprint 1\n' >k.kv
    gives $'1.0\n1' kvctl -k k.kv
    printf 'print square(2)\nprint x\n' >x.kv
    begins -2 'x.kv:2:7: error[usage]: nothing sets the variable `x`' kvctl --check x.kv
    gives $'2.0\n[2. 2. 5.]\n42\n3' kvctl -c 'def sum(x) = 42' -c 'def isnan(x) = 7' -c 'def stack(x) = 1' \
        -c 'print nanmean([1, 2, 3])' -c 'print nanmedian([[1, 2, nan], [3, nan, 5]], axis=0)' \
        -c 'print sum([1])' -c 'def relu(x) = 3' -c 'print relu(1)'
    gives $'4\n7' kvctl -c 'print square(2)' -c 'def f(x) { def square(y) = 7; return square(x) }; print f(3)'
    gives $'4\n[1.]' kvctl -c 'print square(2)' -c 'updater square { stored += input }; set-updater square' -c 'init 3 zeros(1); push 3 1; pull 3'
    gives '[0.5 0.5]' kvctl -c 'lr = 0.125
def u(key, grad, weight, lr=0.5):
    weight -= lr * grad
set-updater u
init w ones(2); push w ones(2); pull w'
}
