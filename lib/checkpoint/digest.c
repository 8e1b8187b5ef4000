/* The only file that knows libcrypto, and XXH3 of libxxhash. */
#include "checkpoint/digest.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

struct digest {
    digest_kind kind;
    bool failed; /* a call for the hash of now did */
    XXH3_state_t *xxh3;
    struct crypto { /* functions of libcrypto */
        EVP_MD_CTX *(*new)(void);
        void (*free)(EVP_MD_CTX *);
        const EVP_MD *(*sha256)(void);
        int (*begin)(EVP_MD_CTX *, const EVP_MD *, ENGINE *);
        int (*add)(EVP_MD_CTX *, const void *, size_t);
        int (*end)(EVP_MD_CTX *, unsigned char *, unsigned *);
    } crypto;
    EVP_MD_CTX *sha256;
};

/* ---- libxxhash ------------------------------------------------------------------------------- */

static bool xxh3_update(void *state, const void *data, size_t n)
{
    return XXH3_128bits_update(state, data, n) == XXH_OK;
}

/* Debian's archive of the library is made for the least that it supports, and half as fast as what
 * its header gives for AVX2, at the end of this file. */
#if defined(__x86_64__) && !defined(__clang__)
#define XXH3_WIDE __builtin_cpu_supports("avx2")
static bool xxh3_update_avx2(void *state, const void *data, size_t n);
#else
#define XXH3_WIDE        false
#define xxh3_update_avx2 xxh3_update
#endif

/* ---- libcrypto ------------------------------------------------------------------------------- */

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBCRYPTO  "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)

/* It is loaded when it is wanted: linked, it would make every start of a process take 1.5 ms
 * longer. */
static bool find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static int load_crypto(struct crypto *c, kv_err *e)
{
    void *library = dlopen(LIBCRYPTO, RTLD_NOW | RTLD_LOCAL); /* stays: it cannot be unloaded */
    if (!library || !find(library, "EVP_MD_CTX_new", &c->new) ||
        !find(library, "EVP_MD_CTX_free", &c->free) || !find(library, "EVP_sha256", &c->sha256) ||
        !find(library, "EVP_DigestInit_ex", &c->begin) ||
        !find(library, "EVP_DigestUpdate", &c->add) ||
        !find(library, "EVP_DigestFinal_ex", &c->end)) {
        kv_err_set(e, KV_E_UNSUPPORTED, "SHA-256 needs libcrypto, which cannot be loaded: %s",
                   dlerror());
        return kv_err_hint(e, "the package is libssl3"), KV_E_UNSUPPORTED;
    }
    return KV_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

int digest_new(digest **out, digest_kind kind, kv_err *e)
{
    own_mem digest *d = mem_zalloc(1, sizeof *d, e);
    if (!d)
        return KV_E_MEMORY;
    d->kind = kind;
    TRY(kind == DIGEST_SHA256 ? load_crypto(&d->crypto, e) : KV_OK);
    d->sha256 = kind == DIGEST_SHA256 ? d->crypto.new() : NULL;
    d->xxh3 = kind == DIGEST_XXH3 ? XXH3_createState() : NULL;
    if (!d->sha256 && !d->xxh3)
        return kv_err_set(e, KV_E_MEMORY, "out of memory for a hash");
    *out = d;
    d = NULL;
    return KV_OK;
}

void digest_free(digest *d)
{
    if (d && d->kind == DIGEST_SHA256)
        d->crypto.free(d->sha256);
    else if (d)
        XXH3_freeState(d->xxh3);
    mem_free(d);
}

void digest_begin(digest *d)
{
    d->failed = d->kind == DIGEST_XXH3 ? XXH3_128bits_reset(d->xxh3) != XXH_OK
                                       : d->crypto.begin(d->sha256, d->crypto.sha256(), NULL) != 1;
}

void digest_add(digest *d, const void *data, int64_t n)
{
    d->failed |= d->kind == DIGEST_SHA256 ? d->crypto.add(d->sha256, data, (size_t)n) != 1
                 : XXH3_WIDE              ? !xxh3_update_avx2(d->xxh3, data, (size_t)n)
                                          : !xxh3_update(d->xxh3, data, (size_t)n);
}

int digest_end(digest *d, unsigned char out[DIGEST_MAX], kv_err *e)
{
    unsigned n = DIGEST_MAX;
    XXH128_canonical_t canonical;
    if (!d->failed && d->kind == DIGEST_XXH3) {
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(d->xxh3));
        memcpy(out, canonical.digest, sizeof canonical.digest);
    } else if (d->failed || d->crypto.end(d->sha256, out, &n) != 1) {
        return kv_err_set(e, KV_E_INTERNAL,
                          d->kind == DIGEST_XXH3 ? "libxxhash failed to make a hash of XXH3"
                                                 : "libcrypto failed to make a hash of SHA-256");
    }
    return KV_OK;
}

int digest_bytes(digest_kind kind)
{
    return kind == DIGEST_XXH3 ? 16 : 32;
}

void digest_text(char out[DIGEST_TEXT], digest_kind kind, const unsigned char *hash)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < digest_bytes(kind); i++) {
        *out++ = digits[hash[i] >> 4];
        *out++ = digits[hash[i] & 15];
    }
    *out = '\0';
}

/* ---- libxxhash for AVX2 ---------------------------------------------------------------------- */

/* From here on the library's names are functions of this file. */
#ifndef xxh3_update_avx2
#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#include <xxhash.h>
static bool xxh3_update_avx2(void *state, const void *data, size_t n)
{
    return XXH3_128bits_update(state, data, n) == XXH_OK;
}
#pragma GCC pop_options
#endif
