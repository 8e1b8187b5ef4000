/* Residuals and codes of a push.
 *
 * A block of elements is quantised and the numbers of its codes added up at once, so gradients and
 * residuals are read from memory once and codes are not even written. Where the sum is what will be
 * stored it goes there; for other updaters it is an array of its own, because they may read it more
 * than once, and a residual changes only once.
 *
 * compress_part and compress_whole work in host memory; compress_gpu_job makes a job of the same
 * work for the GPU of a key.
 */
#include "core/compress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/mirror.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "core/call.h"
#include "core/slot.h"
#include "engine/pool.h"

/* ---- The setting ---- */

static const char *const types[] = {"none", "1bit", "2bit"}; /* by quantise_code */
enum { NTYPES = 3 };

static int type_of(const char *name)
{
    for (int i = 0; i < NTYPES; i++)
        if (strcmp(types[i], name) == 0)
            return i;
    return -1;
}

/* The other rules for a parameter depend on the type, which may stand behind it. */
static int check_param(const compression *c, const kv_opt *param, kv_err *e)
{
    bool threshold = strcmp(param->name, "threshold") == 0;
    bool pull = c->pull && strcmp(param->name, "pull") == 0;
    if (c->code == 0 && (threshold || pull))
        return kv_err_set(e, KV_E_USAGE, "gradient compression \"none\" has no %s", param->name);
    if (!threshold || c->code != QUANTISE_2BIT || c->threshold > 0)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "the threshold of 2bit is a float32 greater than 0, not %.64s",
               param->value);
    return kv_err_hint(e, "it is what one code adds or takes away; 0.5 is the default"), KV_E_VALUE;
}

static int read_param(compression *out, const kv_opt *param, kv_err *e)
{
    static const char *const names[] = {"type", "threshold", "pull"};
    if (strcmp(param->name, "type") == 0) {
        out->code = type_of(param->value);
        if (out->code >= 0)
            return KV_OK;
        kv_err_set(e, KV_E_VALUE, "there is no gradient compression \"%.64s\"", param->value);
        suggest_hint(e, param->value, types, NTYPES);
        kv_err_hint(e, "2bit, 1bit, none"); /* unless one is close */
        return KV_E_VALUE;
    }
    if (strcmp(param->name, "threshold") == 0) {
        double x;
        size_t n = strlen(param->value);
        if (n == 0 || num_parse(param->value, n, NUM_BINARY32, &x, NULL) != n)
            return kv_err_set(e, KV_E_DTYPE, "the threshold is \"%.64s\", not a number",
                              param->value);
        if (!isfinite(x))
            return kv_err_set(e, KV_E_VALUE, "the threshold is %.64s, not a finite float32",
                              param->value);
        out->threshold = (float)x;
        return KV_OK;
    }
    if (strcmp(param->name, "pull") == 0) {
        out->pull = strcmp(param->value, "true") == 0;
        if (out->pull || strcmp(param->value, "false") == 0)
            return KV_OK;
        return kv_err_set(e, KV_E_VALUE, "pull is true or false, not \"%.64s\"", param->value);
    }
    kv_err_set(e, KV_E_USAGE, "gradient compression has no parameter \"%.64s\"", param->name);
    return suggest_hint(e, param->name, names, 3), KV_E_USAGE;
}

int compression_read(compression *out, const kv_opt *params, int nparams, kv_err *e)
{
    compression c = {.code = -1, .threshold = 0.5f};
    int rc;
    for (int i = 0; i < nparams; i++)
        if ((rc = read_param(&c, &params[i], e)))
            return kv_err_option(e, i), rc;
    if (c.code < 0) {
        kv_err_set(e, KV_E_USAGE, "gradient compression needs a type");
        return kv_err_hint(e, "2bit, 1bit, none"), KV_E_USAGE;
    }
    for (int i = 0; i < nparams; i++)
        if ((rc = check_param(&c, &params[i], e)))
            return kv_err_option(e, i), rc;
    *out = c.code ? c : (compression){0};
    return KV_OK;
}

const char *compression_print(char out[COMPRESSION_TEXT], const compression *c)
{
    char number[NUM_TEXT_MAX];
    num_plain(number, (double)c->threshold, NUM_BINARY32);
    snprintf(out, COMPRESSION_TEXT, c->code ? "%s %s%s" : "%s", types[c->code], number,
             c->pull ? " pull" : "");
    return out;
}

bool compression_parse(compression *out, const char *text)
{
    char type[8], again[COMPRESSION_TEXT];
    size_t n = strcspn(text, " ");
    if (n >= sizeof type || !text[n])
        return false;
    memcpy(type, text, n);
    type[n] = '\0';
    kv_opt params[] = {{"type", type}, {"threshold", text + n + 1}};
    kv_err why = {0};
    return compression_read(out, params, 2, &why) == KV_OK &&
           strcmp(compression_print(again, out), text) == 0;
}

