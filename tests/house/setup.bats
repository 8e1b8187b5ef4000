# scripts/setup: what it says and does, with a dpkg-query, apt-get and sudo of our own.

load ../cli/help

# A machine where all packages but the ones named are installed.
lacks()
{
    fake dpkg-query "case \" $* \" in *\" \$4 \"*) exit 1;; *) printf 'install ok installed';; esac"
    fake apt-get 'echo "$@" >>calls'
    PATH=$PWD/bin:$PATH
}

@test "set-up: says nothing and does nothing when nothing is missing" {
    lacks
    gives "" "$top/scripts/setup"
    [ ! -e calls ]
}

@test "set-up: names what is missing, and installs it as root" {
    lacks libcsv-dev bats
    fake id 'echo 0'
    says "setup: missing packages: libcsv-dev bats" "$top/scripts/setup"
    run cat calls
    assert_line --partial "-q install -y --no-install-recommends libcsv-dev bats"
}

@test "set-up: without root it prints the line to type and fails" {
    lacks libcsv-dev
    fake id 'echo 1000'
    fake sudo 'exit 1'
    fake find 'echo bookworm_Packages'
    says -1 "  sudo apt-get install -y --no-install-recommends libcsv-dev" "$top/scripts/setup"
    [ ! -e calls ]
}

@test "set-up: where apt-get knows no packages yet the line to type reads the lists first" {
    lacks libcsv-dev
    fake id 'echo 1000'
    fake sudo 'exit 1'
    fake find ''
    says -1 "  sudo apt-get update && sudo apt-get install -y --no-install-recommends libcsv-dev" "$top/scripts/setup"
}

@test "set-up: takes sudo where it asks for no password" {
    lacks libcsv-dev
    fake id 'echo 1000'
    fake sudo '[ "$1" = -n ] && shift; exec "$@"'
    run -0 "$top/scripts/setup"
    run cat calls
    assert_line --partial "libcsv-dev"
}

@test "set-up: SETUP=0 lists what is missing and never installs" {
    lacks libcsv-dev
    fake id 'echo 0'
    SETUP=0 says "setup: missing packages: libcsv-dev" "$top/scripts/setup"
    assert_line "setup: going on without them (SETUP=0)"
    [ ! -e calls ]
}

@test "set-up: parts that are left out need no packages" {
    lacks libreadline-dev libopenmpi-dev openmpi-bin
    READLINE=0 MPI=0 gives "" "$top/scripts/setup"
}

@test "set-up: g++ is for machines without a C++ compiler" {
    lacks g++
    fake id 'echo 0'
    CXX=true gives "" "$top/scripts/setup"
    CXX=no-such-compiler says "setup: missing packages: g++" "$top/scripts/setup"
}

@test "set-up: scripts/bare needs debootstrap and nothing else" {
    lacks debootstrap libcsv-dev openssh-server
    fake id 'echo 0'
    says "setup: missing packages: debootstrap" "$top/scripts/setup" bare
}

@test "set-up: clang is for fuzzing alone" {
    lacks clang libclang-rt-dev
    fake id 'echo 0'
    gives "" "$top/scripts/setup"
    says "setup: missing packages: clang libclang-rt-dev" "$top/scripts/setup" fuzz
}

@test "set-up: packages with daemons are for root where nothing starts them" {
    [ ! -d /run/systemd/system ] || skip "this machine has systemd"
    lacks openssh-server slurmd gridengine-exec
    fake id 'echo 1000'
    gives "" "$top/scripts/setup"
    fake id 'echo 0'
    says "setup: missing packages: openssh-server" "$top/scripts/setup"
    says "setup: missing packages: openssh-server slurmd gridengine-exec" "$top/scripts/setup" launch
    run tail -n 1 calls
    assert_output --partial "openssh-server slurmd gridengine-exec"
}

@test "set-up: fails when the packages cannot be had" {
    lacks libcsv-dev
    fake id 'echo 0'
    fake apt-get 'echo "no network" >&2; exit 100'
    mentions -100 "setup: apt-get failed" "$top/scripts/setup"
}

@test "set-up: lists read long ago are read again when a package is gone" {
    lacks libcsv-dev
    fake id 'echo 0'
    fake apt-get 'echo "$@" >>calls; case $* in *update*) touch fresh;; *) [ -e fresh ];; esac'
    run -0 "$top/scripts/setup"
    run grep -c libcsv-dev calls
    [ "$output" -ge 1 ]
    run grep -c update calls
    assert_output 1
}

@test "make: libraries without headers are named, and nothing is compiled" {
    # -nostdinc: the compiler finds no header
    run ! make -s -C "$top" BUILD="$PWD/b" MPI=0 CUDA=0 CFLAGS=-nostdinc
    assert_line 'missing: the headers of libcsv cJSON zlib libxxhash OpenSSL libzstd PCRE2. "make setup" installs them.'
    refute_output --partial 'CC'
    run make -s -C "$top" BUILD="$PWD/b" MPI=0 CUDA=0 CFLAGS=-nostdinc READLINE=1
    assert_line 'missing: the headers of libcsv cJSON zlib libxxhash OpenSSL libzstd PCRE2 readline. "make setup" installs them.'
}

@test "make: a built tree has nothing to do, says so at once, and -n and -q say the same" {
    local opt
    opt=$(sed -n 2p "$build/flags")
    make_here
    make -q -C "$top" BUILD="$build" OPT="$opt"
    run env -u MAKELEVEL -u MAKEFLAGS make -n --no-print-directory -C "$top" BUILD="$build" OPT="$opt"
    assert_output "make: Nothing to be done for 'all'."
    # an option changes
    run -1 make -q -C "$top" BUILD="$build" OPT="$opt -DX"
    # the answers about this machine are kept: nothing is asked again
    local kept
    kept=$(stat -c %y "$build/probes.mk")
    make -q -C "$top" BUILD="$build" OPT="$opt"
    assert_equal "$(stat -c %y "$build/probes.mk")" "$kept"
}

# The loops of optimizers are a text by a program that most of the library is linked into: the build's own must write the
# same again, and the archives here have none.
@test "make: the same source in two folders gives the same bytes" {
    local folder
    for folder in one two/deeper; do
        mkdir -p "$folder/build"
        cp -r "$top"/{Makefile,lib,src,scripts} "$folder"
        cp "$build/no_loops.c" "$folder/build/rule_loops.c"
        make -s -C "$folder" -o build/rule_loops.c MPI=0 CUDA=0 PYTHON=0 PARTS=lib/engine build/libkvstore.a
    done
    cmp one/build/libkvstore.a two/deeper/build/libkvstore.a
    (cd two/deeper && "$build/loops" src/optimizers/*.kvu src/merges/{dare_ties,linear,slerp,ties}.kvu loops.c)
    cmp two/deeper/loops.c "$build/rule_loops.c"
}

@test "make help: lists every word that says what it does" {
    run -0 make -s -C "$top" help
    assert_equal "$(sed '/^  options/d' <<<"$output" | awk '{ print $1 }')" \
        "$(grep -E '^[^[:space:]#].*[^#]## ' "$top/Makefile" "$top/tests/tests.mk" "$top/tests/bench/bench.mk" | cut -d: -f2)"
    assert_line --regexp '^  bench-rows +row_sparse values, summed'
}
