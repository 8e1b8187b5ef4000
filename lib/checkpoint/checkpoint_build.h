/* The struct of a checkpoint, which the readers of formats fill while it is opened and
 * tensor_reader.c reads. Nothing else looks into a checkpoint. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/input.h"
#include "kv_err.h"

/* The checksum of a member of an npz archive, which is known to be right once all of the member has
 * been read: by one thread or by several, in any order. Its data are counted in pieces; of each the
 * first one that reads it whole computes the checksum. */

#define NPZ_SUM_PIECE ((int64_t)1 << 16) /* bytes of a member's data */

/* The message for a damaged member. */
#define NPZ_SUM_WRONG "damaged: its checksum is another one"

typedef struct npz_sum {
    uint32_t crc;         /* as the archive has it, of the whole member */
    uint32_t header_crc;  /* of what stands before the data */
    int64_t header_bytes; /* of that */
    int64_t bytes;        /* of the data */
    atomic_uint added;    /* checksums of pieces, added up */
    atomic_llong left;    /* pieces that were not read yet */
    atomic_ullong few;    /* bits of pieces that were read, where 64 are enough */
    _Atomic(atomic_ullong *) many; /* else; from mem_alloc, by the first one that reads */
} npz_sum;

/* The piece that a reader is in. All zero: none. */
typedef struct npz_sum_run {
    int64_t tensor; /* its number + 1 */
    int64_t at;     /* the next byte */
    uint32_t crc;   /* of its piece up to there */
    bool whole;     /* that piece was read from its begin on */
} npz_sum_run;

/* header: the bytes of the member before its data; the data has `bytes`. */
void npz_sum_init(npz_sum *s, uint32_t crc, const void *header, int64_t nheader, int64_t bytes);

/* Takes n bytes of the data, from their byte `at` on, and sets *right to false when all have been
 * read and the checksum is another one; then it stays false. Error: memory. */
int npz_sum_add(npz_sum *s, npz_sum_run *run, int64_t tensor, const void *data, int64_t at,
                int64_t n, bool *right, kv_err *e);

/* Returns true once all pieces have been read. */
bool npz_sum_known(npz_sum *s);

/* Returns true if these are the bytes of a member: its header and then data of this checksum. */
bool npz_sum_right(const npz_sum *s, uint32_t data_crc);

/* A name with the number of what it names. */
typedef struct named {
    const char *name;
    int64_t i;
} named;

/* How codes become numbers, see scales.c. */
typedef struct tensor_values {
    int64_t codes;    /* the tensor that holds them, a hidden one */
    tensor_type type; /* of the codes */
    bool swapped;     /* the last two axes of the numbers are those of the codes swapped */
    /* Scales; scaled is NULL where there are none. Number k of a row, in row r of matrix m, has
     * scale m * a_matrix + r / rows * a_row + k / columns. */
    const checkpoint *scaled; /* holds them */
    int64_t scale;            /* the tensor */
    tensor_type scale_type;   /* of its bytes */
    int64_t height, width;    /* of a matrix: rows of so many numbers */
    int64_t rows, columns, a_row, a_matrix;
    float global;             /* each scale is multiplied by it, or divided */
    bool has_global, divides;
    int64_t nhidden;   /* tensors that are hidden with it */
    const char *named; /* the last part of the scales' name */
} tensor_values;

/* What the metadata of a GGUF file say of it as a part of a model, see gguf.h; count is 0 where
 * they say nothing. */
typedef struct gguf_split {
    int64_t no, count, tensors; /* no: from 0; tensors: -1, not said */
} gguf_split;

struct checkpoint {
    int64_t refs; /* atomic: the one that opened it, and arrays that read their elements later */
    char *name;
    input *files;
    int64_t nfiles, files_cap;
    tensor_info *tensors; /* behind the first ntensors: the ones that scales.c hides */
    int64_t ntensors, tensors_cap, nhidden;
    tensor_values *values;
    int64_t nvalues, values_cap;
    checkpoint_text *texts;
    int64_t ntexts, texts_cap;
    named *tensor_names; /* sorted, once all are there */
    named *text_names;
    npz_sum *sums; /* of the members of an archive */
    int64_t nsums, sums_cap;
    checkpoint_options options;
    const char *part; /* of a file of PyTorch, the one that is asked for; NULL: all */
    int64_t nothers;  /* its entries that are not tensors */
    buf others;       /* the names of the first ones */
    const char *model; /* the part of a model, beside others */
    bool made_names;  /* names are paths in a tree */
    arena memory;     /* names, texts and shapes */
    gguf_split split; /* of the file that was read last */
    /* The reader of the file that was opened last, by its first bytes. */
    int (*choose)(const struct checkpoint *c,
                  int (**read)(struct checkpoint *c, int file, kv_err *e), kv_err *e);
    bool foreign;     /* the file that was read last is not a checkpoint, a reader found */
    bool safetensors; /* the file that was read last is one */
    bool params;      /* the file that was read last is MXNet's, and its arrays have no names */
    bool unnamed;
    bool sharded;     /* there may be several files: then one that is not a checkpoint is a fault */
};