bool compression_same(const compression *a, const compression *b)
{
    return a->code == b->code && a->threshold == b->threshold && a->pull == b->pull;
}

int compression_check(const kv_key *key, const kv_array *a, kv_err *e)
{
    const char *hint = "keep such keys in a store of their own, without compression";
    if (a->storage == KV_ROW_SPARSE)
        return slot_error(e, KV_E_VALUE, key, hint,
                          "key %s is row_sparse, gradient compression takes default arrays",
                          SLOT_KEY(key));
    if (a->dtype == KV_FLOAT32)
        return KV_OK;
    return slot_error(e, KV_E_DTYPE, key, hint,
                      "key %s is %s, gradient compression takes float32 keys", SLOT_KEY(key),
                      kv_dtype_name(a->dtype));
}

int compression_check_slots(const slot_table *t, kv_err *e)
{
    for (int64_t i = 0; i < t->n; i++)
        TRY(compression_check(&t->items[i].key, t->items[i].stored, e));
    return KV_OK;
}

void compression_forget(slot_table *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        residuals_free(t->items[i].residuals);
        t->items[i].residuals = NULL;
    }
}

/* ---- Before a push ---- */

/* One value of a push. */
typedef struct pushed {
    kv_array *value;    /* the caller's */
    kv_array *residual; /* written */
    kv_array *old;      /* NULL, or what the residual begins as: the slot's, where somebody else
                           holds that or it lies in another context */
    bool made;          /* residual was made by this push and is not yet the slot's */
} pushed;

typedef struct group { /* the call's group of the same number */
    pushed *values;
    int64_t n;
    kv_array *sum;
} group;

/* The memory of compression in a push, behind call.compress. */
typedef struct work {
    compression how;
    bool direct; /* the sums are stored as they are */
    group *groups;
    int64_t ngroups;
    pushed *values;
    bool held; /* values and residuals: the operation runs later */
} work;

static int check_group(const slot *s, const group *g, const call_group *from, kv_err *e)
{
    if ((!from->sparse || !s->stored) && !from->mixed)
        return compression_check(&s->key, s->stored ? s->stored : g->values[0].value, e);
    return slot_error(
        e, KV_E_VALUE, &s->key, "convert them: kv_array_to_dense",
        "the values of key %s are row_sparse, gradient compression takes default arrays",
        SLOT_KEY(&s->key));
}

/* The residual of a value in its context: the slot's own where it has no other holder. */
static int take_residual(pushed *v, const residuals *r, int64_t i, kv_err *e)
{
    const kv_array *like = v->value;
    kv_array *old = i < r->n ? r->items[i] : NULL;
    v->residual = old;
    if (old && kv_array_refs(old) == 1 && kv_ctx_same(old->ctx, like->ctx))
        return KV_OK;
    int rc =
        old ? kv_array_new_raw(&v->residual, KV_FLOAT32, like->ndim, array_shape(like), like->ctx,
                               e)
            : kv_array_new(&v->residual, KV_FLOAT32, like->ndim, array_shape(like), like->ctx, e);
    v->made = rc == KV_OK;
    v->old = v->made ? kv_array_ref(old) : NULL;
    return rc;
}

/* An array for the sum, where the key will stand. */
static int take_sum(group *g, residuals *r, kv_ctx ctx, kv_err *e)
{
    const kv_array *like = g->values[0].value;
    if (!r->sum || !kv_ctx_same(r->sum->ctx, ctx)) {
        kv_array *sum;
        TRY(kv_array_new_raw(&sum, KV_FLOAT32, like->ndim, array_shape(like), ctx, e));
        kv_array_unref(r->sum);
        r->sum = sum;
    }
    g->sum = kv_array_ref(r->sum);
    return KV_OK;
}

static int prepare_group(call *c, group *g, const call_group *from, kv_err *e)
{
    slot *s = call_slot(c, from);
    residuals **at = &s->residuals;
    TRY(check_group(s, g, from, e));
    if (!*at && !(*at = mem_zalloc(1, sizeof **at, e)))
        return KV_E_MEMORY;
    TRY(mem_grow(&(*at)->items, &(*at)->cap, g->n, sizeof *(*at)->items, e));
    for (int64_t i = 0; i < g->n; i++) {
        pushed *v = &g->values[i];
        TRY(take_residual(v, *at, i, e));
        c->uses[c->op.nuses++] = (engine_use){.var = array_var(v->residual), .write = true};
        if (v->old)
            c->uses[c->op.nuses++] = (engine_use){.var = array_var(v->old)};
    }
    const work *w = c->compress.state;
    if (!w->direct)
        return take_sum(g, *at, from->ctx, e);
    g->sum = kv_array_ref(from->target);
    return KV_OK;
}

