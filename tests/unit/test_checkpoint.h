/* For the tests of the readers of checkpoints: folders with files of a few bytes, and all arrays of
 * a checkpoint. */
#pragma once

#include <dirent.h>
#include <unistd.h>

#include "../memory.h"
#include "test.h"

/* A folder of a test; path has no / behind it. */
typedef struct test_folder {
    char path[64], file[64 + 4096];
} test_folder;

static inline test_folder folder_new(void)
{
    test_folder d;
    CHECK(mkdtemp(memory_path(d.path, sizeof d.path, "kv-checkpoint")) != NULL);
    return d;
}

/* The path of a file in it, until the next call. */
static inline const char *folder_file(test_folder *d, const char *name)
{
    CHECK(snprintf(d->file, sizeof d->file, "%s/%s", d->path, name) < (int)sizeof d->file);
    return d->file;
}

static inline void folder_put(test_folder *d, const char *name, const void *data, size_t n)
{
    FILE *f = fopen(folder_file(d, name), "wb");
    CHECK(f && fwrite(data, 1, n, f) == n);
    fclose(f);
}

static inline void folder_text(test_folder *d, const char *name, const char *text)
{
    folder_put(d, name, text, strlen(text));
}

/* A safetensors file with this header and n bytes behind it. */
static inline void folder_header(test_folder *d, const char *file, const char *header,
                                 const char *data, size_t n)
{
    own_buf all = {0};
    uint64_t length = strlen(header);
    buf_put(&all, (const char *)&length, sizeof length);
    buf_add(&all, header);
    buf_put(&all, data, n);
    folder_put(d, file, all.data, all.len);
}

/* A safetensors file; each of the names is a U8 tensor of one byte, the place of the name. */
static inline void folder_tensors(test_folder *d, const char *file, int n, const char *const *names)
{
    own_buf text = {0}, data = {0};
    buf_char(&text, '{');
    for (int i = 0; i < n; i++) {
        buf_printf(&text, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                   i ? "," : "", names[i], i, i + 1);
        buf_char(&data, (char)i);
    }
    buf_char(&text, '}');
    folder_header(d, file, buf_text(&text), buf_text(&data), data.len);
}

/* The lowest file descriptor that is free. */
static inline int free_fd(void)
{
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

/* Removes it, with its files. */
static inline void folder_remove(test_folder *d)
{
    DIR *files = opendir(d->path);
    struct dirent *found;
    while (files && (found = readdir(files)))
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
            unlink(folder_file(d, found->d_name));
    if (files)
        closedir(files);
    rmdir(d->path);
}

/* Opening this path gives an error with this text, in which % stands for the folder. */
static inline void folder_refused(test_folder *d, const char *path, kv_code code, const char *want,
                                  const char *hint)
{
    kv_err e = {0};
    checkpoint *c = NULL;
    own_buf text = {0}, advice = {0};
    for (const char *p = want; *p; p++)
        *p == '%' ? buf_add(&text, d->path) : buf_char(&text, *p);
    for (const char *p = hint; *p; p++)
        *p == '%' ? buf_add(&advice, d->path) : buf_char(&advice, *p);
    int got = checkpoint_open(&c, path, NULL, &e);
    CHECK_TEXT(e.hint, buf_text(&advice));
    CHECK_FAILED(got, code, buf_text(&text));
    CHECK(!c);
}

/* ---- Findings -------------------------------------------------------------------------------- */

/* Adds a line `FILE KEY: FINDING`; of the file its name, - for none. */
static inline int keep_finding(void *arg, const char *key, const char *file, const char *finding,
                               kv_err *e)
{
    (void)e;
    const char *slash = file ? strrchr(file, '/') : NULL;
    buf_printf(arg, "%s %s: %s\n", slash ? slash + 1 : file ? file : "-", key ? key : "-", finding);
    return KV_OK;
}

/* Opening succeeds with these findings. The caller closes it. */
static inline checkpoint *folder_findings(const char *path, const char *want)
{
    own_buf got = {0};
    checkpoint *c = NULL;
    CHECK_OK(
        checkpoint_open(&c, path, &(checkpoint_options){.found = keep_finding, .arg = &got}, &e));
    CHECK_TEXT(buf_text(&got), want);
    return c;
}

/* All tensors of a checkpoint, into checkpoint_count(c) places. After a failure there are none. */
static inline int load_all(kv_array **arrays, const checkpoint *c, kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        int code = checkpoint_load(&arrays[i], c, i, e);
        while (code && i-- > 0)
            kv_array_unref(arrays[i]);
        if (code)
            return code;
    }
    return KV_OK;
}