/* Reads the header of file number `file`, which is open, and adds what it describes. On errors the
 * checkpoint can only be closed, but for checkpoint_read. */
typedef int checkpoint_reader(checkpoint *c, int file, kv_err *e);
checkpoint_reader safetensors_read, npz_read, npy_read_tensor;

/* Reads the file that was opened last. Where findings are asked for, an error in the file is one,
 * and the tensors stay that were read before it and stand within the file. *whole: there was no
 * such error, and no finding of a tensor, which is then left out. */
int checkpoint_read(checkpoint *c, checkpoint_reader *read, bool *whole, kv_err *e);

/* Opens the regular file at path, which an error calls `what`, and reads it; read: NULL for what it
 * begins as. */
int checkpoint_read_file(checkpoint *c, const char *path, const char *what, checkpoint_reader *read,
                         bool *whole, kv_err *e);

/* Takes an input over as the next file. On failure it is closed. */
int checkpoint_add_file(checkpoint *c, input *in, kv_err *e);

/* Adds a tensor; its name and its shape are copied. */
int checkpoint_add(checkpoint *c, const tensor_info *t, kv_err *e);

/* Adds a text of the metadata, unless an earlier file has one of this name. */
int checkpoint_add_text(checkpoint *c, const char *name, const char *text, kv_err *e);

/* Of the texts from `first` on that have one name, keeps the first, or the last. Error: memory. */
int checkpoint_drop_texts(checkpoint *c, int64_t first, bool last, kv_err *e);

/* A fault that leaves the rest of the file readable: tells who asked for findings and returns
 * KV_OK, or returns it as an error of code format, with the name of the file before it. key: the
 * tensor, or NULL; path: NULL for the checkpoint as a whole. */
int checkpoint_fault_at(const checkpoint *c, const char *key, const char *path, kv_err *e,
                        const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define checkpoint_fault(c, key, file, e, ...)                                                     \
    checkpoint_fault_at(c, key, (c)->files[file].name, e, __VA_ARGS__)

/* The same of one tensor or member, which is `what` and called name: `tensor "w" has no "shape"`.
 * Where findings are asked for it returns LEFT_OUT, which the caller returns up to its loop over
 * all tensors; that goes on. */
enum { LEFT_OUT = -1 };
int checkpoint_leave_out(const checkpoint *c, int file, const char *what, const char *name,
                         kv_err *e, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* For the `reading` of a format, which has the fields c and file, and for tensors the buf name: an
 * error of its file, a fault of its tensor, and the name for messages. */
#define BAD(r, e, ...) file_bad(e, KV_E_FORMAT, (r)->c->files[(r)->file].name, __VA_ARGS__)
#define FAULT(r, e, ...)                                                                           \
    checkpoint_leave_out((r)->c, (r)->file, "tensor", buf_text(&(r)->name), e, __VA_ARGS__)
#define NAME(r) SHOWN(buf_text(&(r)->name))

/* Where the sentence of an error begins that may have the name of a file before it. */
const char *checkpoint_without_name(const char *text, const char *name);

/* The name of a file without its folder; and whether a folder stands at path. */
const char *checkpoint_base(const char *path);
bool checkpoint_is_folder(const char *path);
bool checkpoint_is_there(const char *path); /* or cannot be looked at */
char *checkpoint_path_in(const char *folder, const char *name, kv_err *e); /* for mem_free */

/* The names in a folder but "." and "..", sorted. Errors: io, memory. Release it in any case. */
typedef struct folder_names {
    const char **list;
    int64_t n, cap;
    arena memory;
} folder_names;
int folder_names_read(folder_names *out, const char *path, kv_err *e);
void folder_names_release(folder_names *f);
#define own_folder_names OWN(folder_names_release) folder_names

/* Names in messages: the first 80 bytes. */
#define SHOWN(name) (int)utf8_cut((name), strlen(name), 80), (name)

/* Sorts by name and returns a name that stands twice, or NULL: in a time that no choice of names
 * can make quadratic. */
const char *named_sort(named *names, int64_t n);

/* Where a name stands first among sorted ones, or -1. */
int64_t named_find(const named *names, int64_t n, const char *name);

/* Sorts names that are to be written, of what each is: "tensor". Error: value (one is not UTF-8 or
 * stands twice). */
int named_check(named *names, int64_t n, const char *what, const char *path, kv_err *e);

/* Checks where the data of the tensors from `first` on stand, all of one file: every byte belongs
 * to exactly one. The data begin at `data` and end with the file; between two tensors, and behind
 * the last, there may be as many bytes as make the next offset, counted from `data`, a multiple of
 * alignment. Faults: overlaps, and bytes that belong to no tensor. Errors: format (data behind the
 * end of the file), memory. */
int data_layout_check(const checkpoint *c, int file, int64_t first, int64_t data, int64_t alignment,
                      kv_err *e);
