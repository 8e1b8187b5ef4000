/* The facts about each dtype, as a table that KV_DTYPE_MAP fills. */
#include "kv_dtype.h"

#include <string.h>
#include <strings.h>

#include "base/kv_assert.h"
#include "base/mem.h"

static const char *const names[KV_DTYPE_END] = {
#define NAME(constant, number, name, bytes) [number] = name,
    KV_DTYPE_MAP(NAME)
#undef NAME
};

/* As safetensors has them, and --dtype of the commands on checkpoints. */
static const struct {
    const char *name;
    kv_dtype dtype;
} short_names[] = {{"f32", KV_FLOAT32},   {"f64", KV_FLOAT64}, {"f16", KV_FLOAT16},
                   {"bf16", KV_BFLOAT16}, {"i8", KV_INT8},     {"u8", KV_UINT8},
                   {"i32", KV_INT32},     {"i64", KV_INT64}};

/* 0 where no dtype has that number. */
static const int8_t sizes[KV_DTYPE_END] = {
#define SIZE(constant, number, name, bytes) [number] = bytes,
    KV_DTYPE_MAP(SIZE)
#undef SIZE
};

const char *kv_dtype_name(kv_dtype dtype)
{
    return (unsigned)dtype < KV_DTYPE_END && names[dtype] ? names[dtype] : "unknown";
}

int64_t kv_dtype_bytes(kv_dtype dtype)
{
    return (unsigned)dtype < KV_DTYPE_END ? sizes[dtype] : 0;
}

bool kv_dtype_is_float(kv_dtype dtype)
{
    switch (dtype) {
    case KV_FLOAT32:
    case KV_FLOAT64:
    case KV_FLOAT16:
    case KV_BFLOAT16:
        return true;
    case KV_UINT8:
    case KV_INT32:
    case KV_INT8:
    case KV_INT64:
    case KV_BOOL:
        return false;
    }
    return false;
}

int kv_dtype_parse(kv_dtype *dtype, const char *name, kv_err *e)
{
    TRY(arg_given(dtype, "dtype", e));
    TRY(arg_given(name, "name", e));
    for (int i = 0; i < KV_DTYPE_END; i++) {
        if (names[i] && strcmp(names[i], name) == 0) {
            *dtype = (kv_dtype)i;
            return KV_OK;
        }
    }
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (strcasecmp(short_names[i].name, name) == 0) {
            *dtype = short_names[i].dtype;
            return KV_OK;
        }
    static const char *const others[][2] = {
        {"half", "float16"}, {"fp16", "float16"},   {"fp32", "float32"}, {"fp64", "float64"},
        {"int", "int64"},    {"double", "float64"}, {"long", "int64"},   {"float", "float32"}};
    kv_err_set(e, KV_E_DTYPE, "there is no dtype \"%.40s\"", name);
    const char *dot = strrchr(name, '.'); /* torch.float16, np.half */
    name = dot ? dot + 1 : name;
    for (int i = 0; dot && i < KV_DTYPE_END; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return kv_err_hint(e, "did you mean %s?", name), KV_E_DTYPE;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(others[i][0], name) == 0)
            return kv_err_hint(e, "did you mean %s?", others[i][1]), KV_E_DTYPE;
    kv_err_hint(e, "float32 float64 float16 bfloat16 int8 uint8 int32 int64 bool, and f32 f64 f16 "
                   "bf16 i8 u8 i32 i64");
    return KV_E_DTYPE;
}
