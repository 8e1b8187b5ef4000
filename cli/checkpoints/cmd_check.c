/* `check`: every fault of the files of a checkpoint, and of its data. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "eval/eval.h"
#include "session/show.h"
#include "session/unit.h"
#include "tensors/tensor_check.h"
#include "term/progress.h"

/* ---- Findings -------------------------------------------------------------------------------- */

/* A file of lies may have millions of faults: so many are listed, the others counted. */
#define LISTED_MAX 100000

/* The findings so far: cells for --json, and lines. */
typedef struct findings {
    rows *cells;
    buf *lines;
    int64_t n;
    const char *path; /* of the checkpoint, for what concerns no single file */
} findings;

static int add_text_or_none(rows *table, const char *text, kv_err *e)
{
    return text ? rows_add_text(table, text, e) : rows_add(table, value_none(), e);
}

static int add_cells(findings *f, const char *key, const char *file, const char *finding, kv_err *e)
{
    int code;
    if ((code = add_text_or_none(f->cells, key, e)) || (code = add_text_or_none(f->cells, file, e)))
        return code;
    return rows_add_text(f->cells, finding, e);
}

static void add_visible(buf *lines, const char *text)
{
    visible_line(lines, text, strlen(text));
}

/* A fault that opening found: its text names the tensor. */
static int add_fault(void *arg, const char *key, const char *file, const char *finding, kv_err *e)
{
    findings *f = arg;
    if (f->n++ >= LISTED_MAX)
        return KV_OK;
    add_visible(f->lines, file ? file : f->path);
    buf_add(f->lines, ": ");
    add_visible(f->lines, finding);
    buf_char(f->lines, '\n');
    return add_cells(f, key, file, finding, e);
}

