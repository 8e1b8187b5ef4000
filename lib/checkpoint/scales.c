/* Names of codes and their scales. Sources: vllm-project/compressed-tensors, ModelOpt, DeepSeek-V3,
 * gpt-oss and ComfyUI for scales; AutoGPTQ, AutoAWQ, bitsandbytes and torchao for their schemes. */
#include "checkpoint/scales.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/json_scan.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"

/* Bytes of a name in a message. */
#define SHOWN_BYTES 80

/* The codes are STEM + codes, a scale is STEM + scale. */
static const struct {
    const char *codes, *scale, *scheme;
} endings[] = {
    {"", "_scale", NULL},
    {"", "_scale_inv", NULL},
    {"", "_scale_2", NULL},
    {"", "_zero_point", NULL},
    {".weight", ".scale_weight", NULL},
    {"_blocks", "_scales", "MXFP4"},
    {".weight_packed", ".weight_scale", "compressed-tensors"},
    {".weight_packed", ".weight_global_scale", "compressed-tensors"},
    {".weight_packed", ".weight_zero_point", "compressed-tensors"},
    {".weight_packed", ".weight_shape", "compressed-tensors"},
    {".qweight", ".scales", "AWQ"},
    {".qweight", ".qzeros", "AWQ"},
    {".qweight", ".g_idx", "GPTQ"},
    {"", ".absmax", "bitsandbytes"},
    {"", ".quant_map", "bitsandbytes"},
    {".weight", ".SCB", "bitsandbytes"},
    {"qdata", "scale", "torchao"},
};
enum { NENDINGS = sizeof endings / sizeof *endings };

/* Scales of other things than weights. */
static bool is_other_scale(const char *name)
{
    static const char *const others[] = {"logit_scale", "k_scale", "v_scale"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(dot ? dot + 1 : name, others[i]) == 0)
            return true;
    return false;
}

/* Returns true for a type that codes have which are named like these of the table. Plain bytes are
 * codes only where the name says so too: pictures and masks are bytes as well. */
static bool may_be_codes(const tensor_info *t, int i)
{
    tensor_kind kind = tensor_type_kind(t->type);
    if (kind == TENSOR_KIND_FLOAT)
        return t->type != TENSOR_F8_E8M0 &&
               tensor_type_run_bytes(t->type) <= tensor_type_run(t->type);
    if (kind != TENSOR_KIND_UNSIGNED && kind != TENSOR_KIND_SIGNED)
        return false;
    return *endings[i].codes || endings[i].scheme || t->type == TENSOR_I8 ||
           (t->type == TENSOR_U8 && utf8_ends_in(t->name, ".weight"));
}

/* The tensor whose name is the first n bytes of this one, then the ending; *file becomes its
 * number. NULL: there is none. */
static const tensor_info *scales_look_up(scales_model m, const char *name, size_t n,
                                         const char *ending, int *file)
{
    own_buf text = {0};
    const tensor_info *found = NULL;
    kv_err unused = {0};
    buf_put(&text, name, n);
    buf_add(&text, ending);
    for (int i = 0; i < m.n && !found && buf_check(&text, &unused) == KV_OK; i++) {
        int64_t at = m.files[i] ? checkpoint_find(m.files[i], buf_text(&text)) : -1;
        found = at >= 0 ? checkpoint_at(m.files[i], at) : NULL;
        *file = i;
    }
    return found;
}

/* Collects the scales of a tensor, if it is codes. */
bool scales_find_codes(scales *out, scales_model m, int file, const tensor_info *codes)
{
    *out = (scales){.file = m.files[file], .codes = codes};
    for (int i = 0; i < NENDINGS; i++) {
        int home;
        if (!may_be_codes(codes, i) || !utf8_ends_in(codes->name, endings[i].codes))
            continue;
        const tensor_info *scale =
            scales_look_up(m, codes->name, strlen(codes->name) - strlen(endings[i].codes),
                    endings[i].scale, &home);
        if (!scale || is_other_scale(scale->name))
            continue;
        out->scheme = endings[i].scheme;
        if (out->n < SCALES_MOST) {
            out->home[out->n] = home;
            out->scale[out->n++] = scale;
        }
    }
    return out->n > 0;
}

