/* Files of named tensors, whatever their format, as one thing: what stands where, and the bytes of
 * any part. This is the only reader of them.
 *
 *   given                        read as
 *   m.safetensors, s.kvs         the tensors of the header
 *   a folder                     the files of its one *.safetensors.index.json, else all its
 *                                *.safetensors, in the order of their names
 *   x.safetensors.index.json     the same files
 *   w.npz                        its members *.npy, by name without .npy; those without numbers are
 *                                only listed
 *   a.npy                        one tensor, named like the file without .npy
 *   m.gguf                       its tensors; of a split model, m-00001-of-00003.gguf, those of all
 *                                parts, whichever is named, or the folder that holds them alone
 *   m.pt, m.pth, m.bin           the tensors of what torch.save wrote, by their path in its dicts;
 *                                m.pt#PART: those of one part, under their names in it
 *   m.params                     the arrays of what MXNet's nd.save wrote
 *   -                            a safetensors stream on stdin
 *
 * Opening reads and checks headers, no data. Nothing is held in memory but names, shapes and
 * metadata. The files stay open: replacing one does not change what is read. Errors name the file
 * first: `m.safetensors: cut within its data: …`.
 *
 * Everything that is returned is borrowed until the checkpoint is closed. Any number of threads may
 * read from an open one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kv_array.h"
#include "base/mem.h"
#include "checkpoint/tensor_type.h"

typedef struct checkpoint checkpoint;

typedef struct tensor_info {
    const char *name;
    tensor_type type;
    int ndim;             /* 0 to KV_MAX_NDIM */
    const int64_t *shape; /* ndim sizes, the slowest axis first */
    int64_t elements;
    int64_t bytes;        /* of its data: little-endian, row-major, packed */
    int file;             /* for checkpoint_file */
    int64_t offset;       /* of what the file holds of it */
    int64_t stored_bytes; /* there; not `bytes` where it is deflated */
    unsigned form;        /* TENSOR_* flags; 0: the file holds the data as they are */
    int64_t member;       /* for the reader: which member of the archive, from 1; 0: none */
    int64_t values;       /* for the reader: how codes become its numbers, from 1; 0: none */
    const char *odd;      /* of TENSOR_NONE: what its elements are, in the file's words */
    const char *value;    /* of an entry that is not a tensor: its value, or "" where it is long */
    const int64_t *strides; /* of TENSOR_STRIDED: elements from one index to the next */
    int64_t first; /* of TENSOR_STRIDED that is deflated: the byte of element 0 once inflated; of
                      TENSOR_SPARSE: how many rows, or elements, the file holds */
} tensor_info;

/* The type as a listing shows it. */
const char *tensor_info_type(const tensor_info *t);

/* The index of element i, one number for each axis. */
void tensor_info_index(int64_t index[KV_MAX_NDIM], const tensor_info *t, int64_t i);

/* How the data stand in the file, where that is not as they are given out. */
enum {
    TENSOR_SWAPPED = 1 << 0, /* big-endian */
    TENSOR_STRIDED = 1 << 1, /* elements do not follow each other in the order of rows */
    TENSOR_DEFLATED = 1 << 2, /* compressed: it is quick to read from begin to end only. What is
                                 inflated has a header before the data */
    TENSOR_DECODED = 1 << 3,  /* the file holds codes of it, see scales.h */
    TENSOR_ROWS = 1 << 4,     /* it holds some of its rows, and which they are; others are 0 */
    TENSOR_CSR = 1 << 5,      /* it holds some of its elements, in MXNet's csr; others are 0 */
    TENSOR_SPARSE = TENSOR_ROWS | TENSOR_CSR
};

/* A text of the metadata, by name. */
typedef struct checkpoint_text {
    const char *name, *text;
} checkpoint_text;

/* Receives what is wrong with a file: key and file may be NULL. An error ends the reading. */
typedef int checkpoint_finding(void *arg, const char *key, const char *file, const char *finding,
                               kv_err *e);

typedef struct checkpoint_options {
    /* Without the tensors and the metadata that a store keeps about itself: its keys alone, under
     * their own names. */
    bool weights;
    /* With the entries of a file of PyTorch that are not tensors, as tensors without numbers. */
    bool entries;
    /* The file is one array in NumPy's format; anything else is an error. */
    bool npy;
    /* (optional) Receives every fault of the files that leaves the rest readable, and the first
     * that does not; opening then succeeds with what could be read. Without it the first fault is
     * an error. */
    checkpoint_finding *found;
    void *arg;
} checkpoint_options;

