/* Commands on the session itself: time and echo, which write to stderr, profile (the operations of
 * the store with their times), history (the entries typed at the prompt), doctor (this build and
 * this machine). */
#include <inttypes.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "run/run.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/effect.h"
#include "syntax/function.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- profile ---- */

static int wait_for_all(session *s, kv_err *e)
{
    for (int64_t i = 0; i < s->nstores; i++)
        kv_wait(s->stores[i].store, e);
    return e->code;
}

/* Waits for the pending operations, since they belong to the profile. */
int cmd_profile_end(session *s, kv_err *e)
{
    if (!s->profiles)
        return KV_OK;
    s->profiles = false;
    wait_for_all(s, e);
    kv_profile_stop(e);
    return e->code;
}

static int begin(session *s, const char *name, kv_err *e)
{
    int rc = safe_write(s, name, e);
    visit_end_profile(s);
    if (rc || session_would(s, "write", name))
        return rc;
    if ((rc = kv_profile_start(name, e)) == KV_OK)
        s->profiles = true;
    else if (s->profiles)
        kv_err_hint(e, "profile off ends it");
    return rc;
}

static int end(session *s, kv_err *e)
{
    if (s->dry_run)
        return KV_OK;
    if (s->profiles)
        return cmd_profile_end(s, e);
    kv_err_set(e, KV_E_VALUE, "no profile is being taken");
    return kv_err_hint(e, "profile FILE begins one");
}

int cmd_profile(session *s, const ast *call, result *out, kv_err *e)
{
    const char *name = eval_file(s, call->kid[0], "a profile stands", out, e);
    if (!name)
        return e->code;
    if (s->guest) {
        s->guest->profile(s->guest->arg, strcmp(name, "off") == 0 ? NULL : name, e);
        return unit_at(s, call->kid[0], e);
    }
    int rc = strcmp(name, "off") == 0 ? end(s, e) : begin(s, name, e);
    return rc ? unit_at(s, call->kid[0], e) : KV_OK;
}

/* ---- history ---- */

/* history: the entries typed at the prompt, from the file of the history.
 *
 * The file is Readline's: a line `#SECONDS` stands before each entry, which may have several lines.
 */

/* Returns true if the line is the time of the entry behind it. */
static bool is_time(const char *line, size_t n)
{
    size_t i = 1;
    while (i < n && line[i] >= '0' && line[i] <= '9')
        i++;
    return n > 1 && line[0] == '#' && i == n;
}

static int64_t count_entries(const char *text)
{
    int64_t n = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        n += is_time(text, length);
        text += length + (text[length] == '\n');
    }
    return n;
}

/* The last `most` entries, numbered from the first of all; further lines of one stand below. */
static void add_entries(buf *out, const char *text, int64_t most)
{
    int64_t all = count_entries(text), i = 0;
    bool begins = false;
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (is_time(text, n)) {
            i++;
            begins = true;
        } else if (i > all - most && i > 0) {
            if (begins)
                buf_printf(out, "%5lld  ", (long long)i);
            else
                buf_add(out, "       ");
            buf_put(out, text, n);
            buf_char(out, '\n');
            begins = false;
        }
        text += n + (text[n] == '\n');
    }
}

int cmd_history(session *s, const ast *call, result *out, kv_err *e)
{
    own_buf path = {0};
    buf shown = {0};
    own_mem char *text = NULL;
    size_t n;
    int32_t most = INT32_MAX;
    TRY(call->kid[0] ? eval_int32(s, call->kid[0], "a count of entries", &most, e) : KV_OK);
    if (most < 0)
        return unit_err(s, call->kid[0], e, KV_E_VALUE, "a count of entries is at least 0, not %d",
                        most);
    histfile_path(&path, s->history);
    int rc = buf_check(&path, e);
    if (rc == KV_OK && path.len > 0 && access(buf_text(&path), F_OK) == 0 &&
        (rc = file_read_text(buf_text(&path), &text, &n, e)) == KV_OK)
        add_entries(&shown, text, most);
    pager_from_end(true); /* the newest are wanted first */
    return result_text(out, &shown, rc, e);
}