bool scales_find(scales *out, scales_model m, int file, const tensor_info *t)
{
    if (scales_find_codes(out, m, file, t))
        return true;
    for (int i = 0; i < NENDINGS && !is_other_scale(t->name); i++) {
        int home;
        size_t n = strlen(t->name) - strlen(endings[i].scale);
        const tensor_info *codes = utf8_ends_in(t->name, endings[i].scale)
                                       ? scales_look_up(m, t->name, n, endings[i].codes, &home)
                                       : NULL;
        if (codes && may_be_codes(codes, i) && scales_find_codes(out, m, home, codes))
            return true;
    }
    return false;
}

bool scales_is_unused(scales_model m, const char *name)
{
    int file;
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".weight_scale") != 0 && strcmp(dot, ".weight_scale_inv") != 0 &&
                 strcmp(dot, ".scale_weight") != 0))
        return false;
    size_t n = (size_t)(dot - name);
    const tensor_info *w = scales_look_up(m, name, n, ".weight", &file);
    if (!w)
        return !scales_look_up(m, name, n, ".weight_packed", &file);
    return w->type == TENSOR_BF16 || w->type == TENSOR_F16 ||
           (w->type == TENSOR_F32 && !(w->form & TENSOR_DECODED));
}

bool scales_find_of(scales *out, const checkpoint *c, const tensor_info *t)
{
    checkpoint *file = (checkpoint *)(uintptr_t)c; /* only read */
    return !checkpoint_metadata(c, "kvstore.format") &&
           scales_find_codes(out, (scales_model){&file, 1}, 0, t);
}

#define BLOCK_SIZE 128

/* ---- config.json ----------------------------------------------------------------------------- */

/* Brackets around a value: more is not the configuration of a model. */
#define DEPTH_MAX 64

static int take_pair(json_scan *s, int64_t block[2])
{
    int64_t pair[2] = {0}, n = 0;
    int rc = json_scan_open(s, '[');
    while (json_scan_item(s, ']', &rc)) {
        rc = json_scan_whole(s, &pair[n & 1]);
        n++;
    }
    if (!rc && n == 2 && pair[0] > 0 && pair[1] > 0)
        memcpy(block, pair, sizeof pair);
    return rc;
}

/* Looks through an object; inside: it is a part of quantization_config. *found: there is one. */
static int take_object(json_scan *s, bool inside, int64_t block[2], bool *found)
{
    own_buf name = {0};
    int rc = json_scan_open(s, '{');
    while (json_scan_item(s, '}', &rc)) {
        TRY(json_scan_name(s, &name));
        const char *text = buf_text(&name);
        bool is_size = strcmp(text, "weight_block_size") == 0 ||
                       strcmp(text, "block_structure") == 0;
        bool codes = inside || strcmp(text, "quantization_config") == 0;
        char first = json_scan_peek(s);
        *found |= codes && first == '{';
        rc = inside && is_size && first == '[' ? take_pair(s, block)
               : first == '{'                    ? take_object(s, codes, block, found)
                                               : json_scan_skip(s);
    }
    return rc;
}

/* How many rows and columns share a scale, from the config.json of a model; 128 by 128 where that
 * does not say. Returns true if that has a quantization_config. */
