# `make install`: what lies where, and a program built against it.

load ../cli/help

# Installs into ./stage once for all tests of this file, with the flags of the build under test.
setup_file()
{
    local top build
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    build=${KVCTL_BUILD:-$top/build}
    export STAGE=$BATS_FILE_TMPDIR/stage
    make_here \
        DESTDIR="$STAGE" PREFIX=/opt/kv install >"$BATS_FILE_TMPDIR/log" 2>&1 ||
        { cat "$BATS_FILE_TMPDIR/log"; return 1; }
}

@test "install: headers, both libraries, kvctl, pkg-config, manual pages, completions" {
    run -0 find "$STAGE" ! -type d ! -name 'kv_*.3' -printf '%P\n'
    local module=opt/kv/lib/python3.X/site-packages/kvstore
    output=$(sed 's|/python3\.[0-9]*/|/python3.X/|' <<<"$output")
    assert_equal "$(sort <<<"$output")" "$(grep . <<END | sort
opt/kv/bin/kvctl
opt/kv/include/kvstore/kv_array.h
opt/kv/include/kvstore/kv_dtype.h
opt/kv/include/kvstore/kv_err.h
opt/kv/include/kvstore/kvstore.h
opt/kv/lib/libkvstore.a
opt/kv/lib/libkvstore.so
opt/kv/lib/libkvstore.so.0
opt/kv/lib/pkgconfig/kvstore.pc
opt/kv/share/bash-completion/completions/kvctl
$(cd "$top" && printf 'opt/kv/share/doc/kvctl/%s\n' examples/*.* examples/data/*)
opt/kv/share/fish/vendor_completions.d/kvctl.fish
opt/kv/share/man/man1/kvctl.1
opt/kv/share/man/man3/kvstore.3
opt/kv/share/man/man7/kvctl-language.7
opt/kv/share/zsh/site-functions/_kvctl
$([ ! -e "$build/python" ] || { echo $module/_kvstore.abi3.so; cd "$top/src/python/kvstore" && printf "$module/%s\n" *.py* py.typed | sort -u; })
$([ ! -e "$build/kvstore_cuda.so" ] || echo opt/kv/lib/kvstore_cuda.so)
$([ ! -e "$build/kvstore_mpi.so" ] || echo opt/kv/lib/kvstore_mpi.so)
END
)"
}

@test "install: kvctl holds its library, and finds plugins in ../lib" {
    cp -r "$STAGE/opt/kv" there
    rm there/lib/libkvstore.*
    gives 2 there/bin/kvctl -c 'print 1 + 1'
    run there/bin/kvctl -V
    [ ! -e "$build/kvstore_mpi.so" ] || assert_line --regexp '^types: .* dist_sync .*not available'
}

# Each library that the linker maps and each table that it fills in makes every start longer.
@test "install: kvctl starts with the libraries of C and of JSON alone" {
    for name in csv z xxhash zstd; do
        [ -e "$(cc -print-file-name=lib$name.a)" ] || skip "no lib$name.a"
    done
    readelf -d "$build/kvctl" >dynamic
    run grep -E '(NEEDED).*lib(kvstore|csv|z|xxhash|zstd|crypto|pcre2-8|readline)\.|RUNPATH' dynamic
    assert_output ""
}

@test "install: man kv_push shows kvstore(3), and so does every function" {
    local call
    for call in $(nm -D --defined-only "$STAGE/opt/kv/lib/libkvstore.so" | sed -n 's/.* T \(kv_\(push\|create\|array_new\|err_set\)\)$/\1/p'); do
        assert_equal "$(<"$STAGE/opt/kv/share/man/man3/$call.3")" ".so man3/kvstore.3"
    done
    command -v man >/dev/null || skip "no man"
    mentions "Sums the values of each key" env MANPATH="$STAGE/opt/kv/share/man" MANROFFSEQ= man -P cat kv_push
}

@test "install: a C program builds against the shared library and runs" {
    local flags="-I$STAGE/opt/kv/include/kvstore -L$STAGE/opt/kv/lib -lkvstore -Wl,-rpath,$STAGE/opt/kv/lib"
    run -0 cc -std=c17 -Wall -Wextra -Werror $(sanitizers) -o sum "$top/examples/sum.c" $flags
    gives $'11\n22\n33' ./sum
}

@test "install: a C program links the static library" {
    run -0 cc -std=c17 -Wall -Wextra -Werror $(sanitizers) -o sum "$top/examples/sum.c" \
        -I"$STAGE/opt/kv/include/kvstore" "$STAGE/opt/kv/lib/libkvstore.a" \
        $(sed -n 's/^Libs.private: //p' "$STAGE/opt/kv/lib/pkgconfig/kvstore.pc")
    gives $'11\n22\n33' ./sum
}

@test "install: the pkg-config file names the version and the place" {
    command -v pkg-config || skip "no pkg-config"
    export PKG_CONFIG_PATH=$STAGE/opt/kv/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=
    run pkg-config --modversion kvstore
    assert_output "$(sed -n 's/^.define KV_VERSION "\(.*\)"/\1/p' "$top/src/kvstore.h")"
    run pkg-config --cflags --libs kvstore
    assert_output --partial "-I/opt/kv/include/kvstore"
    assert_output --partial "-L/opt/kv/lib -lkvstore"
}

@test "install: kvctl and the libraries have no debug information, and kvctl less than 4 MB" {
    local file
    for file in "$STAGE"/opt/kv/bin/kvctl "$STAGE"/opt/kv/lib/*.so.0 "$STAGE"/opt/kv/lib/kvstore_*.so "$STAGE"/opt/kv/lib/*.a; do
        [ -e "$file" ] || continue
        readelf -SW "$file" >sections
        ! grep -q '[.]debug_' sections || fail "$file has debug information"
    done
    grep -q -e -O2 "$build/flags" && ! grep -q fsanitize "$build/flags" || return 0
    run -0 stat -c %s "$STAGE/opt/kv/bin/kvctl"
    [ "$output" -lt 4000000 ]
}

@test "install: each folder has the usual variable, and the programs that install theirs" {
    mkdir bin
    printf '#!/bin/sh\necho "$0" >>"%s/calls"\nexec install "$@"\n' "$PWD" >bin/my-install
    printf '#!/bin/sh\necho "$0" >>"%s/calls"\nexec strip "$@"\n' "$PWD" >bin/my-strip
    chmod +x bin/*
    make_here DESTDIR="$PWD/d" prefix=/p bindir=/b includedir=/i libdir=/l \
        mandir=/m datarootdir=/r PYTHONDIR=/y INSTALL="$PWD/bin/my-install" STRIP="$PWD/bin/my-strip" install
    local file
    for file in b/kvctl i/kvstore/kvstore.h l/libkvstore.a l/pkgconfig/kvstore.pc m/man1/kvctl.1 r/bash-completion/completions/kvctl; do
        [ -e "d/$file" ]
    done
    [ ! -e d/p ]
    run head -n 3 d/l/pkgconfig/kvstore.pc
    assert_output $'prefix=/p\nincludedir=/i\nlibdir=/l'
    run sort -u calls
    assert_output "$PWD/bin/my-install"$'\n'"$PWD/bin/my-strip"
    make -s -C "$top" BUILD="$build" DESTDIR="$PWD/d" prefix=/p bindir=/b includedir=/i libdir=/l mandir=/m datarootdir=/r PYTHONDIR=/y uninstall
    run find d ! -type d
    assert_output ""
}

@test "install: a ~ that the shell left in PREFIX is the home folder" {
    make_here \
        HOME="$PWD/home" PREFIX='~/kv' install
    run head -n 3 home/kv/lib/pkgconfig/kvstore.pc
    assert_output "prefix=$PWD/home/kv
includedir=\${prefix}/include
libdir=\${prefix}/lib"
}

@test "uninstall: leaves nothing behind" {
    make -s -C "$top" DESTDIR="$STAGE" PREFIX=/opt/kv uninstall
    run find "$STAGE" ! -type d
    assert_output ""
}

sanitizers()
{
    grep -o -- '-fsanitize=[a-z,]*' "$build/flags" | head -n 1
}
