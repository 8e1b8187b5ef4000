/* Names of codes and their scales. Sources: vllm-project/compressed-tensors, ModelOpt, DeepSeek-V3,
 * gpt-oss and ComfyUI for scales; AutoGPTQ, AutoAWQ, bitsandbytes and torchao for their schemes. */
#include "checkpoint/scales.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/scales_fit.h"

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
