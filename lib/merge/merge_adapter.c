/* Names of adapters, their matrices, and their configuration. PEFT, which trains them, puts a
 * prefix before the names of the model. */
#include "merge/merge_adapter.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "checkpoint/json_scan.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"

#define PREFIX "base_model.model."

/* The endings of the names of the two matrices, in place of the key's ".weight". */
static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};

/* ---- Names ----------------------------------------------------------------------------------- */

int merge_adapter_check(const checkpoint *adapter, const checkpoint *base, kv_err *e)
{
    own_buf key = {0};
    for (int64_t i = 0; i < checkpoint_count(adapter); i++) {
        const char *name = checkpoint_at(adapter, i)->name, *plain = name;
        if (strncmp(name, PREFIX, strlen(PREFIX)) == 0)
            plain += strlen(PREFIX);
        if (!utf8_ends_in(plain, endings[0]) && !utf8_ends_in(plain, endings[1]))
            return file_bad(e, KV_E_KEY, checkpoint_name(adapter),
                            "\"%.80s\" is neither lora_A.weight nor lora_B.weight of a key", name);
        buf_clear(&key);
        buf_put(&key, plain, strlen(plain) - strlen(endings[0]));
        buf_add(&key, ".weight");
        TRY(buf_check(&key, e));
        if (checkpoint_find(base, buf_text(&key)) < 0)
            return file_bad(e, KV_E_KEY, checkpoint_name(adapter),
                            "\"%.80s\" belongs to \"%.80s\", which %.200s does not have", name,
                            buf_text(&key), checkpoint_name(base));
    }
    return KV_OK;
}

