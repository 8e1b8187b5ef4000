/* The self-test: what this build is, what this machine has, and whether known numbers come out.
 *
 * The checks are sessions of their own, so they go the way that a user's commands go and change
 * nothing of the session that asks.
 */
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "array/device.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "out/report.h"
#include "run/run.h"
#include "run/shell.h"
#include "session/unit.h"
#include "syntax/read_unit.h"
#include "term/child.h"
#include "term/histfile.h"
#include "term/terminal.h"
#include "tools/doctor_gpu.h"

static void topic(buf *out, const char *name)
{
    buf_printf(out, "%-10s ", name);
}

/* ---- The machine and the build ---- */

static void add_build(buf *out)
{
    topic(out, "build");
    version_build(out);
    buf_char(out, '\n');
}

/* One shared library; libraries that every program has are left out. */
static int add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char *const plain[] = {"linux-vdso", "ld-",      "libc.",
                                        "libm.",      "libtinfo", "libpthread"};
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strncmp(name, plain[i], strlen(plain[i])) == 0)
            return 0;
    if (*name)
        buf_printf(arg, " %s", name);
    return 0;
}

static void add_libraries(buf *out)
{
    buf_printf(out, "%-10s", "libraries"); /* each has its blank before it */
    size_t from = out->len;
    dl_iterate_phdr(add_library, out);
    buf_add(out, out->len == from ? " none but those of the system\n" : "\n");
}

#if defined(__x86_64__) || defined(__i386__)
/* clang 14 has no name for it in __builtin_cpu_supports. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

static void add_cpu(buf *out)
{
    cpu_set_t set;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)all;
    topic(out, "cpu");
    buf_printf(out, "%d of %ld cores may be used;", usable, all);
#if defined(__x86_64__) || defined(__i386__)
    buf_add(out, __builtin_cpu_supports("avx512f") ? " AVX-512" : "");
    buf_add(out, __builtin_cpu_supports("avx2") ? " AVX2" : "");
    buf_add(out, __builtin_cpu_supports("fma") ? " FMA" : "");
    buf_add(out, has_f16c() ? " F16C" : "");
    buf_add(out, __builtin_cpu_supports("avx2") ? "\n" : " baseline vectors only\n");
#else
    buf_add(out, " the vectors of this architecture\n");
#endif
}

static void add_memory(buf *out)
{
    long long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
              left = sysconf(_SC_AVPHYS_PAGES);
    topic(out, "memory");
    buf_printf(out, "%lld MB, %lld MB of it unused\n", all * page >> 20, left * page >> 20);
}

/* Types that are available, then the others with their reasons. */
static int add_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    buf *out = arg;
    const char *name = field_text(fields, n, "name"), *reason = field_text(fields, n, "reason");
    (void)e;
    topic(out, "type");
    if (field_number(fields, n, "available"))
        buf_printf(out, "%s\n", name);
    else
        buf_printf(out, "%s is not available%s%s\n", name, *reason ? ": " : "", reason);
    return KV_OK;
}

static void add_terminal(buf *out)
{
    topic(out, "terminal");
    if (!isatty(STDOUT_FILENO))
        buf_add(out, "stdout is none");
    else
        buf_printf(out, "%d columns, %d rows", terminal_width(STDOUT_FILENO),
                   terminal_height(STDOUT_FILENO));
    buf_printf(out, "; colour: %s, pager: %s\n", terminal_color(STDOUT_FILENO) ? "yes" : "no",
               terminal_pager() ? "yes" : "no");
}

static void add_plot(buf *out)
{
    topic(out, "plot");
    buf_add(out, child_finds("gnuplot") ? "gnuplot\n"
                                        : "gnuplot is not installed, so there are no pictures\n");
}

static void add_history(session *s, buf *out)
{
    buf path = {0};
    histfile_path(&path, s->history);
    topic(out, "history");
    buf_printf(out, "%s%s\n", path.len > 0 ? buf_text(&path) : "off",
               path.len > 0 && access(buf_text(&path), F_OK) == 0 &&
                       access(buf_text(&path), W_OK) != 0
                   ? " cannot be written"
                   : "");
    buf_release(&path);
}

/* ---- Checks ---- */

typedef struct check_list {
    session *s;
    buf *out;
    int n, failed;
} check_list;

/* Runs a script in a session of its own; folder is its variable `folder`. on: what an ok adds. */
static void check(check_list *c, const char *name, const char *script, const char *folder,
                  const char *on)
{
    session own;
    kv_err e = {0};
    unit *u = NULL;
    value where = value_none();
    session_init(&own);
    own.out.quiet = true;
    own.virtual_gpus = c->s->virtual_gpus;
    own.gpus_wanted = c->s->gpus_wanted;
    own.interrupted = c->s->interrupted;
    own.timeout = c->s->timeout;
    char *text = mem_text(script, strlen(script), &e);
    if (text && folder && value_text(&where, folder, &e) == KV_OK)
        session_set(&own, "folder", where, &e);
    if (e.code)
        mem_free(text);
    else if (unit_read(&own, &u, "doctor", text, strlen(script), 1, NULL, &e) == KV_OK)
        unit_run(&own, u, &e);
    c->n++;
    c->failed += e.code != KV_OK;
    topic(c->out, name);
    if (e.code)
        buf_printf(c->out, "FAILED, %s: %s\n", kv_code_name(e.code), e.text);
    else
        buf_printf(c->out, "ok%s\n", on);
    session_release(&own);
}