static void release(call *c)
{
    work *w = c->compress.state;
    for (int64_t i = 0; i < w->ngroups; i++) {
        const group *g = &w->groups[i];
        for (int64_t j = 0; j < g->n; j++) {
            const pushed *v = &g->values[j];
            kv_array_unref(v->old);
            if (v->made)
                kv_array_unref(v->residual);
            if (w->held) {
                array_drop(v->value);
                array_drop(v->residual);
            }
        }
        kv_array_unref(g->sum);
    }
    mem_free(w->groups);
    mem_free(w->values);
    mem_free(w);
}

static int new_work(call *c, const compression *how, bool direct, kv_err *e)
{
    work *w = mem_zalloc(1, sizeof *w, e);
    if (!w)
        return KV_E_MEMORY;
    w->how = *how;
    w->direct = direct;
    c->compress = (call_part){w, release};
    w->groups = mem_zalloc(c->ngroups, sizeof *w->groups, e);
    w->values = mem_zalloc(c->nvalues, sizeof *w->values, e);
    return w->groups && w->values ? KV_OK : KV_E_MEMORY;
}

/* From now on the call is one of the sums. */
static void replace_values(const work *w, call *c)
{
    kv_assert(w->ngroups == c->ngroups, "%lld of %lld keys are compressed", (long long)w->ngroups,
              (long long)c->ngroups);
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        c->list[i] = w->groups[i].sum;
        c->data[i] = c->list[i]->data;
        g->first = i;
        g->n = 1;
        g->same_dtype = true;
    }
    c->values = c->list;
    c->nvalues = c->ngroups;
    c->max_values = 1;
}

int compress_prepare(const compression *how, bool direct, call *c, kv_err *e)
{
    if (!how->code)
        return KV_OK;
    TRY(new_work(c, how, direct, e));
    work *w = c->compress.state;
    pushed *next = w->values;
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *from = &c->groups[i];
        group *g = &w->groups[w->ngroups++];
        *g = (group){next, from->n, NULL};
        for (int64_t j = 0; j < g->n; j++)
            (next++)->value = c->values[from->first + j];
        TRY(prepare_group(c, g, from, e));
    }
    replace_values(w, c);
    return KV_OK;
}

/* The slots get the residuals, which the operation fills. */
void compress_commit(call *c)
{
    work *w = c->compress.state;
    for (int64_t i = 0; w && i < w->ngroups; i++) {
        const group *g = &w->groups[i];
        residuals *r = call_slot(c, &c->groups[i])->residuals;
        if (!kv_assert(r && r->cap >= g->n, "a key has no place for %lld residuals",
                       (long long)g->n))
            continue;
        for (int64_t j = 0; j < g->n; j++) {
            pushed *v = &g->values[j];
            array_hold(v->value);
            array_hold(v->residual);
            if (!v->made)
                continue;
            if (j < r->n)
                kv_array_unref(r->items[j]); /* others hold it, or v->old does */
            r->items[j] = v->residual;
            v->made = false;
        }
        r->n = r->n > g->n ? r->n : g->n;
    }
    if (w)
        w->held = true;
}

/* ---- The element work ---- */

/* The compressed values and residuals of a group of the call. */
static const group *group_of(const work *w, const call *c, const call_group *of)
{
    kv_assert(of - c->groups < w->ngroups, "group %lld of %lld is compressed",
              (long long)(of - c->groups), (long long)w->ngroups);
    return &w->groups[of - c->groups];
}

/* Elements of a block, where a sum takes several steps: gradient, residual and sum share the first
 * caches. A part is what one thread takes: large enough to be worth waking another one. */
enum { BLOCK = 4096, PART = 16 * BLOCK };

/* Values that one step takes. */
enum { STEP_VALUES = 16 };

/* Returns true if a value and its residual are read where they are. */
static bool is_plain(const pushed *v)
{
    return v->value->dtype == KV_FLOAT32 && !v->old;
}

/* The number of values from number j on that one step takes. */
static int64_t step_values(const group *g, int64_t j)
{
    int64_t n = 1;
    while (j + n < g->n && n < STEP_VALUES && is_plain(&g->values[j]) &&
           is_plain(&g->values[j + n]))
        n++;
    return n;
}

/* n elements from `from` of a value, as float32; its residual begins as what it had before. */
static const float *begin_value(float piece[BLOCK], const pushed *v, int64_t from, int64_t n)
{
    const kv_array *value = v->value;
    const void *src = (const char *)value->data + from * kv_dtype_bytes(value->dtype);
    if (v->old)
        memcpy((float *)v->residual->data + from, (const float *)v->old->data + from,
               (size_t)n * sizeof(float));
    if (value->dtype == KV_FLOAT32)
        return src;
    convert_elements(piece, KV_FLOAT32, src, value->dtype, n);
    return piece;
}

