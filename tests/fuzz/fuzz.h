/* What fuzz targets share: files of the bytes that libFuzzer gives, numbers drawn from them, and
 * what must hold of every error and of every open checkpoint.
 *
 * A target is a file fuzz_NAME.c with LLVMFuzzerTestOneInput, and where lengths or checksums would
 * stop a blind fuzzer with LLVMFuzzerCustomMutator, which changes what they cover and then makes
 * them right. `make fuzz` links it with libFuzzer; replay.c, compiled by any compiler, runs all
 * targets over the files of their corpora.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "kv_dtype.h"
#include "kv_err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

/* libFuzzer's own mutator; the replay has that of lies.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);

/* What must hold; otherwise the process ends, and libFuzzer keeps the input. */
#define HOLDS(condition, what) fuzz_holds((condition) != 0, #condition, (what), __FILE__, __LINE__)
void fuzz_holds(int ok, const char *condition, const char *what, const char *file, int line);

/* The result of a call: the code and the error agree, and the error is a sentence without control
 * characters. No code is KV_E_INTERNAL. Returns whether the call succeeded. */
bool fuzz_result(int code, const kv_err *e);

/* Writes a file in a folder of this process and returns its path, which is valid until the next
 * call. The folder is removed when the process ends. */
const char *fuzz_file(const char *name, const void *data, size_t n);
const char *fuzz_path(const char *name); /* the path of such a file; "": of the folder */

/* Opens path as commands do and as `check` does, reads every tensor in blocks and loads it. */
void fuzz_checkpoint(const char *path);

/* The same for a file of these bytes, and reads it as a stream, too. */
void fuzz_checkpoint_file(const char *name, const void *data, size_t n);

/* How many files were opened, how many of them were readable, and how many findings came. */
extern int64_t fuzz_opened, fuzz_readable, fuzz_findings;

/* The files are of some KB: none asks for much memory. */
extern bool fuzz_small;

/* Reads all of an open one. Its errors name the first n bytes of path. */
void fuzz_names(const char *path, size_t n);
bool fuzz_file_result(int code, const kv_err *e); /* as fuzz_result, of a file that lies */
void fuzz_use(const checkpoint *c);

/* ---- Choices drawn from the input ------------------------------------------------------------ */

typedef struct fuzz_bytes {
    const uint8_t *at, *end;
} fuzz_bytes;

/* A number below n (1 to 256); 0 when no byte is left. */
static inline unsigned fuzz_draw(fuzz_bytes *in, unsigned n)
{
    return in->at < in->end ? *in->at++ % n : 0;
}

/* Mostly a small number, now and then one that nobody expects. */
int64_t fuzz_number(fuzz_bytes *in);

/* One of all dtypes. */
static inline kv_dtype fuzz_dtype(fuzz_bytes *in)
{
    static const kv_dtype all[] = {
#define FUZZ_DTYPE(constant, number, name, bytes) constant,
        KV_DTYPE_MAP(FUZZ_DTYPE)
#undef FUZZ_DTYPE
    };
    return all[fuzz_draw(in, sizeof all / sizeof *all)];
}

/* ---- Mutators -------------------------------------------------------------------------------- */

/* Numbers of a mutator, from its seed. */
static inline unsigned fuzz_next(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

/* Changes n bytes of b from `from` on by libFuzzer's mutator; what follows moves. */
void fuzz_change(buf *b, size_t from, size_t n);

/* Changes the header of an npy file and corrects its length, or changes any byte of it. */
void fuzz_change_npy(buf *b, unsigned *seed);

/* A mutator of safetensors files: the header is changed, and its length corrected. */
size_t fuzz_mutate_header(uint8_t *data, size_t n, size_t max, unsigned seed);

/* A mutator of zip archives: a member or the list of them is changed, and sums corrected. */
size_t fuzz_mutate_zip(uint8_t *data, size_t n, size_t max, unsigned seed);

/* Gives b back to libFuzzer, cut at max, and releases it. */
size_t fuzz_give(uint8_t *data, size_t max, buf *b);
