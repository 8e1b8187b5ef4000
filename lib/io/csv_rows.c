/* Checks that new rows fit the CSV file to which they are added. */
#include "io/csv_rows.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

/* The next line without its end; *more is false at the end of the file. */
static int next_line(FILE *f, const char *path, buf *line, bool *more, kv_err *e)
{
    int c = 0;
    buf_clear(line);
    errno = 0;
    while ((c = getc_unlocked(f)) != EOF && c != '\n')
        buf_char(line, (char)c);
    if (line->len > 0 && line->data[line->len - 1] == '\r')
        line->data[--line->len] = '\0';
    *more = c != EOF || line->len > 0;
    return ferror(f) ? file_error(e, "read", path, errno ? errno : EIO) : buf_check(line, e);
}

static int64_t count_cells(const buf *line, char separator)
{
    int64_t n = 1;
    bool quoted = false;
    for (size_t i = 0; i < line->len; i++) {
        quoted ^= line->data[i] == '"';
        n += !quoted && line->data[i] == separator;
    }
    return n;
}

/* Looks at a first line such as `# dtype=int32`; *said is whether it is one. */
static int check_first_line(const char *path, const buf *line, kv_dtype dtype, bool *said,
                            kv_err *e)
{
    const char *text = buf_text(line), *shape = strstr(text, "shape="),
               *name = strstr(text, "dtype=");
    *said = text[0] == '#' && (shape || name);
    if (!*said)
        return KV_OK;
    if (shape)
        return kv_err_set(e, KV_E_SHAPE,
                          "\"%s\" says its shape in its first line, so no rows can be added",
                          path);
    name += strlen("dtype=");
    size_t n = strcspn(name, " \t");
    if (n == strlen(kv_dtype_name(dtype)) && memcmp(name, kv_dtype_name(dtype), n) == 0)
        return KV_OK;
    return kv_err_set(e, KV_E_DTYPE, "\"%s\" holds %.*s, this value is %s", path,
                      n < 40 ? (int)n : 40, name, kv_dtype_name(dtype));
}

int csv_rows_fit(FILE *f, const char *path, kv_array *a, char separator, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    int64_t cells = ndim > 0 ? kv_array_shape(a)[ndim - 1] : 1;
    bool said = false, more = false;
    char shape[256];
    buf line = {0};
    if (ndim > 2)
        return kv_err_set(e, KV_E_SHAPE, ">> adds rows, and a value of shape %s is more than rows",
                          kv_shape_text(shape, sizeof shape, ndim, kv_array_shape(a)));
    if (!f)
        return KV_OK;
    rewind(f);
    int rc = next_line(f, path, &line, &more, e);
    if (rc == KV_OK && more)
        rc = check_first_line(path, &line, kv_array_dtype(a), &said, e);
    if (rc == KV_OK && said)
        rc = next_line(f, path, &line, &more, e);
    if (rc == KV_OK && !said && kv_array_dtype(a) != KV_FLOAT32)
        rc = kv_err_set(e, KV_E_DTYPE, "\"%s\" holds float32, this value is %s", path,
                        kv_dtype_name(kv_array_dtype(a)));
    if (rc == KV_OK && more && count_cells(&line, separator) != cells)
        rc = kv_err_set(e, KV_E_SHAPE, "\"%s\" has rows of %lld cells, this value has %lld",
                        path, (long long)count_cells(&line, separator), (long long)cells);
    buf_release(&line);
    return rc;
}
