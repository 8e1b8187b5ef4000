/* The only file that knows libzstd. */
#include "patch/patch_zstd.h"

#include <zstd.h>

/* Stands for the library's own type; no object has this one. */
struct zstd_packer {
    char none;
};

struct zstd_unpacker {
    char none;
};

int zstd_packer_new(zstd_packer **out, kv_err *e)
{
    *out = (zstd_packer *)ZSTD_createCCtx();
    return *out ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for libzstd");
}

void zstd_packer_free(zstd_packer *p)
{
    ZSTD_freeCCtx((ZSTD_CCtx *)p);
}

int zstd_unpacker_new(zstd_unpacker **out, kv_err *e)
{
    *out = (zstd_unpacker *)ZSTD_createDCtx();
    return *out ? KV_OK : kv_err_set(e, KV_E_MEMORY, "out of memory for libzstd");
}

void zstd_unpacker_free(zstd_unpacker *u)
{
    ZSTD_freeDCtx((ZSTD_DCtx *)u);
}

int64_t zstd_bound(int64_t n)
{
    return (int64_t)ZSTD_compressBound((size_t)n);
}

int64_t zstd_pack(zstd_packer *p, void *to, int64_t room, const void *data, int64_t n, int level,
                  int checked)
{
    ZSTD_CCtx *c = (ZSTD_CCtx *)p;
    ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
    if (level == ZSTD_QUICK) { /* short repetitions are chance, and cost most of the time */
        ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1);
        ZSTD_CCtx_setParameter(c, ZSTD_c_strategy, ZSTD_fast);
        ZSTD_CCtx_setParameter(c, ZSTD_c_minMatch, 7);
    }
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checked);
    size_t bytes = ZSTD_compress2(c, to, (size_t)room, data, (size_t)n);
    return ZSTD_isError(bytes) ? 0 : (int64_t)bytes;
}

/* The frame is all that there is: its own length is compared first, because the library would go on
 * with frames behind it. */
int zstd_unpack(zstd_unpacker *u, void *to, int64_t bytes, const void *data, int64_t n)
{
    size_t frame = ZSTD_findFrameCompressedSize(data, (size_t)n);
    if (ZSTD_isError(frame) || frame != (size_t)n)
        return 0;
    size_t got = ZSTD_decompressDCtx((ZSTD_DCtx *)u, to, (size_t)bytes, data, (size_t)n);
    return !ZSTD_isError(got) && got == (size_t)bytes;
}
