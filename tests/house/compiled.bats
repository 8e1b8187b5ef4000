# What the compiler makes of the sources, read from the objects.

load ../cli/help

setup_file()
{
    file_needs objdump || return 0
    [ "$(uname -m)" = x86_64 ] || skip_file "the instructions of another processor"
}

# gcc leaves out calls of a function that only asks for memory ahead: lib/base/compiler.h.
@test "compiled: each line that asks for memory ahead is an instruction" {
    local file asked made
    cd "$top"
    grep -lE 'prefetch(_write)?\(' lib/*/*.c src/*.c src/*/*.c >"$BATS_TEST_TMPDIR/files"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/files")" -gt 8 ]
    while read -r file; do
        [ -e "$build/${file%.c}.o" ] || continue # without Python
        asked=$(grep -cE '[^a-z]prefetch(_write)?\(|__builtin_prefetch\(' "$file") || continue
        made=$(objdump -d "$build/${file%.c}.o" | grep -c 'prefetch') || true
        [ "$made" -ge "$asked" ] || fail "$file asks $asked times, and its object $made times"
    done <"$BATS_TEST_TMPDIR/files"
}

# GCC 12 takes apart vectors wider than those of the processor: it compares each lane by itself, adds
# through general registers, and copies through the stack.
@test "compiled: loops of vectors are made of whole vectors on AVX2" {
    local file
    cd "$top"
    for file in lib/cpu/gather lib/patch/patch_make lib/tensors/number_loops; do
        objdump -d "$build/$file.o" | awk -v file="$file" '
            /^[0-9a-f]+ <.*>:$/ { name = $2 }
            name ~ /avx2>/ { met[name] += 0 }
            /%ymm/ { met[name]++ }
            /vpinsrq/ { apart[name]++ }
            END {
                for (n in met)
                    if (n ~ /avx2>/ && (!met[n] || apart[n]))
                        print file ": " n, met[n], "vectors,", apart[n] + 0, "put together"
            }' >>"$BATS_TEST_TMPDIR/apart"
    done
    [ ! -s "$BATS_TEST_TMPDIR/apart" ] || fail "$(cat "$BATS_TEST_TMPDIR/apart")"
    # nor do sums copy their terms through the stack in halves
    objdump -d "$build/lib/vm/kernel_avx2.o" --disassemble=sum_lanes >"$BATS_TEST_TMPDIR/sums"
    grep -q 'vaddps.*%ymm' "$BATS_TEST_TMPDIR/sums" || fail "sums have no vectors"
    [ "$(grep -cE 'vmovdq[au] +%xmm[0-9]+,' "$BATS_TEST_TMPDIR/sums")" -eq 0 ] || fail "sums copy"
}

# What costs a third to a half of the time where it is not so: lib/tensors/number_loops.c, lib/checkpoint/digest.c.
@test "compiled: for AVX2, statistics widen four numbers at once, and hashes use whole registers" {
    local name
    "${CC:-cc}" --version | grep -qi clang && skip "clang's own"
    for name in stat_add_f32 stat_add_bf16 diff_add_f32 diff_squares_f32 diff_squares_bf16; do
        objdump -d --disassemble="${name}_avx2" "$build/lib/tensors/number_loops.o" >"$BATS_TEST_TMPDIR/code"
        grep -q 'vcvtps2pd .*,%ymm' "$BATS_TEST_TMPDIR/code" || fail "$name widens by twos"
        ! grep -q vmovhps "$BATS_TEST_TMPDIR/code" || fail "$name widens through memory"
    done
    objdump -d "$build/lib/checkpoint/digest.o" | grep -q 'vpmuludq .*%ymm' # in xxh3_update_avx2, or what gcc makes of it
}

# gcc for x86-64 makes the last argument of a call first, clang and gcc for arm64 the first one. The loops for arm64 are
# written here: where the order of nodes is left to the compiler, its programs find none.
@test "compiled: clang's programs of rules are those of gcc" {
    command -v clang >/dev/null || skip "there is no clang"
    cd "$top"
    clang -w -std=c17 -D_GNU_SOURCE -fsigned-char -ffp-contract=off -I{lib,lib/base,lib/array,src} \
        lib/vm/[!k]*.c lib/lang/*.c src/optimizers/*.c "$build"/lib/vm/k*.o "$build"/lib/{base,engine,array,cpu}/*.o \
        "$build"/n{um_powers,o_loops}.o -lxxhash -lm -o "$BATS_TEST_TMPDIR/loops"
    "$BATS_TEST_TMPDIR/loops" src/optimizers/*.kvu src/merges/*.kvu "$BATS_TEST_TMPDIR/clang"
    "$build/loops" src/optimizers/*.kvu src/merges/*.kvu "$BATS_TEST_TMPDIR/gcc"
    cmp "$BATS_TEST_TMPDIR/clang" "$BATS_TEST_TMPDIR/gcc"
}
