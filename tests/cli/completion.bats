# Completion of kvctl's own command line: what kvctl offers, and how bash, zsh and fish take it.

load help
load screen

# What is offered for the last of the words, without what it is about; the kind is the first line.
offers()
{
    kvctl --completion words "$@" | cut -f 1 | paste -sd ' '
}

# A state file with keys of both storages, and a script.
files()
{
    kvctl -s w.kvs -c 'init weight ones(2); init weft ones(3); init __odd ones(1); init bias row_sparse(ones(3,2))'
    kvctl -s n.kvs -c 'init 30..32 [ones(2)]*3; init 4 ones(1)'
    echo 'x = 1' >script.kv
}

# Waits for a row of the screen that begins with TEXT.
begins()
{
    until_holds "no row begins with \"$1\"" row_begins "$1"
}

row_begins()
{
    screen | awk -v t="$1" 'index($0, t) == 1 { f = 1 } END { exit !f }'
}

@test "completion: options, with what they are about" {
    gives $'words\n--check\tread everything and run nothing; report every error' kvctl --completion words --che
    assert_equal "$(offers --co)" "words --color --completion"
    assert_equal "$(offers -q --no-)" "words --no-rc --no-color"
    kvctl help --json | sed 's/,"functions":.*//' | grep -o '{"name":"[^"]*","usage"' | cut -d '"' -f 4 >commands
    assert_equal "$(offers '')" "files attach jobs launch $(paste -sd ' ' commands)"
    assert_equal "$(offers -q he)" "files help"
    assert_equal "$(offers -c 'x' '')" "files"
    assert_equal "$(offers x.kv '')" "files"
    assert_equal "$(offers x.kv --co)" "files"
    assert_equal "$(offers -f x.kv --co)" "words --color --completion"
    assert_equal "$(offers -- --co)" "files"
}

@test "completion: every option of help, and of help launch, is offered" {
    kvctl -c 'help options' | sed -n 's/^  \(-[a-zA-Z], \)*\(--[a-z-]*\).*/\2/p' | sort >listed
    [ -s listed ]
    kvctl --completion words -- | sed 1d | cut -f 1 | grep '^--' | sort >offered
    diff listed offered
    run kvctl --completion words -
    assert_line --partial $'-c\trun commands'
    kvctl launch --help | sed -n 's/^  \(-[a-zA-Z], \)*\(--[a-z-]*\).*/\2/p' | sort -u >listed
    kvctl --completion words launch -- | sed 1d | cut -f 1 | sort >offered
    diff listed offered
}

@test "completion: values of options" {
    assert_equal "$(offers --color '')" "words auto always never"
    assert_equal "$(offers --color=a)" "words --color=auto --color=always"
    assert_equal "$(offers --completion '')" "words bash zsh fish"
    assert_equal "$(offers --type dev)" "words device"
    assert_equal "$(offers --type=dev)" "words --type=device"
    assert_equal "$(offers --set print.p)" "words print.precision="
    assert_equal "$(offers --format nu)" "words numpy"
    for option in -s -f --store --record --verify --plugin; do
        assert_equal "$(offers "$option" '')" "files"
    done
    assert_equal "$(offers --store=x)" "files"
    assert_equal "$(offers -qs x)" "files"
    assert_equal "$(offers --seed '')" "words"
    assert_equal "$(offers --seed 3 -f x '')" "files"
}