static bool scales_block_size(int64_t block[2], const char *model)
{
    struct stat about;
    kv_err unused = {0};
    own_buf path = {0};
    char *text;
    size_t n;
    bool found = false;
    const char *slash = strrchr(model, '/');
    block[0] = block[1] = BLOCK_SIZE;
    if (checkpoint_is_folder(model))
        buf_printf(&path, "%s/config.json", model);
    else
        buf_printf(&path, "%.*sconfig.json", slash ? (int)(slash - model) + 1 : 0, model);
    bool regular = buf_check(&path, &unused) == KV_OK && stat(buf_text(&path), &about) == 0 &&
                   S_ISREG(about.st_mode);
    if (regular && file_read_text(buf_text(&path), &text, &n, &unused) == KV_OK) {
        json_scan s = {.path = buf_text(&path), .text = text, .n = (int64_t)n,
                       .max_depth = DEPTH_MAX, .e = &unused};
        take_object(&s, false, block, &found); /* a text that is not JSON says nothing */
        mem_free(text);
    }
    return found;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Which code a scale belongs to, by the shapes of both. */
typedef struct scales_fit {
    tensor_values how;    /* but for what is in which checkpoint, and the global scale */
    int scale, global;    /* of the scales that were found; global: -1, there is none */
    int packed;           /* numbers in an element of the codes: 1 or 2 */
    size_t stem;          /* the name of the numbers is so much of that of the codes */
} scales_fit;

/* Shapes of scales. R and C are the last two sizes of the codes, E those in front of them; an
 * exponent is a byte s for 2^(s - 127), and 255 for nan.
 *
 *   codes                 scales                          a scale is for
 *   F8_E4M3 F8_E5M2 I8    () or (1)                       all
 *                         (R) or (…, R, 1)                a row
 *                         (E), (…, 1, 1)                  a matrix
 *                         (…, R / b, C / c), rounded up   b rows by c columns
 *                         (…, R, C / 32), exponents       32 of a row
 *                         (…, R, k)                       C / k of a row
 *   _blocks               _scales, exponents              32 E2M1, and the axes are swapped
 *   .weight_packed        exponents (R, C / 32)           32 E2M1
 *   .weight_packed        F8_E4M3 (R, C / 16) / global    16 E2M1
 *   .weight U8            F8_E4M3 (R, C / 16) * scale_2   16 E2M1
 *
 * Sources: those above; transformers' mxfp4.py for the axes of _blocks. */

static bool is_float(const tensor_info *t)
{
    return tensor_type_kind(t->type) == TENSOR_KIND_FLOAT && tensor_type_run(t->type) == 1;
}

static bool is_exponent(const tensor_info *t)
{
    return t->type == TENSOR_U8 || t->type == TENSOR_F8_E8M0;
}

/* Returns true if a shape is that of w up to the last two sizes, which are these. */
static bool is_shape(const tensor_info *t, const tensor_info *w, int64_t height, int64_t width)
{
    int n = w->ndim;
    return t->ndim == n && n >= 2 && t->shape[n - 2] == height && t->shape[n - 1] == width &&
           memcmp(t->shape, w->shape, (size_t)(n - 2) * sizeof *t->shape) == 0;
}

static bool is_one(const tensor_info *t)
{
    return is_float(t) && t->ndim <= 1 && t->elements == 1;
}

/* A scale for each so many rows and columns; a row has a_row of them, and a matrix `heights` such
 * rows. Where those are more than there can be, the codes have no elements. */
static bool each(tensor_values *v, int64_t rows, int64_t columns, int64_t a_row, int64_t heights)
{
    v->rows = rows;
    v->columns = columns;
    v->a_row = a_row;
    if (__builtin_mul_overflow(a_row, heights, &v->a_matrix))
        v->a_matrix = 0;
    return true;
}

static int64_t parts(int64_t n, int64_t of)
{
    return n / of + (n % of != 0);
}

/* Codes of one byte. */
static bool fit_bytes(tensor_values *v, const tensor_info *w, const tensor_info *s,
                      const int64_t block[2])
{
    int64_t height = v->height, width = v->width, b = block[0], c = block[1];
    if (is_one(s))
        return each(v, INT64_MAX, INT64_MAX, 0, 0);
    if (w->ndim < 2)
        return false;
    int64_t k = s->ndim > 0 ? s->shape[s->ndim - 1] : 0;
    if (is_float(s) && (is_shape(s, w, height, 1) || (w->ndim == 2 && s->ndim == 1 && k == height)))
        return each(v, 1, INT64_MAX, 1, height);
    if (is_float(s) && (is_shape(s, w, 1, 1) || s->ndim == 1) && w->ndim > 2 &&
        (s->ndim > 1 || (w->ndim == 3 && k == w->shape[0])))
        return each(v, INT64_MAX, INT64_MAX, 1, 1);
    if ((s->type == TENSOR_F32 || s->type == TENSOR_F16 || s->type == TENSOR_BF16 ||
         s->type == TENSOR_F8_E8M0) &&
        is_shape(s, w, parts(height, b), parts(width, c)))
        return each(v, b, c, parts(width, c), parts(height, b));
    if (is_exponent(s) && width % 32 == 0 && is_shape(s, w, height, width / 32)) {
        v->scale_type = TENSOR_F8_E8M0;
        return each(v, 1, 32, width / 32, height);
    }
    if (is_float(s) && s->type != TENSOR_F8_E8M0 && height > 1 && k > 0 && width % k == 0 &&
        is_shape(s, w, height, k))
        return each(v, 1, width > 0 ? width / k : 1, k, height);
    return false;
}

/* E2M1 in bytes. */
static bool fit_pairs(scales_fit *f, const scales *s, const tensor_info *scale)
{
    tensor_values *v = &f->how;
    const tensor_info *w = s->codes;
    int64_t group = is_exponent(scale) ? 32 : 16;
    v->type = TENSOR_F4;
    f->packed = 2;
    if (w->type != TENSOR_U8)
        return false;
    if (utf8_ends_in(w->name, "_blocks")) {
        int n = w->ndim - 1;
        if (n < 2 || n >= KV_MAX_NDIM || w->shape[n] != 16 || scale->type != TENSOR_U8 ||
            scale->ndim != n || memcmp(w->shape, scale->shape, (size_t)n * sizeof *w->shape) != 0 ||
            s->n != 1)
            return false;
        v->swapped = true;
        v->height = w->shape[n - 2];
        if (__builtin_mul_overflow(w->shape[n - 1], 32, &v->width))
            return false;
    } else {
        bool has_global = f->global >= 0;
        if (w->ndim != 2 || __builtin_mul_overflow(w->shape[1], 2, &v->width) ||
            v->width % group || !is_shape(scale, w, w->shape[0], v->width / group) ||
            (group == 16 && scale->type != TENSOR_F8_E4M3) || has_global != (group == 16) ||
            (has_global && (s->scale[f->global]->type != TENSOR_F32 ||
                            !is_one(s->scale[f->global]))))
            return false;
        v->height = w->shape[0];
    }
    if (group == 32)
        v->scale_type = TENSOR_F8_E8M0;
    return each(v, 1, group, v->width / group, v->height);
}

static bool scales_find_fit(scales_fit *out, const scales *s, const int64_t block[2])
{
    const tensor_info *w = s->codes;
    size_t n = strlen(w->name);
    bool packed = utf8_ends_in(w->name, ".weight_packed");
    bool blocks = utf8_ends_in(w->name, "_blocks");
    *out = (scales_fit){.how.type = w->type, .scale = -1, .global = -1, .packed = 1};
    out->stem = packed ? n - strlen("_packed") : blocks ? n - strlen("_blocks") : n;
    for (int i = 0; i < s->n; i++) {
        const char *name = s->scale[i]->name;
        bool global = utf8_ends_in(name, "_scale_2") || utf8_ends_in(name, ".weight_global_scale");
        int *which = global ? &out->global : &out->scale;
        if (*which >= 0 || utf8_ends_in(name, "_zero_point") || utf8_ends_in(name, ".weight_shape"))
            return false;
        *which = i;
    }
    if (out->scale < 0 || (s->scheme && !packed && !blocks))
        return false;
    const tensor_info *scale = s->scale[out->scale];
    tensor_values *v = &out->how;
    v->scale_type = scale->type;
    v->divides = packed;
    v->height = w->ndim > 1 ? w->shape[w->ndim - 2] : 1;
    v->width = w->ndim > 0 ? w->shape[w->ndim - 1] : 1;
    if (packed || blocks || w->type == TENSOR_U8)
        return fit_pairs(out, s, scale);
    bool bytes = w->type == TENSOR_F8_E4M3 || w->type == TENSOR_F8_E5M2 || w->type == TENSOR_I8;
    return bytes && out->global < 0 && fit_bytes(v, w, scale, block);
}

/* ---- Messages -------------------------------------------------------------------------------- */

int scales_refuse(const scales *s, bool has_raw, kv_err *e)
{
    buf names = {0};
    scales_fit unused;
    int64_t block[2];
    scales_block_size(block, checkpoint_name(s->file));
    bool fits = scales_find_fit(&unused, s, block);
    for (int i = 0; i < s->n; i++)
        buf_printf(&names, "%s\"%.*s\"", i == 0 ? "" : i == s->n - 1 ? " and " : ", ", SHOWN_BYTES,
                   s->scale[i]->name);
    file_bad(e, KV_E_DTYPE, checkpoint_name(s->file),
             "\"%.*s\" holds %s codes%s%s, which are numbers only together with %s%s", SHOWN_BYTES,
             s->codes->name, tensor_type_name(s->codes->type), s->scheme ? " of " : "",
             s->scheme ? s->scheme : "", buf_text(&names),
             fits ? "" : ", in a way that is not read");
    buf_release(&names);
    return kv_err_hint(e, has_raw ? "--raw carries codes and scales as they are"
                          : fits  ? "convert --dtype f32 makes a file of the numbers"
                                  : "convert --raw makes a file of the codes as numbers: "
                                    "--raw --dtype f32"),
           KV_E_DTYPE;
}

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
    static const char *const inputs[] = {".input_scale", ".scale_input", ".input_global_scale",
                                          ".comfy_quant"};
    size_t n = strlen(".weight");
    int64_t hidden = 0;
    if (stem < n || memcmp(name + stem - n, ".weight", n) != 0)
        return 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        hidden += hide(d, name, stem - n, inputs[i]);
    return hidden;
}

