# What a stranger could use: text that acts on a terminal, files that lie where kvctl writes or looks, words
# that reach a shell or another program. Each value below is hostile, and each command runs for real.

load help
load screen

# A title for the window, a bell, a cleared screen, a line's begin, CSI of 8 bits, an override and an isolate of
# bidirectional text, DEL: as characters of UTF-8, then with a byte that is none.
evil=$'e\e]0;pwn\a\e[2J\r\b\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\x7f'
broken=$evil$'\xff'
# the same in a text of the language
escaped='e\u{1b}]0;pwn\u{7}\u{1b}[2J\u{d}\u{8}\u{9b}31m\u{202e}\u{2066}\u{7f}'

# Runs a command whose stdout and stderr are a terminal; `seen` gets what came there.
on_terminal()
{
    local line
    printf -v line '%q ' "$@"
    NO_COLOR=1 SHELL=/bin/bash timeout 60 script -qec "$line" /dev/null </dev/null | sed 's/\r$//' >seen
}

# acts FILE: shows lines that would act on a terminal; a byte that is no UTF-8 is one, too.
acts()
{
    LC_ALL=C grep -naP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$1" | cat -v
    iconv -f UTF-8 -t UTF-8 "$1" >/dev/null || true
}

# harmless COMMAND…: what it shows on a terminal is not empty, and nothing of it acts.
harmless()
{
    on_terminal "$@"
    [ -s seen ]
    run acts seen
    assert_output ""
}

# ---- The terminal ------------------------------------------------------------------------------

@test "doors: the helper finds what acts" {
    command -v script >/dev/null || skip "no script"
    on_terminal printf 'a%s\n' "$broken"
    run acts seen
    assert_output --partial '^[]0;pwn'
    assert_output --partial 'illegal input'
    printf 'a\tb \xc3\xa9\n' >seen
    run acts seen
    assert_output ""
}

@test "doors: names of files, keys and texts do not act on a terminal" {
    command -v script >/dev/null || skip "no script"
    printf 'init "k%s" range(4); pull *; list; info; vars; explain push "k%s" 2; x = "%s"; print x; x
d = {"%s": [x]}; print d; d; plot range(4) + len("%s"); pull "n%s"\n' \
        "$escaped" "$escaped" "$escaped" "$escaped" "$evil" "$escaped" >"$broken.kv"
    printf 'kv> print 1 # %s\n%s\n' "$evil" "$evil" >"$broken.md"
    printf '%s,b\n1,2\nx%s,3\n' "$evil" "$broken" >t.csv
    printf '{"%s":[1,2],"b":["%s"]}' "$escaped" "$broken" >t.json
    for options in "" -v -x --check --dry-run --safe --json; do
        on_terminal kvctl -k $options "$broken.kv"
        run acts seen
        assert_output ""
    done
    kvctl -s "$broken.kvs" -c "init \"k$escaped\" 1"
    harmless kvctl -s "$broken.kvs" list
    harmless kvctl -s "$broken.kvs" --dry-run -c "push * 1"
    harmless kvctl --verify "$broken.md"
    harmless kvctl "$evil"
    harmless kvctl "--$broken"
    harmless kvctl --set "$broken=1" -c 'print 1'
    harmless kvctl -c 'print @t.csv'
    harmless kvctl -c 'print load("t.csv", header=false)'
    harmless kvctl -c 'x = @t.json; print x'
    harmless kvctl -c "source \"$escaped\""
    harmless env HOME="$PWD/$broken" KVCTL_HISTORY="$PWD/$broken" kvctl doctor
    harmless kvctl help "$evil"
    harmless kvctl merge "$evil" a b
}

@test "doors: names of plots do not act on a terminal" {
    command -v script >/dev/null || skip "no script"
    for option in "" --heat --hist; do
        harmless kvctl --safe -c "plot $option ones(4,4)[0:2] + len(\"$evil\")"
        grep -qF '\u{9b}31m' seen || grep -qF '..' seen
    done
    # what gnuplot gets
    fake gnuplot "cat >input"
    on_terminal kvctl -c "plot [1, 2, len(\"$evil\")]"
    [ -s input ]
    run acts input
    assert_output ""
}

