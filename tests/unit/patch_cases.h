/* Checkpoints made at random, and others made from them, for the tests of patches. */
#pragma once

#include "checkpoint/tensor_reader.h"
#include "patch/patch.h"
#include "patch/patch_pack.h"
#include "test_checkpoint.h"

enum { MODEL_KEYS = 40 };

/* Tensors in memory. */
typedef struct model {
    int n;
    tensor_info tensors[MODEL_KEYS];
    int64_t shapes[MODEL_KEYS][2];
    char names[MODEL_KEYS][24];
    void *data[MODEL_KEYS];
    checkpoint_text texts[2];
    int ntexts;
    checkpoint *c;
} model;

static uint64_t random_state = 1;

static inline uint64_t random_next(void)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline int64_t random_below(int64_t n)
{
    return (int64_t)(random_next() % (uint64_t)n);
}

static inline int64_t model_bytes(const model *m, int i)
{
    const tensor_info *t = &m->tensors[i];
    return tensor_type_bytes(t->type, tensor_elements(t->ndim, t->shape));
}

static inline void model_fill(model *m, int i)
{
    int64_t bytes = model_bytes(m, i);
    free(m->data[i]);
    m->data[i] = malloc((size_t)bytes + 8);
    uint64_t kind = random_next() % 3;
    for (int64_t k = 0; k < bytes; k += 8) {
        uint64_t x = random_next();
        x = kind == 0 ? x : kind == 1 ? x & 0x3cff3cff3cff3cffu : 0;
        if (m->tensors[i].type == TENSOR_BOOL)
            x &= 0x0101010101010101u;
        memcpy((char *)m->data[i] + k, &x, 8);
    }
}

/* Sets the form of tensor i: about so many elements. */
static inline void model_shape(model *m, int i, tensor_type type, int64_t elements)
{
    tensor_info *t = &m->tensors[i];
    int64_t run = tensor_type_run(type);
    m->shapes[i][0] = elements / run;
    m->shapes[i][1] = run;
    *t = (tensor_info){.name = m->names[i], .type = type, .ndim = 2, .shape = m->shapes[i]};
}

static inline void model_add(model *m, const char *name, tensor_type type, int64_t elements)
{
    int i = m->n++;
    snprintf(m->names[i], sizeof m->names[i], "%s", name);
    m->data[i] = NULL;
    model_shape(m, i, type, elements);
    model_fill(m, i);
}

static inline void model_open(model *m, const char *name)
{
    for (int i = 0; i < m->n; i++) {
        m->tensors[i].name = m->names[i];
        m->tensors[i].shape = m->shapes[i];
    }
    CHECK_OK(checkpoint_of_memory(&m->c, m->tensors, (const void *const *)m->data, m->n, m->texts,
                                  m->ntexts, name, &e));
}

static inline void model_release(model *m)
{
    checkpoint_close(m->c);
    for (int i = 0; i < m->n; i++)
        free(m->data[i]);
    *m = (model){0};
}

/* One key of each type of safetensors. */
static inline void model_types(model *m, int64_t elements)
{
    char name[24];
    for (int t = 0; t < TENSOR_NSAFE; t++) {
        snprintf(name, sizeof name, "layer.%d", t);
        model_add(m, name, (tensor_type)t, elements);
    }
}

/* Changes bits of tensor i: about one unit of bytes in `one_in`. */
static inline void model_change(model *m, int i, int64_t one_in)
{
    int64_t bytes = model_bytes(m, i), width = tensor_type_run_bytes(m->tensors[i].type);
    for (int64_t k = 0; k + width <= bytes; k += width)
        if (random_below(one_in) == 0)
            ((char *)m->data[i])[k + random_below(width)] ^= 1;
}

