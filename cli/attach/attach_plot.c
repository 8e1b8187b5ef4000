/* Both sides are one build on machines of one kind, so numbers travel as they lie in memory. The
 * reader believes no length. */
#include "attach/attach_plot.h"

#include <string.h>

#include "base/mem.h"

typedef struct picture_head {
    int32_t style, n, log, bins;
    char title[PLOT_TITLE];
} picture_head;

typedef struct series_head {
    char name[PLOT_NAME];
    int64_t columns;
    double step;
    int64_t n;
} series_head;

void attach_plot_put(buf *out, const plot *p)
{
    picture_head head = {(int32_t)p->style, p->n, p->log, p->bins, {0}};
    memcpy(head.title, p->title, sizeof head.title);
    buf_put(out, (const char *)&head, sizeof head);
    for (int i = 0; i < p->n; i++) {
        const plot_series *s = &p->series[i];
        series_head h = {.columns = s->columns, .step = s->step, .n = s->n};
        memcpy(h.name, s->name, sizeof h.name);
        buf_put(out, (const char *)&h, sizeof h);
        buf_put(out, (const char *)s->y, (size_t)s->n * sizeof *s->y);
    }
}

static int malformed(kv_err *e)
{
    return kv_err_set(e, KV_E_FORMAT, "the picture of the job is malformed");
}

/* Heat maps have rows of equal length; lines and histograms have no columns. */
static bool is_series(const plot *p, const series_head *h, size_t left)
{
    if (h->n < 0 || (uint64_t)h->n > left / sizeof(double) || h->columns < 0 ||
        !memchr(h->name, '\0', sizeof h->name))
        return false;
    return p->style == PLOT_HEAT ? h->columns > 0 && h->n % h->columns == 0 : h->columns == 0;
}

int attach_plot_take(plot *p, const char *bytes, size_t n, kv_err *e)
{
    picture_head head;
    *p = (plot){0};
    if (n < sizeof head)
        return malformed(e);
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    n -= sizeof head;
    if (head.style < PLOT_LINES || head.style > PLOT_HIST || head.n < 1 ||
        head.n > PLOT_MAX_LINES || head.bins < 0 || head.bins > PLOT_BINS ||
        !memchr(head.title, '\0', sizeof head.title))
        return malformed(e);
    p->style = (plot_style)head.style;
    p->log = head.log != 0;
    p->bins = head.bins;
    memcpy(p->title, head.title, sizeof p->title);
    while (p->n < head.n) {
        series_head h;
        plot_series *s = &p->series[p->n];
        if (n < sizeof h)
            break;
        memcpy(&h, bytes, sizeof h);
        bytes += sizeof h;
        n -= sizeof h;
        if (!is_series(p, &h, n) || !(s->y = mem_alloc(h.n, sizeof *s->y, e)))
            break;
        p->n++;
        memcpy(s->name, h.name, sizeof s->name);
        memcpy(s->y, bytes, (size_t)h.n * sizeof *s->y);
        s->columns = h.columns;
        s->step = h.step;
        s->n = h.n;
        bytes += (size_t)h.n * sizeof *s->y;
        n -= (size_t)h.n * sizeof *s->y;
    }
    if (p->n == head.n && n == 0)
        return KV_OK;
    plot_release(p);
    return e->code ? (int)e->code : malformed(e);
}
