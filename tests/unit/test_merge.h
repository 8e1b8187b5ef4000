/* Merges of checkpoints in memory, for tests: a rule as text, and the merged tensors. */
#pragma once

#include <math.h>

#include "checkpoint/tensor_reader.h"
#include "lang/parse.h"
#include "merge/merge.h"
#include "store_help.h"
#include "test_tensor.h"

typedef struct merge_case {
    const char *rule;
    const buf *files; /* of the models */
    int nmodels;
    const buf *base; /* or NULL */
    const double *weights, *scales;
    bool adapters;
    tensor_type type; /* of floating keys; TENSOR_TYPE_END: their own */
    const char *names[4], *texts[4];
    int nparams;
    int64_t *told; /* NULL, or becomes {least all, done, all} of the progress */
} merge_case;

static inline void merge_progress(void *arg, int64_t done, int64_t all)
{
    int64_t *told = arg;
    told[0] = told[0] && told[0] < all ? told[0] : all;
    told[1] = done;
    told[2] = all;
}

/* Merges to out.safetensors, and opens that. fail_at: of mem_fail_at, for the merge alone; *failed:
 * there was such an allocation. */
static inline int merge_try_failing(checkpoint **out, const merge_case *c, int64_t fail_at,
                                    int64_t *failed, kv_err *e)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    checkpoint *models[MERGE_MODELS], *base = c->base ? tensor_open(c->base, "base") : NULL;
    own_arena memory = {0};
    rule_ast *rule = NULL;
    source text = {
        .name = "rule.kvu", .text = c->rule, .len = (uint32_t)strlen(c->rule), .line = 1, .col = 1};
    for (int i = 0; i < c->nmodels; i++)
        models[i] = tensor_open(&c->files[i], names[i % 5]);
    checkpoint *first = base ? base : models[0];
    int64_t n = checkpoint_count(first);
    OWN(test_free) merge_key *keys = calloc((size_t)n + 1, sizeof *keys);
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = checkpoint_at(first, i);
        bool to = c->type != TENSOR_TYPE_END && tensor_type_kind(t->type) == TENSOR_KIND_FLOAT;
        keys[i] = (merge_key){t->name, to ? c->type : t->type};
    }
    merge m = {.src = &text, .names = c->names, .texts = c->texts, .nparams = c->nparams,
               .models = models, .nmodels = c->nmodels, .base = base, .weights = c->weights,
               .adapters = c->adapters, .lora_scales = c->scales, .keys = keys, .nkeys = n,
               .progress = c->told ? merge_progress : NULL, .progress_arg = c->told};
    checkpoint_out_options unsynced = {.unsynced = true};
    char folder[200];
    CHECK(getcwd(folder, sizeof folder) && strstr(folder, "/kvstore-unit-")); /* enter_folder */
    int code = parse_merge(&rule, &text, &memory, e);
    m.rule = rule;
    mem_fail_at(fail_at);
    if (!code)
        code = merge_check(&m, e);
    if (!code)
        code = merge_run(&m, "out.safetensors", &unsynced, e);
    int64_t made = mem_fail_at(0);
    *failed = made >= (fail_at < 0 ? -fail_at : fail_at);
    for (int i = 0; i < c->nmodels; i++)
        checkpoint_close(models[i]);
    checkpoint_close(base);
    return code ? code : checkpoint_open(out, "out.safetensors", NULL, e);
}

static inline int merge_try(checkpoint **out, const merge_case *c, kv_err *e)
{
    int64_t failed;
    return merge_try_failing(out, c, 0, &failed, e);
}

/* The elements of a merged tensor of F32. The caller frees them. */
static inline float *merge_floats(const checkpoint *c, const char *name)
{
    int64_t at = checkpoint_find(c, name);
    CHECK(at >= 0);
    const tensor_info *t = checkpoint_at(c, at);
    CHECK_INT(t->type, TENSOR_F32);
    float *x = malloc((size_t)t->bytes + 1);
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    for (int64_t i = 0; i < t->bytes; i += TENSOR_BLOCK) {
        const void *data;
        int64_t n = t->bytes - i < TENSOR_BLOCK ? t->bytes - i : TENSOR_BLOCK;
        CHECK_OK(tensor_read(r, &data, at, i, n, &e));
        memcpy((char *)x + i, data, (size_t)n);
    }
    return x;
}
