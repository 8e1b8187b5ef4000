# What the build does against mistakes of ours that would be ways in: the linker's and the compiler's hardening, read
# from the programs themselves.

load ../cli/help

setup_file()
{
    file_needs readelf || return 0
    # what is built with other flags is not what is released
    ! grep -qE -e '-fsanitize|-O0|-Og' "${KVCTL_BUILD:-$BATS_TEST_DIRNAME/../../build}/flags" || skip_file "no build for release"
}

programs()
{
    find "$build" -maxdepth 1 -name kvctl -o -maxdepth 1 -name 'libkvstore.so.*' -o -maxdepth 1 -name 'kvstore_*.so'
}

@test "hardening: addresses are chosen at random, tables are read-only, no stack is run" {
    [ "$(programs | wc -l)" -ge 2 ]
    readelf -hW "$build/kvctl" | grep -q 'Type: *DYN'
    readelf -dW "$build/kvctl" | grep -q 'FLAGS_1.*PIE'
    for file in $(programs); do
        readelf -lW "$file" >segments
        grep -q GNU_RELRO segments
        readelf -dW "$file" | grep -qE 'FLAGS_1.*NOW'
        grep -qE 'GNU_STACK .* RW ' segments
        run grep -E 'LOAD .* RWE' segments
        assert_output ""
    done
}

@test "hardening: stacks and copies are checked" {
    for file in $(programs); do
        nm -D "$file" >names
        grep -q ' U __stack_chk_fail' names
        grep -qE ' U __(v?snprintf|memcpy|fprintf|strcpy)_chk' names
    done
}

# A loop that calls a function for each element of four bytes is ten times as slow.
@test "hardening: loops over elements copy them without a call" {
    local objects
    objects=("$build"/lib/merge/*.o "$build"/lib/vm/kernel*.o)
    [ -e "${objects[0]}" ] && [ -e "${objects[-1]}" ]
    nm -A "${objects[@]}" >names
    gives -1 "" grep -E ' U __mem(cpy|move|set)_chk$' names
}

# flags ARG…: those of a compilation, by make with these arguments
flags()
{
    MAKEFLAGS='' make -s -n -C "$top" V=1 BUILD="$BATS_TEST_TMPDIR/b" "$@" "$BATS_TEST_TMPDIR/b/lib/base/buf.o" | grep -e ' -c '
}

@test "hardening: not where sanitizers see more, without optimisation, or by HARDEN=0" {
    run flags
    assert_output --partial "-fstack-protector-strong"
    assert_output --regexp "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=[23]"
    for how in "OPT=-O0 -g" "OPT=-O1 -g -fsanitize=address" "HARDEN=0"; do
        run -0 flags "$how"
        refute_output --partial "-fstack"
        refute_output --partial "FORTIFY"
    done
}
