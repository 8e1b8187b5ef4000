# The module for Python as others get it: a wheel in an environment of its own, and make install.

load ../cli/help

setup_file() { file_needs /usr/bin/python3 || return 0; }

# Makes a wheel, and leaves its path in `wheel`.
make_wheel()
{
    make_here wheel >log 2>&1 || { cat log; false; }
    wheel=$(sed -n 's/^ *\(.*\.whl\)$/\1/p' log)
    case $wheel in /*) ;; *) wheel=$top/$wheel ;; esac
}

needs_module()
{
    [ -e "$build/python/kvstore/_kvstore.abi3.so" ] || skip "this build has no module for Python"
    ! grep -q fsanitize "$build/flags" || skip "a sanitizer's build is not installed"
    /usr/bin/python3 -c 'import numpy' || skip "there is no NumPy: make setup"
}

program='import numpy as np, kvstore as mx
kv = mx.kv.create("local")
kv.init("w", np.zeros(3, "float32"))
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
kv.push("w", [np.ones(3, "float32")] * 2)
print(mx.__version__, kv["w"].asnumpy(), mx.__file__)'

@test "wheel: pip installs it into a fresh environment, and it runs there" {
    needs_module
    /usr/bin/python3 -c 'import venv, ensurepip' || skip "there is no venv: make setup"
    make_wheel
    cp "$wheel" "$BATS_FILE_TMPDIR"
    /usr/bin/python3 -m venv --system-site-packages fresh
    fresh/bin/pip -q install --no-index --disable-pip-version-check "$wheel"
    run -0 env -u PYTHONPATH fresh/bin/python -c "$program"
    local version
    version=$(sed -n 's/^#define KV_VERSION "\(.*\)"/\1/p' "$top/src/kvstore.h")
    assert_output --regexp '^'"${version//./\\.}"' \[-1\. -1\. -1\.\] .*/fresh/lib/python3\.[0-9]+/site-packages/kvstore/__init__\.py$'
    # its own library, and nothing of this build
    run env -u PYTHONPATH fresh/bin/python -c 'import kvstore; print(open("/proc/self/maps").read())'
    assert_output --partial /fresh/lib/
    refute_output --partial "$build"
    run grep -rlF "$top" fresh/lib/python3*/site-packages/kvstore --include='*.so*' --include='*.py'
    assert_output ""
    # kvctl, with its libraries and plugins, and what the module does with it
    run env -i PATH=/usr/bin:/bin fresh/bin/kvctl -c 'init w ones(2); push w ones(2) * 3; pull w'
    assert_output "[3. 3.]"
    run env -i PATH=/usr/bin:/bin fresh/bin/python -m kvstore -c 'print 1 + 1'
    assert_output 2
    run env -i PATH=/usr/bin:/bin fresh/bin/python -c 'import kvstore as mx
kv = mx.kv.create(); kv.init("w", mx.nd.ones(3)); kv.save("a.safetensors", True)
print(len(mx.open("a.safetensors")), len(mx.checkpoint.diff("a.safetensors", "a.safetensors")))'
    assert_output "1 0"
    run env PATH=/usr/bin:/bin fresh/bin/python -m zipfile -l "$wheel"
    refute_output --regexp 'libmpi|libopen|cuda(rt|\.so\.)'
    [ "$(stat -c %s "$wheel")" -lt 6000000 ]
    if [ -e "$build/kvstore_mpi.so" ]; then
        printf '%s\n' 'import kvstore as mx' 'kv = mx.kv.create("dist_sync")' 'kv.init("w", mx.nd.zeros(2))' \
            'kv.push("w", mx.nd.ones(2) * (kv.rank + 1))' 'print(kv["w"].tolist(), kv.num_workers)' >ranks.py
        run -0 env -i HOME="$PWD" PATH=/usr/bin:/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            fresh/bin/kvctl launch -n 2 --python ranks.py
        assert_line "[0] [3.0, 3.0] 2"
        assert_line "[1] [3.0, 3.0] 2"
    fi
    fresh/bin/pip -q uninstall -y --disable-pip-version-check kvstore
    [ ! -e fresh/lib/python3*/site-packages/kvstore ] && [ ! -e fresh/bin/kvctl ]
}

@test "wheel: two builds of it are the same, byte by byte" {
    needs_module
    make_wheel
    [ -e "$BATS_FILE_TMPDIR/${wheel##*/}" ] || { # without the test above
        cp "$wheel" "$BATS_FILE_TMPDIR"
        make_wheel
    }
    cmp "$BATS_FILE_TMPDIR/${wheel##*/}" "$wheel"
    # nor is one left that has not what was built since
    make_here
    [ -e "$wheel" ]
    make_here -W src/python/kvstore/kv.py
    [ ! -e "$wheel" ]
}

@test "install: the module finds the installed library" {
    needs_module
    run -0 make_here PREFIX="$PWD/stage" install
    assert_line --regexp "^  Python does not look there by itself: export PYTHONPATH=$PWD/stage/lib/python3.*-packages\$"
    folder=$(/usr/bin/python3 "$top/scripts/wheel" --folder "$PWD/stage")
    run -0 env PYTHONPATH="$folder" /usr/bin/python3 -c "$program; print(open('/proc/self/maps').read())"
    assert_output --partial "[-1. -1. -1.] $folder/kvstore/__init__.py"
    assert_output --partial "$PWD/stage/lib/libkvstore.so.0"
    # launch shows it to a Python that has none, and to no other
    if [ -e "$build/kvstore_mpi.so" ]; then
        printf '%s\n' 'import kvstore, os, sys' 'print(kvstore.__file__, os.environ.get("PYTHONPATH"))' >job.py
        mkdir -p own/kvstore && : >own/kvstore/__init__.py
        run env -u PYTHONPATH KVCTL_PYTHON=/usr/bin/python3 stage/bin/kvctl launch -n 1 --python job.py
        assert_line "[0] $folder/kvstore/__init__.py $PWD/stage/bin/../lib${folder#"$PWD/stage/lib"}"
        run env PYTHONPATH="$PWD/own" KVCTL_PYTHON=/usr/bin/python3 stage/bin/kvctl launch -n 1 --python job.py
        assert_line "[0] $PWD/own/kvstore/__init__.py $PWD/own"
    fi
    make -s -C "$top" BUILD="$build" PREFIX="$PWD/stage" uninstall
    [ ! -e "$folder/kvstore" ]
}

@test "install: modules lie where Python looks" {
    run /usr/bin/python3 "$top/scripts/wheel" --folder /usr
    assert_output --regexp '^/usr/lib/python3(\.[0-9]+)?/(dist|site)-packages$'
    run env HOME="$PWD" /usr/bin/python3 "$top/scripts/wheel" --folder "$PWD/.local"
    assert_output --regexp "^$PWD/\.local/lib/python3\.[0-9]+/site-packages\$"
}

@test "PYTHON=0 leaves the module out, without headers the build says so" {
    run -0 make -s -C "$top" -n BUILD="$PWD/b" PYTHON=0 all
    refute_output --partial _kvstore
    assert_output --partial "Python: left out"
    run make -s -C "$top" -n BUILD="$PWD/b" PYTHON3=/bin/false all
    refute_output --partial _kvstore
    assert_output --partial "Python: not found"
    run ! make -s -C "$top" BUILD="$PWD/b" PYTHON3=/bin/false PYTHON=1 all
    assert_output --partial "Python 3.11"
}