@test "completion: commands and launch" {
    files
    assert_equal "$(offers help pul)" "words pull"
    assert_equal "$(offers create nc)" "words nccl"
    assert_equal "$(offers -s w.kvs pull we)" "words weft weight"
    assert_equal "$(offers set-optimizer ad)" "words adabelief adadelta adagrad adam adamax adamw"
    assert_equal "$(offers push --pri)" "words --priority"
    touch help
    assert_equal "$(offers help pul)" "files"
    assert_equal "$(offers launch --dead)" "words --deadline"
    assert_equal "$(offers launch --deadline 3 -n 2 scr)" "files"
    assert_equal "$(offers launch -n 2 x.kv --tr)" "files"
    assert_equal "$(offers launch -n 2 -f x.kv --tr)" "words --trace"
    assert_equal "$(offers launch -n 2 -c "'pul")" "words pull"
    assert_equal "$(offers launch --checkpoint '')" "files"
    gives $'words\n--launcher' kvctl --completion words launch --launch # no help of one of its values
    assert_equal "$(offers launch --launcher '')" "words local ssh mpi sge slurm yarn k8s"
    assert_equal "$(offers launch --launcher=s)" "words --launcher=ssh --launcher=sge --launcher=slurm"
    assert_equal "$(offers launch -H '')" "files"
    assert_equal "$(offers launch --file '')" "files"
    assert_equal "$(offers launch --launcher k8s --name '')" "words"
    assert_equal "$(offers launch --launcher sge -n 2 --pe x -f y '')" "files"
}

@test "completion: the language behind -c, with the keys of the state file" {
    files
    assert_equal "$(offers -c "'pul")" "words pull"
    assert_equal "$(offers -c "'x = 1; push 3 linsp")" "words x = 1; push 3 linspace("
    assert_equal "$(offers -s w.kvs -c "'pull we")" "words pull weft pull weight"
    assert_equal "$(offers -sw.kvs -c "'pull b")" "words pull bias"
    assert_equal "$(offers --store=w.kvs -c "'pull __")" "words pull __odd"
    assert_equal "$(offers -s n.kvs -c "'pull 3")" "words pull 30 pull 31 pull 32"
    KVCTL_STORE=n.kvs run offers -c '"pull 4'
    assert_output "words pull 4"
    assert_equal "$(offers -s none.kvs -c "'pull we")" "words"
    assert_equal "$(offers -s script.kv -c "'pull we")" "words"
    run kvctl --completion words -c "'pushp"
    assert_line $'pushpull\tKEYS VALUES [--out V] [--priority N]'
    # what the shell would take otherwise than it is meant is not offered
    assert_equal "$(offers -c "'print dtype(\"x\", dtype=fl")" "words"
    assert_equal "$(offers -c 'on')" "words"
}

@test "completion: a state file that is locked, or damaged, makes nobody wait" {
    files
    flock w.kvs kvctl --completion words -s w.kvs -c "'pull b" >out
    assert_equal "$(<out)" $'words\npull bias'
    head -c 20 w.kvs >cut.kvs
    assert_equal "$(offers -s cut.kvs -c "'pull b")" "words"
    assert_equal "$(ls)" $'cut.kvs\nn.kvs\nout\nscript.kv\nw.kvs'
}

@test "completion: checkpoints, the names in them, options that repeat" {
    files
    mkdir weights
    kvctl -c "init 'a.weight','two words',a.bias 1; pull * > weights/m.safetensors"
    assert_equal "$(offers ls '')" "words n.kvs script.kv w.kvs weights/"
    assert_equal "$(offers ls weights/)" "words weights/m.safetensors"
    assert_equal "$(offers ls w.kvs we)" "words weft weight weights/"
    assert_equal "$(offers ls weights/ '')" "words a.bias a.weight n.kvs script.kv w.kvs weights/"
    assert_equal "$(offers ls weights/ w)" "words w.kvs weights/"
    assert_equal "$(offers -c "'check w.kvs n")" "words check w.kvs n.kvs" # where the shell cannot
    assert_equal "$(offers -c "'stat w.kvs n.kvs weights/m")" "words stat w.kvs n.kvs weights/m.safetensors"
    assert_equal "$(offers ls weights/ a.bias a.w)" "words a.weight"
    assert_equal "$(offers ls weights/ --exclude a.b)" "words a.bias"
    assert_equal "$(offers ls weights/ --exclude x --excl)" "words --exclude"
    assert_equal "$(offers -c "'ls weights/m.safetensors a.b")" "words ls weights/m.safetensors a.bias"
    # nothing is read from stdin or a pipe, and nothing is wrong with what is no checkpoint
    mkfifo pipe
    others="words n.kvs pipe script.kv w.kvs weights/"
    assert_equal "$(offers ls pipe '')" "$others"
    assert_equal "$(echo | offers ls - '')" "$others"
    assert_equal "$(offers ls script.kv '')" "$others"
}

