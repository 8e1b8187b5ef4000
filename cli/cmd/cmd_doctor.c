/* What this build is, and what it finds on this machine: the lines of a report about a problem. */
#include <inttypes.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/buf.h"
#include "cmd/commands.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

static void topic(buf *out, const char *name)
{
    buf_printf(out, "%-10s ", name);
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

/* Why a GPU cannot be used, without its name, which begins the line already. */
static const char *reason_of(const char *reason, int64_t id)
{
    char name[32];
    size_t n = (size_t)snprintf(name, sizeof name, "gpu(%" PRId64 ") ", id);
    return strncmp(reason, name, n) == 0 ? reason + n : reason;
}

/* The row without a name is about the machine, the others are about its GPUs. */
static int add_gpu_row(void *arg, const kv_field *fields, int n, kv_err *e)
{
    buf *out = arg;
    bool usable = field_number(fields, n, "usable");
    (void)e;
    topic(out, "gpu");
    if (*field_text(fields, n, "name")) {
        int64_t id = field_number(fields, n, "device"), left = field_number(fields, n, "free");
        const char *reaches = field_text(fields, n, "reaches");
        buf_printf(out, "gpu(%" PRId64 "): %s, %" PRId64 " MB, ", id, field_text(fields, n, "name"),
                   field_number(fields, n, "bytes") >> 20);
        if (left >= 0)
            buf_printf(out, "%" PRId64 " MB of it unused, ", left >> 20);
        buf_printf(out, "ability %" PRId64 ".%" PRId64 "%s%s", field_number(fields, n, "major"),
                   field_number(fields, n, "minor"), left < 0 ? "; " : "",
                   reason_of(field_text(fields, n, "reason"), id));
        if (left >= 0 && *reaches)
            buf_printf(out, ", reaches gpu %s", reaches);
        buf_char(out, '\n');
        return KV_OK;
    }
    buf_printf(out, "built: %s; usable: %s", field_number(fields, n, "built") ? "yes" : "no",
               usable ? "yes; " : "no, ");
    buf_printf(out, "%s\n", field_text(fields, n, usable ? "software" : "reason"));
    if (usable) {
        topic(out, "nccl");
        buf_printf(out, "%s\n", field_text(fields, n, "nccl"));
    }
    return KV_OK;
}

static int add_mpi(void *arg, const kv_field *fields, int n, kv_err *e)
{
    buf *out = arg;
    const char *file = field_text(fields, n, "file"), *version = field_text(fields, n, "version");
    (void)e;
    topic(out, "mpi");
    if (*file)
        buf_printf(out, "%s: %s\n", file, *version ? version : "it does not say its version");
    else
        buf_printf(out, "not available: %s\n", field_text(fields, n, "reason"));
    return KV_OK;
}

int cmd_doctor(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0}, shown = {0};
    (void)call, (void)out;
    topic(&text, "version");
    buf_printf(&text, "kvctl %s, libkvstore %s\n", KV_VERSION, kv_version());
    topic(&text, "build");
    version_build(&text);
    buf_char(&text, '\n');
    buf_printf(&text, "%-10s", "libraries"); /* each has its blank before it */
    size_t from = text.len;
    dl_iterate_phdr(add_library, &text);
    buf_add(&text, text.len == from ? " none but those of the system\n" : "\n");
    add_cpu(&text);
    long long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
              left = sysconf(_SC_AVPHYS_PAGES);
    topic(&text, "memory");
    buf_printf(&text, "%lld MB, %lld MB of it unused\n", all * page >> 20, left * page >> 20);
    kv_describe(NULL, "gpus", add_gpu_row, &text, e);
    kv_describe(NULL, "mpi", add_mpi, &text, e);
    kv_describe(NULL, "types", add_type, &text, e);
    topic(&text, "terminal");
    if (!isatty(STDOUT_FILENO))
        buf_add(&text, "stdout is none");
    else
        buf_printf(&text, "%d columns, %d rows", terminal_width(STDOUT_FILENO),
                   terminal_height(STDOUT_FILENO));
    buf_printf(&text, "; colour: %s, pager: %s\n", terminal_color(STDOUT_FILENO) ? "yes" : "no",
               terminal_pager() ? "yes" : "no");
    topic(&text, "plot");
    buf_add(&text, child_finds("gnuplot") ? "gnuplot\n"
                                          : "gnuplot is not installed, so there are no pictures\n");
    buf path = {0};
    histfile_path(&path, s->history);
    topic(&text, "history");
    buf_printf(&text, "%s%s\n", path.len > 0 ? buf_text(&path) : "off",
               path.len > 0 && access(buf_text(&path), F_OK) == 0 &&
                       access(buf_text(&path), W_OK) != 0
                   ? " cannot be written"
                   : "");
    buf_release(&path);
    visible_lines(&shown, buf_text(&text), text.len); /* paths, and what libraries say */
    if (!e->code && buf_check(&text, e) == KV_OK && buf_check(&shown, e) == KV_OK)
        session_out(s, buf_text(&shown), shown.len, e);
    buf_release(&shown);
    buf_release(&text);
    return e->code;
}
