# Help: its topics, and that they leave nothing out.

load help

@test "help: every store type has its lines" {
    kvctl -V | sed -n 's/^types://; s/; not available://p' | tr ' ' '\n' | grep . >types
    [ "$(wc -l <types)" -ge 10 ]
    kvctl -c 'help types' >list
    while read -r type; do
        grep -q "^  $type " list || fail "help types lacks $type"
        run -0 kvctl -c "help $type"
        assert_line --index 0 --regexp "^create $type( |$)"
        for word in keys push pull has needs here; do
            assert_line --regexp "^  $word +[^ ]"
        done
    done <types
    begins 'create dist_sync   (also dist)' kvctl -c 'help DIST'
    begins 'create Mine' kvctl -c 'register Mine; help mine; help types'
    assert_line '  Mine              a type of a plugin, or another name for one: register'
}

@test "help: a command line of kvctl, and words of other tools for its commands" {
    kvctl help merge ties >page
    kvctl help kvctl merge ties | cmp - page
    kvctl help push | cmp - <(kvctl help kvctl push)
    local hint='merge average A B --out OUT makes the mean of checkpoints'
    gives -2 $'kvctl: error[usage]: there is no file "average", and no command of that name\n hint: '"$hint" kvctl average a b
    hint='save FILE writes the store, convert A OUT a checkpoint in another form'
    gives -2 $'kvctl: error[usage]: there is no file "export", and no command of that name\n hint: '"$hint" kvctl export a
}

@test "help: a type that is not available says why" {
    mkdir bin
    cp "$build/kvctl" "$build"/libkvstore.so* bin
    says '  here      needs the MPI plugin, which is not in this build' bin/kvctl -c 'help dist_sync'
    says '                    not available: needs the MPI plugin, which is not in this build' bin/kvctl -c 'help types'
}

@test "help: environment has every variable that the source reads" {
    kvctl -c 'help environment' >page
    grep -rhoE 'getenv\("[A-Z_]+"\)' "$top"/cli "$top"/src "$top"/lib "$top"/cuda | sed 's/.*"\(.*\)".*/\1/' |
        grep -vxE 'PATH|HOME|XDG_.*' | sort -u >names
    sed -n 's/^    X(\([A-Z_]*\)).*/KVSTORE_\1/p' "$top"/src/*/environment.h >>names
    grep -qx KVSTORE_AHEAD names
    [ "$(wc -l <names)" -gt 15 ]
    while read -r name; do
        grep -qwF "$name" page || fail "help environment lacks $name"
    done <names
    for name in MXNET_KVSTORE_BIGARRAY_BOUND MXNET_KVSTORE_REDUCTION_NTHREADS MXNET_ENABLE_GPU_P2P PS_VERBOSE DMLC_ROLE \
        MXNET_KVSTORE_USETREE MXNET_UPDATE_ON_KVSTORE DMLC_PS_ROOT_URI DMLC_NODE_HOST PS_RESEND_TIMEOUT; do
        grep -qwF "$name" page || fail "help environment lacks $name"
    done
}

@test "help: a name that stands in two tables is suggested once" {
    says -3 ' hint: did you mean rank?' kvctl -c 'help rnak'
    says -3 ' hint: did you mean type, types or dtype?' kvctl -c 'help typse'
}

@test "help: a word of the shell's command line is no command" {
    for text in 'launch -n 2 x.kv' 'launch x.kv' 'serve x' 'attach night' 'jobs --json'; do
        run -2 kvctl -c "$text"
        assert_line --index 0 "<cmd>:1:1: error[usage]: \`${text%% *}\` is not a command here, but a word of the shell's command line"
        case $text in
        attach* | jobs*) assert_line " hint: !kvctl ${text%% *} …; help ${text%% *}" ;;
        *) assert_line " hint: !kvctl ${text%% *} …; help launch" ;;
        esac
    done
    for text in attach jobs launch; do # without a word behind it, it may be a variable
        begins -3 "<cmd>:1:1: error[name]: there is no variable \`$text\`" kvctl -c "$text"
        assert_line " hint: !kvctl $text …; help $text"
        run kvctl -- "$text" # never a hint back to the same line
        assert_line " hint: kvctl $text stands by itself: kvctl help $text"
    done
    gives 2 kvctl -c 'launch = 2; launch'
    gives $'4\n3\n2' kvctl -c 'jobs = 5; n = 2; jobs -1; jobs -n; attach = 3; attach -1'
}

@test "help: methods have their defaults" {
    says 'As a method: kv.pull(key, out=None, priority=0, ignore_sparse=True).' kvctl help pull
    says 'As a method: kv.save_optimizer_states(fname, dump_optimizer=False).' kvctl help save-states
    run kvctl -c 'kv.init(3, ones(2)); a = zeros(2); kv.pull(key=3, out=a, priority=2, ignore_sparse=False); a'
    assert_output 'array([1., 1.], dtype=float32)'
}

@test "help: words and signs have their section of the page of the language" {
    while read -r word heading; do
        begins "$heading" kvctl -c "help $word"
        assert_line --index -1 "help language: the whole page."
    done <<'END'
for Statements
if Statements
def Functions
@ Files
'@' Files
-> Where results go
'->' Where results go
> Where results go
'>' Where results go
| Where results go
$ Literal and computed
.. Ranges
slices Slices
lists Lists and arrays
dicts Dicts
files Files
texts Texts
class What Python has and kvctl does not
END
    # every heading is a section that a word leads to
    grep '^## ' "$top/cli/language.md" | sed 's/^## //' | while read -r heading; do
        grep -qxF "  $heading" "$top/cli/cmd/texts/sections.txt" ||
            fail "no word leads to $heading"
    done
    gives "" kvctl -c 'help > overview.txt'
    grep -q '^Commands' overview.txt
}

@test "help: functions in the language itself stand in order, and their session calls each" {
    local -x LC_ALL=C
    sed -n 's/^def \([a-z_]*\)(.*/\1/p' "$top/cli/syntax/prelude.kv" >names
    [ "$(wc -l <names)" -ge 19 ]
    sort -c names
    grep -o '[a-z_]*(' "$top/tests/cli/prelude.kv" | tr -d '(' | sort -u >called
    assert_equal "$(comm -13 called names)" ""
}