/* *out becomes the index of a key's tensor with this ending, or -1. */
static int find(int64_t *out, const checkpoint *adapter, const char *key, const char *ending,
                kv_err *e)
{
    own_buf name = {0};
    *out = -1;
    buf_add(&name, PREFIX);
    buf_put(&name, key, strlen(key) - strlen(".weight"));
    buf_add(&name, ending);
    int rc = buf_check(&name, e);
    if (!rc && (*out = checkpoint_find(adapter, buf_text(&name) + strlen(PREFIX))) < 0)
        *out = checkpoint_find(adapter, buf_text(&name));
    return rc;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static int check_fit(const checkpoint *adapter, merge_factors f, const tensor_info *key,
                     double rank, kv_err *e)
{
    const tensor_info *a = checkpoint_at(adapter, f.a), *b = checkpoint_at(adapter, f.b);
    const char *name = checkpoint_name(adapter);
    if (tensor_type_kind(a->type) != TENSOR_KIND_FLOAT ||
        tensor_type_kind(b->type) != TENSOR_KIND_FLOAT)
        return file_bad(e, KV_E_DTYPE, name, "lora_A and lora_B of \"%.80s\" are %s and %s",
                        key->name, tensor_type_name(a->type), tensor_type_name(b->type));
    if (key->ndim != 2 || a->ndim != 2 || b->ndim != 2)
        return file_bad(e, KV_E_SHAPE, name,
                        "\"%.80s\", its lora_A and its lora_B have %d, %d and %d axes, not 2",
                        key->name, key->ndim, a->ndim, b->ndim);
    if (a->shape[0] != b->shape[1] || b->shape[0] != key->shape[0] || a->shape[1] != key->shape[1])
        return file_bad(e, KV_E_SHAPE, name,
                        "lora_B (%lld, %lld) times lora_A (%lld, %lld) is not \"%.80s\" (%lld, "
                        "%lld)",
                        (long long)b->shape[0], (long long)b->shape[1], (long long)a->shape[0],
                        (long long)a->shape[1], key->name, (long long)key->shape[0],
                        (long long)key->shape[1]);
    if (rank > 0 && (double)a->shape[0] != rank) {
        file_bad(e, KV_E_SHAPE, name,
                 "lora_A and lora_B of \"%.80s\" have rank %lld, and the configuration says %.15g",
                 key->name, (long long)a->shape[0], rank);
        return kv_err_hint(e, "the scale is lora_alpha / r: is this the adapter_config.json of "
                              "these tensors?"),
               KV_E_SHAPE;
    }
    if (a->elements > MERGE_FACTORS_BYTES / 8 || b->elements > MERGE_FACTORS_BYTES / 8 ||
        (a->elements + b->elements) * 8 > MERGE_FACTORS_BYTES)
        return file_bad(e, KV_E_UNSUPPORTED, name,
                        "lora_A and lora_B of \"%.80s\" are too large to be held: their rank is "
                        "%lld",
                        key->name, (long long)a->shape[0]);
    return KV_OK;
}

int merge_adapter_find(merge_factors *out, const checkpoint *adapter, const tensor_info *key,
                       double rank, kv_err *e)
{
    *out = (merge_factors){-1, -1};
    if (!utf8_ends_in(key->name, ".weight"))
        return KV_OK;
    TRY(find(&out->a, adapter, key->name, endings[0], e));
    TRY(find(&out->b, adapter, key->name, endings[1], e));
    if (out->a < 0 && out->b < 0)
        return KV_OK;
    if (out->a < 0 || out->b < 0)
        return file_bad(e, KV_E_KEY, checkpoint_name(adapter), "\"%.80s\" has no %s", key->name,
                        out->a < 0 ? "lora_A" : "lora_B");
    return check_fit(adapter, *out, key, rank, e);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

int64_t merge_adapter_bytes(const checkpoint *adapter, merge_factors f, bool wide)
{
    int64_t width = wide ? 8 : 4;
    return mem_aligned(checkpoint_at(adapter, f.a)->elements * width) +
           mem_aligned(checkpoint_at(adapter, f.b)->elements * width);
}

/* Elements that are read at once: a multiple of the runs of every packed type. */
enum { TOGETHER = 1 << 16 };

static int read_all(char *out, tensor_reader *r, const checkpoint *c, int64_t i, bool wide,
                    kv_err *e)
{
    const tensor_info *t = checkpoint_at(c, i);
    for (int64_t at = 0; at < t->elements; at += TOGETHER) {
        const void *data;
        int64_t n = t->elements - at < TOGETHER ? t->elements - at : TOGETHER;
        TRY(tensor_read(r, &data, i, tensor_type_bytes(t->type, at), tensor_type_bytes(t->type, n),
                        e));
        if (wide)
            tensor_decode_f64((double *)(void *)out + at, t->type, data, n);
        else
            tensor_decode_f32((float *)(void *)out + at, t->type, data, n);
    }
    return KV_OK;
}

int merge_adapter_read(merge_product *out, void *memory, const checkpoint *adapter, merge_factors f,
                       bool wide, kv_err *e)
{
    const tensor_info *a = checkpoint_at(adapter, f.a);
    char *b_at = (char *)memory + mem_aligned(a->elements * (wide ? 8 : 4));
    own_tensor_reader *r = NULL;
    TRY(tensor_reader_new(&r, adapter, 0, e));
    TRY(read_all(memory, r, adapter, f.a, wide, e));
    TRY(read_all(b_at, r, adapter, f.b, wide, e));
    *out = (merge_product){memory, b_at, a->shape[0], a->shape[1], wide};
    return tensor_reader_check(r, e);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* A part of a row is added up in a few columns at a time, which stay in the L1 cache, four terms
 * each time they are loaded. */
enum { COLUMNS = 512, TERMS = 4 };

#define LOOPS(suffix, T)                                                                           \
    CPU_CLONES static void part_##suffix(T *restrict out, const T *restrict a,                     \
                                         const T *restrict b, int64_t rank, int64_t columns,       \
                                         int64_t n)                                                \
    {                                                                                              \
        double sum[COLUMNS];                                                                       \
        int64_t k = 0;                                                                             \
        for (int64_t j = 0; j < n; j++)                                                            \
            sum[j] = 0;                                                                            \
        for (; k + TERMS <= rank; k += TERMS) {                                                    \
            const T *a0 = a + k * columns, *a1 = a0 + columns, *a2 = a1 + columns,                 \
                    *a3 = a2 + columns;                                                            \
            double b0 = b[k], b1 = b[k + 1], b2 = b[k + 2], b3 = b[k + 3];                         \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] = (((sum[j] + b0 * a0[j]) + b1 * a1[j]) + b2 * a2[j]) + b3 * a3[j];         \
        }                                                                                          \
        for (; k < rank; k++)                                                                      \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] += (double)b[k] * a[k * columns + j];                                       \
        for (int64_t j = 0; j < n; j++)                                                            \
            out[j] = (T)sum[j];                                                                    \
    }

LOOPS(f32, float)
LOOPS(f64, double)

