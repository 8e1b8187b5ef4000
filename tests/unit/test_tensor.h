/* Files of tensors in memory, for the tests of what works on whole checkpoints. */
#pragma once

#include "base/buf.h"
#include "checkpoint/safetensors.h"
#include "test.h"

/* A tensor of a file that a test makes: elements is its length, or the product of its shape. */
typedef struct tensor_given {
    const char *name;
    tensor_type type;
    int64_t rows, columns; /* columns 0: one axis of so many rows; rows -1: shape () */
    const void *data;
} tensor_given;

/* The file with these tensors in this order. The caller releases it. */
static inline buf tensor_file(const tensor_given *t, int64_t n)
{
    buf out = {0};
    int64_t size, shapes[64][2];
    safetensors_entry entries[64];
    CHECK(n <= 64);
    for (int64_t i = 0; i < n; i++) {
        shapes[i][0] = t[i].rows;
        shapes[i][1] = t[i].columns;
        entries[i] = (safetensors_entry){.name = t[i].name, .type = t[i].type,
                                         .ndim = t[i].rows < 0 ? 0 : t[i].columns ? 2 : 1,
                                         .shape = shapes[i]};
    }
    CHECK_OK(safetensors_header(&out, &size, entries, n, NULL, 0, "x", &e));
    size_t header = out.len;
    char *data = buf_room(&out, (size_t)size - header);
    for (int64_t i = 0; i < n; i++)
        if (entries[i].bytes)
            memcpy(data + (size_t)entries[i].begin - header, t[i].data, (size_t)entries[i].bytes);
    buf_grew(&out, (size_t)size - header);
    return out;
}

static inline checkpoint *tensor_open(const buf *file, const char *name)
{
    return MADE(checkpoint, checkpoint_open_memory, file->data, file->len, name);
}

/* Splitmix64. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
