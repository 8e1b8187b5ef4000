/* A text read as the CSV file that it would be. */
#pragma once

#include <stdio.h>

#include "io/csv.h"

static inline int csv_read_text(kv_array **out, const char *text, size_t n, const char *name,
                                const csv_options *o, kv_err *e)
{
    FILE *f = fmemopen((void *)text, n, "rb");
    if (!f)
        return kv_err_set(e, KV_E_IO, "no stream of a text");
    int rc = csv_read_stream(out, f, name, o, e);
    fclose(f);
    return rc;
}