@test "doors: what a checkpoint holds does not act on a terminal" {
    command -v script >/dev/null || skip "no script"
    local header
    header='{"__metadata__":{"k\u001b]0;t\u0007":"v\u009b2J"},"a\u001b[2J\u009b31m\u202e\u0007\n\r":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    printf -v header '%-200s' "$header"
    printf '\310\0\0\0\0\0\0\0%s\1' "$header" >"m$broken.safetensors"
    cp "m$broken.safetensors" m.safetensors
    for command in ls stat hash check "diff m.safetensors" "ls --metadata"; do
        on_terminal kvctl $command "m$broken.safetensors"
        run acts seen
        assert_output ""
    done
    harmless kvctl ls m.safetensors
    grep -qF 'a\x1b[2J' seen
}

@test "doors: completion offers no word that acts, in the prompt and to a shell" {
    command -v tmux >/dev/null || skip "no tmux"
    kvctl -s k.kvs -c "init \"a1$escaped\" 1; init \"a2$escaped\" 1; init \"b$escaped\" 1"
    touch "f1$evil.csv" "g$evil.csv" "h1.csv" "h2$broken.csv"
    ENVIRONMENT=NO_COLOR=1 terminal 120 40 -q -s k.kvs
    type_text "pull b"
    presses 'kv> pull "be\x1b]0;pwn\x07\x1b[2J\x0d\x08\u{9b}31m\u{202e}\u{2066}\x7f"' Tab
    press C-u
    type_text 'pull "b'
    presses 'kv> pull "be\x1b]0;pwn\x07\x1b[2J\x0d\x08\u{9b}31m\u{202e}\u{2066}\x7f"' Tab
    press C-u
    type_text 'pull "a'
    press Tab Tab
    shows 'a2e\x1b]0;'
    press C-u
    for file in f g h2; do
        type_text "print @$file"
        press Tab Tab
        press C-u
    done
    type_text "print @h"
    presses 'kv> print @h1.csv' Tab
    run grep -aF -e $'\e]' -e $'\e[2J' -e $'\xc2\x9b' -e $'\xe2\x80\xae' raw
    assert_output ""
    for word in '"a' "'b" a b; do
        kvctl --completion words -s k.kvs pull "$word" >seen
        run acts seen
        assert_output ""
    done
}

# A rank's own words, and those of the programs that start it.
@test "doors: what ranks and the programs of a launcher say does not act on a terminal" {
    command -v script >/dev/null || skip "no script"
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    export say="printf 'said \033]0;pwn\007\033[2J\302\233\342\200\256\377\n'"
    printf '!%s\n!%s >&2\nassert 0, "%s"\n' "$say" "$say" "$escaped" >"$evil.kv"
    harmless kvctl launch -n 2 "$evil.kv"
    assert_equal "$(each_rank seen | grep -c '^\[[01]\] said \\x1b\]0;pwn\\x07\\x1b\[2J\\u{9b}\\u{202e}\\xff$')" 4
    # to a pipe or a file it goes as it is
    kvctl launch -n 1 "$evil.kv" >out 2>err || true
    assert_equal "$(acts out | wc -l)" 1
    assert_equal "$(acts err | wc -l)" 1
    printf 'h1\nh2\n' >hosts
    for program in ssh rsync qsub salloc yarn; do
        fake "$program" "$say; $say >&2; exit 1"
    done
    mkdir -p h/share/hadoop/yarn
    touch h/share/hadoop/yarn/hadoop-yarn-applications-distributedshell-1.jar
    export HADOOP_HOME=$PWD/h
    harmless kvctl launch -n 2 -H hosts --deadline 3 "$evil.kv"
    harmless kvctl launch -n 2 -H hosts --sync-dst-dir /tmp/x --deadline 3 "$evil.kv"
    for launcher in sge yarn slurm; do
        # salloc has the terminal itself
        [ $launcher = slurm ] || harmless kvctl launch -n 2 --launcher "$launcher" --deadline 3 "$evil.kv"
        harmless kvctl launch -n 2 --launcher "$launcher" --dry-run --env "A=$broken" "$evil.kv"
    done
    harmless kvctl launch -n 2 --launcher k8s --image "$evil" --dry-run --env "A=$broken" "$evil.kv"
    harmless kvctl launch -n 2 --launcher k8s --image i --name "$evil" --file "$evil" "$evil.kv"
    harmless kvctl launch -n 2 --dry-run --env "A=$broken" "$evil.kv"
    harmless kvctl launch -n 2 -H "$evil" "$evil.kv"
    harmless kvctl launch -n 2 --env "$evil=1" "$evil.kv"
    harmless kvctl launch -n 2 --launcher "$evil" "$evil.kv"
}

