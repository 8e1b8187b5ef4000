/* The table of the types of tensors. */
#include "checkpoint/tensor_type.h"

#include <string.h>
#include <strings.h>

#include "base/suggest.h"

static const struct {
    const char *name, *python;
    tensor_kind kind;
    int32_t elements, bytes;
} types[] = {
#define TENSOR_TYPE_ROW(constant, name, python, kind, elements, bytes)                             \
    [constant] = {name, python, TENSOR_KIND_##kind, elements, bytes},
    TENSOR_TYPES(TENSOR_TYPE_ROW)
#undef TENSOR_TYPE_ROW
};

const char *tensor_type_name(tensor_type t)
{
    return types[t].name;
}

const char *tensor_type_python(tensor_type t)
{
    return types[t].python;
}

tensor_kind tensor_type_kind(tensor_type t)
{
    return types[t].kind;
}

bool tensor_type_is_integer(tensor_type t)
{
    tensor_kind kind = types[t].kind;
    return kind == TENSOR_KIND_BOOL || kind == TENSOR_KIND_UNSIGNED || kind == TENSOR_KIND_SIGNED;
}

int64_t tensor_type_run(tensor_type t)
{
    return types[t].elements;
}

int64_t tensor_type_run_bytes(tensor_type t)
{
    return types[t].bytes;
}

int64_t tensor_type_bytes(tensor_type t, int64_t n)
{
    int64_t bytes, run = types[t].elements, runs = run > 1 ? n / run : n;
    bool fits = n >= 0 && !__builtin_mul_overflow(runs, (int64_t)types[t].bytes, &bytes);
    return fits && runs * run == n ? bytes : -1;
}

int64_t tensor_elements(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    bool over = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0)
            return 0;
        over |= __builtin_mul_overflow(n, shape[i], &n);
    }
    return over ? -1 : n;
}

int64_t tensor_bytes(tensor_type t, int ndim, const int64_t *shape)
{
    return tensor_type_bytes(t, tensor_elements(ndim, shape));
}

bool tensor_same_shape(int ndim, const int64_t *shape, int other_ndim, const int64_t *other)
{
    return ndim == other_ndim &&
           (ndim == 0 || memcmp(shape, other, (size_t)ndim * sizeof *shape) == 0);
}

bool tensor_type_find(tensor_type *out, const char *name, size_t n)
{
    for (int t = 0; t < TENSOR_TYPE_END; t++)
        if (strlen(types[t].name) == n && memcmp(types[t].name, name, n) == 0)
            return *out = (tensor_type)t, true;
    return false;
}

bool tensor_type_find_python(tensor_type *out, const char *name)
{
    for (int t = 0; t < TENSOR_NSAFE; t++)
        if (types[t].python && strcmp(types[t].python, name) == 0)
            return *out = (tensor_type)t, true;
    return false;
}

/* Further names of the types, of tools for models. */
static const struct {
    const char *name;
    tensor_type type;
} synonyms[] = {
    {"double", TENSOR_F64},            {"fp64", TENSOR_F64},
    {"float", TENSOR_F32},             {"fp32", TENSOR_F32},
    {"half", TENSOR_F16},              {"fp16", TENSOR_F16},
    {"F8_E4M3FN", TENSOR_F8_E4M3},     {"e4m3", TENSOR_F8_E4M3},
    {"e5m2", TENSOR_F8_E5M2},          {"e8m0", TENSOR_F8_E8M0},
    {"fp8_e4m3", TENSOR_F8_E4M3},      {"fp8_e4m3fn", TENSOR_F8_E4M3},
    {"fp8_e5m2", TENSOR_F8_E5M2},      {"float6_e2m3fn", TENSOR_F6_E2M3},
    {"float6_e3m2fn", TENSOR_F6_E3M2}, {"float4_e2m1fn", TENSOR_F4},
    {"e2m1", TENSOR_F4},
};

