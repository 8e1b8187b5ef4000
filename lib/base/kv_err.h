/* Errors: a code and a finished sentence, in memory of the caller.
 *
 * A function that can fail returns a kv_code and fills the caller's kv_err. Success leaves the
 * kv_err alone and the first failure wins, so calls chain without a check between them. Nothing
 * here allocates, prints or depends on a locale. A NULL kv_err is allowed everywhere: the code
 * alone comes back.
 *
 * This header is public; it is installed beside kvstore.h, which includes it.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every code with the name that messages and JSON records show. */
#define KV_CODE_MAP(X)                                                                             \
    X(KV_OK, "ok")                                                                                 \
    X(KV_E_ASSERT, "assert")           /* an assertion does not hold */                            \
    X(KV_E_EXPECT, "expect")           /* an output is not the expected one */                     \
    X(KV_E_SYNTAX, "syntax")           /* a text cannot be read */                                 \
    X(KV_E_USAGE, "usage")             /* unknown command, option, parameter; wrong count */       \
    X(KV_E_NAME, "name")               /* a variable, store or function that is not there */       \
    X(KV_E_KEY, "key")                 /* a key unknown, taken, or of the other kind */            \
    X(KV_E_SHAPE, "shape")                                                                         \
    X(KV_E_DTYPE, "dtype")                                                                         \
    X(KV_E_VALUE, "value")             /* a number out of range, a count that does not fit */      \
    X(KV_E_INDEX, "index")             /* a row or element that is not there */                    \
    X(KV_E_MEMORY, "memory")           /* no memory; nothing was changed */                        \
    X(KV_E_UNSUPPORTED, "unsupported") /* not in this build, on this machine, for this type */     \
    X(KV_E_IO, "io")                   /* reading or writing failed */                             \
    X(KV_E_FORMAT, "format")           /* a file is malformed */                                   \
    X(KV_E_BUSY, "busy")               /* a lock is held by another process */                     \
    X(KV_E_TIMEOUT, "timeout")                                                                     \
    X(KV_E_PEER, "peer")               /* another rank is lost */                                  \
    X(KV_E_INTERRUPTED, "interrupted") /* the caller asked to stop */                              \
    X(KV_E_INTERNAL, "internal")       /* our own mistake */

typedef enum kv_code {
#define KV_CODE_ENUM(code, name) code,
    KV_CODE_MAP(KV_CODE_ENUM)
#undef KV_CODE_ENUM
    KV_NCODES
} kv_code;

/* A key of a store: an integer when name is NULL, else a text (UTF-8, at most KV_KEY_MAX bytes). */
typedef struct kv_key {
    int64_t id;
    const char *name;
} kv_key;

#define KV_KEY_MAX 4096

/* 1 KB, no pointers, so it may be copied freely. All zero means no error: zero it to reuse it. */
typedef struct kv_err {
    int32_t code;     /* a kv_code */
    int32_t rank;     /* valid when has_rank */
    int32_t line;     /* from 1; 0 when there is no place */
    int32_t col;      /* from 1, in characters */
    int32_t end;      /* the column after the last one meant */
    uint8_t has_rank;
    uint8_t has_key;
    uint8_t key_is_text;
    uint8_t option;   /* from 1: which of the options that were given has a wrong value; 0: none */
    int64_t key_id;
    char key_name[96]; /* cut at a character */
    char file[128];    /* cut at a character, from the front */
    char text[512];    /* the sentence; no newline */
    char hint[256];    /* advice for the user; may be empty */
} kv_err;

/* The name of a code as messages show it, "unknown" for a number that is none. */
const char *kv_code_name(int code);

/* Sets code and sentence, unless e already holds an error (the first failure wins).
 * fmt is printf's, without floating-point conversions (they follow the locale).
 * Returns code. */
int kv_err_set(kv_err *e, kv_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with an argument list. */
int kv_err_vset(kv_err *e, kv_code code, const char *fmt, va_list ap);

/* These add to an error. */

/* Sets the hint, unless e holds no error or has a hint already. Returns e's code, for a function
 * that ends with it. Without an e it knows none and returns KV_E_INTERNAL, so a function that may
 * have no e, as those of lib and src, names its code itself: return kv_err_hint(e, "..."),
 * KV_E_VALUE. */
int kv_err_hint(kv_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sets the place, unless e holds no error or has a place already. */
void kv_err_at(kv_err *e, const char *file, int line, int col, int end);

/* Names the key, unless e holds no error or names one already. */
void kv_err_key(kv_err *e, const kv_key *key);

/* Says that the error is about the value of option i, from 0, of those that the caller gave, unless
 * e holds no error or names one already. Options from 255 on are not told. */
void kv_err_option(kv_err *e, int i);

#ifdef __cplusplus
}
#endif
