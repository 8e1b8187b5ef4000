/* time and echo: both write to stderr. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "session/unit.h"
#include "term/progress.h"
#include "run/run.h"

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

/* Sorts the times. */
static void add_summary(buf *out, int64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    double median = ((double)ns[(n - 1) / 2] + (double)ns[n / 2]) / 2;
    buf_printf(out, "%d runs, min ", n);
    add_time(out, (double)ns[0]);
    buf_add(out, ", median ");
    add_time(out, median);
    buf_add(out, ", p95 ");
    add_time(out, (double)ns[(95 * (int64_t)n + 99) / 100 - 1]);
}

int cmd_time(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *option = command_option_of(call, "runs");
    int32_t runs = 1;
    int done = 0, code = KV_OK;
    (void)out;
    if (option && (code = eval_int32(s, option, "a count of runs", &runs, e)))
        return code;
    if (runs < 1 || runs > RUNS_MAX)
        return unit_err(s, option, e, KV_E_VALUE, "the runs lie in 1 .. %d, %d does not", RUNS_MAX,
                        runs);
    int64_t *ns = mem_alloc(runs, sizeof *ns, e);
    if (!ns)
        return KV_E_MEMORY;
    progress_begin("time", runs, PROGRESS_TIMES);
    for (; done < runs && code == KV_OK && s->flow->how == FLOW_ON; done++) {
        int64_t from = clock_ns();
        code = run_argument(s, call->kid[0], e);
        ns[done] = clock_ns() - from;
        if (code == KV_OK)
            code = session_interrupted(s, e);
        progress_step(done + 1);
    }
    progress_end();
    if (code == KV_OK && done > 0) {
        buf text = {0};
        if (runs == 1)
            add_time(&text, (double)ns[0]);
        else
            add_summary(&text, ns, done);
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        fprintf(stderr, "time: %s\n", buf_text(&text));
        buf_release(&text);
    }
    mem_free(ns);
    return code;
}

int cmd_echo(session *s, const ast *call, result *out, kv_err *e)
{
    (void)out, (void)e;
    s->trace = strcmp(call->kid[0]->u.text, "on") == 0;
    return KV_OK;
}
