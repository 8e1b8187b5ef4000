/* Writing a file of what was collected, with its checksums. */
#include "base/file.h"
#include "core/checksum.h"
#include "core/image.h"

int image_write(image *im, const char *path, kv_err *e)
{
    file_out out;
    int rc = im->plain ? KV_OK : checksum_add(im, e);
    if (!rc)
        rc = file_out_open(&out, path, e);
    if (rc)
        return rc;
    file_out_clean(&out);
    rc = safetensors_write(out.f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    if (rc)
        file_out_abandon(&out);
    else
        rc = file_out_commit(&out, e);
    return rc;
}
