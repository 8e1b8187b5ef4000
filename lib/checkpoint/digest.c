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

static int xxh3_new(digest *d, kv_err *e)
{
    d->xxh3 = XXH3_createState();
    return d->xxh3 ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for a hash");
}

static void xxh3_free(digest *d)
{
    XXH3_freeState(d->xxh3);
}

static bool xxh3_begin(digest *d)
{
    return XXH3_128bits_reset(d->xxh3) == XXH_OK;
}

static bool xxh3_end(digest *d, unsigned char *out)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(d->xxh3));
    memcpy(out, canonical.digest, sizeof canonical.digest);
    return true;
}

static bool xxh3_update(void *state, const void *data, size_t n)
{
    return XXH3_128bits_update(state, data, n) == XXH_OK;
}

/* Debian's archive of the library is made for the least that it supports, and half as fast as what
 * its header gives for AVX2. From here on its names are functions of this file. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#include <xxhash.h>
static bool xxh3_update_avx2(void *state, const void *data, size_t n)
{
    return XXH3_128bits_update(state, data, n) == XXH_OK;
}
#pragma GCC pop_options
#define XXH3_WIDE __builtin_cpu_supports("avx2")
#else
#define XXH3_WIDE        false
#define xxh3_update_avx2 xxh3_update
#endif

static bool xxh3_add(digest *d, const void *data, int64_t n)
{
    return (XXH3_WIDE ? xxh3_update_avx2 : xxh3_update)(d->xxh3, data, (size_t)n);
}

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

static int sha256_new(digest *d, kv_err *e)
{
    struct crypto *c = &d->crypto;
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
    d->sha256 = c->new();
    return d->sha256 ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for a hash");
}

static void sha256_free(digest *d)
{
    d->crypto.free(d->sha256);
}

static bool sha256_begin(digest *d)
{
    return d->crypto.begin(d->sha256, d->crypto.sha256(), NULL) == 1;
}

static bool sha256_add(digest *d, const void *data, int64_t n)
{
    return d->crypto.add(d->sha256, data, (size_t)n) == 1;
}

static bool sha256_end(digest *d, unsigned char *out)
{
    unsigned n = DIGEST_MAX;
    return d->crypto.end(d->sha256, out, &n) == 1;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static const struct algorithm {
    const char *name, *library;
    int bytes;
    int (*new)(digest *d, kv_err *e);
    void (*free)(digest *d);
    bool (*begin)(digest *d);
    bool (*add)(digest *d, const void *data, int64_t n);
    bool (*end)(digest *d, unsigned char *out);
} algorithms[] = {
    [DIGEST_XXH3] = {"XXH3", "libxxhash", 16, xxh3_new, xxh3_free, xxh3_begin, xxh3_add, xxh3_end},
    [DIGEST_SHA256] = {"SHA-256", "libcrypto", 32, sha256_new, sha256_free, sha256_begin,
                       sha256_add, sha256_end}};

int digest_new(digest **out, digest_kind kind, kv_err *e)
{
    digest *d = mem_zalloc(1, sizeof *d, e);
    if (!d)
        return KV_E_MEMORY;
    d->kind = kind;
    int rc = algorithms[kind].new(d, e);
    if (rc)
        mem_free(d);
    else
        *out = d;
    return rc;
}

void digest_free(digest *d)
{
    if (!d)
        return;
    algorithms[d->kind].free(d);
    mem_free(d);
}

void digest_begin(digest *d)
{
    d->failed = !algorithms[d->kind].begin(d);
}

void digest_add(digest *d, const void *data, int64_t n)
{
    d->failed = d->failed || !algorithms[d->kind].add(d, data, n);
}

int digest_end(digest *d, unsigned char out[DIGEST_MAX], kv_err *e)
{
    const struct algorithm *a = &algorithms[d->kind];
    if (d->failed || !a->end(d, out))
        return kv_err_set(e, KV_E_INTERNAL, "%s failed to make a hash of %s", a->library, a->name);
    return KV_OK;
}

int digest_bytes(digest_kind kind)
{
    return algorithms[kind].bytes;
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
