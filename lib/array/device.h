/* The device tables: what a kind of device can do, as functions over plain memory.
 *
 * That of the CPU (dev_ops, lib/cpu) comes first and is the reference; that of GPUs (gpu_ops),
 * which a plugin fills, takes lists of jobs and gives the same bits. Every entry is required.
 * Pointers are memory of the device unless a comment says host. Counts are elements unless named
 * _bytes.
 *
 * Conversions: float to integer truncates towards zero and saturates, nan becomes 0; integer to
 * integer wraps; anything to bool is x != 0; to a float rounds to nearest even.
 */
#ifndef ARRAY_DEVICE_H
#define ARRAY_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "kv_array.h"

/* Some rows of a row_sparse array: their ids, ascending, in host memory, and their elements. */
typedef struct dev_rows {
    const int64_t *ids;
    int64_t n;
    const void *data;
} dev_rows;

/* How compressed gradients are coded: the bits of a code, element 0 in the highest bits of byte 0.
 * Codes fill whole 32-bit words; the bits behind the last element are 0. (MXNet's layout) */
typedef enum dev_code { DEV_CODE_1BIT = 1, DEV_CODE_2BIT = 2 } dev_code;

/* Bytes of the codes of n elements. */
static inline int64_t dev_code_bytes(dev_code code, int64_t n)
{
    int64_t in_word = 32 / (int64_t)code;
    return (n / in_word + (n % in_word != 0)) * 4;
}

typedef struct dev_ops {
    /* required: memory of device `id`, at least MEM_ALIGN aligned, contents undefined. */
    int (*alloc)(int id, int64_t bytes, void **out, kv_err *e);
    void (*free)(int id, void *block);

    /* required: all bytes zero. */
    int (*zero)(int id, void *dst, int64_t bytes, kv_err *e);

    /* required: dst[i] = src[i] for n elements, converted. dst and src do not overlap. */
    void (*convert)(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);

    /* required: dst[i] = src[0][i] + src[1][i] + …, added left to right, nsrc >= 1, all of one
     * dtype. float16 and bfloat16 add in float32 and round once; integers wrap; bool is OR. dst may
     * be src[0] but no other source. */
    void (*sum)(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);

    /* required: convert and sum of elements whose result is too large to stay in a cache and is not
     * read soon. The same bits. */
    void (*convert_far)(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);
    void (*sum_far)(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);

    /* required: row k of dst = row at[k] of src, converted, or zeros where at[k] is negative, for n
     * rows of `row` elements. at: host memory. far: as for convert_far. */
    void (*gather_rows)(void *dst, kv_dtype to, const void *src, kv_dtype from, const int64_t *at,
                        int64_t n, int64_t row, bool far);

    /* required: the bytes at src to each of ndst places, which are too large to stay in a cache.
     * No two regions overlap. */
    void (*spread_far)(void *const *dst, int64_t ndst, const void *src, int64_t bytes);

    /* required: the sum of nsrc >= 1 row_sparse arrays with rows of `row` elements. dst has ndst
     * rows, whose ids (host, ascending) are those of all sources together. Each is 0, to which the
     * sources that hold the row are added in their order, by the rules of sum. room: host memory
     * for nsrc numbers of 64 bits a worker of the thread pool. */
    void (*sum_rows)(void *dst, const int64_t *ids, int64_t ndst, const dev_rows *src, int64_t nsrc,
                     kv_dtype dtype, int64_t row, void *room);

    /* required: codes of n float32 elements, dev_code_bytes of them. For each element
     * r = residual[i] + src[i], then with 2 bits and t = threshold > 0:
     *   r >= t: code 11, residual[i] = r - t; r <= -t: code 10, r + t; else code 00, r (also nan);
     * and with 1 bit: r > t: code 1, residual[i] = r - 1; else code 0, r + 1.
     * The regions do not overlap. */
    void (*quantise)(void *codes, float *residual, const float *src, dev_code code, float threshold,
                     int64_t n);

    /* required: dst[i] = what code i stands for: t, -t, 0 (00 and 01); or 1 and -1. */
    void (*dequantise)(float *dst, const void *codes, dev_code code, float threshold, int64_t n);

    /* required: dst[i] += the same. */
    void (*dequantise_add)(float *dst, const void *codes, dev_code code, float threshold,
                           int64_t n);

    /* required: quantises likewise, and leaves the codes out: dst[i] = sum[i] + what code i would
     * stand for. dst may be sum; the other regions do not overlap. far: the residuals are too many
     * to stay in a cache and are not read soon, nor is dst, unless it is sum. */
    void (*quantise_sum)(float *dst, const float *sum, float *residual, const float *src,
                         dev_code code, float threshold, int64_t n, bool far);
} dev_ops;

/* The CPU table, defined by lib/cpu. */
extern const dev_ops cpu_dev_ops;

/* The table of a context, or NULL with the reason in e (unsupported). gpu(i) is the host's memory
 * while virtual GPUs are on and i is one of them; else a GPU of this machine, whose arrays have
 * their elements in host memory too, as far as they are needed there (array/mirror.h). */