int tensor_type_parse(tensor_type *out, const char *name, kv_err *e)
{
    const char *known[TENSOR_NSAFE + 1] = {0}, *given = name;
    name += strncmp(name, "torch.", 6) == 0 ? 6 : 0;
    for (int t = 0; t < TENSOR_NONE; t++) {
        if (t < TENSOR_NSAFE)
            known[t] = types[t].name;
        if (strcasecmp(types[t].name, name) != 0 &&
            (!types[t].python || strcasecmp(types[t].python, name) != 0))
            continue;
        if (t >= TENSOR_NSAFE)
            return kv_err_set(e, KV_E_USAGE, "%s is a quantised type, and kvctl writes none",
                              types[t].name);
        *out = (tensor_type)t;
        return KV_OK;
    }
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        if (strcasecmp(synonyms[i].name, name) == 0) {
            *out = synonyms[i].type;
            return KV_OK;
        }
    }
    kv_err_set(e, KV_E_USAGE, "there is no type of tensors `%.64s`", given);
    if (!strcasecmp(name, "fp8") || !strcasecmp(name, "f8") || !strcasecmp(name, "float8"))
        kv_err_hint(e, "F8_E4M3 (a sign, 4 bits of exponent, 3 of fraction) or F8_E5M2");
    suggest_hint(e, name, known, TENSOR_NSAFE);
    if (!*e->hint)
        kv_err_hint(e, "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL and others: help "
                       "checkpoints");
    return KV_E_USAGE;
}

bool tensor_type_dtype(tensor_type t, kv_dtype *dtype)
{
    static const kv_dtype dtypes[TENSOR_NSAFE] = {
        /* else KV_FLOAT32, which is 0 */
        [TENSOR_BOOL] = KV_BOOL,     [TENSOR_U8] = KV_UINT8,  [TENSOR_I8] = KV_INT8,
        [TENSOR_I16] = KV_INT32,     [TENSOR_U16] = KV_INT32, [TENSOR_F16] = KV_FLOAT16,
        [TENSOR_BF16] = KV_BFLOAT16, [TENSOR_I32] = KV_INT32, [TENSOR_U32] = KV_INT64,
        [TENSOR_F64] = KV_FLOAT64,   [TENSOR_I64] = KV_INT64, [TENSOR_U64] = KV_INT64};
    if (t >= TENSOR_NSAFE || t == TENSOR_C64)
        return false;
    *dtype = dtypes[t];
    return true;
}

tensor_type tensor_type_of(kv_dtype dtype)
{
    static const tensor_type by_number[] = {
        TENSOR_F32,  TENSOR_F64, TENSOR_F16, TENSOR_U8,  TENSOR_I32, TENSOR_I8,  TENSOR_I64,
        TENSOR_BOOL, TENSOR_I16, TENSOR_U16, TENSOR_U32, TENSOR_U64, TENSOR_BF16};
    _Static_assert(sizeof by_number / sizeof *by_number == KV_DTYPE_END, "one for each number");
    return by_number[dtype];
}

/* ---- NumPy's files --------------------------------------------------------------------------- */

bool npz_type_descr(tensor_type t, char *kind, int *width)
{
    static const char letters[] = {
        [TENSOR_KIND_BOOL] = 'b',  [TENSOR_KIND_UNSIGNED] = 'u', [TENSOR_KIND_SIGNED] = 'i',
        [TENSOR_KIND_FLOAT] = 'f', [TENSOR_KIND_COMPLEX] = 'c',  [TENSOR_KIND_NONE] = '\0'};
    *kind = letters[types[t].kind];
    *width = types[t].bytes;
    return *kind && t != TENSOR_BF16 && !(*kind == 'f' && (*width == 1 || types[t].elements > 1));
}

bool npz_type_find(tensor_type *out, char kind, int width)
{
    char letter;
    int bytes;
    for (int t = 0; t < TENSOR_NSAFE; t++)
        if (types[t].bytes == width && npz_type_descr((tensor_type)t, &letter, &bytes) &&
            letter == kind)
            return *out = (tensor_type)t, true;
    return false;
}

const char *npz_type_hint(const char *descr)
{
    switch (descr[0] && descr[1] ? descr[1] : descr[0]) {
    case 'V':
        return "NumPy saves bfloat16 and other types of ml_dtypes without their names: save them "
               "as safetensors";
    case 'O':
        return "these are objects of Python: save arrays of numbers";
    default:
        return "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1 c8, with < or > before it (or | before those "
               "of one byte)";
    }
}