/* Adds what is said of a key: `m.safetensors: fc.weight: 3 of 6 elements are NaN`. */
static int add(findings *f, const char *key, const char *file, kv_err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static int add(findings *f, const char *key, const char *file, kv_err *e, const char *fmt, ...)
{
    buf text = {0};
    va_list args;
    if (f->n++ >= LISTED_MAX)
        return KV_OK;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    add_visible(f->lines, file);
    buf_add(f->lines, ": ");
    show_key(f->lines, (kv_key){.name = key});
    buf_add(f->lines, ": ");
    add_visible(f->lines, buf_text(&text));
    buf_char(f->lines, '\n');
    int code = buf_check(&text, e);
    if (code == KV_OK)
        code = add_cells(f, key, file, buf_text(&text), e);
    buf_release(&text);
    return code;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* "3 of 6 elements are NaN" */
static int add_count(findings *f, const tensor_info *t, const char *file, int64_t count,
                     int64_t of, const char *units, const char *what, kv_err *e)
{
    return count == 0 ? KV_OK
                      : add(f, t->name, file, e, "%lld of %lld %s %s %s", (long long)count,
                            (long long)of, units, count == 1 ? "is" : "are", what);
}

static int add_values(findings *f, const checkpoint *c, const tensor_info *t,
                      const tensor_values *v, kv_err *e)
{
    const char *file = checkpoint_file(c, t->file);
    bool parts = tensor_type_kind(t->type) == TENSOR_KIND_COMPLEX;
    const char *units = parts ? "parts" : "elements";
    int64_t n = parts ? 2 * t->elements : t->elements;
    int code;
    if ((code = add_count(f, t, file, v->nans, n, units, "NaN", e)) ||
        (code = add_count(f, t, file, v->infs, n, units, "Inf", e)) ||
        (code = add_count(f, t, file, v->odd_bools, n, "bytes", "neither 0 nor 1", e)))
        return code;
    return v->zero ? add(f, t->name, file, e, "all of its elements are 0") : KV_OK;
}

/* A key that cannot be read; the sentence begins with the name of its file. */
static int add_unread(findings *f, const char *key, const char *file, const char *why, kv_err *e)
{
    size_t n = strlen(file);
    bool named = strncmp(why, file, n) == 0 && strncmp(why + n, ": ", 2) == 0;
    return add_fault(f, key, file, named ? why + n + 2 : why, e);
}

/* One by one, where something stands in the way of a walk over all: what cannot be read is a
 * finding, and the other keys are looked at. */
static int check_each(findings *f, checkpoint *c, const int64_t *keys, int64_t n, kv_err *e)
{
    int code = KV_OK;
    for (int64_t k = 0; k < n && code == KV_OK; k++) {
        int64_t i = keys[k];
        const tensor_info *t = checkpoint_at(c, i);
        tensor_values v;
        kv_err why = {0};
        code = tensor_check_all(&v, c, &i, 1, NULL, NULL, &why);
        if (code == KV_E_FORMAT || code == KV_E_UNSUPPORTED)
            code = add_unread(f, t->name, checkpoint_file(c, t->file), why.text, e);
        else if (code == KV_OK)
            code = add_values(f, c, t, &v, e);
        else
            *e = why;
    }
    return code;
}

static int check_values(session *s, findings *f, checkpoint *c, const bool *chosen, kv_err *e)
{
    int64_t all = checkpoint_count(c), looked = 0, n = 0;
    int64_t *keys = mem_alloc(all, sizeof *keys, e);
    tensor_values *values = mem_alloc(all, sizeof *values, e);
    const tensor_info *odd = NULL, *quantised = NULL;
    int64_t blocks = 0;
    kv_err why = {0};
    int code = keys && values ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < all && code == KV_OK; i++) {
        const tensor_info *t = checkpoint_at(c, i);
        if (!chosen[i])
            continue;
        if (!t->odd)
            keys[n++] = i;
        looked++;
        if (tensor_type_kind(t->type) == TENSOR_KIND_QUANTISED) {
            quantised = quantised ? quantised : t;
            blocks++;
        }
        odd = odd ? odd : t->odd ? t : NULL;
    }
    if (odd)
        session_note(s, "%lld of %lld keys have no numbers to look at, such as \"%.200s\" (%s)",
                     (long long)(looked - n), (long long)looked, odd->name, odd->odd);
    if (quantised)
        session_note(s,
                     "NaN and Inf are not looked for in %lld of %lld keys, quantised such as "
                     "\"%.200s\" (%s)",
                     (long long)blocks, (long long)looked, quantised->name,
                     tensor_info_type(quantised));
    if (code == KV_OK) {
        progress_begin("check", 0, PROGRESS_BYTES);
        code = tensor_check_all(values, c, keys, n, progress_bytes, NULL, &why);
        progress_end();
        if (code == KV_E_FORMAT || code == KV_E_UNSUPPORTED)
            code = check_each(f, c, keys, n, e);
        else if (code)
            *e = why;
        else
            for (int64_t i = 0; i < n && code == KV_OK; i++)
                code = add_values(f, c, checkpoint_at(c, keys[i]), &values[i], e);
    }
    mem_free(keys);
    mem_free(values);
    return code;
}

/* ---- --like ---------------------------------------------------------------------------------- */

static bool same_shape(const tensor_info *a, const tensor_info *b)
{
    return a->ndim == b->ndim &&
           (a->ndim == 0 ||
            memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

/* One key, and the one of this name in the other checkpoint. */
static int compare_key(findings *f, const checkpoint *c, const tensor_info *t,
                       const checkpoint *other, kv_err *e)
{
    const char *file = checkpoint_file(c, t->file), *in = checkpoint_name(other);
    int64_t at = checkpoint_find(other, t->name);
    char shape[160], wanted[160];
    if (at < 0)
        return add(f, t->name, file, e, "%s has no such key", in);
    const tensor_info *o = checkpoint_at(other, at);
    int code = KV_OK;
    if (strcmp(tensor_info_type(t), tensor_info_type(o)) != 0) /* two odd ones are one type */
        code = add(f, t->name, file, e, "the dtype is %s, in %s %s", tensor_info_type(t), in,
                   tensor_info_type(o));
    if (code == KV_OK && !same_shape(t, o))
        code = add(f, t->name, file, e, "the shape is %s, in %s %s",
                   kv_shape_text(shape, sizeof shape, t->ndim, t->shape), in,
                   kv_shape_text(wanted, sizeof wanted, o->ndim, o->shape));
    return code;
}

static int check_like(findings *f, const checkpoint *c, choice *chosen, const checkpoint *other,
                      kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < checkpoint_count(c) && code == KV_OK; i++)
        if (choose_takes(chosen, checkpoint_at(c, i)->name))
            code = compare_key(f, c, checkpoint_at(c, i), other, e);
    for (int64_t i = 0; i < checkpoint_count(other) && code == KV_OK; i++) {
        const char *name = checkpoint_at(other, i)->name;
        if (checkpoint_find(c, name) < 0 && choose_takes(chosen, name))
            code = add(f, name, checkpoint_name(c), e, "missing, %s has it",
                       checkpoint_name(other));
    }
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int open_checked(session *s, const ast *call, findings *f, const word *path,
                        checkpoint **c, kv_err *e)
{
    const checkpoint_options options = {
        .weights = !command_option_of(call, "all"), .found = add_fault, .arg = f};
    f->path = path->text;
    return checkpoint_open(c, path->text, &options, e) ? unit_at(s, path->at, e) : KV_OK;
}

/* *takes: whether each key of the checkpoint is looked at; the caller releases it. */
static int choose_checked(choice *chosen, const checkpoint *c, bool **takes, kv_err *e)
{
    int64_t n = checkpoint_count(c);
    if (!(*takes = mem_alloc(n, sizeof **takes, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        (*takes)[i] = choose_takes(chosen, checkpoint_at(c, i)->name);
    return KV_OK;
}

static int check_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                      kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"file", NULL}, {"finding", NULL}};
    const ast *like = command_option_of(call, "like");
    checkpoint *c = NULL, *other = NULL;
    bool *takes = NULL;
    buf text = {0};
    findings f = {&out->entries, &text, 0, ""};
    out->entries = (rows){columns, 3, NULL, 0, 0};
    int code = like ? choose_open(s, like, command_option_of(call, "all"), out, &other, e) : KV_OK;
    if (code == KV_OK && (code = open_checked(s, call, &f, path, &c, e)) == KV_OK &&
        (code = choose_checked(chosen, c, &takes, e)) == KV_OK &&
        (code = check_values(s, &f, c, takes, e)) == KV_OK && like)
        code = check_like(&f, c, chosen, other, e);
    if (code == KV_OK)
        code = choose_check(s, chosen, e);
    if (code == KV_OK) {
        code = result_answer(out, f.n == 0, e, "%lld finding%s in %s%s", (long long)f.n,
                             f.n == 1 ? "" : "s", checkpoint_name(c),
                             f.n > LISTED_MAX ? ", of which the first 100,000 are listed" : "");
    }
    mem_free(takes);
    checkpoint_close(c);
    checkpoint_close(other);
    return result_text(out, &text, code, e);
}

int cmd_check(session *s, const ast *call, result *out, kv_err *e)
{
    return choose_each(s, call, check_file, true, out, e);
}
