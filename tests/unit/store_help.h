/* Fixtures of the tests of stores: stores, keys, arrays of one number, calls that succeed, and a
 * folder for files. A value that is given to a call is released by it. */
#pragma once

#include <unistd.h>

#include "../memory.h"
#include "kvstore.h"
#include "test_array.h"

static inline kv *make(const char *type)
{
    kv *s = NULL;
    CHECK_OK(kv_create(type, NULL, 0, &s, &e));
    return s;
}

static inline kv_key id(int64_t i)
{
    return (kv_key){.id = i};
}

static inline kv_key name(const char *text)
{
    return (kv_key){.name = text};
}

/* ---- Values ---- */

/* An array of n elements that are all x. */
static inline kv_array *array_full(kv_dtype dtype, int ndim, const int64_t *shape, double x,
                                   kv_ctx ctx)
{
    return ARRAY_OF(dtype, ndim, shape, ctx, x);
}

/* A (4, 4) array of one number. */
static inline kv_array *filled_as(kv_dtype dtype, double x, kv_ctx ctx)
{
    return array_full(dtype, 2, (int64_t[]){4, 4}, x, ctx);
}

static inline kv_array *filled(double x)
{
    return filled_as(KV_FLOAT32, x, cpu0);
}

/* Every element of a, of any dtype and storage, is want. */
static inline void check_array(kv_array *a, double want)
{
    own_array *dense = MADE(kv_array, kv_array_to_dense, a);
    own_array *wide = MADE(kv_array, kv_array_dup, dense, KV_FLOAT64, cpu0);
    const double *x = array_elements(wide);
    for (int64_t i = 0; i < kv_array_size(wide); i++)
        if (x[i] != want)
            CHECK_INT(x[i] * 1000, want * 1000);
}

/* Both have the same bytes. */
static inline void check_same_bytes(kv_array *a, kv_array *b)
{
    CHECK_INT(kv_array_bytes(a), kv_array_bytes(b));
    CHECK(memcmp(array_elements(a), array_elements(b), (size_t)kv_array_bytes(a)) == 0);
}

/* ---- Calls ---- */

static inline void init_with(kv *s, kv_key key, kv_array *value)
{
    CHECK_OK(kv_init(s, &key, 1, &value, NULL, &e));
    kv_array_unref(value);
}

/* Pushes n times the same array to one key. */
static inline void push_n(kv *s, kv_key key, kv_array *value, int n)
{
    kv_key keys[8];
    kv_array *values[8];
    for (int i = 0; i < n; i++) {
        keys[i] = key;
        values[i] = value;
    }
    CHECK_OK(kv_push(s, keys, n, values, NULL, &e));
    kv_array_unref(value);
}

static inline void push_one(kv *s, kv_key key, kv_array *value)
{
    push_n(s, key, value, 1);
}

/* Pulls into an array, and gives it back. */
static inline kv_array *pull_into(kv *s, kv_key key, kv_array *out)
{
    CHECK_OK(kv_pull(s, &key, 1, &out, NULL, &e));
    return out;
}

static inline kv_info info_of(kv *s, kv_key key)
{
    kv_info info;
    CHECK_OK(kv_find(s, &key, &info, &e));
    return info;
}

/* The (4, 4) elements of a key are all want. */
static inline void check_key(kv *s, kv_key key, double want)
{
    own_array *out = pull_into(s, key, filled(-99));
    check_array(out, want);
}

static inline void set_rule_with(kv *s, const char *text, const kv_opt *params, int n)
{
    own_rule *r = MADE(kv_rule, kv_rule_new, text, "rule.kv", 3, 5);
    CHECK_OK(kv_set_rule(s, r, params, n, &e));
}

static inline void set_rule(kv *s, const char *text)
{
    set_rule_with(s, text, NULL, 0);
}

/* An updater: stored += input, or *(const float *)arg * input. Of float32, or int64. */
static inline int add_input(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                            kv_err *e)
{
    const void *x = NULL;
    void *y = NULL;
    (void)key;
    TRY(kv_array_read(input, &x, e));
    TRY(kv_array_write(stored, &y, e));
    for (int64_t i = 0; i < kv_array_size(stored); i++)
        if (kv_array_dtype(stored) == KV_INT64)
            ((int64_t *)y)[i] += ((const int64_t *)x)[i];
        else
            ((float *)y)[i] += (arg ? *(const float *)arg : 1) * ((const float *)x)[i];
    return KV_OK;
}

/* An updater that does nothing. */
static inline int ignore_push(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                              kv_err *e)
{
    (void)arg, (void)key, (void)input, (void)stored, (void)e;
    return KV_OK;
}

/* ---- Descriptions ---- */

typedef struct seen_rows {
    char text[1000];
    int rows, last; /* the visit ends behind the last */
} seen_rows;

/* One line a row: name=text or name=number. */
static inline int see_rows(void *arg, const kv_field *f, int n, kv_err *e)
{
    seen_rows *s = arg;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(s->text), room = sizeof s->text - len;
        if (f[i].text)
            snprintf(s->text + len, room, "%s=%s ", f[i].name, f[i].text);
        else
            snprintf(s->text + len, room, "%s=%lld ", f[i].name, (long long)f[i].number);
    }
    strcat(s->text, "\n");
    return ++s->rows == s->last ? kv_err_set(e, KV_E_INTERRUPTED, "enough") : KV_OK;
}

/* ---- Files ---- */

/* Makes a folder the current one, so that messages do not depend on its name. */
static inline void enter_folder(void)
{
    char folder[64];
    CHECK(mkdtemp(memory_path(folder, sizeof folder, "kvstore-unit")) && chdir(folder) == 0);
}

/* Removes these files, which may be absent, and the folder, in which nothing else was left. */
static inline void leave_folder(const char *one, const char *other)
{
    char folder[200];
    if (one)
        unlink(one);
    if (other)
        unlink(other);
    CHECK(getcwd(folder, sizeof folder) && chdir("/") == 0 && rmdir(folder) == 0);
}

typedef struct left_files {
    const char *one, *other;
} left_files;

static inline void leave_with(const left_files *files)
{
    leave_folder(files->one, files->other);
}

/* Enters a folder, which the end of the block leaves. */
#define IN_FOLDER(one, other)                                                                      \
    OWN(leave_with) const left_files in_folder = {one, other};                                   \
    enter_folder()

/* Saves s, releases it, and gives what the file holds. */
static inline kv *save_and_load(kv *s, const char *path)
{
    CHECK_OK(kv_save(s, path, &e));
    kv_free(s);
    return MADE(kv, kv_load, path);
}

/* The file at path is refused with this error. */
static inline void check_load_fails(const char *path, kv_code code, const char *text)
{
    kv *s = NULL;
    CHECK_ERR(kv_load(&s, path, &e), code, text);
    CHECK(s == NULL);
}
