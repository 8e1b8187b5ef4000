/* Files of arrays: which reader or writer an ending stands for, and where results go.
 *
 * Everything is written beside its place and renamed at the end (base/file.h). When several keys go
 * to several files, all are written before the first is renamed.
 */
#include "script/file.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/slice.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/csv.h"
#include "io/json.h"
#include "script/eval.h"
#include "script/function.h"
#include "script/show.h"
#include "script/unit.h"

static const struct {
    const char *ending;
    file_kind kind;
} endings[] = {
    {".csv", FILE_CSV},      {".json", FILE_JSON}, {".txt", FILE_TEXT},        {".tsv", FILE_LATER},
    {".ndjson", FILE_LATER}, {".npy", FILE_LATER}, {".safetensors", FILE_LATER},
};

file_kind file_kind_of(const char *path)
{
    size_t n = strlen(path);
    if (strcmp(path, "-") == 0)
        return FILE_TEXT;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i].ending);
        if (n > m && strcmp(path + n - m, endings[i].ending) == 0)
            return endings[i].kind;
    }
    return FILE_UNKNOWN;
}

static int later(const char *path, kv_err *e)
{
    return kv_err_set(e, KV_E_UNSUPPORTED,
                      "files such as \"%s\" are not in this version; .csv and .json are", path);
}

int file_check_ending(const char *path, kv_err *e)
{
    switch (file_kind_of(path)) {
    case FILE_CSV:
    case FILE_JSON:
    case FILE_TEXT:
        return KV_OK;
    case FILE_LATER:
        return later(path, e);
    case FILE_UNKNOWN:
        break;
    }
    kv_err_set(e, KV_E_USAGE, "`%s` is no file name with a known ending (.csv, .json, .txt)", path);
    return KV_E_USAGE;
}

/* ---- Reading ---- */

/* What load() may be told. */
typedef struct load_options {
    csv_options csv;
    file_kind format; /* FILE_UNKNOWN: by the ending or the first byte */
} load_options;

static file_kind by_content(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i < n && (text[i] == '[' || text[i] == '{') ? FILE_JSON : FILE_CSV;
}

static int read_array(kv_array **out, const char *path, const load_options *o, kv_err *e)
{
    char *text;
    size_t n;
    file_kind kind = o->format != FILE_UNKNOWN ? o->format : file_kind_of(path);
    bool from_stdin = strcmp(path, "-") == 0;
    if (kind == FILE_LATER)
        return later(path, e);
    if (!from_stdin && kind != FILE_CSV && kind != FILE_JSON) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" has no known ending", path);
        return kv_err_hint(e, "say what it is: load(\"%s\", format=\"csv\"), or \"json\"", path);
    }
    int code = file_read(path, &text, &n, e);
    if (code)
        return code;
    if (kind == FILE_TEXT)
        kind = by_content(text, n);
    const char *name = from_stdin ? "stdin" : path;
    if (kind == FILE_JSON)
        code = json_read(out, text, n, name, o->csv.has_dtype, o->csv.dtype, e);
    else
        code = csv_read_array(out, text, n, name, &o->csv, e);
    mem_free(text);
    return code;
}

int file_eval(session *s, const ast *node, value *out, kv_err *e)
{
    value path;
    kv_array *a;
    load_options o = {.format = FILE_UNKNOWN};
    if (node->n == 2)
        return unit_err(s, node->kid[1], e, KV_E_UNSUPPORTED,
                        "files that hold several arrays by name are not in this version");
    int code = eval_text(s, node->kid[0], "a file name", &path, e);
    if (code)
        return code;
    code = read_array(&a, path.u.text->text, &o, e);
    value_release(&path);
    if (code)
        return unit_at(s, node, e);
    *out = value_array(a);
    return KV_OK;
}

