/* Which tensors are codes, and the list of a file with the numbers in their place. */
#include "checkpoint/tensor_values.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/gguf_blocks.h"
#include "checkpoint/scales.h"
#include "checkpoint/tensor_reader.h"

/* ---- What is decoded ------------------------------------------------------------------------- */

/* Tensor `at` of a file. */
typedef struct place {
    int file;
    int64_t at;
} place;

typedef struct pair {
    place codes, scale;
    scales_fit fit;
} pair;

/* What becomes of a tensor. */
typedef struct fate {
    int64_t pair;  /* the number of its numbers' pair + 1; 0: it stays */
    bool hidden;   /* it is a scale */
    int64_t moved; /* its number among the new ones, of codes that of the hidden tensor */
} fate;

typedef struct decoding {
    scales_model m;
    fate **fates; /* of each file, of each tensor */
    pair *pairs;
    int64_t n, cap;
    int64_t block[2];
} decoding;

static int64_t number_of(const checkpoint *c, const tensor_info *t)
{
    return t - c->tensors;
}

/* Hides STEM + ending, if there is such a tensor. */
static int64_t hide(decoding *d, const char *name, size_t stem, const char *ending)
{
    int file;
    const tensor_info *t = scales_look_up(d->m, name, stem, ending, &file);
    if (!t)
        return 0;
    d->fates[file][number_of(d->m.files[file], t)].hidden = true;
    return 1;
}

/* Scales of activations, and a marker of ComfyUI: they say nothing of numbers. */
static int64_t hide_others(decoding *d, const char *name, size_t stem)
{
    static const char *const endings[] = {".input_scale", ".scale_input", ".input_global_scale",
                                          ".comfy_quant"};
    size_t n = strlen(".weight");
    int64_t hidden = 0;
    if (stem < n || memcmp(name + stem - n, ".weight", n) != 0)
        return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        hidden += hide(d, name, stem - n, endings[i]);
    return hidden;
}

/* A scale of all scales: a tensor of one F32. */
static int read_global(float *out, const checkpoint *c, int64_t i, kv_err *e)
{
    tensor_reader *r;
    const void *data;
    int rc = tensor_reader_new(&r, c, 0, e);
    if (rc)
        return rc;
    if (!(rc = tensor_read(r, &data, i, 0, sizeof *out, e)))
        memcpy(out, data, sizeof *out);
    tensor_reader_free(r);
    return rc;
}

static int add_pair(decoding *d, int file, int64_t at, const scales *s, const scales_fit *fit,
                    kv_err *e)
{
    int rc = mem_grow(&d->pairs, &d->cap, d->n + 1, sizeof *d->pairs, e);
    if (rc)
        return rc;
    pair *p = &d->pairs[d->n++];
    *p = (pair){.codes = {file, at}, .scale = {-1, 0}, .fit = *fit};
    d->fates[file][at].pair = d->n;
    for (int i = 0; i < s->n && !rc; i++) {
        const checkpoint *c = d->m.files[s->home[i]];
        int64_t number = number_of(c, s->scale[i]);
        d->fates[s->home[i]][number].hidden = true;
        if (i == fit->scale)
            p->scale = (place){s->home[i], number};
        else
            rc = read_global(&p->fit.how.global, c, number, e);
    }
    if (s->n == 0)
        return KV_OK;
    const char *name = s->scale[fit->scale]->name, *dot = strrchr(name, '.');
    p->fit.how.has_global = fit->global >= 0;
    p->fit.how.named = dot ? dot + 1 : name;
    p->fit.how.nhidden = s->n + hide_others(d, s->codes->name, fit->stem);
    return rc;
}