/* A scale of all scales: a tensor of one F32. */
static int read_global(float *out, const checkpoint *c, int64_t i, kv_err *e)
{
    own_tensor_reader *r = NULL;
    const void *data;
    TRY(tensor_reader_new(&r, c, 0, e));
    TRY(tensor_read(r, &data, i, 0, sizeof *out, e));
    memcpy(out, data, sizeof *out);
    return KV_OK;
}

static int add_pair(decoding *d, int file, int64_t at, const scales *s, const scales_fit *fit,
                    kv_err *e)
{
    TRY(mem_grow(&d->pairs, &d->cap, d->n + 1, sizeof *d->pairs, e));
    pair *p = &d->pairs[d->n++];
    *p = (pair){.codes = {file, at}, .scale = {-1, 0}, .fit = *fit};
    d->fates[file][at].pair = d->n;
    for (int i = 0; i < s->n; i++) {
        const checkpoint *c = d->m.files[s->home[i]];
        int64_t number = number_of(c, s->scale[i]);
        d->fates[s->home[i]][number].hidden = true;
        if (i == fit->scale)
            p->scale = (place){s->home[i], number};
        else
            TRY(read_global(&p->fit.how.global, c, number, e));
    }
    if (s->n == 0)
        return KV_OK;
    const char *name = s->scale[fit->scale]->name, *dot = strrchr(name, '.');
    p->fit.how.has_global = fit->global >= 0;
    p->fit.how.named = dot ? dot + 1 : name;
    p->fit.how.nhidden = s->n + hide_others(d, s->codes->name, fit->stem);
    return KV_OK;
}