/* The columns of a, chosen by their numbers. */
static int choose_columns(kv_array **a, value cols, kv_err *e)
{
    int64_t n = value_is_sequence(cols) ? cols.u.list->n : 1;
    int ndim = kv_array_ndim(*a);
    if (ndim != 2)
        return kv_err_set(e, KV_E_SHAPE, "cols= needs a file of rows and columns");
    int64_t shape[2] = {kv_array_shape(*a)[0], n};
    kv_array *chosen;
    int code = kv_array_new(&chosen, kv_array_dtype(*a), 2, shape, kv_array_ctx(*a), e);
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        array_range from[2] = {{0}, {.has_from = true, .has_to = true}}, to[2] = {{0}};
        kv_array *column = NULL;
        int64_t at;
        if ((code = function_int(value_is_sequence(cols) ? cols.u.list->items[i] : cols, "a column",
                                 &at, e)))
            break;
        from[1] = (array_range){.is_index = true, .index = at};
        to[1] = (array_range){.is_index = true, .index = i};
        if ((code = array_slice(&column, *a, from, 2, e)) == KV_OK)
            code = array_assign_slice(chosen, to, 2, column, e);
        kv_array_unref(column);
    }
    if (code) {
        kv_array_unref(chosen);
        return code;
    }
    kv_array_unref(*a);
    *a = chosen;
    return KV_OK;
}

static int load_format(value v, file_kind *out, kv_err *e)
{
    if (v.kind == VALUE_TEXT && strcmp(v.u.text->text, "csv") == 0)
        *out = FILE_CSV;
    else if (v.kind == VALUE_TEXT && strcmp(v.u.text->text, "json") == 0)
        *out = FILE_JSON;
    else
        return kv_err_set(e, KV_E_VALUE, "format is \"csv\" or \"json\"");
    return KV_OK;
}

int file_load(function_args *args, value *out, kv_err *e)
{
    load_options o = {.format = FILE_UNKNOWN};
    kv_array *a;
    int code = KV_OK;
    if (args->v[0].kind != VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "load() takes the name of a file, not %s",
                          value_kind_name(args->v[0]));
    o.csv.has_dtype = args->given[1] && args->v[1].kind != VALUE_NONE;
    if (o.csv.has_dtype && (code = function_dtype(args->v[1], KV_FLOAT32, &o.csv.dtype, e)))
        return code;
    if (args->given[3] && args->v[3].kind != VALUE_NONE) {
        if (args->v[3].kind != VALUE_BOOL)
            return kv_err_set(e, KV_E_DTYPE, "header is true or false");
        o.csv.header = args->v[3].u.integer ? 1 : -1;
    }
    if (args->given[4] && (code = load_format(args->v[4], &o.format, e)))
        return code;
    if ((code = read_array(&a, args->v[0].u.text->text, &o, e)))
        return code;
    if (args->given[2] && args->v[2].kind != VALUE_NONE &&
        (code = choose_columns(&a, args->v[2], e))) {
        kv_array_unref(a);
        return code;
    }
    *out = value_array(a);
    return KV_OK;
}

/* ---- Writing ---- */

/* The text of one value in the format of a file. */
static int file_text(session *s, buf *text, file_kind kind, value v, kv_err *e)
{
    kv_array *a;
    int code;
    if (kind == FILE_TEXT) {
        if ((code = show_value(s, text, v, false, e)) == KV_OK)
            buf_char(text, '\n');
        return code;
    }
    if ((code = value_to_array(&a, v, e)))
        return code;
    code = kind == FILE_CSV ? csv_write_array(text, a, e) : json_write(text, a, e);
    if (code == KV_OK && kind == FILE_JSON)
        buf_char(text, '\n');
    kv_array_unref(a);
    return code;
}

/* Puts text into the new file, behind what it held when append is set. */
static int fill(file_out *f, const char *path, const buf *text, bool append, kv_err *e)
{
    int code = buf_check(text, e);
    if (code == KV_OK && append && strcmp(path, "-") != 0 && access(path, F_OK) == 0) {
        char *old;
        size_t n;
        if ((code = file_read(path, &old, &n, e)))
            return code;
        if (fwrite(old, 1, n, f->f) != n)
            code = file_error(e, "write", path, errno);
        mem_free(old);
    }
    if (code == KV_OK && text->len > 0 && fwrite(text->data, 1, text->len, f->f) != text->len)
        code = file_error(e, "write", path, errno);
    return code;
}

static int write_one(session *s, const char *path, value v, bool append, file_out *f, kv_err *e)
{
    buf text = {0};
    file_kind kind = file_kind_of(path);
    int code = file_check_ending(path, e);
    if (code == KV_OK && kind != FILE_TEXT && v.kind == VALUE_TEXT)
        code = kv_err_set(e, KV_E_DTYPE, "\"%s\" holds an array, and this is text: .txt takes it",
                          path);
    if (code == KV_OK && append && kind == FILE_JSON)
        code = kv_err_set(e, KV_E_UNSUPPORTED,
                          "a JSON file holds one array, so >> cannot add to \"%s\"", path);
    if (code == KV_OK)
        code = file_text(s, &text, kind, v, e);
    if (code == KV_OK && (code = file_out_open(f, path, e)) == KV_OK)
        code = fill(f, path, &text, append, e);
    buf_release(&text);
    return code;
}