static int find_pairs(decoding *d, int file, tensor_values_choice *choose, void *arg, kv_err *e)
{
    const checkpoint *c = d->m.files[file];
    int rc = KV_OK;
    for (int64_t i = 0; i < c->ntensors && !rc; i++) {
        const tensor_info *t = &c->tensors[i];
        scales s = {0};
        scales_fit fit = {.how.type = t->type, .packed = 1, .stem = strlen(t->name)};
        if (gguf_blocks_can(t->type) ||
            (scales_find_codes(&s, d->m, file, t) && (!choose || choose(arg, t)) &&
             scales_find_fit(&fit, &s, d->block)))
            rc = add_pair(d, file, i, &s, &fit, e);
    }
    return rc;
}

/* ---- Tensors of numbers ---------------------------------------------------------------------- */

/* Makes *t, the codes, the tensor of their numbers. */
static int describe(tensor_info *t, checkpoint *c, const scales_fit *fit, kv_err *e)
{
    const tensor_values *v = &fit->how;
    int ndim = v->swapped ? t->ndim - 1 : t->ndim;
    int64_t *shape = arena_alloc(&c->memory, (size_t)ndim * sizeof *shape, e);
    const char *name = arena_text(&c->memory, t->name, fit->stem, e);
    if (!shape || !name)
        return KV_E_MEMORY;
    for (int i = 0; i < ndim; i++)
        shape[i] = t->shape[i];
    if (v->swapped)
        shape[ndim - 2] = v->width;
    if (fit->packed > 1)
        shape[ndim - 1] = v->swapped ? v->height : v->width;
    t->name = name;
    t->ndim = ndim;
    t->shape = shape;
    t->type = TENSOR_F32;
    t->elements = tensor_elements(ndim, shape);
    t->bytes = tensor_type_bytes(TENSOR_F32, t->elements);
    t->form = TENSOR_DECODED | (t->form & (TENSOR_DEFLATED | TENSOR_STRIDED));
    t->member = 0;
    t->values = c->nvalues;
    return t->bytes >= 0 ? KV_OK
                         : file_bad(e, KV_E_UNSUPPORTED, c->name,
                                    "the numbers of \"%.*s\" are more than memory can count",
                                    SHOWN(name));
}

/* The new list of a file: the tensors that stay and those of numbers, and behind them what is
 * hidden. */
static int rebuild(decoding *d, int file, kv_err *e)
{
    checkpoint *c = d->m.files[file];
    fate *fates = d->fates[file];
    int64_t n = c->ntensors, visible = 0, hidden = 0;
    int rc = KV_OK;
    for (int64_t i = 0; i < n; i++) {
        visible += fates[i].pair || !fates[i].hidden;
        hidden += fates[i].pair || fates[i].hidden;
    }
    tensor_info *tensors = mem_alloc(visible + hidden, sizeof *tensors, e);
    if (!tensors)
        return KV_E_MEMORY;
    int64_t at = 0, behind = visible;
    for (int64_t i = 0; i < n && !rc; i++) {
        const pair *p = fates[i].pair ? &d->pairs[fates[i].pair - 1] : NULL;
        fates[i].moved = p || fates[i].hidden ? behind++ : at++;
        tensors[fates[i].moved] = c->tensors[i];
        if (!p)
            continue;
        rc = mem_grow(&c->values, &c->values_cap, c->nvalues + 1, sizeof *c->values, e);
        if (rc)
            break;
        c->values[c->nvalues++] = p->fit.how;
        c->values[c->nvalues - 1].codes = fates[i].moved;
        tensors[at] = c->tensors[i];
        rc = describe(&tensors[at++], c, &p->fit, e);
    }
    mem_free(c->tensors);
    c->tensors = tensors;
    c->tensors_cap = visible + hidden;
    c->ntensors = visible;
    c->nhidden = hidden;
    return rc;
}