static int find_pairs(decoding *d, int file, tensor_values_choice *choose, void *arg, kv_err *e)
{
    const checkpoint *c = d->m.files[file];
    for (int64_t i = 0; i < c->ntensors; i++) {
        const tensor_info *t = &c->tensors[i];
        scales s = {0};
        scales_fit fit = {.how.type = t->type, .packed = 1, .stem = strlen(t->name)};
        if (gguf_blocks_can(t->type) ||
            (scales_find_codes(&s, d->m, file, t) && (!choose || choose(arg, t)) &&
             scales_find_fit(&fit, &s, d->block)))
            TRY(add_pair(d, file, i, &s, &fit, e));
    }
    return KV_OK;
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
    scales_block_size(d->block, d->m.files[0]->name);
    for (int k = 0; k < d->m.n; k++)
        if (!(d->fates[k] = mem_zalloc(d->m.files[k]->ntensors, sizeof **d->fates, e)))
            return KV_E_MEMORY;
    for (int k = 0; k < d->m.n; k++)
        TRY(find_pairs(d, k, choose, arg, e));
    if (d->n == 0)
        return KV_OK;
    hide_marker(d);
    for (int k = 0; k < d->m.n; k++)
        TRY(rebuild(d, k, e));
    for (int k = 0; k < d->m.n; k++)
        TRY(connect(d, k, e));
    return KV_OK;
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