/* Opens what stands at path; a change in place that was cut short is ended first, see in_place.h.
 * Errors: io, memory, busy (it is being changed), format (malformed, cut, bytes too many; or the
 * file is not a checkpoint, with what it looks like and what to do), unsupported, interrupted.
 * o: NULL means all 0. */
int checkpoint_open(checkpoint **out, const char *path, const checkpoint_options *o, kv_err *e);

/* The same for a file in memory (n bytes, borrowed until it is closed). name is for messages. */
int checkpoint_open_memory(checkpoint **out, const void *text, size_t n, const char *name,
                           kv_err *e);

/* Returns true if something stands at path, or what it names a part of: "m.pt#model". */
bool checkpoint_stands(const char *path);

/* Tensors that lie in memory as a checkpoint: of each the name, the type and the shape count, and
 * its data, packed, little-endian, are borrowed until it is closed. name is for messages. Errors:
 * format (two tensors have one name), value (elements that end within a byte), memory. */
int checkpoint_of_memory(checkpoint **out, const tensor_info *tensors, const void *const *data,
                         int64_t n, const checkpoint_text *metadata, int64_t nmetadata,
                         const char *name, kv_err *e);

/* NULL is allowed. Arrays of checkpoint_load_later may keep the files open. */
void checkpoint_close(checkpoint *c);

static inline void checkpoint_release(checkpoint **c)
{
    checkpoint_close(*c);
}
#define own_checkpoint OWN(checkpoint_release) checkpoint

/* The name it was opened by, for messages. */
const char *checkpoint_name(const checkpoint *c);

/* Returns true if it is one safetensors file, the form in which tensors are written back. */
bool checkpoint_is_safetensors(const checkpoint *c);

/* The tensors in the order of the files and of their headers. */
int64_t checkpoint_count(const checkpoint *c);
const tensor_info *checkpoint_at(const checkpoint *c, int64_t i);

/* Error: dtype, when tensor i has no numbers (TENSOR_NONE), so that it is only listed. */
int checkpoint_has_numbers(const checkpoint *c, int64_t i, kv_err *e);

/* The number of the tensor with this name, or -1. */
int64_t checkpoint_find(const checkpoint *c, const char *name);

/* The texts of the metadata in the order of the header, and the one with this name, or NULL. Of
 * several files the first that has a name counts. */
int64_t checkpoint_metadata_count(const checkpoint *c);
const checkpoint_text *checkpoint_metadata_at(const checkpoint *c, int64_t i);
const char *checkpoint_metadata(const checkpoint *c, const char *name);

/* The entries of a file of PyTorch that are not tensors, and are left out: their number, and the
 * names of the first two. *model: the part that holds the tensors of a model beside others, or
 * NULL. */
int64_t checkpoint_others(const checkpoint *c, const char **names, const char **model);

/* The files that tensors stand in: their number, and the path of each. */
int checkpoint_nfiles(const checkpoint *c);
const char *checkpoint_file(const checkpoint *c, int file);

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Tensor i as a new array on cpu(0), of the dtype that tensor_type_dtype tells. Reads its bytes
 * only. Errors: io, memory, format (a byte of BOOL data that is neither 0 nor 1), dtype (the type
 * has no numbers here, or U64 beyond 2^63). */
int checkpoint_load(kv_array **out, const checkpoint *c, int64_t i, kv_err *e);

/* The same, but the elements are only read when array_fetch asks (array/device.h); until then the
 * array keeps the files open. They must not change meanwhile, which is an error (io) of whoever
 * reads the elements. A tensor that the file does not hold as it is in memory (deflated, in another
 * byte order, of another type) has to be converted, so it is loaded at once. */
int checkpoint_load_later(kv_array **out, const checkpoint *c, int64_t i, kv_err *e);

/* Of such an array that has not read its elements; nothing, NULL and 0 of any other one. Its sum is
 * a text of the checkpoint that begins with the XXH64 of the data in 16 hexadecimal digits: they
 * are compared with it when they are read together. Its place is the byte of the file where its
 * data begin, and the file's inode. */
void checkpoint_later_set_sum(kv_array *a, const char *sum);
const char *checkpoint_later_sum(const kv_array *a);
int64_t checkpoint_later_place(const kv_array *a, uint64_t *inode);

/* The tensor with this name. Also: name (there is none). */
int checkpoint_load_name(kv_array **out, const checkpoint *c, const char *name, kv_err *e);
