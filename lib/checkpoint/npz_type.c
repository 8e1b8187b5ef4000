/* Types and descrs. */
#include "checkpoint/npz_type.h"

static const struct {
    tensor_type type;
    char kind;
    int width;
} rows[] = {
    {TENSOR_F64, 'f', 8}, {TENSOR_F32, 'f', 4}, {TENSOR_F16, 'f', 2}, {TENSOR_I64, 'i', 8},
    {TENSOR_I32, 'i', 4}, {TENSOR_I16, 'i', 2}, {TENSOR_I8, 'i', 1},  {TENSOR_U64, 'u', 8},
    {TENSOR_U32, 'u', 4}, {TENSOR_U16, 'u', 2}, {TENSOR_U8, 'u', 1},  {TENSOR_BOOL, 'b', 1},
    {TENSOR_C64, 'c', 8},
};

#define NROWS (sizeof rows / sizeof *rows)

bool npz_type_find(tensor_type *out, char kind, int width)
{
    for (size_t i = 0; i < NROWS; i++) {
        if (rows[i].kind == kind && rows[i].width == width) {
            *out = rows[i].type;
            return true;
        }
    }
    return false;
}

bool npz_type_descr(tensor_type t, char *kind, int *width)
{
    for (size_t i = 0; i < NROWS; i++) {
        if (rows[i].type == t) {
            *kind = rows[i].kind;
            *width = rows[i].width;
            return true;
        }
    }
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