/* Now that all have their places: where the scales are, and which names there are. */
static int connect(decoding *d, int file, kv_err *e)
{
    checkpoint *c = d->m.files[file];
    int64_t n = 0;
    for (int64_t i = 0; i < d->n; i++) {
        const pair *p = &d->pairs[i];
        if (p->codes.file != file)
            continue;
        tensor_values *v = &c->values[n++];
        if (p->scale.file < 0)
            continue;
        v->scaled = d->m.files[p->scale.file];
        v->scale = d->fates[p->scale.file][p->scale.at].moved;
    }
    mem_free(c->tensor_names);
    if (!(c->tensor_names = mem_alloc(c->ntensors, sizeof *c->tensor_names, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->ntensors; i++)
        c->tensor_names[i] = (named){c->tensors[i].name, i};
    const char *twice = named_sort(c->tensor_names, c->ntensors);
    return !twice ? KV_OK
                  : file_bad(e, KV_E_VALUE, c->name,
                             "there are codes of \"%.*s\" and a tensor of that name",
                             SHOWN(twice));
}

/* ComfyUI's marker of a file stays as long as there are codes with scales. */
static void hide_marker(decoding *d)
{
    scales unused;
    for (int k = 0; k < d->m.n; k++)
        for (int64_t i = 0; i < d->m.files[k]->ntensors; i++)
            if (!d->fates[k][i].pair &&
                scales_find_codes(&unused, d->m, k, &d->m.files[k]->tensors[i]))
                return;
    for (int64_t i = 0; i < d->n; i++)
        if (d->pairs[i].scale.file >= 0) {
            d->pairs[i].fit.how.nhidden += hide(d, "", 0, "scaled_fp8");
            return;
        }
}

static int decode_all(decoding *d, tensor_values_choice *choose, void *arg, kv_err *e)
{
    int rc = KV_OK;
    scales_block_size(d->block, d->m.files[0]->name);
    for (int k = 0; k < d->m.n && !rc; k++)
        if (!(d->fates[k] = mem_zalloc(d->m.files[k]->ntensors, sizeof **d->fates, e)))
            rc = KV_E_MEMORY;
    for (int k = 0; k < d->m.n && !rc; k++)
        rc = find_pairs(d, k, choose, arg, e);
    if (rc || d->n == 0)
        return rc;
    hide_marker(d);
    for (int k = 0; k < d->m.n && !rc; k++)
        rc = rebuild(d, k, e);
    for (int k = 0; k < d->m.n && !rc; k++)
        rc = connect(d, k, e);
    return rc;
}

int tensor_values_decode(checkpoint *const *files, int n, tensor_values_choice *choose, void *arg,
                         kv_err *e)
{
    decoding d = {.m = {files, n}};
    if (n == 0)
        return KV_OK;
    d.fates = mem_zalloc(n, sizeof *d.fates, e);
    int rc = d.fates ? decode_all(&d, choose, arg, e) : KV_E_MEMORY;
    for (int k = 0; k < n && d.fates; k++)
        mem_free(d.fates[k]);
    mem_free(d.fates);
    mem_free(d.pairs);
    return rc;
}

/* ---- What was decoded ------------------------------------------------------------------------ */

static const tensor_values *values_of(const checkpoint *c, int64_t i)
{
    int64_t values = c->tensors[i].values;
    return values ? &c->values[values - 1] : NULL;
}

const tensor_info *tensor_values_codes(const checkpoint *c, int64_t i)
{
    const tensor_values *v = values_of(c, i);
    return v ? &c->tensors[v->codes] : NULL;
}

int64_t tensor_values_scales(const checkpoint *c, int64_t i, const char **name)
{
    const tensor_values *v = values_of(c, i);
    *name = v && v->scaled ? v->named : NULL;
    return *name ? v->nhidden : 0;
}

bool tensor_values_has_scales(const checkpoint *c)
{
    int64_t size[2];
    const char *name;
    bool has = scales_block_size(size, c->name);
    for (int64_t i = 0; i < c->ntensors && !has; i++)
        has = tensor_values_scales(c, i, &name) > 0;
    return has;
}

int64_t tensor_values_find_hidden(const checkpoint *c, const char *name)
{
    for (int64_t i = c->ntensors; i < c->ntensors + c->nhidden; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return checkpoint_find(c, name) < 0 ? i : -1;
    return -1;
}
