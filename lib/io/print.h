/* Arrays as text: as numpy prints them (versions 1.14 to 2.1), its repr, the older style of the
 * tutorials (numpy 1.13), and as mx.np of MXNet 1.9.1 does, which is numpy's with two differences:
 * it omits float32, and names a context that is no CPU. */
#pragma once

#include "array/kv_array.h"
#include "base/buf.h"

typedef enum print_format {
    PRINT_NUMPY, /* [[2. 2. 2.]\n [2. 2. 2.]] */
    PRINT_REPR,  /* array([[2., 2., 2.],\n       [2., 2., 2.]], dtype=float32) */
    PRINT_LEGACY, /* [[ 2.  2.  2.]\n [ 2.  2.  2.]] */
    PRINT_LEGACY_REPR, /* array([[ 2.,  2.,  2.],\n       [ 2.,  2.,  2.]], dtype=float32) */
    PRINT_MXNET, /* [[2. 2. 2.]\n [2. 2. 2.]] @gpu(0) */
    PRINT_MXNET_REPR /* array([[2., 2., 2.],\n       [2., 2., 2.]], ctx=gpu(0)) */
} print_format;

typedef struct print_style {
    print_format format;
    int precision;     /* digits after the point at most; 8 */
    int64_t threshold; /* more elements than this are shortened; 1000 */
    int edgeitems;     /* how many remain at each end of an axis; 3 */
    int linewidth;     /* 75 */
    bool may_stop;     /* ends early where base/stop.h says so: error interrupted; false */
} print_style;

/* The settings of numpy. */
print_style print_style_default(void);

/* Appends a without a newline at the end. Waits for what writes a. */
int print_array(buf *out, kv_array *a, const print_style *style, kv_err *e);