# ---- Words that reach other programs -------------------------------------------------------------

# recorder NAME…: programs first on the path that keep their words, NUL behind each, in words/NAME.
recorder()
{
    local name
    mkdir -p words
    for name; do
        fake "$name" "printf '%s\\0' \"\$@\" >>'$PWD/words/$name'
exit 1"
    done
}

# A word for every way to be read by a shell, and with each a file that must not come to be.
words=('$(touch made)' '`touch made`' '; touch made' '"; touch made; "' "'; touch made; '" $'\ntouch made\n'
    '| touch made' '& touch made' '>made' '&& touch made' '${IFS}touch${IFS}made' '-oProxyCommand=touch made' '*' '~' '\' '!!' ' ' ''
    '{made,made}' $'\ttouch made' '# made' $'END\ntouch made' '%s%n' "$(printf '\351')")

none_made()
{
    run find "$BATS_TEST_TMPDIR" -name made
    assert_output ""
}

@test "doors: mpirun gets the words of a job as they are, and no program of theirs" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    recorder mpirun
    echo 'print 1' >a.kv
    run kvctl launch -n 2 a.kv "${words[@]}"
    printf '%s\0' a.kv "${words[@]}" >wanted
    tail -c "$(stat -c %s wanted)" words/mpirun | cmp - wanted
    # : begins another program of the job
    run -2 kvctl launch -n 1 a.kv : -n 1 touch made
    assert_output 'kvctl: error[usage]: launch: no rank can get the word ":": mpirun would run what stands behind it as a program'
    rm -r bin
    printf '%s\n' 'print args' >a.kv
    kvctl launch -n 1 a.kv "${words[@]:0:22}" >out
    kvctl a.kv "${words[@]:0:22}" | sed 's/^/[0] /' | cmp - out
    none_made
}

@test "doors: a host, a port, a queue or a launcher is refused when it is no name" {
    recorder mpirun ssh rsync qsub salloc yarn
    export HADOOP_HOME=$PWD
    echo 'print 1' >a.kv
    for word in "${words[@]}"; do
        [[ $word != *[![:space:]]* || $word == '#'* ]] || {
            printf '%s\n' "$word" >hosts
            run -5 kvctl launch -n 1 -H hosts a.kv
            printf 'h:%s\n' "$word" >hosts
            run -5 kvctl launch -n 1 -H hosts a.kv
            printf 'h slots=%s\n' "$word" >hosts
            run -5 kvctl launch -n 1 -H hosts a.kv
        }
        printf 'h1\n' >hosts
        run env "KVSTORE_ $word=1" kvctl launch -n 1 -H hosts --dry-run a.kv
        refute_output --partial KVSTORE_
        run -2 kvctl launch -n 1 --launcher "$word" a.kv
        run -2 kvctl launch -n 1 --env "$word" a.kv
        run -2 kvctl launch -n 1 --env "$word=1" a.kv
        for option in -n -s --deadline --timeout --checkpoint-every --max-restarts --memory --queue-timeout; do
            run -2 kvctl launch -n 1 --launcher yarn "$option" "$word" a.kv
        done
        for option in --name --namespace --volume --cpus --rank-gpus --slots; do
            run -2 kvctl launch -n 1 --launcher k8s --image i "$option" "$word" a.kv
        done
    done
    run ls words
    assert_output ""
    none_made
}

