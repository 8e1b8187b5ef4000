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

const tensor_info *scales_look_up(scales_model m, const char *name, size_t n, const char *ending,
                                  int *file)
{
    buf text = {0};
    const tensor_info *found = NULL;
    kv_err unused = {0};
    buf_put(&text, name, n);
    buf_add(&text, ending);
    for (int i = 0; i < m.n && !found && buf_check(&text, &unused) == KV_OK; i++) {
        int64_t at = m.files[i] ? checkpoint_find(m.files[i], buf_text(&text)) : -1;
        found = at >= 0 ? checkpoint_at(m.files[i], at) : NULL;
        *file = i;
    }
    buf_release(&text);
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
    buf name = {0};
    int rc = json_scan_open(s, '{');
    while (json_scan_item(s, '}', &rc)) {
        if ((rc = json_scan_name(s, &name)))
            break;
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
    buf_release(&name);
    return rc;
}

bool scales_block_size(int64_t block[2], const char *model)
{
    struct stat about;
    kv_err unused = {0};
    buf path = {0};
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
    buf_release(&path);
    return found;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

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

bool scales_find_fit(scales_fit *out, const scales *s, const int64_t block[2])
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
