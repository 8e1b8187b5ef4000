/* What --check found, as a report. */
#include "out/check_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "out/report.h"
#include "syntax/check.h"

typedef struct found {
    const kv_err *e;
    int64_t file; /* files in the order in which their errors were found */
    int64_t at;
} found;

static int by_place(const void *a, const void *b)
{
    const found *x = a, *y = b;
    int64_t far = x->file - y->file;
    if (far == 0)
        far = x->e->line - y->e->line;
    if (far == 0)
        far = x->e->col - y->e->col;
    if (far == 0)
        far = x->at - y->at;
    return far < 0 ? -1 : far > 0;
}

static bool same(const kv_err *a, const kv_err *b)
{
    return a->line == b->line && a->col == b->col && strcmp(a->file, b->file) == 0 &&
           strcmp(a->text, b->text) == 0;
}

void check_report(session *s)
{
    check_errors c = *s->check;
    kv_err e = {0};
    found *list = mem_alloc(c.n, sizeof *list, &e);
    *s->check = (check_errors){0};
    for (int64_t i = 0; list && i < c.n; i++) {
        list[i] = (found){&c.items[i], i, i};
        for (int64_t k = 0; k < i && list[i].file == i; k++)
            if (strcmp(c.items[k].file, c.items[i].file) == 0)
                list[i].file = list[k].file;
    }
    if (list)
        qsort(list, (size_t)c.n, sizeof *list, by_place);
    for (int64_t i = 0; list && i < c.n; i++)
        if (i == 0 || !same(list[i].e, list[i - 1].e))
            report_error(s, list[i].e);
    if (!list)
        report_error(s, &e);
    if (c.n == CHECK_ERRORS_MAX)
        session_note(s, "only the first %d errors are shown", CHECK_ERRORS_MAX);
    mem_free(list);
    mem_free(c.items);
}