# The clients of queues and ssh stand here for those of a machine: each runs what it is given as the real one
# does, by a shell. The job's files, folders and variables have every word above in their names and values.
@test "doors: jobs of queues and hosts have the values they were given, and nothing of them runs" {
    command -v rsync >/dev/null || skip "no rsync"
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    local all word folder
    printf -v all '%s' "${words[@]//\//}"
    folder=$'it\'s; $(touch made)\n`touch made` "x'
    mkdir "$folder" "t $folder"
    export TMPDIR="$PWD/t $folder" HADOOP_HOME="$PWD/t $folder"
    mkdir -p "$HADOOP_HOME/share/hadoop/yarn"
    touch "$HADOOP_HOME/share/hadoop/yarn/hadoop-yarn-applications-distributedshell-1.jar"
    fake qsub 'for job; do :; done
sed -n "s/^#\$ //p" "$job" >"$HOME/directives"
sh "$job"'
    fake salloc 'while [ "$1" != sh ]; do shift; done
exec "$@"'
    fake yarn 'printf "%s\0" "$@" >>"$HOME/yarn"
case $1 in logs) cat "$HOME/log"; exit ;; application) exit ;; esac
while [ "$1" != -shell_script ]; do shift; done
echo "INFO Submitted application application_17_0001, yarnAppState=RUNNING"
cd / && sh "$2" >"$HOME/log" 2>&1
exit 0'
    # of the job itself, its words and the variables that it gets
    fake mpirun 'printf "%s\0" "$@" >"$HOME/mpirun"
printf %s "$KVCTL_ENV_a_A" >"$HOME/value"
printf %s "$PWD" >"$HOME/pwd"'
    cd "$folder"
    echo 'print 1' >"$folder.kv"
    for launcher in sge slurm yarn mpi local; do
        rm -f "$HOME/mpirun"
        run kvctl launch --launcher $launcher -n 1 --env "A=$all" --checkpoint "$folder.kvs" \
            --checkpoint-every 5 "$folder.kv" "$all"
        printf '%s\0' launch-rank "$folder.kv" "$all" >"$HOME/wanted"
        tail -c "$(stat -c %s "$HOME/wanted")" "$HOME/mpirun" | cmp - "$HOME/wanted"
        assert_equal "$(cat "$HOME/value"; echo .)" "$all."
        assert_equal "$(cat "$HOME/pwd"; echo .)" "$PWD."
    done
    # what SGE reads as options of its own
    run grep -vxE -e '-S /bin/sh|-N kvctl|-cwd|-r n|-pe orte 1|-o kvctl-[^ ]*/out|-e kvctl-[^ ]*/err' "$HOME/directives"
    assert_output ""
    # ssh gives the words behind the host, with blanks between them, to the shell of the host
    fake ssh 'while [ "${1#-}" != "$1" ]; do case $1 in -o | -p | -l) shift ;; esac; shift; done
[ "$1" = h1 ] || exit 9
shift
cd "$HOME" && exec sh -c "$*"'
    fake orted :
    mkdir "$HOME/bin/real"
    ln -s "$build/kvctl" "$HOME/bin/real/kvctl"
    echo h1 >"$HOME/hosts"
    run kvctl launch -H "$HOME/hosts" -n 1 --env "A=$all" "$folder.kv" "$all"
    tail -c "$(stat -c %s "$HOME/wanted")" "$HOME/mpirun" | cmp - "$HOME/wanted"
    for word in '' RSYNC_OLD_ARGS=1; do
        run env $word kvctl launch -H "$HOME/hosts" -n 1 --sync-dst-dir "$HOME/copy $folder" "$folder.kv" "$all"
        cmp "$folder.kv" "$HOME/copy $folder/$folder.kv"
        rm -r "$HOME/copy $folder"
    done
    none_made
}

# ---- Files ---------------------------------------------------------------------------------------

needs_nobody()
{
    [ "$(id -u)" = 0 ] || skip "only root has another user to be"
    command -v setpriv >/dev/null || skip "there is no setpriv"
    chmod 755 "$BATS_TEST_TMPDIR"
    as_nobody kvctl -V >/dev/null 2>&1 || skip "another user cannot run $build/kvctl"
}

# trapped WORD…: runs kvctl where every name that a writer of its process could choose for a temporary file is
# a link to `victim` already.
trapped()
{
    bash -c 'for i in 0 1 2; do ln -s victim ".kv-$$-$i.tmp"; ln -s victim ".kv-$$-$i.old"; done
exec kvctl "$@"' trapped "$@"
    assert_equal "$(cat victim)" "mine"
    rm -f .kv-*
}