const dev_ops *dev_find(kv_ctx ctx, kv_err *e);

/* Virtual GPUs: contexts gpu(0) to gpu(n-1) live in host memory under that label, so that lessons
 * and tests run anywhere. n = 0 switches them off (the default). A part of the runtime's state. */
void dev_set_virtual_gpus(int n);
int dev_virtual_gpus(void);

/* ---- Devices with memory of their own ----------------------------------------------------------
 *
 * What such a device does comes in lists, since a launch costs more than the work on a small array:
 * all jobs of a list are one launch. Work of one device happens in the order of the calls; the host
 * waits only where a function says so. Addresses are the device's unless a comment says host.
 */

/* The library takes a table of this version and of its own size: plugins come with it. New entries
 * show in the size; the version counts changes of what is there that the size does not show. */
#define GPU_TABLE_VERSION 3

/* Devices that are used at most: a set of them is the bits of a uint64_t. */
enum { GPU_MOST = 64 };

/* What the jobs of a list do. The bits are those of the CPU's table. */
typedef enum gpu_work {
    GPU_CONVERT,        /* dst of dtype `to` = src[0] of dtype `from` */
    GPU_SUM,            /* dst = src[0] + src[1] + …, all of dtype `to`; dst may be src[0] */
    GPU_GATHER_ROWS,    /* row k of dst = row index[k] of src[0], or zeros; all of dtype `to` */
    GPU_SUM_ROWS,       /* row k of dst = the sum of row index[k * nsrc + s] of src[s] over all s
                           where that is not negative; all of dtype `to` */
    GPU_QUANTISE,       /* dst = codes of src[0], whose residual is more[0] */
    GPU_DEQUANTISE,     /* dst = what the codes src[0] stand for */
    GPU_DEQUANTISE_ADD, /* dst += the same */
    GPU_QUANTISE_SUM,   /* dst = the sum of what the codes of src[s], with the residual more[s],
                           would stand for */
    GPU_SUM_CHUNKS,     /* element c of dst = the sum, one behind the other, of the elements of
                           src[0] in its chunk c of 4096; n chunks of `row` elements in all, of
                           dtype `to`: float32 or float64 */
    GPU_SUM_ALL,        /* dst[0] = the same of all `row` elements; n is 1 */
    GPU_NWORKS
} gpu_work;

/* The lists are the host's and belong to the caller; they are read before the call returns. */
typedef struct gpu_job {
    void *dst;
    int64_t n; /* elements */
    const void *const *src;
    int64_t nsrc;
    void *const *more;
    int64_t nmore;
    const int64_t *index;
    int64_t nindex;
    const double *numbers; /* of a rule: words of 8 bytes */
    int64_t nnumbers;
    int64_t row; /* elements of a row */
    float threshold;
    kv_dtype to, from;
    dev_code code;
} gpu_job;

/* What there is to know of a device without using it. */
typedef struct gpu_facts {
    char name[128];
    int64_t bytes;
    int major, minor; /* of what it can do */
} gpu_facts;

/* A rule that was compiled for a device, and what its text calls the kernel. */
typedef struct gpu_rule gpu_rule;
#define GPU_RULE_KERNEL "kv_rule"

/* An array that several devices have a place for, on each of a set in the set's order. */
typedef struct gpu_group_job {
    void *const *places;
    void *dst; /* of a sum: on device set[root]; it may be places[root] */
    int root;  /* of the set */
    int64_t n; /* elements */
    kv_dtype dtype;
} gpu_group_job;

