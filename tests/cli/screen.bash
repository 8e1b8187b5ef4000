# A real terminal for the tests: tmux holds a program, sends keys and tells what the screen shows.
# Nothing here sleeps for a fixed time: each step waits for what it expects.

# A terminal of COLUMNS x ROWS with a program and its arguments in it; what it writes is also in the
# file `raw`. Variables in $ENVIRONMENT (NAME=VALUE …) are set for it.
terminal_with()
{
    local columns=$1 rows=$2
    shift 2
    end_terminal # the one before
    socket=$(mktemp -u /tmp/kvctl-tmux.XXXXXX)
    printf '#!/bin/sh\nexec env %s %s\n' "${ENVIRONMENT:-}" "$*" >start
    chmod +x start
    # The server must not keep open what bats waits for.
    tmux -S "$socket" -f /dev/null new-session -d -s t -x "$columns" -y "$rows" cat 3>&- 4>&-
    tmux -S "$socket" set -g default-terminal screen
    tmux -S "$socket" set -g remain-on-exit on
    tmux -S "$socket" pipe-pane -t t "cat >>'$PWD/raw'"
    tmux -S "$socket" respawn-pane -k -t t "$PWD/start"
}

# The same with kvctl ARG…, which has started.
terminal()
{
    terminal_with "$1" "$2" kvctl "${@:3}"
    shows "kv"
}

teardown()
{
    end_terminal
}

end_terminal()
{
    [ -z "${socket:-}" ] || tmux -S "$socket" kill-server 2>/dev/null || true
    [ -z "${socket:-}" ] || rm -f "$socket"
}

screen()
{
    tmux -S "$socket" capture-pane -t t -p "$@"
}

# type_text TEXT [ROW]: types text as it is, and waits for a row.
type_text()
{
    tmux -S "$socket" send-keys -t t -l -- "$1"
    [ $# -eq 1 ] || row "$2"
}

# pastes [-p]: what paste.txt holds; -p: with brackets round it.
pastes()
{
    tmux -S "$socket" load-buffer paste.txt
    tmux -S "$socket" paste-buffer "$@" -t t
}

# Presses keys by their names: Enter, Tab, C-c, Up, …
press()
{
    tmux -S "$socket" send-keys -t t "$@"
}

# presses ROW KEY…: the same, and waits for a row.
presses()
{
    press "${@:2}"
    row "$1"
}

# enter TEXT [ROW]: the same with Enter.
enter()
{
    type_text "$1"
    press Enter
    [ $# -eq 1 ] || row "$2"
}

# Waits until a condition holds; says what the screen shows when it does not come to that.
until_holds()
{
    local i what=$1
    shift
    for ((i = 0; i < 2400; i++)); do
        if "$@"; then
            return 0
        fi
        sleep 0.05
    done
    echo "--- $what; the screen:"
    screen
    return 1
}

on_screen()
{
    screen | grep -qF -- "$1"
}

# The command of the terminal has ended with this status. tmux can miss the signal of an end, which leaves the
# process a zombie, so it is sent again.
has_ended()
{
    kill -CHLD "$(tmux -S "$socket" display-message -p '#{pid}')"
    on_screen "Pane is dead (status $1"
}

# A row that is TEXT and nothing else.
is_row()
{
    screen | grep -qxF -- "$1"
}

# The last row that is not empty is TEXT.
is_last_row()
{
    [ "$(screen | sed -n '/./h;${x;p}')" = "$1" ]
}

not_on_screen()
{
    ! on_screen "$1"
}

shows()
{
    until_holds "no \"$1\" came" on_screen "$1"
}

row()
{
    until_holds "no row \"$1\" came" is_row "$1"
}

last_row()
{
    until_holds "the last row is not \"$1\"" is_last_row "$1"
}

# Leaves with Ctrl-D at PROMPT, once what runs has been seen: pressed while a line runs, the key is lost, as in bash.
leave()
{
    last_row "$1"
    press C-d
}

gone()
{
    until_holds "\"$1\" stays" not_on_screen "$1"
}

is_dead()
{
    [ "$(tmux -S "$socket" display -p -t t '#{pane_dead}')" = 1 ]
}

# Waits until kvctl has ended.
ended()
{
    until_holds "kvctl goes on" is_dead
}

# Starts kvctl again, in the same terminal.
again()
{
    tmux -S "$socket" respawn-pane -k -t t "$PWD/start"
    last_row "kv>"
}
