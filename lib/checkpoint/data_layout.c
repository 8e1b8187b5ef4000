/* Tensors in the order of their data. */
#include "checkpoint/data_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

typedef struct layout {
    const checkpoint *c;
    int file;
    int64_t data, alignment;
} layout;

/* By begin, then by end, so that a tensor without elements stands before one that begins there. */
static int by_offset(const void *a, const void *b)
{
    const tensor_info *x = *(tensor_info *const *)a;
    const tensor_info *y = *(tensor_info *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The first place from `end` on where the next tensor may begin. */
static int64_t next_place(const layout *r, int64_t end)
{
    int64_t over = (end - r->data) % r->alignment;
    return over ? end + r->alignment - over : end;
}

static int check_data(const layout *r, tensor_info **order, int64_t n, kv_err *e)
{
    const checkpoint *c = r->c;
    int64_t end = r->data, size = c->files[r->file].size;
    int rc = KV_OK;
    qsort(order, (size_t)n, sizeof *order, by_offset);
    for (int64_t i = 0; i < n && !rc; i++) {
        const tensor_info *t = order[i];
        if (t->offset < end)
            rc = checkpoint_fault(c, KV_E_FORMAT, t->name, r->file, e,
                                  "tensors \"%.*s\" and \"%.*s\" overlap",
                                  SHOWN(order[i - 1]->name), SHOWN(t->name));
        else if (t->offset > next_place(r, end))
            rc = checkpoint_fault(c, KV_E_FORMAT, t->name, r->file, e,
                                  "%lld bytes of data before tensor \"%.*s\" belong to no tensor",
                                  (long long)(t->offset - next_place(r, end)), SHOWN(t->name));
        if (t->offset + t->bytes > end)
            end = t->offset + t->bytes;
    }
    if (!rc && end > size)
        rc = file_bad(e, KV_E_FORMAT, c->files[r->file].name,
                      "cut within its data: %lld of %lld bytes are missing",
                      (long long)(end - (size > r->data ? size : r->data)),
                      (long long)(end - r->data));
    else if (!rc && next_place(r, end) < size)
        rc = checkpoint_fault(c, KV_E_FORMAT, NULL, r->file, e,
                              "%lld bytes behind the data belong to no tensor",
                              (long long)(size - next_place(r, end)));
    return rc;
}

int data_layout_check(const checkpoint *c, int file, int64_t first, int64_t data, int64_t alignment,
                      kv_err *e)
{
    layout r = {c, file, data, alignment};
    int64_t n = c->ntensors - first;
    tensor_info **order = mem_alloc(n, sizeof *order, e);
    if (!order)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        order[i] = &c->tensors[first + i];
    int rc = check_data(&r, order, n, e);
    mem_free(order);
    return rc;
}
