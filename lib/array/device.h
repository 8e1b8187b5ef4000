/* Contexts and their devices, the table of GPUs, and the fields of an array.
 *
 * The loops of the CPU are plain functions (cpu/cpu.h) and the reference. The table of GPUs, which
 * a plugin fills, takes lists of jobs and gives the same bits, but for
 * those of a nan that arithmetic or a conversion makes, which a GPU chooses otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "cpu/cpu.h"
#include "engine/engine.h"
#include "kv_array.h"

/* own_array *a: a reference that is given back at the end of its block (base/mem.h). */
static inline void array_release(kv_array **a)
{
    kv_array_unref(*a);
}
#define own_array OWN(array_release) kv_array

/* Ends a function that makes an array with own_array: gives *made away as *out. Returns KV_OK. */
static inline int array_hand_out(kv_array **out, kv_array **made)
{
    *out = *made;
    *made = NULL;
    return KV_OK;
}

/* Checks that there is such a context. gpu(i) is the host's memory while virtual GPUs are on and i
 * is one of them; else a GPU of this machine, whose arrays have their elements in host memory too,
 * as far as they are needed there (array/mirror.h). Errors: value, unsupported. */
int ctx_check(kv_ctx ctx, kv_err *e);

/* Virtual GPUs: contexts gpu(0) to gpu(n-1) live in host memory under that label, so that lessons
 * and tests run anywhere. n = 0 switches them off (the default). A part of the runtime's state. */
void dev_set_virtual_gpus(int n);
int dev_virtual_gpus(void);

/* ---- Devices with memory of their own ----------------------------------------------------------
 *
 * Jobs come in lists, and all jobs of a list are one launch, since a launch costs more than the
 * work on a small array. Work of one device happens in the order of the calls; the host
 * waits only where a function says so. Addresses are the device's unless a comment says host.
 */

/* The library takes a table of this version and of its own size: plugins come with it. New entries
 * show in the size; the version counts changes of what is there that the size does not show. */
#define GPU_TABLE_VERSION 4

/* The most devices that are used: a set of them is the bits of a uint64_t. */
enum { GPU_MOST = 64 };

/* The work of the jobs of a list. The bits are those of the CPU (cpu/cpu.h). */
typedef enum gpu_work {
    GPU_CONVERT,        /* dst of dtype `to` = src[0] of dtype `from` */
    GPU_SUM,            /* dst = src[0] + src[1] + …, all of dtype `to`; dst may be src[0] */
    GPU_GATHER_ROWS,    /* row k of dst = row index[k] of src[0], or zeros; all of dtype `to` */
    GPU_SUM_ROWS,       /* row k of dst = the sum of row index[k * nsrc + s] of src[s] over all s
                           where that is not negative; all of dtype `to` */
    GPU_QUANTISE,       /* dst = codes of src[0], whose residual is more[0] */
    GPU_DEQUANTISE,     /* dst = the numbers that the codes src[0] stand for */
    GPU_QUANTISE_SUM,   /* dst = the sum of the numbers that codes of src[s], with the residual
                           more[s], would stand for */
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
    quantise_code code;
} gpu_job;

