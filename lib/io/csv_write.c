/* Writes arrays as CSV, and checks that new rows fit the file to which they are added. */
#include "io/csv.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "io/scalar.h"

/* ---- Writing ---------------------------------------------------------------------------- */

/* A file being written: rows gather in out, which goes to f when it is large. */
typedef struct writer {
    buf *out;
    FILE *f; /* NULL: it stays in out */
} writer;

/* Bytes of text that are written to the stream at a time. */
#define WRITTEN 262144

/* Writes what has gathered to the stream, if there is one. Returns false if that failed. */
static bool flush(writer *w)
{
    if (!w->f || w->out->failed)
        return !w->out->failed;
    bool ok = fwrite(buf_text(w->out), 1, w->out->len, w->f) == w->out->len;
    buf_clear(w->out);
    return ok;
}

/* Returns false if memory ran out, the stream could not be written (errno says why), or a stop was
 * asked for while the text goes to no stream. */
static bool write_rows(writer *w, kv_array *a, const void *data, const csv_options *o)
{
    kv_dtype dtype = kv_array_dtype(a);
    int ndim = kv_array_ndim(a);
    bool first_line = !(o && o->header < 0);
    int64_t size = kv_array_size(a);
    int64_t cols = ndim > (int)first_line ? kv_array_shape(a)[ndim - 1] : 1;
    char separator = o && o->separator ? o->separator : ',';
    if ((ndim != 2 || dtype != KV_FLOAT32 || size == 0) && first_line) {
        buf_add(w->out, "# shape=");
        for (int i = 0; i < ndim; i++)
            buf_printf(w->out, "%s%lld", i ? "," : "", (long long)kv_array_shape(a)[i]);
        buf_printf(w->out, " dtype=%s\n", kv_dtype_name(dtype));
    }
    for (int64_t i = 0, col = 1; i < size; i++, col++) {
        char *p = buf_room(w->out, NUM_TEXT_MAX + 1);
        if (!p || (i % STOP_EVERY == 0 && !w->f && stop_asked()))
            return false;
        int n = scalar_text(p, dtype, data, i);
        p[n++] = col == cols ? '\n' : separator;
        buf_grew(w->out, (size_t)n);
        if (col == cols)
            col = 0;
        if (w->f && w->out->len >= WRITTEN && !flush(w))
            return false;
    }
    return flush(w);
}

int csv_write_array(buf *out, kv_array *a, kv_err *e)
{
    const void *data;
    writer w = {out, NULL};
    TRY(kv_array_read(a, &data, e));
    TRY(write_rows(&w, a, data, NULL) ? KV_OK : stop_check(e));
    return buf_check(out, e);
}

int csv_write_stream(FILE *f, kv_array *a, const char *name, const csv_options *o, kv_err *e)
{
    const void *data;
    own_buf text = {0};
    writer w = {&text, f};
    TRY(kv_array_read(a, &data, e));
    errno = 0;
    if (write_rows(&w, a, data, o))
        return KV_OK;
    TRY(buf_check(&text, e));
    return file_error(e, "write", name, errno ? errno : EIO);
}

/* ---- Adding rows ------------------------------------------------------------------------ */

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
    own_buf line = {0};
    if (ndim > 2)
        return kv_err_set(e, KV_E_SHAPE, ">> adds rows, and a value of shape %s is more than rows",
                          kv_shape_text(shape, sizeof shape, ndim, kv_array_shape(a)));
    if (!f)
        return KV_OK;
    rewind(f);
    TRY(next_line(f, path, &line, &more, e));
    TRY(more ? check_first_line(path, &line, kv_array_dtype(a), &said, e) : KV_OK);
    TRY(said ? next_line(f, path, &line, &more, e) : KV_OK);
    if (!said && kv_array_dtype(a) != KV_FLOAT32)
        return kv_err_set(e, KV_E_DTYPE, "\"%s\" holds float32, this value is %s", path,
                          kv_dtype_name(kv_array_dtype(a)));
    if (more && count_cells(&line, separator) != cells)
        return kv_err_set(e, KV_E_SHAPE, "\"%s\" has rows of %lld cells, this value has %lld",
                          path, (long long)count_cells(&line, separator), (long long)cells);
    return KV_OK;
}
