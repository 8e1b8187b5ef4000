/* GAP: what patch.h declares and no file has yet; this file goes with the last of them. */
#include "base/mem.h"
#include "patch/patch.h"

static int missing(kv_err *e)
{
    return kv_err_set(e, KV_E_UNSUPPORTED, "patches are not there yet");
}

int patch_make(const char *path, checkpoint *a, checkpoint *b, const patch_options *o,
               patch_summary *made, kv_err *e)
{
    (void)path, (void)a, (void)b, (void)o, (void)made;
    return missing(e);
}

int patch_open(patch **out, const char *path, kv_err *e)
{
    (void)path;
    *out = NULL;
    return missing(e);
}

void patch_close(patch *p)
{
    (void)p;
}

const char *patch_name(const patch *p)
{
    (void)p;
    return "";
}

void patch_summarise(const patch *p, patch_summary *what)
{
    (void)p;
    *what = (patch_summary){0};
}

void patch_misfits_release(patch_misfits *m)
{
    mem_free(m->items);
}

int patch_apply(const char *path, patch *const *patches, int n, checkpoint *a,
                const checkpoint_out_options *how, const patch_options *o, patch_misfits *wrong,
                kv_err *e)
{
    (void)path, (void)patches, (void)n, (void)a, (void)how, (void)o, (void)wrong;
    return missing(e);
}

int patch_join(const char *path, patch *const *patches, int n, const patch_options *o,
               patch_summary *made, patch_misfits *wrong, kv_err *e)
{
    (void)path, (void)patches, (void)n, (void)o, (void)made, (void)wrong;
    return missing(e);
}
