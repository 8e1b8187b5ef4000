# kvctl merge …: the words of a shell, dry runs, records, and what is left behind.

load help
# Three models of the keys w and b.
models()
{
    kvctl -c 'create local; init w,b [array([[1, 2], [3, 4]]), zeros(2)]; save base.safetensors
        push w array([[1, 2], [3, 8]]); save a.safetensors; push w array([[2, 2], [3, 2]]); save b.safetensors'
}

# value FILE: w as one line.
value()
{
    kvctl --format json -c "@$1#w"
}

@test "weights, parameters and rules are words as they stand" {
    models
    kvctl merge average a.safetensors b.safetensors --out m.safetensors
    [ "$(value m.safetensors)" = "[[1.5,2],[3,5]]" ]
    local weights
    for weights in 3,1 0.75,0.25 '[3, 1]' '3/4, 1/4' '6/2,1' 3e0,1.0; do
        kvctl merge linear --weights "$weights" a.safetensors b.safetensors --out=m.safetensors
        [ "$(value m.safetensors)" = "[[1.25,2],[3,6.5]]" ] || { echo "not read: $weights"; return 1; }
    done
    kvctl merge task-arithmetic a.safetensors b.safetensors --base=base.safetensors --scale=0.5 --normalize --out m.safetensors
    [ "$(value m.safetensors)" = "[[1.25,2],[3,4.5]]" ]
    kvctl merge '{ merged = k * max(models) }' a.safetensors b.safetensors --k 2 --out m.safetensors
    [ "$(value m.safetensors)" = "[[4,4],[6,16]]" ]
    kvctl merge '
# The smaller one, "quoted".
merge least(by = 1.0) {
  merged = by * min(models)
}' a.safetensors b.safetensors --out m.safetensors --by 3
    [ "$(value m.safetensors)" = "[[3,6],[9,6]]" ]
    printf 'merge first() { merged = models[0] }\n' >'my rule.kvu'
    kvctl merge './my rule.kvu' a.safetensors b.safetensors --out m.safetensors
    [ "$(value m.safetensors)" = "[[1,2],[3,8]]" ]
    kvctl merge first.kvu a.safetensors --out m.safetensors 2>err && return 1
    [[ $(<err) == *'cannot read "first.kvu"'* ]]
}

@test "- is one model from stdin, and the output may be a model" {
    models
    kvctl merge average - b.safetensors --out b.safetensors <a.safetensors
    [ "$(value b.safetensors)" = "[[1.5,2],[3,5]]" ]
    kvctl merge ties a.safetensors --base - --density 1 --out m.safetensors <base.safetensors
    [ "$(value m.safetensors)" = "[[1,2],[3,8]]" ]
}

@test "a place in a rule of one's own is shown, wherever it stands" {
    models
    printf '# Mine.\nmerge mine {\n  merged = modles[0]\n}\n' >mine.kvu
    run -2 kvctl merge mine.kvu a.safetensors --out m.safetensors
    assert_output "mine.kvu:3:12: error[usage]: a merge knows no name \`modles\` here
    3 :   merged = modles[0]
      :            ^^^^^^
 hint: did you mean models?"
    run -2 kvctl merge $'{\n  merged = modles[0]\n}' a.safetensors --out m.safetensors
    assert_output "<cmd>:2:12: error[usage]: a merge knows no name \`modles\` here
    2 :   merged = modles[0]
      :            ^^^^^^
 hint: did you mean models?"
    run -2 kvctl merge '{ merged = (models[0] }' a.safetensors --out m.safetensors
    assert_line --index 0 "<cmd>:1:29: error[syntax]: \`}\` stands where \`)\` is needed"
    printf 'merge mine { merged = \x01\xff }' >mine.kvu
    run -2 kvctl merge mine.kvu a.safetensors --out m.safetensors
    assert_output 'mine.kvu:1:23: error[syntax]: the control character \x01 does not belong here
    1 : merge mine { merged = \x01\xff }
      :                       ^'
    : >empty.kvu
    run -2 kvctl merge empty.kvu a.safetensors --out m.safetensors
    assert_output "empty.kvu:1:1: error[syntax]: the text ends where \`{\` is needed
    1 : 
      : ^"
    head -c 200000 /dev/zero >large.kvu
    run -3 kvctl merge large.kvu a.safetensors --out m.safetensors
    assert_line --index 0 '<cmd>:1:7: error[value]: large.kvu: a rule has at most 100000 bytes'
    mkdir folder.kvu
    run -5 kvctl merge folder.kvu a.safetensors --out m.safetensors
    assert_line --index 0 '<cmd>:1:7: error[io]: cannot read "folder.kvu": Is a directory'
    [ ! -e m.safetensors ]
}

