# What the bats files share: `load help`. kvctl is the program under test; each test begins in a
# scratch folder of its own.

bats_require_minimum_version 1.5.0

# `run -N` asks for the version once more each time, which in bats 1.8 counts in the test's own variable i.
bats_warn_minimum_guaranteed_version() { :; }

# A file whose tests all need programs names them: needs='NAME…'.
setup_file()
{
    # shellcheck disable=SC2086,SC2154 # words, of the file
    [ -z "${needs-}" ] || file_needs $needs || true
}

# file_needs NAME…, for a setup_file that does more: where one of these programs is missing, the tests of the file are
# skipped and the answer is no. `mpi` stands for the plugin of several machines and mpirun.
file_needs()
{
    local name
    for name; do
        if [ "$name" = mpi ]; then
            name=mpirun
            [ -e "${KVCTL_BUILD:-$BATS_TEST_DIRNAME/../../build}/kvstore_mpi.so" ] ||
                { skip_file "built without MPI"; return 1; }
        fi
        command -v "$name" >/dev/null || { skip_file "there is no $name"; return 1; }
    done
}

# In setup_file itself bats 1.8 takes a skip for a failure.
skip_file()
{
    export SKIP_FILE=$1
}

# needs_mpi, in a test that starts ranks; root may.
needs_mpi()
{
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    command -v mpirun >/dev/null || skip "there is no mpirun"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# bats notes before each command where it is, for the message of a test that fails: a third of the time of all tests. The
# place is known as well when a command has failed.
bats_error_trap()
{
    bats_check_status_from_trap # looks at $?
    bats_capture_stack_trace
    # shellcheck disable=SC2034
    BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
}

# Reads the functions of bats-support and bats-assert. Their own load.bash starts a process for each of its files.
load_libraries()
{
    local folder file library
    for library in bats-support bats-assert; do
        for folder in ${BATS_LIB_PATH:-} /usr/lib/bats /usr/local/lib/bats /usr/lib; do
            [ ! -e "$folder/$library/load.bash" ] || break
        done
        [ -e "$folder/$library/load.bash" ] || skip "there is no $library: make setup"
        # shellcheck source=/dev/null
        for file in "$folder/$library"/src/*.bash; do . "$file"; done
    done
}

# gives [-STATUS] OUTPUT COMMAND…: the command ends with this exit status, or 0, and this output;
# begins: with this first line; opens: with this text in the first line; says: with this line among others;
# matches: with a line that matches this expression; mentions: with this text in it.
gives()
{
    ends_so assert_output "$@"
}

begins()
{
    ends_so "assert_line --index 0" "$@"
}

opens()
{
    ends_so "assert_line --index 0 --partial" "$@"
}

says()
{
    ends_so assert_line "$@"
}

matches()
{
    ends_so "assert_line --regexp" "$@"
}

mentions()
{
    ends_so "assert_output --partial" "$@"
}

ends_so()
{
    local check=$1 status_wanted=-0
    shift
    [[ $1 =~ ^-[0-9]+$ ]] && status_wanted=$1 && shift
    run "$status_wanted" "${@:2}"
    $check "$1"
}

# make_here WORD…: makes them in the build folder, with its flags. Files of tests run beside each other, so it waits for
# another make there.
make_here()
{
    flock "$build/flags" make -s -C "$top" BUILD="$build" OPT="$(sed -n 2p "$build/flags")" "$@"
}

# Puts a program NAME with BODY first on the path.
fake()
{
    mkdir -p bin
    printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
    [[ $PATH == "$PWD/bin:"* ]] || PATH=$PWD/bin:$PATH
}

setup()
{
    [ -z "${SKIP_FILE:-}" ] || skip "$SKIP_FILE"
    trap - DEBUG # see bats_error_trap
    BATS_DEBUG_LAST_STACK_TRACE=() BATS_DEBUG_LASTLAST_STACK_TRACE=()
    load_libraries
    top=${BATS_TEST_DIRNAME%/*/*}
    build=${KVCTL_BUILD:-$top/build}
    data=$top/tests/cli/data
    PATH=$build:$PATH
    BATS_PRINT_OUTPUT_ON_FAILURE=1 # of `run -N` with another exit status, too
    unset BUILD UNDER ONLY SETUP # of the make that runs this
    unset KVCTL_STORE KVCTL_RC KVCTL_HISTORY NO_COLOR PAGER XDG_STATE_HOME XDG_CONFIG_HOME
    # shellcheck source=/dev/null
    [[ $BATS_TEST_FILENAME != */dist/* && $BATS_TEST_FILENAME != */@(attach|launch|launch-prompt).bats ]] || . "$top/tests/dist/sanitizers"
    # on a busy machine ranks need long to begin, and are silent for seconds; but where a rank is killed in MPI_Finalize, the
    # others hang there for as long
    [[ $BATS_TEST_FILENAME != */dist/* && $BATS_TEST_FILENAME != */@(cli/attach|cli/launch-prompt|launch/ssh|launch/k8s|launch/slurm|launch/sge).bats ]] || export KVSTORE_DEADLINE=20
    # virtual GPUs are shown, also where there are others
    export CUDA_VISIBLE_DEVICES=
    export LC_ALL=C.UTF-8 HOME=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR" || return 1
}

# A file as another tool writes it, with two keys and metadata of its own.
foreign()
{
    local header='{"__metadata__":{"format":"pt","author":"me"},"fc.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    printf -v header '%-168s' "$header"
    printf '\250\0\0\0\0\0\0\0%s\0\0\200?\0\0\0@' "$header" >"${1:-m.safetensors}"
}

# signalled SIGNAL WORD…: kvctl with these words gets a signal while it waits for something. Before it has its
# handlers, the signal would end it without a word. Background processes of a script ignore SIGINT, hence set -m.
signalled()
{
    local kvctl
    set -m
    kvctl "${@:2}" <&0 2>err 3>&- &
    kvctl=/proc/$!
    until grep -qs kvctl "$kvctl/comm" && ((0x0$(sed -n 's/^SigCgt:[[:space:]]*//p' "$kvctl/status") & 2)); do
        [ -e "$kvctl" ] || break
        sleep 0.02
    done
    sleep 0.2
    kill -"$1" $!
    wait $!
}

# Runs a command as somebody who is not root.
as_nobody()
{
    if [ "$(id -u)" != 0 ]; then
        "$@"
    else
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    fi
}

# each_rank FILE…: lines of launch, those of several ranks (`[0..2 4] text`) once a rank. Whether launch joins
# equal lines depends on when the ranks write them.
each_rank()
{
    awk '
    !match($0, /^\[s?[0-9]+[^a-z\]]*\] /) { print; next }
    {
        rest = substr($0, RLENGTH + 1)
        n = split(substr($0, 2, RLENGTH - 3), parts, " ")
        for (i = 1; i <= n; i++) {
            role = parts[i] ~ /^s/ ? "s" : ""
            sub(/^s/, "", parts[i])
            last = split(parts[i], ends, /\.\./)
            for (r = ends[1] + 0; r <= ends[last] + 0; r++)
                print "[" role r "] " rest
        }
    }' "$@"
}

# The same for $output and $lines.
by_rank()
{
    output=$(each_rank <<<"$output")
    mapfile -t lines <<<"$output"
}