/* ---- time and echo ---- */

#define RUNS_MAX 1000000

/* "18.2 us": three digits and a unit. */
static void add_time(buf *out, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    char number[64];
    int u = 0;
    while (ns >= 999.5 && u < 3) {
        ns /= 1000;
        u++;
    }
    num_fixed(number, sizeof number, ns, u == 0 || ns >= 99.95 ? 0 : ns >= 9.995 ? 1 : 2, 'f');
    buf_printf(out, "%s %s", number, units[u]);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int cmd_time(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *option = command_option_of(call, "runs");
    int32_t runs = 1;
    int done = 0, rc = KV_OK;
    bool waits = !command_option_of(call, "no-wait");
    (void)out;
    TRY(option ? eval_int32(s, option, "a count of runs", &runs, e) : KV_OK);
    if (runs < 1 || runs > RUNS_MAX)
        return unit_err(s, option, e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not", RUNS_MAX,
                        runs);
    own_mem int64_t *ns = mem_alloc(runs, sizeof *ns, e);
    if (!ns)
        return KV_E_MEMORY;
    progress_begin("time", runs, PROGRESS_TIMES);
    for (; done < runs && rc == KV_OK && s->flow->how == FLOW_ON; done++) {
        int64_t from = clock_ns();
        rc = run_argument(s, call->kid[0], e);
        if (rc == KV_OK && waits) /* a pull into a variable is there then */
            rc = wait_for_all(s, e);
        ns[done] = clock_ns() - from;
        if (rc == KV_OK)
            rc = session_interrupted(s, e);
        progress_step(done + 1);
    }
    progress_end();
    if (rc == KV_OK && done > 0) {
        own_buf text = {0};
        if (runs == 1) {
            add_time(&text, (double)ns[0]);
        } else {
            qsort(ns, (size_t)done, sizeof *ns, by_size);
            double median = ((double)ns[(done - 1) / 2] + (double)ns[done / 2]) / 2;
            buf_printf(&text, "%d runs, min ", done);
            add_time(&text, (double)ns[0]);
            buf_add(&text, ", median ");
            add_time(&text, median);
            buf_add(&text, ", p95 ");
            add_time(&text, (double)ns[(95 * (int64_t)done + 99) / 100 - 1]);
        }
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        fprintf(stderr, "time: %s\n", buf_text(&text));
    }
    return rc;
}

int cmd_echo(session *s, const ast *call, result *out, kv_err *e)
{
    (void)out, (void)e;
    s->trace = strcmp(call->kid[0]->u.text, "on") == 0;
    return KV_OK;
}

/* ---- doctor ---- */

/* What this build is, and what it finds on this machine: the lines of a report about a problem. */

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
    own_buf text = {0}, shown = {0}, path = {0};
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
        buf_add(&text, "stdout is not one");
    else
        buf_printf(&text, "%d columns, %d rows", terminal_width(STDOUT_FILENO),
                   terminal_height(STDOUT_FILENO));
    buf_printf(&text, "; colour: %s, pager: %s\n", terminal_color(STDOUT_FILENO) ? "yes" : "no",
               terminal_pager() ? "yes" : "no");
    topic(&text, "plot");
    buf_add(&text, child_finds("gnuplot") ? "gnuplot\n"
                                          : "gnuplot is not installed, so there are no pictures\n");
    histfile_path(&path, s->history);
    topic(&text, "history");
    buf_printf(&text, "%s%s\n", path.len > 0 ? buf_text(&path) : "off",
               path.len > 0 && access(buf_text(&path), F_OK) == 0 &&
                       access(buf_text(&path), W_OK) != 0
                   ? " cannot be written"
                   : "");
    visible_lines(&shown, buf_text(&text), text.len); /* paths, and what libraries say */
    if (!e->code && buf_check(&text, e) == KV_OK && buf_check(&shown, e) == KV_OK)
        session_out(s, buf_text(&shown), shown.len, e);
    return e->code;
}
