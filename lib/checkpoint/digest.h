/* Hashes of bytes that come in pieces: XXH3 of 128 bits by libxxhash, quick, for finding what
 * changed; SHA-256 by libcrypto, for finding what somebody changed on purpose. */
#pragma once

#include <stdint.h>

#include "kv_err.h"

typedef enum digest_kind { DIGEST_XXH3, DIGEST_SHA256 } digest_kind;

#define DIGEST_MAX 32 /* bytes of the longest hash */

/* One hash after the other, for one thread. */
typedef struct digest digest;

/* Errors: memory, unsupported (the build has no such library, which the text names). */
int digest_new(digest **out, digest_kind kind, kv_err *e);
void digest_free(digest *d); /* NULL is allowed */

/* Begins a hash, adds bytes to it, and gives it: digest_bytes(kind) bytes, XXH3 in its canonical
 * order, the highest byte first. A failure of the library shows at the end. Error: internal. */
void digest_begin(digest *d);
void digest_add(digest *d, const void *data, int64_t n);
int digest_end(digest *d, unsigned char out[DIGEST_MAX], kv_err *e);

int digest_bytes(digest_kind kind); /* 16 or 32 */

/* A hash as lower-case hex: two digits a byte, and a NUL. */
#define DIGEST_TEXT (2 * DIGEST_MAX + 1)
void digest_text(char out[DIGEST_TEXT], digest_kind kind, const unsigned char *hash);
