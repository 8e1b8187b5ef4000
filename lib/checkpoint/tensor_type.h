/* The types of tensors in files. There are more of them than dtypes of arrays: a tensor of any type
 * can be listed, copied, hashed and compared bit by bit, and those with numbers become arrays.
 *
 * Element i of a type of w bits is bits i * w and on of the data, read as one little-endian number:
 * the first of two F4 stands in the low half of their byte.
 *
 * F8_E4M3 is the "FN" variant: its largest number is 448, and it has no infinity. FNUZ types have
 * one NaN, 0x80, and no -0. F8_E8M0 is the power of two 2^(byte - 127), 0xFF is NaN. F4 is E2M1.
 * Source: the format page of safetensors, the OCP specifications of 8-bit floating point and of
 * microscaling formats, and for quantised types the sizes of blocks in GGUF's table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_dtype.h"

typedef enum tensor_kind {
    TENSOR_KIND_BOOL,
    TENSOR_KIND_UNSIGNED,
    TENSOR_KIND_SIGNED,
    TENSOR_KIND_FLOAT,
    TENSOR_KIND_COMPLEX,   /* two floats an element */
    TENSOR_KIND_QUANTISED, /* blocks of GGUF; only their bits are known here */
    TENSOR_KIND_NONE       /* no numbers: what it is, tensor_info says */
} tensor_kind;

/* Every type: constant, name in files, name in Python (NumPy, ml_dtypes, PyTorch; NULL: none,
 * or only one of the synonyms), kind, elements and bytes of its smallest run of whole bytes.
 * Those before TENSOR_Q4_0 are the types of safetensors. TENSOR_NONE is only listed: an array of
 * texts, dates, objects. */
#define TENSOR_TYPES(X)                                                                            \
    X(TENSOR_BOOL, "BOOL", "bool", BOOL, 1, 1)                                                     \
    X(TENSOR_F4, "F4", "float4_e2m1fn_x2", FLOAT, 2, 1)                                            \
    X(TENSOR_F6_E2M3, "F6_E2M3", NULL, FLOAT, 4, 3)                                                \
    X(TENSOR_F6_E3M2, "F6_E3M2", NULL, FLOAT, 4, 3)                                                \
    X(TENSOR_U8, "U8", "uint8", UNSIGNED, 1, 1)                                                    \
    X(TENSOR_I8, "I8", "int8", SIGNED, 1, 1)                                                       \
    X(TENSOR_F8_E5M2, "F8_E5M2", "float8_e5m2", FLOAT, 1, 1)                                       \
    X(TENSOR_F8_E4M3, "F8_E4M3", "float8_e4m3fn", FLOAT, 1, 1)                                     \
    X(TENSOR_F8_E8M0, "F8_E8M0", "float8_e8m0fnu", FLOAT, 1, 1)                                    \
    X(TENSOR_F8_E4M3FNUZ, "F8_E4M3FNUZ", "float8_e4m3fnuz", FLOAT, 1, 1)                           \
    X(TENSOR_F8_E5M2FNUZ, "F8_E5M2FNUZ", "float8_e5m2fnuz", FLOAT, 1, 1)                           \
    X(TENSOR_I16, "I16", "int16", SIGNED, 1, 2)                                                    \
    X(TENSOR_U16, "U16", "uint16", UNSIGNED, 1, 2)                                                 \
    X(TENSOR_F16, "F16", "float16", FLOAT, 1, 2)                                                   \
    X(TENSOR_BF16, "BF16", "bfloat16", FLOAT, 1, 2)                                                \
    X(TENSOR_I32, "I32", "int32", SIGNED, 1, 4)                                                    \
    X(TENSOR_U32, "U32", "uint32", UNSIGNED, 1, 4)                                                 \
    X(TENSOR_F32, "F32", "float32", FLOAT, 1, 4)                                                   \
    X(TENSOR_C64, "C64", "complex64", COMPLEX, 1, 8)                                               \
    X(TENSOR_F64, "F64", "float64", FLOAT, 1, 8)                                                   \
    X(TENSOR_I64, "I64", "int64", SIGNED, 1, 8)                                                    \
    X(TENSOR_U64, "U64", "uint64", UNSIGNED, 1, 8)                                                 \
    X(TENSOR_Q4_0, "Q4_0", NULL, QUANTISED, 32, 18)                                                \
    X(TENSOR_Q4_1, "Q4_1", NULL, QUANTISED, 32, 20)                                                \
    X(TENSOR_Q5_0, "Q5_0", NULL, QUANTISED, 32, 22)                                                \
    X(TENSOR_Q5_1, "Q5_1", NULL, QUANTISED, 32, 24)                                                \
    X(TENSOR_Q8_0, "Q8_0", NULL, QUANTISED, 32, 34)                                                \
    X(TENSOR_Q8_1, "Q8_1", NULL, QUANTISED, 32, 36)                                                \
    X(TENSOR_Q2_K, "Q2_K", NULL, QUANTISED, 256, 84)                                               \
    X(TENSOR_Q3_K, "Q3_K", NULL, QUANTISED, 256, 110)                                              \
    X(TENSOR_Q4_K, "Q4_K", NULL, QUANTISED, 256, 144)                                              \
    X(TENSOR_Q5_K, "Q5_K", NULL, QUANTISED, 256, 176)                                              \
    X(TENSOR_Q6_K, "Q6_K", NULL, QUANTISED, 256, 210)                                              \
    X(TENSOR_Q8_K, "Q8_K", NULL, QUANTISED, 256, 292)                                              \
    X(TENSOR_IQ2_XXS, "IQ2_XXS", NULL, QUANTISED, 256, 66)                                         \
    X(TENSOR_IQ2_XS, "IQ2_XS", NULL, QUANTISED, 256, 74)                                           \
    X(TENSOR_IQ3_XXS, "IQ3_XXS", NULL, QUANTISED, 256, 98)                                         \
    X(TENSOR_IQ1_S, "IQ1_S", NULL, QUANTISED, 256, 50)                                             \
    X(TENSOR_IQ4_NL, "IQ4_NL", NULL, QUANTISED, 32, 18)                                            \
    X(TENSOR_IQ3_S, "IQ3_S", NULL, QUANTISED, 256, 110)                                            \
    X(TENSOR_IQ2_S, "IQ2_S", NULL, QUANTISED, 256, 82)                                             \
    X(TENSOR_IQ4_XS, "IQ4_XS", NULL, QUANTISED, 256, 136)                                          \
    X(TENSOR_IQ1_M, "IQ1_M", NULL, QUANTISED, 256, 56)                                             \
    X(TENSOR_TQ1_0, "TQ1_0", NULL, QUANTISED, 256, 54)                                             \
    X(TENSOR_TQ2_0, "TQ2_0", NULL, QUANTISED, 256, 66)                                             \
    X(TENSOR_MXFP4, "MXFP4", NULL, QUANTISED, 32, 17)                                              \
    X(TENSOR_NVFP4, "NVFP4", NULL, QUANTISED, 64, 36)                                              \
    X(TENSOR_Q1_0, "Q1_0", NULL, QUANTISED, 128, 18)                                               \
    X(TENSOR_NONE, "none", NULL, NONE, 1, 1)