void merge_product_part(void *out, const merge_product *p, int64_t from, int64_t n)
{
    while (n > 0) {
        int64_t row = from / p->columns, column = from % p->columns, k = p->columns - column;
        k = k < n ? k : n;
        k = k < COLUMNS ? k : COLUMNS;
        if (p->wide)
            part_f64(out, (const double *)p->a + column, (const double *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        else
            part_f32(out, (const float *)p->a + column, (const float *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        out = (char *)out + k * (p->wide ? 8 : 4);
        from += k;
        n -= k;
    }
}

/* ---- The configuration -----------------------------------------------------------------------
 * Members that change what an adapter means, and are not known here, are refused where they are in
 * use; all others are passed over. */

#define CONFIG_NAME "adapter_config.json"
#define DEPTH_MAX   32 /* levels of nesting of a value that is skipped */

typedef struct config {
    double r, alpha;  /* -1: not there */
    bool rank_stable; /* use_rslora */
    bool other_kind;  /* of adapter: IA3, LOHA, … */
    const char *more; /* a member that is in use and not supported; or NULL */
    bool takes_off;   /* by init_lora_weights the adapter's first product was taken off the base */
} config;

/* Steps over a value: the bytes of it. */
static int take_value(json_scan *s, const char **text, size_t *n)
{
    json_scan_peek(s);
    int64_t begin = s->at;
    int rc = json_scan_skip(s);
    *text = s->text + begin;
    *n = (size_t)(s->at - begin);
    return rc;
}

/* Returns true if a member is in use: not null, false, empty, or the word for nothing. */
static bool is_in_use(const char *text, size_t n)
{
    static const char *const off[] = {"null", "false", "\"\"", "\"none\"", "0"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (strlen(off[i]) == n && memcmp(off[i], text, n) == 0)
            return false;
    /* {} and [], with blanks or without */
    return !(n >= 2 && strchr("{[", text[0]) && strspn(text + 1, " \t\r\n") == n - 2);
}

static int take_number(json_scan *s, const char *name, double *x)
{
    const char *text;
    size_t n;
    TRY(take_value(s, &text, &n));
    if (num_parse(text, n, NUM_BINARY64, x, NULL) != n || !isfinite(*x) || *x <= 0)
        return file_bad(s->e, KV_E_FORMAT, s->path, "\"%s\" is not a positive number", name);
    return KV_OK;
}

/* Returns true for ways to begin an adapter by which PEFT takes its first product off the base: the
 * adapter is right for what is left alone. When PEFT converts such an adapter to an ordinary one it
 * writes true here. */
static bool is_taken_off(const char *text, size_t n)
{
    static const char *const ways[] = {"\"pissa", "\"olora", "\"corda", "\"loftq"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) /* pissa_niter_16, too */
        if (n > strlen(ways[i]) && strncmp(text, ways[i], strlen(ways[i])) == 0)
            return true;
    return false;
}

static int take_member(json_scan *s, const char *name, config *c)
{
    static const char *const others[] = {"use_dora",         "rank_pattern", "alpha_pattern",
                                         "fan_in_fan_out",   "use_qalora",   "modules_to_save",
                                         "layer_replication"};
    const char *text;
    size_t n;
    if (strcmp(name, "r") == 0)
        return take_number(s, name, &c->r);
    if (strcmp(name, "lora_alpha") == 0)
        return take_number(s, name, &c->alpha);
    TRY(take_value(s, &text, &n));
    if (!is_in_use(text, n))
        return KV_OK;
    c->rank_stable |= strcmp(name, "use_rslora") == 0;
    c->other_kind |= strcmp(name, "peft_type") == 0 &&
                     !(n == strlen("\"LORA\"") && strncmp(text, "\"LORA\"", n) == 0);
    c->takes_off |= strcmp(name, "init_lora_weights") == 0 && is_taken_off(text, n);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            c->more = others[i];
    return KV_OK;
}

static int scale_of(const config *c, const char *path, double *scale, double *rank, kv_err *e)
{
    if (c->other_kind)
        return file_bad(e, KV_E_UNSUPPORTED, path, "\"peft_type\" is not LORA");
    if (c->more)
        return file_bad(e, KV_E_UNSUPPORTED, path,
                        "\"%s\" makes the adapter more than a scaled product", c->more);
    if (c->takes_off) {
        file_bad(e, KV_E_UNSUPPORTED, path,
                 "by \"init_lora_weights\" the adapter is not for the base as it is");
        return kv_err_hint(e, "path_initial_model_for_weight_conversion of PEFT's save_pretrained "
                              "makes an ordinary adapter of it"),
               KV_E_UNSUPPORTED;
    }
    if (c->r < 0 || c->alpha < 0)
        return file_bad(e, KV_E_FORMAT, path, "it has no \"%s\"", c->r < 0 ? "r" : "lora_alpha");
    *rank = c->r;
    *scale = c->alpha / (c->rank_stable ? sqrt(c->r) : c->r);
    return KV_OK;
}

static int read_config(const char *path, double *scale, double *rank, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n;
    config c = {.r = -1, .alpha = -1};
    TRY(file_read_text(path, &text, &n, e));
    json_scan s = {.path = path,
                   .text = text,
                   .n = (int64_t)n,
                   .what = "text",
                   .max_depth = DEPTH_MAX,
                   .e = e};
    own_buf name = {0};
    int rc = json_scan_open(&s, '{');
    while (json_scan_item(&s, '}', &rc)) {
        TRY(json_scan_name(&s, &name));
        rc = take_member(&s, buf_text(&name), &c);
    }
    TRY(rc);
    TRY(json_scan_end(&s));
    return scale_of(&c, path, scale, rank, e);
}

int adapter_config_read(const char *path, double *scale, double *rank, kv_err *e)
{
    own_buf config_path = {0};
    bool there;
    *scale = 1;
    *rank = 0;
    if (strcmp(path, "-") == 0)
        return KV_OK;
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        buf_printf(&config_path, path[strlen(path) - 1] == '/' ? "%s%s" : "%s/%s", path,
                   CONFIG_NAME);
    else
        buf_printf(&config_path, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, CONFIG_NAME);
    TRY(buf_check(&config_path, e));
    TRY(file_look(buf_text(&config_path), &there, e));
    return there ? read_config(buf_text(&config_path), scale, rank, e) : KV_OK;
}