@test "doors: no temporary file is written through a link that waits for it" {
    echo mine >victim
    trapped -s w.kvs -c 'init w ones(4)'
    trapped -s w.kvs -c 'push w ones(4)'
    for ending in csv tsv json ndjson npy safetensors txt; do
        trapped -c "write ones(2) x.$ending"
    done
    trapped -c 'x = ones(2); x >> y.csv; x >> y.csv'
    trapped -c 'init w ones(2); set-optimizer adam; push w ones(2); save-states s.states'
    trapped convert w.kvs half/ --dtype bf16
    trapped convert w.kvs half/ --dtype f32 --force
    trapped convert w.kvs w.npz
    kvctl -s v.kvs -c 'init w ones(4) * 3'
    trapped patch w.kvs v.kvs --out p.patch
    trapped apply p.patch w.kvs --out again.safetensors
    trapped merge average w.kvs v.kvs --out m.safetensors
    trapped -c 'profile p.json; init w 1; profile off'
    printf 'kv> print 1\n2\n' >old.md
    trapped --verify old.md --update
    ln -s victim page.md.part
    trapped --record page.md -c 'print 1'
    assert [ -f page.md ]
    run find . -type l
    assert_output ""
}

@test "doors: what is made has the mode of the old file or of the umask, and is private until it is whole" {
    command -v strace >/dev/null || skip "no strace"
    umask 022
    private()
    {
        strace -f -qq -e trace=open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2 -o calls kvctl "$@"
        # gcc's counters (make coverage) are files of the build
        grep -E 'O_CREAT' calls | grep -v -e ENOENT -e /dev/ -e '[.]gcda"' >made || true
        # the file of -s itself is made empty when it is not there
        run grep -v -e 'O_EXCL' -e 'O_NOFOLLOW' -e '"new.kvs"' made
        assert_output ""
    }
    private -s new.kvs -c 'init w ones(4)'
    assert_equal "$(stat -c %a new.kvs)" 644
    for file in new.kvs t.npy t.csv u.csv s.states h.npz p.json page.md; do
        : >>$file
        chmod 600 $file
    done
    private -s new.kvs -c 'push w ones(4)'
    grep -q '0600) = ' made
    for command in 'write ones(2) t.npy' 'write ones(2) t.csv' 'ones(2) >> u.csv' \
        'init w 1; set-optimizer adam; push w 1; save-states s.states' 'profile p.json; init w 1; profile off'; do
        private -c "$command"
        grep -q '0600) = ' made
        run grep -E '0[0-7]*[1-7][0-7]?\) = ' made
        refute_output --partial 066
    done
    private convert new.kvs h.npz --force
    private --record page.md -c 'print 1'
    run stat -c %a new.kvs t.npy t.csv u.csv s.states h.npz p.json page.md
    assert_output "$(printf '600\n%.0s' 1 2 3 4 5 6 7 8)"
}