typedef enum tensor_type {
#define TENSOR_TYPE_ENUM(constant, ...) constant,
    TENSOR_TYPES(TENSOR_TYPE_ENUM)
#undef TENSOR_TYPE_ENUM
    TENSOR_TYPE_END
} tensor_type;

#define TENSOR_NSAFE TENSOR_Q4_0 /* how many are types of safetensors */

const char *tensor_type_name(tensor_type t); /* "BF16" */
const char *tensor_type_python(tensor_type t); /* "bfloat16", or NULL */
tensor_kind tensor_type_kind(tensor_type t);
bool tensor_type_is_integer(tensor_type t); /* or BOOL */

/* A run of elements that ends at a byte: its elements and its bytes. */
int64_t tensor_type_run(tensor_type t);
int64_t tensor_type_run_bytes(tensor_type t);

/* The bytes of n elements, or -1 when n is, or they end within a byte or a block, or overflow. */
int64_t tensor_type_bytes(tensor_type t, int64_t n);

/* The elements of a shape, or -1 when there are more than an int64_t counts; and their bytes. */
int64_t tensor_elements(int ndim, const int64_t *shape);
int64_t tensor_bytes(tensor_type t, int ndim, const int64_t *shape);

bool tensor_same_shape(int ndim, const int64_t *shape, int other_ndim, const int64_t *other);

/* The type with this name of n bytes, in files' spelling, or with this name in Python. False: there
 * is none. */
bool tensor_type_find(tensor_type *out, const char *name, size_t n);
bool tensor_type_find_python(tensor_type *out, const char *name);

/* Reads the name of a type of safetensors that a user typed: bf16, F32, float32, e4m3 too. Error:
 * usage, with "did you mean". */
int tensor_type_parse(tensor_type *out, const char *name, kv_err *e);

/* The dtype of an array with these numbers; false for types that have none here (C64, quantised).
 * The array's dtype holds every number of the type, but for U64 beyond 2^63. */
bool tensor_type_dtype(tensor_type t, kv_dtype *dtype);

/* The type that a file has for arrays of a dtype, by its number in MXNet, below KV_DTYPE_END; 8 to
 * 11 are of its later builds. */
tensor_type tensor_type_of(kv_dtype dtype);

/* Between a type and the letter and the bytes that npy.h has for it. False: npy lacks it, as it
 * does BF16 and floats of 8 bits and less. */
bool npz_type_find(tensor_type *out, char kind, int width);
bool npz_type_descr(tensor_type t, char *kind, int *width);

/* What to do about elements of a descr that has no type here. */
const char *npz_type_hint(const char *descr);
