/* Arrays among printed lines. */
#include "core/printed.h"

#include <string.h>

#include "array/device.h"
#include "array/mirror.h"
#include "base/mem.h"
#include "io/print.h"

/* ---- Before the update ---- */

static int make_one(kv_array **out, const rule_print *p, const slot *s, const kv_array *sum,
                    kv_err *e)
{
    const kv_array *like = s->stored;
    int ndim = kv_array_ndim(like);
    int64_t shape[KV_MAX_NDIM] = {1}; /* a key without axes counts as one row */
    if (ndim > 0)
        memcpy(shape, kv_array_shape(like), (size_t)ndim * sizeof *shape);
    if (p->present)
        shape[0] = array_nrows(sum);
    switch (p->extent) {
    case RULE_EACH_ELEMENT:
        break;
    case RULE_EACH_ROW:
        ndim = 1;
        break;
    case RULE_ONE:
        ndim = 0;
        break;
    }
    int rc = kv_array_new(out, p->dtype, ndim, shape,
                          mirror_has(like) ? (kv_ctx){KV_CPU, 0} : kv_array_ctx(like), e);
    if (!rc && p->known)
        convert_elements((*out)->data, p->dtype, &p->value.u,
                         p->value.kind == HOST_FLOAT ? KV_FLOAT64 : KV_INT64, 1);
    return rc;
}

int printed_make(printed *p, const rule_update *u, const slot *s, const kv_array *sum, kv_err *e)
{
    int rc = KV_OK;
    *p = (printed){0};
    if (u->nprints == 0)
        return KV_OK;
    if (!(p->arrays = mem_zalloc(u->nprints, sizeof *p->arrays, e)))
        return KV_E_MEMORY;
    p->n = u->nprints;
    for (int64_t i = 0; i < p->n && !rc; i++)
        rc = make_one(&p->arrays[i], &u->prints[i], s, sum, e);
    return rc;
}

void printed_release(printed *p)
{
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    mem_free(p->arrays);
    *p = (printed){0};
}

void printed_arrays(const printed *p, plan_arrays *a)
{
    for (int64_t i = 0; i < p->n; i++) {
        a->prints[i] = p->arrays[i]->data;
        a->print_dtypes[i] = p->arrays[i]->dtype;
    }
}

/* ---- After the update ---- */

static void add_text(void *to, const char *text, size_t n)
{
    buf_put(to, text, n);
}

static int show(buf *out, kv_array *a, const printed_to *to, kv_err *e)
{
    print_style style = print_style_default();
    return to->show ? to->show(to->show_arg, a, add_text, out, e) : print_array(out, a, &style, e);
}

/* text holds whole lines, each with its newline. */
static void deliver(buf *text, const printed_to *to)
{
    char *line = text->data, *end;
    for (; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        to->line(to->arg, line);
    }
}

int printed_lines(const printed *p, const rule_update *u, const printed_to *to, kv_err *e)
{
    buf out = {0};
    size_t done = 0;
    int rc = KV_OK;
    if (!to->line || u->printed.len == 0)
        return KV_OK;
    for (int64_t i = 0; i < p->n && !rc; i++) {
        buf_put(&out, u->printed.data + done, u->prints[i].at - done);
        done = u->prints[i].at;
        rc = show(&out, p->arrays[i], to, e);
    }
    buf_put(&out, u->printed.data + done, u->printed.len - done);
    if (!rc)
        rc = buf_check(&out, e);
    if (!rc)
        deliver(&out, to);
    buf_release(&out);
    return rc;
}