@test "doors: a change in place takes no journal that another user made, and empties no other file" {
    kvctl -s a.safetensors -c 'init w arange(8)'
    kvctl -s b.safetensors -c 'init w arange(8) * 2'
    kvctl patch a.safetensors b.safetensors --out p.patch
    kvctl convert a.safetensors m.safetensors
    local journal=.m.safetensors.kv-journal
    echo mine >victim
    ln victim $journal.tmp
    kvctl apply p.patch m.safetensors --in-place
    kvctl hash b.safetensors | diff - <(kvctl hash m.safetensors)
    assert_equal "$(cat victim)" mine
    kvctl convert a.safetensors m.safetensors --force
    ln -s victim $journal.tmp
    run -5 kvctl apply p.patch m.safetensors --in-place
    assert_equal "$(cat victim)" mine
    kvctl hash a.safetensors | diff - <(kvctl hash m.safetensors)
    needs_nobody
    # as in /tmp, where nobody removes what another user made
    mkdir sticky
    cp p.patch m.safetensors sticky
    : >sticky/$journal.tmp
    chmod 666 sticky/$journal.tmp
    chown 65534:65534 sticky/*
    chown 65533 sticky/$journal.tmp
    chmod 1777 sticky
    cd sticky
    run -5 as_nobody kvctl apply p.patch m.safetensors --in-place
    assert_line --partial "cannot change \"m.safetensors\": \"$journal.tmp\" belongs to another user"
    [ ! -s $journal.tmp ]
}

# ---- Code that is loaded, and memory that is shared ------------------------------------------------

# Each library, plugin, start file and program that kvctl looks for, in the folder where it runs: the one who made
# that folder is not the one who runs kvctl.
@test "doors: nothing in the folder where kvctl runs is loaded or started" {
    command -v "${CC:-cc}" >/dev/null || skip "no compiler"
    ! nm -D "$build/libkvstore.so" | grep -q __asan_init || skip "the library of sanitizers comes first"
    cat >trap.c <<'END'
#include <stdio.h>
static __attribute__((constructor)) void spring(void)
{
    FILE *f = fopen("/proc/self/cwd/made", "w");
    if (f)
        fclose(f);
}
END
    "${CC:-cc}" -shared -fPIC -o trap.so trap.c
    mkdir -p lib bin kvctl .config/kvctl
    for name in libkvstore.so libkvstore.so.1 kvstore_mpi.so kvstore_cuda.so libcuda.so.1 libnvrtc.so libnvrtc.so.12 \
        libnccl.so libnccl.so.2 libcrypto.so.3 libcrypto.so libpcre2-8.so.0 libzstd.so.1 libmpi.so.40 libreadline.so.8 libc.so.6; do
        cp trap.so $name
        cp trap.so lib/$name
    done
    for name in gnuplot less sh rsync ssh mpirun nvcc; do
        printf '#!/bin/sh\ntouch "%s/made"\n' "$PWD" >$name
        chmod +x $name
    done
    for name in rc .rc .kvrc .kvctlrc kvctl/rc; do
        echo 'write ones(1) made.csv' >$name
    done
    echo 'w { stored = input }' >adam.kvu
    mkdir "$HOME/home"
    for plugins in "" : :: ; do
        export HOME=$BATS_TEST_TMPDIR/home KVSTORE_PLUGINS=$plugins
        run kvctl -c 'doctor; create dist_sync'
        run kvctl -c 'create nccl'
        run kvctl -c 'a = ones(2)@gpu(0); plot [1,2]; set-optimizer adam; init w ones(4); hash w; re_match("a", "a")'
        run kvctl launch -n 1 -c 'create dist_sync; init 3 1'
        kvctl -s w.kvs -c 'push w ones(4)'
        run kvctl hash w.kvs
        run -0 kvctl patch w.kvs w.kvs --out p.patch
        run kvctl -i </dev/null
        run kvctl --completion words x
        unset KVSTORE_PLUGINS
    done
    run ! ls made made.csv
    # where the user said: the trap works
    KVSTORE_PLUGINS=$PWD run kvctl -c 'create dist_sync'
    rm made
    run kvctl --plugin trap.so -c 'print 1'
    rm made
    # kvctl and its libraries look for each other beside themselves, and nowhere that is not absolute
    for file in "$build/kvctl" "$build"/lib*.so "$build"/kvstore_*.so; do
        readelf -d "$file" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p' | tr : '\n' >paths
        run grep -vE '^(\$ORIGIN(/|$)|/)' paths
        assert_output ""
    done
}

@test "doors: what ranks share is for this user alone" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    cat >looks <<'END'
# the files behind the memory of this rank, and what its folder holds, that another user could open
is_private()
{
    local at=$1 mode
    while [ "$at" != / ]; do
        mode=$(stat -c %a "$at" 2>/dev/null) || return 0
        case $mode in *00) return 0 ;; esac
        at=$(dirname "$at")
    done
    return 1
}
n=0
for f in $(awk '$2 ~ /s$/ && $6 ~ "^/" { print $6 }' /proc/$PPID/maps | sort -u) "$KVSTORE_RUN_DIR"/*; do
    n=$((n + 1))
    is_private "$f" || echo "open to others: $f"
done
[ "$(stat -c '%a %u' "$KVSTORE_RUN_DIR")" = "700 $(id -u)" ] || echo "the folder of the job is not private"
[ $n -gt 2 ] || echo "nothing was looked at"
END
    umask 0
    gives "" kvctl launch -n 2 -s 1 -c 'create dist_sync; init 3 ones(100000); push 3 ones(100000); pull 3 -> x; !exec bash looks'
}
