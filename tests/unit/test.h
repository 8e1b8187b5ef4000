/* Unit tests: TEST(area_what) { … CHECK(…) … }. Each test runs in a process of its own with a time
 * limit; a failed check prints its place and ends that process. The checks survive release builds.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "kv_err.h"

/* Each has a kv_err `e`, zeroed, for its calls. With SHARED_KV_ERR, `e` is a variable of the file,
 * which its helpers fill as well.
 */
#ifdef SHARED_KV_ERR
#define TEST(name)                                                                                 \
    void test_##name(void);                                                                        \
    void test_##name(void)
#else
#define TEST(name)                                                                                 \
    static void name##_with(kv_err e);                                                             \
    void test_##name(void);                                                                        \
    void test_##name(void) { name##_with((kv_err){0}); }                                           \
    static void name##_with(__attribute__((unused)) kv_err e)
#endif

#define CHECK(condition) test_check((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_INT(got, want) test_int((int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_TEXT(got, want) test_text((got), (want), #got, __FILE__, __LINE__)
/* The calls of these two name a kv_err `e`, which is the check's own. */
#define WITH_KV_ERR(check)                                                                         \
    do {                                                                                           \
        _Pragma("GCC diagnostic push");                                                            \
        _Pragma("GCC diagnostic ignored \"-Wshadow\"");                                            \
        kv_err e = {0};                                                                            \
        _Pragma("GCC diagnostic pop");                                                             \
        check;                                                                                     \
    } while (0)
/* A call that succeeds; prints the error's text otherwise. */
#define CHECK_OK(call) WITH_KV_ERR(test_ok((call), &e, #call, __FILE__, __LINE__))
/* A call that fails with this code and text. */
#define CHECK_ERR(call, code, text)                                                                \
    WITH_KV_ERR(test_err((call), &e, (code), (text), #call, __FILE__, __LINE__))
/* The same where another test pins the text. */
#define CHECK_CODE(call, code)                                                                     \
    WITH_KV_ERR(test_err((call), &e, (code), NULL, #call, __FILE__, __LINE__))
/* What a call makes, as a value: T *x = MADE(T, f, y) for T *x = NULL; CHECK_OK(f(&x, y, &e)). */
#define MADE(type, make, ...)                                                                      \
    ({                                                                                             \
        type *made_x = NULL;                                                                       \
        kv_err made_e = {0};                                                                       \
        test_ok(make(&made_x, __VA_ARGS__, &made_e), &made_e, #make, __FILE__, __LINE__);          \
        made_x;                                                                                    \
    })
/* The code that a call gave is this one, and the text of `e`; zeroes `e` afterwards. */
#define CHECK_FAILED(rc, code, text)                                                               \
    test_err((rc), &e, (code), (text), #rc, __FILE__, __LINE__)

void test_check(int ok, const char *what, const char *file, int line);
void test_int(int64_t got, int64_t want, const char *what, const char *file, int line);
void test_text(const char *got, const char *want, const char *what, const char *file, int line);
void test_ok(int code, const kv_err *e, const char *what, const char *file, int line);
int test_tried(int code, const kv_err *e, const char *what, const char *file, int line);
void test_err(int code, kv_err *e, int want, const char *text, const char *what, const char *file,
              int line);
/* The code of a call when its n-th allocation fails: KV_OK where it makes fewer, or KV_E_MEMORY.
 * Zeroes `e` before. */
#define WITHOUT_MEMORY(n, call)                                                                    \
    (e = (kv_err){0}, mem_fail_at(n), test_tried((call), &e, #call, __FILE__, __LINE__))
/* Lets the first allocation of a call fail with those behind it, then the second, and so on, until
 * the call succeeds. The statement behind it runs after each failure, `n`. */
#define EACH_FAILURE(call) for (int64_t n = 1; WITHOUT_MEMORY(n, call) != KV_OK; n++)
/* Does the same and gives the number of failures. */
#define FAILURES(call)                                                                             \
    ({                                                                                             \
        int64_t failures = 0;                                                                      \
        while (WITHOUT_MEMORY(failures + 1, call) != KV_OK)                                        \
            failures++;                                                                            \
        failures;                                                                                  \
    })
/* How many random things to try, and the seed: these, or $TEST_RANDOM and $TEST_SEED. */
int64_t test_random(int64_t usual);
uint64_t test_seed(uint64_t usual);

/* The elements of a dense array, to be read, and to be written; and those of the rows that a
 * row_sparse one holds. */
const void *array_elements(kv_array *a);
void *array_data(kv_array *a);
const void *row_elements(kv_array *a);
void *row_data(kv_array *a);

/* A whole file, to be released with mem_free; and a file with these bytes. */
char *file_text(const char *path, size_t *n);
void file_fill(const char *path, const void *data, size_t n);

/* Variables that are released at the end of their block (base/mem.h). */
#define own_kv OWN(test_kv_free) kv
#define own_rule OWN(test_kv_rule_free) kv_rule
#define own_text own_mem char
#define own_folder OWN(folder_remove) test_folder
/* A list of arrays that ends with NULL: own_arrays *outs[3 + 1] = {NULL}. */
#define own_arrays OWN(test_unref_all) kv_array
/* For variables that hold pointers. */
void test_kv_free(void *variable);
void test_kv_rule_free(void *variable);
void test_free(void *variable);
void test_unref_all(void *list);

/* The statement behind it runs in a process of its own, whose pool has so many threads, a text, or
 * as many as there are; the test fails where a check of it does. What test_shared gives, zeroed,
 * both processes see. */
#define IN_CHILD(threads)                                                                          \
    for (int in_child = test_begin_child(threads); in_child >= 0;                                  \
         in_child = test_end_child(in_child, __FILE__, __LINE__))                                  \
        if (in_child == 0)

int test_begin_child(const char *threads);
int test_end_child(int child, const char *file, int line);
void *test_shared(size_t bytes);

/* Ends the test as skipped, with the reason. */
void test_skip(const char *reason) __attribute__((noreturn));