/* A copy of a in which each key may be another one. */
static inline void model_mutate(model *b, const model *a)
{
    static const int64_t shares[] = {1, 2, 8, 20, 100, 1000, 100000};
    char name[24];
    for (int i = 0; i < a->n; i++) {
        uint64_t what = random_next() % 12;
        if (what == 0 && a->n > 1) /* gone */
            continue;
        const tensor_info *t = &a->tensors[i];
        int64_t elements = tensor_elements(t->ndim, t->shape);
        int k = b->n;
        model_add(b, a->names[i], t->type, elements);
        memcpy(b->data[k], a->data[i], (size_t)model_bytes(a, i));
        if (what < 7)
            model_change(b, k, shares[what]);
        else if (what == 7) /* a run */
            memset(b->data[k], 0, (size_t)model_bytes(b, k) / 3);
        else if (what == 8) /* another type */
            model_shape(b, k, t->type == TENSOR_F32 ? TENSOR_I32 : TENSOR_F32, elements);
        else if (what == 9) /* another shape */
            model_shape(b, k, t->type, elements * 2 + 4);
        if (what == 8 || what == 9)
            model_fill(b, k);
    }
    for (int64_t n = random_below(3); n > 0 && b->n < MODEL_KEYS; n--) {
        snprintf(name, sizeof name, "new.%lld", (long long)random_below(1 << 30));
        model_add(b, name, (tensor_type)random_below(TENSOR_NSAFE), 4 * random_below(9000));
    }
    if (random_below(2)) { /* another order */
        int i = (int)random_below(b->n), k = (int)random_below(b->n);
        model kept = *b;
        for (int j = 0; j < 2; j++) {
            int to = j ? k : i, from = j ? i : k;
            b->tensors[to] = kept.tensors[from];
            memcpy(b->names[to], kept.names[from], sizeof b->names[to]);
            memcpy(b->shapes[to], kept.shapes[from], sizeof b->shapes[to]);
            b->data[to] = kept.data[from];
        }
    }
    b->texts[0] = (checkpoint_text){"step", random_below(2) ? "1" : "2"};
    b->ntexts = (int)random_below(2);
}

/* The file at path is this model: keys in order, forms, bits, metadata. */
static inline void model_check(const model *m, const char *path)
{
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, TENSOR_BLOCK);
    CHECK_INT(checkpoint_count(c), m->n);
    CHECK_INT(checkpoint_metadata_count(c), m->ntexts);
    for (int i = 0; i < m->ntexts; i++)
        CHECK_TEXT(checkpoint_metadata(c, m->texts[i].name), m->texts[i].text);
    for (int i = 0; i < m->n; i++) {
        const tensor_info *t = checkpoint_at(c, i);
        CHECK_TEXT(t->name, m->names[i]);
        CHECK_INT(t->type, m->tensors[i].type);
        CHECK_INT(t->ndim, 2);
        CHECK_INT(t->shape[0], m->shapes[i][0]);
        CHECK_INT(t->bytes, model_bytes(m, i));
        for (int64_t at = 0; at < t->bytes;) {
            const void *data;
            int64_t n = t->bytes - at < TENSOR_BLOCK ? t->bytes - at : TENSOR_BLOCK;
            CHECK_OK(tensor_read(r, &data, i, at, n, &e));
            CHECK(memcmp(data, (const char *)m->data[i] + at, (size_t)n) == 0);
            at += n;
        }
    }
}

/* Makes a patch in the folder and opens it. */
static inline patch *patch_between(test_folder *d, const char *name, const model *a, const model *b)
{
    const patch_options o = {.unsynced = true};
    CHECK_OK(patch_make(folder_file(d, name), a->c, b->c, &o, NULL, &e));
    return MADE(patch, patch_open, folder_file(d, name));
}

static inline int apply_all(test_folder *d, patch *const *p, int n, const model *a,
                            const char *name, kv_err *e)
{
    own_misfits wrong = {0};
    const checkpoint_out_options how = {.unsynced = true};
    return patch_apply(folder_file(d, name), p, n, a->c, &how, NULL, &wrong, e);
}