@test "help: each command has its section, and no section is left over" {
    kvctl -c 'help --json' | sed 's/,"functions":.*//' | grep -o '{"name":"[^"]*","usage"' | cut -d '"' -f 4 | sort >commands
    sed -n 's/^## //p' "$top/cli/cmd/texts/commands.txt" | sort >sections
    [ "$(wc -l <commands)" -gt 50 ]
    diff commands sections
}

@test "help: lists fit a terminal of 80 columns" {
    { kvctl help && kvctl help merge | sed '1,/^Rules,/d'; } >lists
    [ "$(wc -l <lists)" -gt 120 ]
    gives '' awk 'length > 80' lists
}

@test "help: a usage fits a terminal of 80 columns, and an option stands beside its value" {
    kvctl -c 'help --json' | jq -r '.commands[] | .name + "\t" + .usage' >list
    [ "$(wc -l <list)" -gt 30 ]
    while IFS=$'\t' read -r name usage; do
        kvctl -c "help $name" | sed '/^  [^ ]/,$d' >shown
        ! grep -E '.{81}' shown || fail "help $name"
        [ "$(sed 's/^   //' shown | tr -d '\n')" = "$usage" ]
    done <list
    run kvctl -c 'help merge'
    assert_line --index 1 '    [--weights 0.5,0.3,...] [--exclude GLOB]... [--dtype [GLOB=]T]...'
    refute_output --partial -- '--ctx' # merges do not run on GPUs
}

# Each optimizer says how PyTorch's differs, and what can make nan of its weights: a gradient of zeros is run, with
# the usual parameters and with an epsilon of 0.
@test "help: an optimizer says where it differs from PyTorch's, and what makes nan" {
    local name option page
    kvctl -c 'help optimizer' | sed -n 's/^  \([a-z]*\),\{0,1\} .*/\1/p' >names
    [ "$(grep -c . names)" -gt 20 ]
    while read -r name; do
        page=$(kvctl -c "help optimizer $name" | sed '/^updater/,$d')
        grep -q "PyTorch" <<<"$page" || fail "$name does not speak of PyTorch"
        option=$(kvctl -c "help optimizer $name" | sed -n '/^updater/,/{/s/.*\b\(epsilon\|eps\|beta\) = .*/--\1 0/p' | head -1)
        for with in "" "$option"; do
            run kvctl -q -c "init w ones(2,2); set-optimizer $name $with; push w zeros(2,2); pull w -> x; sum(isnan(x))"
            [ "$output" = 'array(0)' ] || grep -q 'nan' <<<"$page" || fail "$name $with makes nan: $output"
        done
    done <names
}

@test "help: every concern and every option leads somewhere" {
    local word
    for word in undo transactions distributed straggler regex torch pytorch ci memory discard git numpy csv json npz gguf \
        safetensors huggingface lora average nan inf checkpoint resume restart hang deadlock gpu cuda mpi slurm \
        kubernetes ssh debug errors exit-codes seed random sleep stdin pipe history colors variables loops functions \
        categories text gz compression float16 bf16 shards momentum weight-decay learning-rate schedule broadcasting \
        session crash slow oom shard average ema freeze adapter schedule warmup 'early stopping' 'exit code' colour exit \
        port hostfile docker conda venv pip tensorflow jax onnx keras 'gradient clipping' killed initialise optimise \
        allreduce 'data parallel' lr keyboard tutorial autograd ndarray \
        tensorboard npy-a lecture python 'rename keys' -s --seed --max-restarts --rtol; do
        run -0 kvctl help "$word"
        [ "${#output}" -gt 20 ]
        refute_output --partial 'there is no help'
    done
    matches '^  diff +the keys in which' kvctl help --rtol
    begins 'kvctl launch:' kvctl -c 'help --checkpoint'
    for word in zzzz --zzzz -Z; do
        opens -3 "there is no help on \`$word\`" kvctl help -- "$word"
    done
}