/* path with {key} replaced. */
static int path_of_key(buf *out, const char *path, kv_key key, kv_err *e)
{
    const char *at = strstr(path, "{key}");
    if (key.name && strchr(key.name, '/'))
        return kv_err_set(e, KV_E_VALUE, "the key \"%s\" has a / and cannot stand in a file name",
                          key.name);
    buf_put(out, path, (size_t)(at - path));
    if (key.name)
        buf_add(out, key.name);
    else
        buf_printf(out, "%lld", (long long)key.id);
    buf_add(out, at + 5);
    return buf_check(out, e);
}

static int write_keyed(session *s, const char *path, const result *r, bool append, kv_err *e)
{
    file_out *files = mem_zalloc(r->nkeys, sizeof *files, e);
    int code = files ? KV_OK : KV_E_MEMORY;
    int64_t n = 0;
    for (; n < r->nkeys && code == KV_OK; n++) {
        buf name = {0};
        if ((code = path_of_key(&name, path, r->keys[n], e)) == KV_OK)
            code = write_one(s, buf_text(&name), r->v.u.list->items[n], append, &files[n], e);
        buf_release(&name);
    }
    for (int64_t i = 0; i < n; i++) {
        if (code)
            file_out_abandon(&files[i]);
        else
            code = file_out_commit(&files[i], e);
    }
    mem_free(files);
    return code;
}

int file_write(session *s, const char *path, const result *r, bool append, kv_err *e)
{
    bool per_key = strstr(path, "{key}") != NULL;
    if (r->keys && per_key)
        return write_keyed(s, path, r, append, e);
    if (r->keys && r->nkeys != 1 && file_kind_of(path) != FILE_TEXT) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" holds one array, there are %lld keys", path,
                   (long long)r->nkeys);
        return kv_err_hint(e, "a file for each: > grad-{key}.csv");
    }
    file_out f = {0};
    value v = r->v;
    buf text = {0};
    value shown = value_none();
    int code = KV_OK;
    if (r->keys && r->nkeys == 1) {
        v = r->v.u.list->items[0];
    } else if (file_kind_of(path) == FILE_TEXT && (r->keys || r->as_text)) {
        /* what would be shown, without its last newline */
        if ((code = show_result(s, &text, r, e)) == KV_OK)
            code = value_text_new(&shown, buf_text(&text), text.len > 0 ? text.len - 1 : 0, e);
        v = shown;
    }
    if (code == KV_OK)
        code = write_one(s, path, v, append, &f, e);
    if (code)
        file_out_abandon(&f);
    else
        code = file_out_commit(&f, e);
    value_release(&shown);
    buf_release(&text);
    return code;
}

int file_write_stdout(session *s, value v, kv_err *e)
{
    buf text = {0};
    int code = file_text(s, &text, s->format == SHOW_JSON ? FILE_JSON : FILE_CSV, v, e);
    if (code == KV_OK && (code = buf_check(&text, e)) == KV_OK)
        code = session_out(s, buf_text(&text), text.len, e);
    buf_release(&text);
    return code;
}

/* ---- The shell ---- */

int file_pipe(session *s, const char *line, const char *text, size_t n, kv_err *e)
{
    (void)s;
    fflush(stdout);
    FILE *p = popen(line, "w");
    if (!p)
        return kv_err_set(e, KV_E_IO, "cannot run `%s`: %s", line, strerror(errno));
    /* a reader that leaves early is no error; its status counts */
    if (text && n > 0 && fwrite(text, 1, n, p) != n && errno != EPIPE)
        kv_err_set(e, KV_E_IO, "cannot write to `%s`: %s", line, strerror(errno));
    int status = pclose(p);
    if (status != 0 && WIFEXITED(status))
        kv_err_set(e, KV_E_IO, "the command `%s` ended with status %d", line, WEXITSTATUS(status));
    else if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE))
        kv_err_set(e, KV_E_IO, "the command `%s` was ended by signal %d", line,
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return e->code;
}