/* n elements from `from` of all values: into the residuals and the sum. Where the sum is the result
 * it is made in a block of its own, and the last step takes it to where it may be far. */
static void run_block(const work *w, const group *g, int64_t from, int64_t n, bool far)
{
    float piece[BLOCK], block[BLOCK];
    float *out = (float *)g->sum->data + from, *sum = w->direct ? block : out;
    for (int64_t j = 0, m; j < g->n; j += m) {
        const float *src[STEP_VALUES];
        float *residual[STEP_VALUES];
        m = step_values(g, j);
        for (int64_t i = 0; i < m; i++) {
            src[i] = begin_value(piece, &g->values[j + i], from, n);
            residual[i] = (float *)g->values[j + i].residual->data + from;
        }
        quantise_sum(j + m < g->n ? sum : out, j > 0 ? sum : NULL, residual, src, m,
                     (quantise_code)w->how.code, w->how.threshold, n, far);
    }
}

void compress_part(const call *c, const call_group *of, int64_t from, int64_t n)
{
    const work *w = c->compress.state;
    const group *g = group_of(w, c, of);
    int64_t begin = call_trace_begin(c);
    bool far = call_is_far(c, n), one = is_plain(&g->values[0]) && step_values(g, 0) == g->n;
    int64_t block = one ? n : BLOCK;
    for (int64_t i = 0; i < n; i += block)
        run_block(w, g, from + i, n - i < block ? n - i : block, far);
    call_trace_part(c, begin, "compress", &of->key, g->sum, from, n);
}

/* ---- On a GPU ---- */

bool compress_gpu_can(const call *c, const call_group *of)
{
    const work *w = c->compress.state;
    const group *g = group_of(w, c, of);
    int id = mirror_gpu(g->sum);
    bool can = id >= 0;
    for (int64_t j = 0; j < g->n; j++) {
        const pushed *v = &g->values[j];
        can &= v->value->dtype == KV_FLOAT32 && mirror_gpu(v->value) == id &&
               mirror_gpu(v->residual) == id && (!v->old || mirror_can_copy(v->residual, v->old));
    }
    return can;
}

int compress_gpu_job(const call *c, const call_group *of, gpu_job *job, arena *memory, kv_err *e)
{
    const work *w = c->compress.state;
    const group *g = group_of(w, c, of);
    const void **src = arena_alloc(memory, (size_t)g->n * sizeof *src, e);
    void **more = src ? arena_alloc(memory, (size_t)g->n * sizeof *more, e) : NULL, *block;
    TRY(more ? KV_OK : KV_E_MEMORY);
    for (int64_t j = 0; j < g->n; j++) {
        const pushed *v = &g->values[j];
        if (v->old)
            TRY(mirror_copy(v->residual, v->old, e));
        TRY(mirror_device(v->value, MIRROR_READ, &block, e));
        src[j] = block;
        TRY(mirror_device(v->residual, MIRROR_CHANGE, &more[j], e));
    }
    TRY(mirror_device(g->sum, MIRROR_WRITE, &block, e));
    *job = (gpu_job){.dst = block,
                     .n = g->sum->size,
                     .src = src,
                     .nsrc = g->n,
                     .more = more,
                     .nmore = g->n,
                     .threshold = w->how.threshold,
                     .code = (quantise_code)w->how.code};
    return KV_OK;
}

int compress_bring(const call *c, const call_group *of, kv_err *e)
{
    const work *w = c->compress.state;
    const group *g = group_of(w, c, of);
    TRY(mirror_host(g->sum, MIRROR_WRITE, e));
    for (int64_t j = 0; j < g->n; j++) {
        const pushed *v = &g->values[j];
        TRY(mirror_host(v->value, MIRROR_READ, e));
        TRY(mirror_host(v->old, MIRROR_READ, e));
        TRY(mirror_host(v->residual, v->old ? MIRROR_WRITE : MIRROR_CHANGE, e));
    }
    return KV_OK;
}

/* ---- All of a group at once ---- */

typedef struct part_arg {
    const call *call;
    const call_group *group;
} part_arg;

static void run_part(void *arg, int64_t part, int worker)
{
    const part_arg *a = arg;
    int64_t from = part * PART, left = a->group->target->size - from;
    (void)worker;
    compress_part(a->call, a->group, from, left < PART ? left : PART);
}

void compress_whole(const call *c)
{
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        int64_t size = g->target->size, nparts = size / PART + (size % PART != 0);
        if (!call_has_parts(g) && g->work != CALL_ON_GPU)
            pool_run(nparts, run_part, &(part_arg){c, g});
    }
}
