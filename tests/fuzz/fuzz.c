/* What fuzz targets share: see fuzz.h. */
#include "fuzz.h"

#include "../memory.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/scales.h"
#include "checkpoint/tensor_reader.h"

/* ---- What must hold -------------------------------------------------------------------------- */

static int report_to = 2; /* stderr as it was at the start; libFuzzer closes that of targets */

void fuzz_holds(int ok, const char *condition, const char *what, const char *file, int line)
{
    if (ok)
        return;
    dprintf(report_to, "%s:%d: %s does not hold: %s\n", file, line, condition, what);
    abort();
}

static void on_failed_assertion(const char *report)
{
    fuzz_holds(0, "an assertion of the product", report, __FILE__, __LINE__);
}

__attribute__((constructor)) static void begin(void)
{
    report_to = dup(2);
    kv_assert_on_failure(on_failed_assertion);
}

bool fuzz_result(int code, const kv_err *e)
{
    HOLDS(code == e->code, e->text);
    if (code == KV_OK)
        return true;
    HOLDS(code > KV_OK && code < KV_NCODES && code != KV_E_INTERNAL, e->text);
    HOLDS(e->text[0], kv_code_name(code));
    for (const char *p = e->text; *p; p++)
        HOLDS((unsigned char)*p >= ' ' && *p != 0x7F, e->text);
    for (const char *p = e->hint; *p; p++)
        HOLDS((unsigned char)*p >= ' ' && *p != 0x7F, e->hint);
    return false;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

int64_t fuzz_number(fuzz_bytes *in)
{
    static const int64_t odd[] = {-1,        INT64_MAX, INT64_MIN, INT32_MAX, UINT32_MAX, 1 << 20,
                                  1ll << 40, 1ll << 61, 255,       4096,      65536,      -8};
    unsigned x = fuzz_draw(in, 256);
    return x < 200 ? x % 20 : x < 240 ? x : odd[x % (sizeof odd / sizeof *odd)];
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char folder[64];

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
}

static void make_folder(void)
{
    HOLDS(mkdtemp(memory_path(folder, sizeof folder, "kv-fuzz")) != NULL, folder);
    atexit(remove_folder);
}

const char *fuzz_path(const char *name)
{
    static char path[sizeof folder + 256];
    if (!folder[0])
        make_folder();
    snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
    return path;
}

static unsigned sum_of_file; /* of the bytes that were written last */

const char *fuzz_file(const char *name, const void *data, size_t n)
{
    sum_of_file = (unsigned)n;
    for (size_t i = 0; i < n; i++)
        sum_of_file = sum_of_file * 31 + ((const unsigned char *)data)[i];
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    HOLDS(fd >= 0, path);
    HOLDS(write(fd, data, n) == (ssize_t)n, path);
    close(fd);
    return path;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

bool fuzz_small;
/* What errors name: the folder of the file, so many bytes of its path. */
static const char *folder_of_file;
static size_t folder_bytes;

/* More is not read, so that one input takes little time. */
#define READ_BYTES ((int64_t)1 << 22)

static int count_finding(void *arg, const char *key, const char *file, const char *finding,
                         kv_err *e)
{
    (void)e;
    HOLDS(strlen(finding) >= 8, finding);
    HOLDS(!key || utf8_valid(key, strlen(key)), finding);
    HOLDS(!file || file[0], finding);
    ++*(int64_t *)arg;
    return KV_OK;
}

static volatile unsigned char touched; /* so that every byte is read */

void fuzz_names(const char *path, size_t n)
{
    folder_of_file = path;
    folder_bytes = n;
}

/* Of a file that lies no other errors come, and they name it. */
bool fuzz_file_result(int code, const kv_err *e)
{
    HOLDS(code == KV_OK || code == KV_E_FORMAT || code == KV_E_IO || code == KV_E_UNSUPPORTED ||
              code == KV_E_VALUE || code == KV_E_DTYPE || (code == KV_E_MEMORY && !fuzz_small),
          e->text);
    HOLDS(code == KV_OK || memmem(e->text, strlen(e->text), folder_of_file, folder_bytes), e->text);
    return fuzz_result(code, e);
}

static void read_tensor(const checkpoint *c, int64_t i, tensor_reader *r)
{
    const tensor_info *t = checkpoint_at(c, i);
    int64_t run = tensor_type_run_bytes(t->type), step = run * (1 + 40000 / run);
    unsigned char sum = 0;
    for (int64_t at = 0; at < t->bytes && at < READ_BYTES; at += step) {
        kv_err e = {0};
        const void *data;
        int64_t n = t->bytes - at < step ? t->bytes - at : step;
        if (!fuzz_file_result(tensor_read(r, &data, i, at, n, &e), &e))
            return;
        for (int64_t k = 0; k < n; k++)
            sum ^= ((const unsigned char *)data)[k];
    }
    touched ^= sum;
}

/* Blocks of any size at any place, also back. */
static void read_about(const checkpoint *c, int64_t i, tensor_reader *r)
{
    const tensor_info *t = checkpoint_at(c, i);
    int64_t one = tensor_type_run_bytes(t->type), runs = t->bytes / one;
    unsigned seed = (unsigned)(t->offset + t->bytes);
    for (int k = 0; k < 4 && runs > 0 && t->bytes < 1 << 16; k++) {
        kv_err e = {0};
        const void *data;
        int64_t at = fuzz_next(&seed, (unsigned)runs), most = runs - at < 999 ? runs - at : 999;
        int64_t n = 1 + fuzz_next(&seed, (unsigned)most);
        if (!fuzz_file_result(tensor_read(r, &data, i, at * one, n * one, &e), &e))
            return;
        for (int64_t b = 0; b < n * one; b++)
            touched ^= ((const unsigned char *)data)[b];
    }
}

static void use_tensor(const checkpoint *c, int64_t i, tensor_reader *r)
{
    kv_err e = {0};
    kv_array *a = NULL;
    const tensor_info *t = checkpoint_at(c, i);
    HOLDS(t->file >= 0 && t->file < checkpoint_nfiles(c), t->name);
    int64_t size = c->files[t->file].size, found = checkpoint_find(c, t->name);
    HOLDS(utf8_valid(t->name, strlen(t->name)), t->name);
    HOLDS(t->ndim >= 0 && t->ndim <= KV_MAX_NDIM && t->elements >= 0 && t->bytes >= 0, t->name);
    HOLDS((int)t->type >= 0 && t->type < TENSOR_TYPE_END && !t->odd == (t->type != TENSOR_NONE),
          t->name);
    HOLDS(t->elements == tensor_elements(t->ndim, t->shape), t->name);
    HOLDS(t->odd || t->bytes == tensor_type_bytes(t->type, t->elements), t->name);
    HOLDS(t->offset >= 0 && t->stored_bytes >= 0 && t->offset <= size &&
              t->stored_bytes <= size - t->offset,
          t->name);
    HOLDS(found >= 0 && found <= i && strcmp(checkpoint_at(c, found)->name, t->name) == 0,
          t->name);
    /* so many does a file of some MB, or of some KB, hold once inflated */
    HOLDS(t->bytes <= (int64_t)1 << (fuzz_small ? 24 : 30) || (t->form & TENSOR_SPARSE), t->name);
    if (!t->odd) {
        read_tensor(c, i, r);
        read_about(c, i, r);
    }
    if (t->bytes <= READ_BYTES && fuzz_file_result(checkpoint_load(&a, c, i, &e), &e))
        kv_array_unref(a);
}

void fuzz_use(const checkpoint *c)
{
    kv_err e = {0};
    tensor_reader *r = NULL;
    HOLDS(tensor_reader_new(&r, c, TENSOR_BLOCK, &e) == KV_OK, e.text);
    for (int64_t i = 0; i < checkpoint_count(c) && i < 100; i++)
        use_tensor(c, i, r);
    tensor_reader_free(r);
    for (int64_t i = 0; i < checkpoint_metadata_count(c); i++) {
        const checkpoint_text *t = checkpoint_metadata_at(c, i);
        HOLDS(utf8_valid(t->name, strlen(t->name)) && utf8_valid(t->text, strlen(t->text)),
              t->name);
        HOLDS(checkpoint_metadata(c, t->name) != NULL, t->name);
    }
}

/* An allocation fails, or all from it on: all findings come, or an error. */
static void open_without_memory(const char *path, int before, int64_t want)
{
    checkpoint *c = NULL;
    kv_err e = {0};
    int64_t findings = 0, n = 1 + fuzz_next(&sum_of_file, 100);
    mem_fail_at(fuzz_next(&sum_of_file, 2) ? n : -n);
    int code = checkpoint_open(&c, path,
                               &(checkpoint_options){.found = count_finding, .arg = &findings}, &e);
    for (int64_t i = 0; code == KV_OK && i < checkpoint_count(c) && i < 10; i++) {
        kv_array *a = NULL;
        kv_err e2 = {0};
        if (checkpoint_load(&a, c, i, &e2) == KV_OK)
            kv_array_unref(a);
    }
    mem_fail_at(0);
    checkpoint_close(c);
    HOLDS(code == before || code == KV_E_MEMORY, e.text);
    HOLDS(code ? findings <= want : findings == want, path);
}

int64_t fuzz_opened, fuzz_readable, fuzz_findings;

void fuzz_checkpoint(const char *path)
{
    checkpoint *c = NULL;
    kv_err e = {0}, e2 = {0}, e3 = {0}, e4 = {0};
    int64_t findings = 0;
    fuzz_names(path, (size_t)(strrchr(path, '/') - path));
    int code = checkpoint_open(&c, path, NULL, &e);
    HOLDS((c == NULL) == (code != KV_OK), path);
    if (fuzz_file_result(code, &e))
        fuzz_use(c);
    checkpoint_close(c);
    c = NULL;
    int told = checkpoint_open(
        &c, path, &(checkpoint_options){.found = count_finding, .arg = &findings}, &e2);
    if (fuzz_file_result(told, &e2))
        fuzz_use(c);
    checkpoint_close(c);
    /* A finding may be an oddity that stands in no reader's way, such as a wrong total_size. */
    HOLDS(code == KV_OK || told != KV_OK || findings != 0, path);
    HOLDS(told == KV_OK || code != KV_OK, path);
    open_without_memory(path, told, findings);
    fuzz_opened++;
    fuzz_readable += code == KV_OK;
    fuzz_findings += findings;
    c = NULL;
    if (fuzz_file_result(checkpoint_open(&c, path, &(checkpoint_options){.weights = true}, &e3),
                         &e3))
        for (int64_t i = 0; i < checkpoint_count(c); i++)
            HOLDS(checkpoint_at(c, i)->elements >= 0, checkpoint_at(c, i)->name);
    if (c && fuzz_file_result(tensor_values_decode(&c, 1, NULL, NULL, &e4), &e4))
        fuzz_use(c);
    checkpoint_close(c);
}

static void read_stream(const void *data, size_t n)
{
    enum { PIPE = 60000 /* bytes that a pipe holds */ };
    checkpoint *c = NULL;
    kv_err e = {0};
    int ends[2], before = dup(STDIN_FILENO);
    HOLDS(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO, "a pipe");
    HOLDS(write(ends[1], data, n < PIPE ? n : PIPE) >= 0, "a pipe");
    close(ends[0]);
    close(ends[1]);
    fuzz_names("stdin: ", 7);
    if (fuzz_file_result(checkpoint_open(&c, "-", NULL, &e), &e))
        fuzz_use(c);
    checkpoint_close(c);
    HOLDS(dup2(before, STDIN_FILENO) == STDIN_FILENO, "the standard input");
    close(before);
}

void fuzz_checkpoint_file(const char *name, const void *data, size_t n)
{
    fuzz_checkpoint(fuzz_file(name, data, n));
    read_stream(data, n);
}
