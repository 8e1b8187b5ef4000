# scripts/bare: what it refuses, and a command on a machine that has nothing. `make test` on such a
# machine is .ci/run.

load ../cli/help

# What scripts/bare itself says is in the file `said`.
bare()
{
    run sh -c '"$0" "$@" 2>said </dev/null' "$top/scripts/bare" "$@"
}

# refused TEXT ARGUMENT…: exit status 125 and one line.
refused()
{
    local text=$1
    shift
    bare "$@"
    assert_failure 125
    assert_equal "$(<said)" "bare: $text"
    assert_output ""
}

@test "bare: mistakes in its options" {
    refused "what is to run there? For example: scripts/bare make demo"
    refused "what is to run there? For example: scripts/bare make demo" --user
    refused "there is no option --usr: the head of scripts/bare lists them" --usr make demo
    refused "--suite needs the name of a suite, such as trixie" --suite
    refused "--suite needs the name of a suite, such as trixie" --suite ../x make demo
}

@test "bare: without root it says what to type" {
    fake id 'echo 1000'
    refused "debootstrap and mounting need root: sudo scripts/bare --sudo make demo" --sudo make demo
}

@test "bare: where nobody may mount" {
    fake id 'echo 0'
    fake debootstrap ''
    fake unshare 'exit 1'
    refused "this machine lets nobody mount, not even root" make demo
}

@test "bare: without debootstrap it says what installs it" {
    ! PATH=$PATH:/usr/sbin command -v debootstrap || skip "there is a debootstrap"
    fake id 'echo 0'
    refused 'there is no debootstrap: "scripts/setup bare" installs it' make demo
}

@test "bare: a debootstrap that fails" {
    needs_namespaces
    fake debootstrap 'echo "E: no mirror has this"; exit 1'
    bare --suite nosuchsuite make demo
    assert_failure 125
    assert_equal "$(tail -n 2 said)" $'E: no mirror has this\nbare: debootstrap failed'
    assert_nothing_left
}

# What follows takes a second, once there is a base.
@test "bare: the command has an environment, a clone and an exit status of its own" {
    needs_base
    export SOMETHING=here
    bare sh -c 'env | cut -d= -f1 | sort | tr "\n" " "; pwd; git -C . status --short; exit 7'
    assert_failure 7
    assert_output "HOME LOGNAME PATH PWD SHELL USER /root/kvctl"
    assert_nothing_left
}

@test "bare: it has nothing of this machine, and what it writes stays nowhere" {
    needs_base
    touch /tmp/kvctl-bare-here.$$
    bare bash -c "ls /tmp; touch /left.$$; type -P git make cc python3 tmux g++ sudo bats"
    rm -f /tmp/kvctl-bare-here.$$
    assert_failure 1
    assert_output $'/usr/bin/git\n/usr/bin/make\n/usr/bin/cc'
    [ ! -e /left.$$ ]
    assert_nothing_left
}

@test "bare: a user without root" {
    needs_base
    bare --user sh -c 'id -un; pwd; touch here; ! touch /there 2>/dev/null'
    assert_success
    assert_output $'newcomer\n/home/newcomer/kvctl'
}

@test "bare: when it is killed, so is what runs there" {
    needs_base
    local i marker=4242.$$
    "$top/scripts/bare" sleep "$marker" >/dev/null 2>&1 3>&- &
    for ((i = 0; i < 600; i++)); do pgrep -f "^sleep $marker" && break; sleep 0.1; done
    kill -KILL $!
    wait $! || true
    for ((i = 0; i < 100; i++)); do pgrep -f "^sleep $marker" || break; sleep 0.1; done
    run -1 pgrep -f "^sleep $marker"
    assert_nothing_left
}

assert_nothing_left()
{
    run grep kvctl-bare /proc/mounts
    assert_output ""
    run find /var/cache/kvctl-bare -name 'log.*' -o -name '*.tar.*' -o -path '*/root/*'
    assert_output ""
}

needs_namespaces()
{
    [ "$(id -u)" = 0 ] || skip "this needs root"
    unshare --mount --pid --fork true || skip "this machine lets nobody mount"
}

needs_base()
{
    needs_namespaces
    [ -e /var/cache/kvctl-bare/bookworm.tar ] || skip 'there is no base yet: "scripts/bare true" makes it'
    PATH=$PATH:/usr/sbin command -v debootstrap || skip "there is no debootstrap"
}