/* The facts about a device that are known without using it. */
typedef struct gpu_facts {
    char name[128];
    int64_t bytes;
    int major, minor; /* its compute capability */
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
    uint32_t size;    /* sizeof (gpu_ops) in the build of the table */
    uint32_t version; /* GPU_TABLE_VERSION */
    int count;        /* devices, 1 to GPU_MOST */
    int64_t scratch;  /* bytes of a device's memory that a call may take for a while: what needs
                         more does its work in parts, as far as it has parts */

    /* The software below and its versions, as a text. */
    void (*software)(char *out, size_t size);

    int (*facts)(int id, gpu_facts *out, kv_err *e);

    /* The free memory. It fails, with the reason, where the device cannot be used. */
    int (*room)(int id, int64_t *free_bytes, kv_err *e);

    /* *out: if a device reads the memory of another one directly. Copies work in any case. */
    int (*reaches)(int id, int other, bool *out, kv_err *e);

    /* Memory, at least 256 aligned, contents undefined. A block may be freed while work that was
     * given before still uses it. */
    int (*alloc)(int id, int64_t bytes, void **out, kv_err *e);
    void (*free)(int id, void *block);
    int (*zero)(int id, void *dst, int64_t bytes, kv_err *e);

    /* From and to host memory: copy_in has read it when it returns, copy_out waits. */
    int (*copy_in)(int id, void *dst, const void *host, int64_t bytes, kv_err *e);
    int (*copy_out)(int id, void *host, const void *src, int64_t bytes, kv_err *e);

    /* Moves that many bytes out of block, or into it, to or from unused pinned memory, and waits
     * until they are moved: a caller times the fastest copy that the hardware allows. */
    int (*carry)(int id, void *block, int64_t bytes, bool out, kv_err *e);

    /* From a place of another device, or the same, whose earlier work comes first. Later work of
     * either comes after it. */
    int (*copy)(int id, void *dst, int from, const void *src, int64_t bytes, kv_err *e);

    int (*run)(int id, gpu_work work, const gpu_job *jobs, int64_t n, kv_err *e);

    /* Compiles the text of a rule (vm/plan_gpu.h), or finds it; it stays for ever. Then runs it on
     * each job, whose `more` are its arrays by slot. Error: unsupported (it does not compile). */
    int (*compile)(int id, const char *text, const gpu_rule **out, kv_err *e);
    int (*apply)(int id, const gpu_rule *rule, const gpu_job *jobs, int64_t n, kv_err *e);

    /* Waits until all work of a device is done. */
    int (*wait)(int id, kv_err *e);

    /* Several devices together, by a library that is loaded when it is first needed (NCCL). A set
     * is an ascending list of devices; the jobs of a list are one group, which comes behind the
     * work so far of each device and before its later work.
     * group_find: the library's version, as major * 10000 + minor * 100 + patch.
     * group_sum: dst = the sum of the arrays at the places, added in an order of the library's, in
     *   the dtype itself, also where that is half a float32; no bool.
     * group_copy: copies the array at places[root] to the others.
     * Errors: unsupported (no library), io (it fails). */
    int (*group_find)(int *version, kv_err *e);
    int (*group_sum)(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
    int (*group_copy)(const int *set, int nset, const gpu_group_job *jobs, int64_t n, kv_err *e);
} gpu_ops;

/* The GPUs of this machine, or NULL with the reason in e (unsupported): not in this build, or no
 * driver, or no device. Loads the plugin that knows them when it is first asked. */
const gpu_ops *gpu_find(kv_err *e);

/* Returns true if a plugin has registered GPUs; loads nothing. */
bool gpu_is_there(void);

/* Called by a plugin that knows GPUs when it starts. The table stays for ever. Error: value (of
 * another version, or a count that cannot be), name (there are some already). */
int gpu_register(const gpu_ops *ops, kv_err *e);

/* From the layer above: the function that loads the plugin, and the receiver of its warnings. */
typedef struct gpu_host {
    int (*load)(kv_err *e);
    void (*warn)(const char *text);
} gpu_host;

/* Sets them, before anybody asks for a GPU. The table stays for ever. */
void gpu_set_host(const gpu_host *host);

/* Gives a warning to the receiver of kv_set_log. */
void gpu_warn(const char *text);

/* The fields of a kv_array, for the layers below the public interface. */
typedef enum array_memory {
    ARRAY_OWN,     /* a block of its own */
    ARRAY_WRAPPED, /* the caller's */
    ARRAY_VIEW,    /* another array's */
    ARRAY_INSIDE,  /* behind the header in a small block: few elements in host memory */
    ARRAY_LATER    /* none yet: the elements stand in a source, see array_fetch */
} array_memory;

/* The first 64 bytes, one cache line, hold what a call over many arrays reads of each. The header
 * of an ARRAY_INSIDE of at most one axis ends there, and its elements follow in the next lines: a
 * program may have millions. So what lies behind is read through array_shape, array_nrows,
 * array_rows and mirror_of, unless an array is known to have it. */
struct kv_array {
    engine_var var;  /* orders the operations that touch the data */
    int64_t holders; /* atomic: the references, and ARRAY_HOLD for each scheduled operation */
    void *data;      /* size elements of dtype, or those of the rows held; NULL: ARRAY_LATER */
    int64_t size;    /* elements of the shape */
    uint8_t dtype, storage, memory, ndim; /* kv_dtype, kv_storage, array_memory */
    uint8_t unfilled; /* 0, or the kv_code of the failed operation that should have written it */
    kv_ctx ctx;

    struct array_mirror *mirror; /* on a GPU of its own memory: see array/mirror.h; else NULL */
    kv_array *base;          /* ARRAY_VIEW: whose memory it is; orders through base->var */
    void (*done)(void *arg); /* ARRAY_WRAPPED */
    void *done_arg;          /* of ARRAY_LATER its array_source */
    int64_t nrows; /* KV_ROW_SPARSE, which is always ARRAY_OWN: the rows held, */
    int64_t *rows; /* and their ids, ascending, in host memory; never NULL */
    int64_t axes[];  /* the shape of two axes and more: see array_shape */
};

/* The sizes of a's ndim axes. The one of a single axis is as large as the array. */
static inline const int64_t *array_shape(const kv_array *a)
{
    return a->ndim > 1 ? a->axes : &a->size;
}

/* The rows that a holds and their ids, for an array of any storage: a default array has
 * 0 and NULL. */
static inline int64_t array_nrows(const kv_array *a)
{
    return a->storage == KV_DEFAULT ? 0 : a->nrows;
}

static inline int64_t *array_rows(const kv_array *a)
{
    return a->storage == KV_DEFAULT ? NULL : a->rows;
}

/* The variable that orders operations on a's memory. */
static inline engine_var *array_var(kv_array *a)
{
    return a->memory == ARRAY_VIEW ? &a->base->var : &a->var;
}

/* kv_array_same_shape, for loops over many arrays. One axis is as long as the array is large, and
 * the shape itself lies in another cache line. */
static inline bool array_same_shape(const kv_array *a, const kv_array *b)
{
    bool same = a->ndim == b->ndim && a->size == b->size;
    for (int i = 0; same && a->ndim > 1 && i < a->ndim; i++)
        same = a->axes[i] == b->axes[i];
    return same;
}

/* Returns true if the elements of one array can become those of the other: they have one shape, or
 * one element each, in any axes, as MXNet's numbers of shape (1,) and NumPy's of shape (). */
static inline bool array_fits(const kv_array *a, const kv_array *b)
{
    return array_same_shape(a, b) ||
           (a->size == 1 && b->size == 1 && a->storage == KV_DEFAULT && b->storage == KV_DEFAULT);
}

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

/* The place of the elements of an array that nobody needed yet, such as a file. Counted, because
 * several arrays may stand for the same elements. */
typedef struct array_source {
    int64_t refs; /* atomic */
    /* Reads n bytes from byte `at` of the elements on. */
    int (*read)(const struct array_source *s, void *to, int64_t at, int64_t n, kv_err *e);
    /* Returns how many of the n bytes from `at` on are a hole: zeros that take no room. */
    int64_t (*hole)(const struct array_source *s, int64_t at, int64_t n);
    void (*release)(struct array_source *s); /* of the last reference */
} array_source;

void array_source_unref(array_source *s);

/* Ends a function that makes an array: where rc is KV_OK made becomes *out, else made, which may be
 * NULL, is given back. Returns rc. */
static inline int array_give(int rc, kv_array **out, kv_array *made)
{
    if (rc)
        kv_array_unref(made);
    else
        *out = made;
    return rc;
}

/* kv_array_new_raw, and where the caller writes all elements. */
int array_make(kv_array **out, void **data, kv_dtype dtype, int ndim, const int64_t *shape,
               kv_ctx ctx, kv_err *e);

/* A new array on cpu(0) whose elements stand in s, which it references. Few elements are read at
 * once. Its form may be asked for; whoever needs the elements calls array_fetch first. Errors:
 * those of kv_array_new and of the source. */
int array_new_later(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, array_source *s,
                    kv_err *e);

/* The source of the elements of a, borrowed, or NULL when a has them. */
static inline array_source *array_source_of(const kv_array *a)
{
    return a->memory == ARRAY_LATER ? (array_source *)a->done_arg : NULL;
}

/* Reads the elements of an array that has a source, and does nothing to another one. No other
 * thread may use the array meanwhile; other references to it stay. Errors: memory, those of the
 * source; nothing changed then. */
int array_fetch(kv_array *a, kv_err *e);

/* The header of an array alone, refs 1; data, memory and what belongs to them are the caller's to
 * fill. Errors: those of kv_array_new. */
int array_header(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape, kv_ctx ctx,
                 kv_err *e);

/* Gives a host memory of that many bytes and, on a GPU, the place there: block, or where that is
 * NULL memory of its own. The contents are undefined. Errors: memory, those of a device. */
int array_alloc(kv_array *a, int64_t bytes, void *block, kv_err *e);
