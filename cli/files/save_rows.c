/* Adding rows to a file. The lock is on the folder: the file itself may not be there yet, and it is
 * another file as soon as it was replaced. */
#include "files/save_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

/* Bytes that are copied at a time. */
#define PIECE 65536

/* Opens and locks the folder of path, following links; *folder is -1 when that cannot be done, and
 * then writing says what is wrong, if anything is. */
static int lock_folder(int *folder, session *s, const char *path, kv_err *e)
{
    char target[PATH_MAX];
    int code = file_follow(path, target, e);
    if (code)
        return code;
    char *slash = strrchr(target, '/');
    strcpy(slash ? slash + 1 : target, slash ? "" : ".");
    *folder = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (*folder >= 0 && flock(*folder, LOCK_EX) != 0) {
        if (errno == EINTR && (code = session_interrupted(s, e)) == KV_OK)
            continue;
        close(*folder); /* interrupted, or a file system without locks */
        *folder = -1;
        return code;
    }
    return KV_OK;
}

static int open_file(old_file *o, kv_err *e)
{
    struct stat about;
    if (stat(o->path, &about) != 0) /* one that cannot be looked at is not missing */
        return errno == ENOENT ? KV_OK : file_error(e, "read", o->path, errno);
    if (!S_ISREG(about.st_mode) || about.st_size == 0)
        return KV_OK;
    o->f = fopen(o->path, "rbe");
    if (!o->f || fseeko(o->f, -1, SEEK_END) != 0)
        return file_error(e, "read", o->path, errno);
    errno = 0;
    int last = fgetc(o->f);
    if (last == EOF)
        return file_error(e, "read", o->path, errno ? errno : EIO);
    o->last = (char)last;
    return KV_OK;
}

int old_file_open(old_file *o, session *s, const char *path, bool lock, kv_err *e)
{
    *o = (old_file){.path = path, .folder = -1};
    int code = lock ? lock_folder(&o->folder, s, path, e) : KV_OK;
    if (code == KV_OK)
        code = open_file(o, e);
    if (code)
        old_file_close(o);
    return code;
}

/* ---- Rows that fit --------------------------------------------------------------------------- */

/* The next line without its end; *more is false at the end of the file. */
static int next_line(old_file *o, buf *line, bool *more, kv_err *e)
{
    int c = 0;
    buf_clear(line);
    errno = 0;
    while ((c = getc_unlocked(o->f)) != EOF && c != '\n')
        buf_char(line, (char)c);
    if (line->len > 0 && line->data[line->len - 1] == '\r')
        line->data[--line->len] = '\0';
    *more = c != EOF || line->len > 0;
    return ferror(o->f) ? file_error(e, "read", o->path, errno ? errno : EIO) : buf_check(line, e);
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
static int check_first_line(const old_file *o, const buf *line, kv_dtype dtype, bool *said,
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
                          o->path);
    name += strlen("dtype=");
    size_t n = strcspn(name, " \t");
    if (n == strlen(kv_dtype_name(dtype)) && memcmp(name, kv_dtype_name(dtype), n) == 0)
        return KV_OK;
    return kv_err_set(e, KV_E_DTYPE, "\"%s\" holds %.*s, this value is %s", o->path,
                      n < 40 ? (int)n : 40, name, kv_dtype_name(dtype));
}

int old_file_fits(old_file *o, kv_array *a, char separator, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    int64_t cells = ndim > 0 ? kv_array_shape(a)[ndim - 1] : 1;
    bool said = false, more = false;
    char shape[256];
    buf line = {0};
    if (ndim > 2)
        return kv_err_set(e, KV_E_SHAPE, ">> adds rows, and a value of shape %s is more than rows",
                          kv_shape_text(shape, sizeof shape, ndim, kv_array_shape(a)));
    if (!o->f)
        return KV_OK;
    rewind(o->f);
    int code = next_line(o, &line, &more, e);
    if (code == KV_OK && more)
        code = check_first_line(o, &line, kv_array_dtype(a), &said, e);
    if (code == KV_OK && said)
        code = next_line(o, &line, &more, e);
    if (code == KV_OK && !said && kv_array_dtype(a) != KV_FLOAT32)
        code = kv_err_set(e, KV_E_DTYPE, "\"%s\" holds float32, this value is %s", o->path,
                          kv_dtype_name(kv_array_dtype(a)));
    if (code == KV_OK && more && count_cells(&line, separator) != cells)
        code = kv_err_set(e, KV_E_SHAPE, "\"%s\" has rows of %lld cells, this value has %lld",
                          o->path, (long long)count_cells(&line, separator), (long long)cells);
    buf_release(&line);
    return code;
}

/* ---- Copying --------------------------------------------------------------------------------- */

int old_file_copy(old_file *o, FILE *to, kv_err *e)
{
    char *piece;
    size_t n;
    int code = KV_OK;
    if (!o->f)
        return KV_OK;
    if (!(piece = mem_alloc(PIECE, 1, e)))
        return KV_E_MEMORY;
    rewind(o->f);
    while (code == KV_OK && (n = fread(piece, 1, PIECE, o->f)) > 0)
        if (fwrite(piece, 1, n, to) != n)
            code = file_error(e, "write", o->path, errno);
    if (code == KV_OK && ferror(o->f))
        code = file_error(e, "read", o->path, errno);
    if (code == KV_OK && o->last != '\n' && fputc('\n', to) == EOF)
        code = file_error(e, "write", o->path, errno);
    mem_free(piece);
    return code;
}

void old_file_close(old_file *o)
{
    if (o->f)
        fclose(o->f);
    if (o->path && o->folder >= 0)
        close(o->folder);
    *o = (old_file){0};
}
