# `make deb`: what the package holds, what it depends on, and that what it holds runs.

load ../cli/help

setup_file()
{
    file_needs dpkg-shlibdeps || return 0
    local top build version
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    build=${KVCTL_BUILD:-$top/build}
    if grep -q fsanitize "$build/flags"; then
        skip_file "a sanitizer's build is not packaged"
        return
    fi
    # a package of any level holds the same; the usual one takes ten seconds
    export SOURCE_DATE_EPOCH=1700000000 DPKG_DEB_COMPRESSOR_LEVEL=1
    make_here deb \
        >"$BATS_FILE_TMPDIR/log" 2>&1 || { cat "$BATS_FILE_TMPDIR/log"; return 1; }
    DEB=$(sed -n 's/^ *\(.*\.deb\)$/\1/p' "$BATS_FILE_TMPDIR/log")
    case $DEB in /*) ;; *) DEB=$top/$DEB ;; esac
    export DEB
}

@test "deb: name, version, and the packages that its files need" {
    run dpkg-deb -f "$DEB" Package Version Architecture
    assert_output "Package: kvctl
Version: $(sed -n 's/^.define KV_VERSION "\(.*\)"/\1/p' "$top/src/kvstore.h")
Architecture: $(dpkg --print-architecture)"
    run dpkg-deb -f "$DEB" Depends
    for package in libc6 libcjson1 libcsv3; do
        assert_output --regexp "(^|, )$package "
    done
    refute_output --partial kvctl
    if grep -aq 'libreadline\.so' "$build/kvctl"; then
        assert_output --partial libreadline8
    fi
    if grep -aq 'libpcre2-8\.so' "$build/libkvstore.so"; then
        assert_output --partial libpcre2-8-0
    fi
    refute_output --partial libopenmpi
    if [ -e "$build/kvstore_mpi.so" ]; then
        run dpkg-deb -f "$DEB" Recommends
        assert_output --regexp '^libopenmpi[0-9a-z]+ .*, openmpi-bin$'
    fi
}

@test "deb: the files, owned by root, and nothing of the machine that made it" {
    run -0 dpkg-deb -c "$DEB"
    assert_equal "$(awk '$2 != "root/root"' <<<"$output")" ""
    local file libdir
    libdir=./usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    for file in ./usr/bin/kvctl "$libdir/libkvstore.so.0" "$libdir/libkvstore.so" "$libdir/libkvstore.a" \
        "$libdir/pkgconfig/kvstore.pc" ./usr/include/kvstore/kvstore.h ./usr/include/kvstore/kv_array.h \
        ./usr/include/kvstore/kv_dtype.h ./usr/include/kvstore/kv_err.h \
        ./usr/share/man/man1/kvctl.1.gz ./usr/share/man/man3/kvstore.3.gz ./usr/share/man/man3/kv_push.3.gz \
        ./usr/share/man/man7/kvctl-language.7.gz \
        ./usr/share/bash-completion/completions/kvctl ./usr/share/zsh/vendor-completions/_kvctl \
        ./usr/share/fish/vendor_completions.d/kvctl.fish ./usr/share/doc/kvctl/copyright \
        ./usr/share/doc/kvctl/examples/ci-gate.sh ./usr/share/doc/kvctl/examples/data/iris.csv; do
        assert_output --partial " $file"
    done
    [ ! -e "$build/python" ] || assert_output --partial " ./usr/lib/python3/dist-packages/kvstore/_kvstore.abi3.so"
    dpkg-deb -x "$DEB" root
    run grep -rlF "$top" root
    assert_output ""
    run readelf -d root/usr/bin/kvctl
    refute_output --partial RUNPATH
    (cd root && dpkg-deb -I "$DEB" md5sums | md5sum -c --quiet)
}

@test "deb: what it holds runs, and a C program builds against it" {
    dpkg-deb -x "$DEB" root
    local lib
    lib=$PWD/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    export LD_LIBRARY_PATH=$lib
    gives "[2. 2.]" root/usr/bin/kvctl -c 'init 3 ones(2); push 3 ones(2) * 2; pull 3'
    run root/usr/bin/kvctl -V
    [ ! -e "$build/kvstore_mpi.so" ] || assert_line --regexp '^types: .* dist_sync '
    run -0 cc -std=c17 -o sum "$top/examples/sum.c" -Iroot/usr/include/kvstore -L"$lib" -lkvstore
    run ./sum
    assert_output $'11\n22\n33'
}

@test "deb: the same sources give the same package" {
    cp "$DEB" first.deb
    sleep 1.1 # time stamps have seconds
    make_here deb
    cmp first.deb "$DEB"
}

@test "deb: lintian finds no error but what a package of one's own has" {
    command -v lintian >/dev/null || skip "no lintian"
    run -0 lintian --allow-root --fail-on error \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$DEB"
}