@test "exit codes: 2 words, 3 models that do not fit, 5 files" {
    models
    kvctl -s other.safetensors -c 'init v ones(2)'
    run -2 kvctl merge averge a.safetensors --out m.safetensors
    run -2 kvctl merge average a.safetensors b.safetensors --weights 1,2,3 --out m.safetensors
    run -2 kvctl merge average a.safetensors --out m.txt
    run -3 kvctl merge average a.safetensors other.safetensors --out m.safetensors
    run -3 kvctl merge ties a.safetensors --base b.safetensors --density 1.5 --out m.safetensors
    run -5 kvctl merge average a.safetensors nope.safetensors --out m.safetensors
    run -5 kvctl merge average a.safetensors models/b --out m.safetensors
    head -c 100 b.safetensors >cut.safetensors
    opens -5 '<cmd>:1:29: error[format]: cut.safetensors: ' kvctl merge average a.safetensors cut.safetensors --out m.safetensors
    [ ! -e m.safetensors ]
}

@test "--dry-run checks everything and writes nothing; --json has a record" {
    models
    says "dry run: would write m.safetensors" kvctl --dry-run merge average a.safetensors b.safetensors --out m.safetensors
    [ ! -e m.safetensors ]
    kvctl -s other.safetensors -c 'init v ones(2)'
    run -3 kvctl --dry-run merge average a.safetensors other.safetensors --out m.safetensors
    mentions '"cmd":"merge","ok":true' kvctl --json merge average a.safetensors b.safetensors --out m.safetensors
    mentions -2 '"ok":false' kvctl --json merge average a.safetensors b.safetensors --weights 1 --out m.safetensors
    opens -4 '--safe forbids writing "m.safetensors"' kvctl --safe merge average a.safetensors --out m.safetensors
}

@test "--check knows rules, parameters, counts and names without running" {
    cat >s.kv <<'END'
merge tise a.safetensors --out m.safetensors
merge ties a.safetensors --base b.safetensors --densty 0.5 --out m.safetensors
merge ties a.safetensors --base b.safetensors --density 2 --out m.safetensors
merge ties a.safetensors --out m.safetensors
merge linear a.safetensors b/ --weights 1,-2,3 --out m.safetensors
merge median a.safetensors --weights 1 --out m.safetensors
merge { merged = k * modles[0] } a.safetensors --out m.safetensors
merge '{ merged = models[0 }' a.safetensors --out m.safetensors
k = 1; w = [1, 2]
merge linear a.safetensors b/ --weights $w --out m.safetensors
merge linear a.safetensors b/ layer* --weights 1,2,3 --out m.safetensors
merge mine.kvu a.safetensors --any 1 --out m.safetensors
END
    run -2 kvctl --check s.kv
    [ "$(grep -c 'error\[' <<<"$output")" = 8 ]
    local text
    for text in 's.kv:1:7: error[usage]: there is no merge `tise`' \
        's.kv:2:47: error[usage]: ties has no parameter `densty`' \
        's.kv:3:57: error[value]: parameter density must lie in 0 .. 1, not 2' \
        's.kv:4:7: error[usage]: ties needs a base' \
        's.kv:5:41: error[usage]: there are 3 weights for 2 models' \
        's.kv:6:38: error[usage]: median reads no weights' \
        's.kv:7:22: error[usage]: nothing sets the variable `modles`' \
        's.kv:8:28: error[syntax]: `}` stands where `]` is needed'; do
        assert_line "$text"
    done
}

@test "completion: rules, files of rules, parameters, models and keys" {
    models
    : >mine.kvu
    offers() { kvctl --completion words "$@" | cut -f 1 | paste -sd ' '; }
    assert_equal "$(offers merge tie)" "words ties"
    assert_equal "$(offers merge mi)" "words mine.kvu"
    assert_equal "$(offers merge ties --de)" "words --density"
    assert_equal "$(offers merge ties a)" "words a.safetensors"
    assert_equal "$(offers merge ties a.safetensors --base ba)" "words base.safetensors"
    assert_equal "$(offers merge ties a.safetensors --exclude '')" "words b w"
    printf 'merge mine(by = 1) { merged = by * models[0] }' >mine.kvu
    assert_equal "$(offers merge mine.kvu a.safetensors --b)" "words --base --by"
}