static const char store_script[] = "create local; init 3 ones(2,3)*2\n"
                                   "push 3 [ones(2,3)*8, ones(2,3)*0.5]\n"
                                   "pull 3 -> a; assert a == ones(2,3)*8.5\n"
                                   "set-updater { stored += input * 2 }\n"
                                   "push 3 ones(2,3); pull 3 -> a; assert a == ones(2,3)*10.5\n";

static const char devices_script[] = "create device; init w zeros(4,1000); d = gpu(%d)\n"
                                     "push w [ones(4,1000)@d, ones(4,1000)@d]\n"
                                     "pull w --ctx d -> a; assert sum(a@cpu) == 8000\n";

static const char numbers_script[] = "a = arange(1000) * 0.25 - 3\n"
                                     "assert sum(a) == 121875\n"
                                     "assert allclose(exp(log(a + 4)), a + 4)\n"
                                     "assert f\"{sum(a)}\" == '121875.0'\n";

static const char files_script[] =
    "a = reshape(arange(12) / 7, (3, 4))\n"
    "for end in ['csv', 'json'] {\n"
    "    write a (folder + '/a.' + end); assert load(folder + '/a.' + end) == a\n"
    "}\n";

/* On the first GPU that can be used; without one the first error is that of gpu(0). */
static void check_devices(check_list *c, int first)
{
    char script[sizeof devices_script + 16], on[48];
    bool own = first >= 0 && dev_virtual_gpus() == 0;
    int id = own ? first : 0;
    snprintf(script, sizeof script, devices_script, id);
    snprintf(on, sizeof on, ", on %sgpu(%d)", own ? "" : "a virtual ", id);
    check(c, "devices", script, NULL, on);
}

/* A new folder below $TMPDIR, or an io error in e. */
static bool make_folder(buf *path, kv_err *e)
{
    const char *tmp = getenv("TMPDIR");
    buf_printf(path, "%s/kvctl-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (buf_check(path, e))
        return false;
    if (mkdtemp(path->data))
        return true;
    file_error(e, "make", path->data, errno);
    return false;
}

static void remove_folder(const char *path)
{
    static const char *const names[] = {"/a.csv", "/a.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        buf file = {0};
        buf_printf(&file, "%s%s", path, names[i]);
        unlink(buf_text(&file));
        buf_release(&file);
    }
    rmdir(path);
}

static void check_files(check_list *c)
{
    buf path = {0};
    kv_err e = {0};
    if (c->s->safe) {
        topic(c->out, "files");
        buf_add(c->out, "not tried: --safe forbids writing files\n");
    } else if (make_folder(&path, &e)) {
        check(c, "files", files_script, buf_text(&path), "");
        remove_folder(buf_text(&path));
    } else {
        topic(c->out, "files");
        buf_printf(c->out, "FAILED, %s: %s\n", kv_code_name(e.code), e.text);
        c->n++;
        c->failed++;
    }
    buf_release(&path);
}

int cmd_doctor(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0}, shown = {0};
    check_list c = {.s = s, .out = &text};
    int first_gpu;
    (void)call, (void)out;
    topic(&text, "version");
    buf_printf(&text, "kvctl %s, libkvstore %s\n", KV_VERSION, kv_version());
    add_build(&text);
    add_libraries(&text);
    add_cpu(&text);
    add_memory(&text);
    doctor_gpus(&text, &first_gpu, e);
    kv_describe(NULL, "types", add_type, &text, e);
    add_terminal(&text);
    add_plot(&text);
    add_history(s, &text);
    check(&c, "numbers", numbers_script, NULL, "");
    check(&c, "store", store_script, NULL, "");
    check_devices(&c, first_gpu);
    check_files(&c);
    if (c.failed == 0)
        buf_printf(&text, "all %d checks hold\n", c.n);
    visible_lines(&shown, buf_text(&text), text.len); /* paths, and what libraries say */
    if (!e->code && buf_check(&text, e) == KV_OK && buf_check(&shown, e) == KV_OK)
        session_out(s, buf_text(&shown), shown.len, e);
    buf_release(&shown);
    buf_release(&text);
    if (c.failed > 0)
        kv_err_set(e, KV_E_ASSERT, "%d of %d checks of this build fail on this machine", c.failed,
                   c.n);
    return e->code;
}