/* All entries are required. Each takes the number of a device below count. */
typedef struct gpu_ops {
    uint32_t size;    /* sizeof (gpu_ops) of whoever made the table */
    uint32_t version; /* GPU_TABLE_VERSION */
    int count;        /* devices, 1 to GPU_MOST */
    int64_t scratch;  /* bytes of a device's memory that a call may take for a while: what needs
                         more does its work in parts, as far as it has parts */

    /* What they work with and its versions, as a text. */
    void (*software)(char *out, size_t size);

    int (*facts)(int id, gpu_facts *out, kv_err *e);

    /* The memory that nobody has. It fails, with the reason, where the device cannot be used. */
    int (*room)(int id, int64_t *free_bytes, kv_err *e);

    /* Whether a device reads the memory of another one directly. Copies work in any case. */
    int (*reaches)(int id, int other, bool *out, kv_err *e);

    /* Memory, at least 256 aligned, contents undefined. What is freed may still be in use by work
     * that was given before. */
    int (*alloc)(int id, int64_t bytes, void **out, kv_err *e);
    void (*free)(int id, void *block);
    int (*zero)(int id, void *dst, int64_t bytes, kv_err *e);

    /* From and to host memory: copy_in has read it when it returns, copy_out waits. */
    int (*copy_in)(int id, void *dst, const void *host, int64_t bytes, kv_err *e);
    int (*copy_out)(int id, void *host, const void *src, int64_t bytes, kv_err *e);

    /* What the way between block and the host's memory allows at most, to be timed: as many bytes
     * go out of the block, or into it, from and to pinned memory that nobody fills or reads. Waits
     * until they have. */
    int (*carry)(int id, void *block, int64_t bytes, bool out, kv_err *e);

    /* From a place of another device, or the same, whose earlier work comes first. Later work of
     * either comes after it. */
    int (*copy)(int id, void *dst, int from, const void *src, int64_t bytes, kv_err *e);

    int (*run)(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e);

    /* Compiles the text of a rule (vm/plan_text.h), or finds it; it stays for ever. Then runs it on
     * each job, whose `more` are its arrays by slot. Error: unsupported (it does not compile). */
    int (*compile)(int id, const char *text, const gpu_rule **out, kv_err *e);
    int (*apply)(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e);

    /* Waits until all work of a device is done. */
    int (*wait)(int id, kv_err *e);

    /* Several devices together, by a library that is loaded when it is first needed (NCCL). A set
     * is an ascending list of devices; the jobs of a list are one group, which comes behind the
     * work so far of each device and before its later work.
     * group_find: the library's version, as major * 10000 + minor * 100 + patch.
     * group_sum: dst = the sum of what lies at the places, added in an order of the library's, in
     *   the dtype itself, also where that is half a float32; no bool.
     * group_copy: what lies at places[root] to the others.
     * Errors: unsupported (no library), io (it fails). */
    int (*group_find)(int *version, kv_err *e);
    int (*group_sum)(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
    int (*group_copy)(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
} gpu_ops;

/* The GPUs of this machine, or NULL with the reason in e (unsupported): not in this build, or no
 * driver, or no device. Loads the plugin that knows them when it is first asked. */
const gpu_ops *gpu_find(kv_err *e);

/* Whether a plugin has brought some; loads nothing. */
bool gpu_is_there(void);

/* What a plugin that knows GPUs calls when it starts. The table stays for ever. Error: value (of
 * another version, or a count that cannot be), name (there are some already). */
int gpu_register(const gpu_ops *ops, kv_err *e);

/* From the layer above: how the plugin is loaded, and where its warnings go. */
typedef struct gpu_host {
    int (*load)(kv_err *e);
    void (*warn)(const char *text);
} gpu_host;

/* Sets them, before anybody asks for a GPU. The table stays for ever. */
void gpu_set_host(const gpu_host *host);

/* Gives a warning to the receiver of kv_set_log. */
void gpu_warn(const char *text);

/* What a kv_array is, for the layers below the public interface. */
typedef enum array_memory {
    ARRAY_OWN,     /* a block of its own */
    ARRAY_WRAPPED, /* the caller's */
    ARRAY_VIEW,    /* another array's */
    ARRAY_INSIDE   /* behind the header: few elements in host memory */
} array_memory;

/* The first 64 bytes, one cache line, hold what a call over many arrays reads of each. */
struct kv_array {
    engine_var var;  /* orders the operations that touch the data */
    int64_t holders; /* atomic: the references, and ARRAY_HOLD for each scheduled operation */
    void *data;      /* size elements of dtype, or those of the rows held; never NULL */
    int64_t size;    /* elements of the shape */
    uint8_t dtype, storage, memory, ndim; /* kv_dtype, kv_storage, array_memory */
    kv_ctx ctx;
    const dev_ops *dev;      /* whose memory data is; it releases it too */
    struct array_mirror *mirror; /* on a GPU of its own memory: see array/mirror.h; else NULL */
    kv_array *base;          /* ARRAY_VIEW: whose memory it is; orders through base->var */
    void (*done)(void *arg); /* ARRAY_WRAPPED */
    void *done_arg;
    int64_t nrows; /* KV_ROW_SPARSE, which is always ARRAY_OWN: the rows held, */
    int64_t *rows; /* and their ids, ascending, in host memory; never NULL */
    uint8_t unfilled; /* 0, or the kv_code of what should have written the elements and failed */
    int64_t shape[];
};

/* The variable that orders operations on a's memory. */
engine_var *array_var(kv_array *a);

/* A scheduled operation keeps its arrays in being without being one of their references, which
 * decide who may write: array_hold when it is scheduled, array_drop when it has ended. */
#define ARRAY_HOLD ((int64_t)1 << 32)
void array_hold(kv_array *a);
void array_drop(kv_array *a);

/* a's elements become b's and the other way round. Both own their memory, have one dtype, shape,
 * context and storage, and the caller has the turn to write them. */
void array_swap(kv_array *a, kv_array *b);

/* dst[i] = src[i], converted, wherever their elements are. dst is full (array/sparse.h), the shapes
 * are equal, src has any storage; the caller has the turn to write dst and to read src. Errors:
 * those of a device. */
int array_fill(kv_array *dst, const kv_array *src, kv_err *e);

/* The header of an array alone, refs 1; data, memory and what belongs to them are the caller's to
 * fill. Errors: those of kv_array_new. */
int array_header(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                 kv_err *e);

#endif