@test "completion: the scripts can be read by their shells" {
    local shell
    for shell in bash zsh fish; do
        run -0 kvctl --completion $shell
        printf '%s\n' "$output" | diff - "$top/cli/completions/kvctl.$shell"
        command -v $shell >/dev/null || continue
        gives "" $shell -n "$top/cli/completions/kvctl.$shell"
    done
    mentions -2 '--completion knows bash, zsh and fish, not "tcsh"' kvctl --completion tcsh
    command -v shellcheck >/dev/null || return 0
    shellcheck -s bash "$top/cli/completions/kvctl.bash"
}

# Types a command line, Tab, and what stands there then.
tab()
{
    press C-e C-u C-l
    until_holds "the line is not empty" is_last_row '$'
    type_text "$1"
    until_holds "it was not typed" on_screen "$1"
    press Tab
    begins "\$ $2"
}

# The same in each of them; bash alone closes a quote behind the last word.
common_tabs()
{
    tab 'kvctl --chec' 'kvctl --check'
    tab 'kvctl --color=al' 'kvctl --color=always'
    tab 'kvctl scr' 'kvctl script.kv'
    tab 'kvctl --store=w' 'kvctl --store=w.kvs'
    tab 'kvctl ls w' 'kvctl ls w.kvs'
    tab 'kvctl ls w.kvs wef' 'kvctl ls w.kvs weft'
    tab "kvctl -s w.kvs -c 'pull b" "kvctl -s w.kvs -c 'pull bias"
    tab "kvctl -c 'init 3 1; pus" "kvctl -c 'init 3 1; push"
    tab 'kvctl -c "push 3 linsp' 'kvctl -c "push 3 linspace('
}

@test "completion: at the prompt of bash" {
    command -v tmux >/dev/null || skip "no tmux"
    files
    printf 'PS1="$ "\nbind "set enable-bracketed-paste off"\n. <(kvctl --completion bash)\n' >rc
    terminal_with 100 24 bash --noprofile --rcfile rc -i
    last_row '$'
    common_tabs
    tab "kvctl -s w.kvs -c 'pull we" "kvctl -s w.kvs -c 'pull we"
    press Tab
    shows "pull weft    pull weight"
    tab "kvctl -c 'pul" "kvctl -c 'pull"
    type_text "3" "\$ kvctl -c 'pull 3"
}

@test "completion: at the prompt of zsh" {
    command -v tmux >/dev/null || skip "no tmux"
    command -v zsh >/dev/null || skip "no zsh"
    files
    mkdir functions
    kvctl --completion zsh >functions/_kvctl
    printf 'PS1="$ "\nfpath=("$HOME/functions" $fpath)\nautoload -Uz compinit; compinit -u -D\n' >.zshrc
    ENVIRONMENT="ZDOTDIR=$HOME" terminal_with 100 24 zsh -i
    last_row '$'
    common_tabs
    tab 'kvctl --col' 'kvctl --color'
    tab 'kvctl --p' 'kvctl --p'
    shows "--pager  -- auto, always or never"
}

@test "completion: at the prompt of fish" {
    command -v tmux >/dev/null || skip "no tmux"
    command -v fish >/dev/null || skip "no fish"
    files
    mkdir -p .config/fish/completions
    kvctl --completion fish >.config/fish/completions/kvctl.fish
    printf 'function fish_prompt; printf "\\$ "; end\nset -g fish_greeting\nset -g fish_autosuggestion_enabled 0\n' \
        >.config/fish/config.fish
    terminal_with 100 24 fish
    last_row '$'
    common_tabs
}
