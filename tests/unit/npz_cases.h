/* The tensors in the files of tests/checkpoint/npz, which its make.py makes. */
#pragma once

#include "base/file.h"
#include "checkpoint/tensor_type.h"
#include "checkpoint/zip.h"
#include "io/scalar.h"
#include "test.h"

#define FOLDER "tests/checkpoint/npz/"

typedef struct npz_case {
    const char *name;
    tensor_type type;
    int ndim;
    int64_t shape[6];
} npz_case;

static const npz_case npz_types[] = {
    {"float64", TENSOR_F64, 2, {2, 3}}, {"float32", TENSOR_F32, 2, {2, 3}},
    {"float16", TENSOR_F16, 2, {2, 3}}, {"int64", TENSOR_I64, 2, {2, 3}},
    {"int32", TENSOR_I32, 2, {2, 3}},   {"int16", TENSOR_I16, 2, {2, 3}},
    {"int8", TENSOR_I8, 2, {2, 3}},     {"uint64", TENSOR_U64, 2, {2, 3}},
    {"uint32", TENSOR_U32, 2, {2, 3}},  {"uint16", TENSOR_U16, 2, {2, 3}},
    {"uint8", TENSOR_U8, 2, {2, 3}},    {"bool", TENSOR_BOOL, 2, {2, 3}},
    {"complex64", TENSOR_C64, 2, {2, 3}},
};

static const npz_case npz_shapes[] = {
    {"scalar", TENSOR_F32, 0, {0}},
    {"none", TENSOR_F32, 1, {0}},
    {"hollow", TENSOR_F64, 3, {2, 0, 3}},
    {"\xC3\xBCn\xC3\xAF/code", TENSOR_I32, 1, {1}},
    {"deep", TENSOR_I16, 6, {2, 1, 3, 2, 1, 2}},
};

static const npz_case npz_fortran[] = {
    {"matrix", TENSOR_F32, 2, {3, 5}}, {"cube", TENSOR_I16, 3, {2, 3, 4}},
    {"wide", TENSOR_F64, 2, {2, 70}},  {"deep", TENSOR_U8, 4, {2, 3, 2, 4}},
};

#define NTYPES   (sizeof npz_types / sizeof *npz_types)
#define NSHAPED  (sizeof npz_shapes / sizeof *npz_shapes)
#define NFORTRAN (sizeof npz_fortran / sizeof *npz_fortran)

/* The bytes of element i of every array of this type, as make.py computes them. */
static inline void npz_element(char *to, tensor_type t, int64_t i)
{
    size_t width = (size_t)tensor_type_run_bytes(t);
    int64_t whole = tensor_type_kind(t) == TENSOR_KIND_UNSIGNED ? i * 3 : i * 3 - 7;
    if (t == TENSOR_C64) {
        memcpy(to, (float[]){(float)i, (float)(2 * i)}, width);
    } else if (t == TENSOR_BOOL) {
        *to = i % 2;
    } else if (t == TENSOR_F64) {
        memcpy(to, &(double){(double)whole}, width);
    } else if (t == TENSOR_F32) {
        memcpy(to, &(float){(float)whole}, width);
    } else if (t == TENSOR_F16) {
        CHECK_INT(scalar_set(KV_FLOAT16, to, 0, (double)whole), SCALAR_FITS);
    } else {
        memcpy(to, &whole, width);
    }
}

/* All of an array's data; the caller frees them. *bytes: how many. */
static inline char *npz_data(const npz_case *c, int64_t *bytes)
{
    int64_t n = tensor_elements(c->ndim, c->shape), width = tensor_type_run_bytes(c->type);
    char *data = malloc((size_t)(n * width) + 1);
    for (int64_t i = 0; i < n; i++)
        npz_element(data + i * width, c->type, i);
    *bytes = n * width;
    return data;
}

/* A file of the folder; the caller releases it with mem_free. */
static inline char *npz_file(const char *name, size_t *n)
{
    char path[128], *text = NULL;
    snprintf(path, sizeof path, FOLDER "%s", name);
    CHECK_OK(file_read(path, &text, n, &e));
    return text;
}