@test "help: the rules, and the text of one" {
    kvctl help merge >page
    for rule in linear task_arithmetic slerp ties dare_linear dare_ties breadcrumbs della model_stock ema median trimmed_mean lora; do
        grep -q "^  $rule\b" page
        kvctl help merge $rule >text
        [[ $(head -n 1 text) == "# merge $rule CKPT... --out OUT"* ]]
        tail -n +2 text | cmp - "$top/src/merges/$rule.kvu"
    done
    kvctl -c "init w ones(3); save a.safetensors"
    kvctl help merge linear >mine.kvu
    kvctl merge mine.kvu a.safetensors a.safetensors --out m.safetensors
    kvctl diff a.safetensors m.safetensors
    grep -q -- '--base CKPT, --density 0.2 in 0 .. 1' page
    grep -q 'arXiv:2306.01708' page
    [ "$(wc -L <page)" -le 250 ]
    mentions -3 'did you mean ties?' kvctl help merge tise
}

# A base of one key, and the folder lora/ as PEFT writes it.
lora()
{
    kvctl -q -c 'init l.weight ones(2,2); save base.safetensors'
    mkdir lora
    kvctl -q -c 'init base_model.model.l.lora_A.weight,base_model.model.l.lora_B.weight [ones(1,2), ones(2,1)]
                 save lora/adapter_model.safetensors'
    echo '{"peft_type": "LORA", "r": 1, "lora_alpha": 2}' >lora/adapter_config.json
    echo '# an adapter' >lora/README.md
}

@test "lora: a folded model gets no files of the adapter, or it would be taken for one" {
    lora
    run -0 --separate-stderr kvctl merge lora lora --base base.safetensors --out one/
    [ "$stderr" = '' ]
    [ "$(ls one)" = model.safetensors ]
    mkdir base
    mv base.safetensors base/model.safetensors
    echo '{}' >base/config.json
    cp lora/adapter_config.json base/
    run -0 --separate-stderr kvctl merge lora lora --base base --out two/
    [ "$stderr" = 'note: copied 1 file of base/ (config.json), not adapter_config.json' ]
    [ "$(ls two | tr '\n' ' ')" = 'config.json model.safetensors ' ]
    kvctl convert lora three/ --dtype f16 # an adapter stays one
    [ -e three/adapter_config.json ]
}

@test "lora: a warning says that no scale was given" {
    lora
    rm lora/adapter_config.json
    for adapter in lora lora/adapter_model.safetensors; do
        run -0 --separate-stderr kvctl merge lora "$adapter" --base base.safetensors --out m.safetensors
        [ "$stderr" = "<cmd>:1: warning: $adapter has no adapter_config.json, so its scale is 1: give alpha / r, such as --scale 2" ]
        run -0 --separate-stderr kvctl merge lora "$adapter" --base base.safetensors --out m.safetensors --scale 2
        [ "$stderr" = '' ]
    done
}

@test "keys of integers that differ: --keep-first takes those of the first model, or of the base" {
    kvctl -q -c 'init w,n [ones(2), array([3, 5], dtype="int64")]; save a.safetensors'
    kvctl -q -c 'init w,n [ones(2)*3, array([4, 5], dtype="int64")]; save b.safetensors'
    run -3 --separate-stderr kvctl merge average a.safetensors b.safetensors --out m.safetensors
    [[ $stderr == *'hint: keys of integers must be equal; --keep-first takes those of a.safetensors, --exclude leaves keys out'* ]]
    kvctl merge average a.safetensors b.safetensors --out m.safetensors --keep-first
    gives '[2. 2.] [3 5]' kvctl -c 'print @m.safetensors#w, @m.safetensors#n'
    kvctl merge task_arithmetic a.safetensors --base b.safetensors --out m.safetensors --keep-first
    gives '[1. 1.] [4 5]' kvctl -c 'print @m.safetensors#w, @m.safetensors#n'
}
