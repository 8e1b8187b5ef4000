/* Arrays from files. What a file is, its ending says, or format=; of stdin the first byte tells
 * JSON from CSV. Every kind has a reader here that makes a value from an open file. */
#include "files/load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "checkpoint/input.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/tensor_codec.h"
#include "eval/eval.h"
#include "files/named.h"
#include "files/streams.h"
#include "io/csv.h"
#include "io/json.h"
#include "lang/lex.h"
#include "session/containers.h"
#include "session/unit.h"
#include "syntax/file_kind.h"

/* The options of load(). */
typedef struct load_options {
    csv_options csv;
    file_kind kind;   /* FILE_UNKNOWN: by the ending or the first byte */
    bool has_header;  /* header= was given */
    const char *name; /* of one array of several, or NULL */
} load_options;

/* ---- One reader for each kind ---------------------------------------------------------------- */

static int read_csv(datafile *d, const load_options *o, char separator, value *out, kv_err *e)
{
    kv_array *a;
    csv_options csv = o->csv;
    csv.separator = csv.separator ? csv.separator : separator;
    csv.path = d->is_stdin ? "-" : NULL;
    int rc = csv_read_stream(&a, d->f, d->name, &csv, e);
    return rc ? rc : value_array(out, a, e);
}

static int read_json(datafile *d, const load_options *o, value *out, kv_err *e)
{
    char *text;
    size_t n;
    kv_array *a;
    int rc = datafile_text(d, &text, &n, e);
    if (rc)
        return rc;
    rc = json_read(&a, text, n, d->name, o->csv.has_dtype, o->csv.dtype, e);
    mem_free(text);
    return rc ? rc : value_array(out, a, e);
}

static bool is_blank_line(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && letter_is_blank(text[i]))
        i++;
    return i == n;
}

static int read_lines(const char *text, size_t n, const char *name, const load_options *o,
                      value_stack *l, kv_err *e)
{
    int rc = KV_OK;
    size_t at = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    for (int line = 1; at < n && rc == KV_OK; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end ? (size_t)(end - text) - at : n - at;
        kv_array *a;
        value v;
        if (!is_blank_line(text + at, size) &&
            (rc = json_read_line(&a, text + at, size, name, line, o->csv.has_dtype, o->csv.dtype,
                                 e)) == KV_OK &&
            (rc = value_array(&v, a, e)) == KV_OK)
            rc = value_stack_add(l, v, e);
        at += size + 1;
    }
    return rc;
}

static int read_ndjson(datafile *d, const load_options *o, value *out, kv_err *e)
{
    char *text;
    size_t n;
    value_stack l = {0};
    int rc = datafile_text(d, &text, &n, e);
    if (rc)
        return rc;
    rc = read_lines(text, n, d->name, o, &l, e);
    mem_free(text);
    if (rc == KV_OK)
        rc = value_stack_list(&l, out, e);
    value_stack_release(&l);
    return rc;
}

/* The file is opened once more, by the reader of checkpoints. */
static int read_npy(const datafile *d, value *out, kv_err *e)
{
    static const checkpoint_options npy = {.npy = true};
    checkpoint *f;
    kv_array *a;
    int rc = checkpoint_open(&f, d->is_stdin ? "-" : d->name, &npy, e);
    if (rc)
        return rc;
    if ((rc = checkpoint_load(&a, f, 0, e)) == KV_OK)
        rc = value_array(out, a, e);
    checkpoint_close(f);
    return rc;
}

/* ---- Files of named arrays ------------------------------------------------------------------- */

/* "it holds a, b and 39 more": as many whole names behind `hint` as an error has room for. Returns
 * whether that is all of them. */
static bool list_names(buf *hint, const checkpoint *f)
{
    const size_t room = sizeof((kv_err *)0)->hint - sizeof " and 9223372036854775807 more";
    int64_t n = checkpoint_count(f), i = 0;
    for (; i < n; i++) {
        const char *name = checkpoint_at(f, i)->name, *between = i > 0 ? ", " : "it holds ";
        if (hint->len + strlen(between) + strlen(name) > room)
            break;
        buf_printf(hint, "%s%s", between, name);
    }
    if (i == 0)
        buf_printf(hint, "it holds %lld arrays", (long long)n);
    else if (i < n)
        buf_printf(hint, " and %lld more", (long long)(n - i));
    return i == n;
}

static void add_near_names(suggest *near, const checkpoint *f)
{
    for (int64_t i = 0; i < checkpoint_count(f); i++)
        suggest_add(near, checkpoint_at(f, i)->name);
}

/* Returns true if a text needs no quotes behind @ or #. */
static bool is_bare(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x80 && !lex_is_letter(*text) && !lex_is_digit(*text) &&
            !strchr("./~+-", *text))
            return false;
    return true;
}

/* Appends an example that names the first array of f. */
static void show_choice(buf *hint, const checkpoint *f, const char *path)
{
    const char *name = checkpoint_at(f, 0)->name;
    bool is_stdin = strcmp(path, "-") == 0;
    if (!is_stdin && is_bare(path) && *name && is_bare(name))
        buf_printf(hint, "say which: @%s#%s; ", path, name);
    else
        buf_printf(hint, "say which: load(\"%s\"%s, name=\"%s\"); ", path,
                   is_stdin ? ", format=\"safetensors\"" : "", name);
}

/* Finds the array of f that is meant. */
static int choose_tensor(const checkpoint *f, const char *path, const char *name, int64_t *at,
                         kv_err *e)
{
    buf hint = {0};
    suggest near = {.word = name};
    bool all = true;
    int64_t n = checkpoint_count(f);
    *at = name ? named_find(f, name) : 0;
    if (name ? *at >= 0 : n == 1)
        return KV_OK;
    if (name)
        kv_err_set(e, KV_E_NAME, "\"%s\" holds no array `%.80s`", path, name);
    else
        kv_err_set(e, KV_E_VALUE, "\"%s\" holds %lld arrays, and one is needed", path,
                   (long long)n);
    if (!name && n > 0)
        show_choice(&hint, f, path);
    if (n > 0)
        all = list_names(&hint, f);
    else if (name)
        buf_add(&hint, "it holds none");
    if (!all && name)
        add_near_names(&near, f);
    if (near.n > 0)
        suggest_done(&near, e);
    else if (hint.len > 0)
        kv_err_hint(e, "%s", buf_text(&hint));
    buf_release(&hint);
    return e->code;
}

static int read_named(const char *path, const char *name, value *out, kv_err *e)
{
    checkpoint *f, *part;
    int64_t at;
    kv_array *a;
    bool one = false;
    int rc = named_open(path, &f, e);
    /* Of a file with an object that only Python can make the other parts are read. */
    if (rc == KV_E_FORMAT && name && !named_open_part(path, name, &part, &one, &(kv_err){0})) {
        f = part;
        name = one ? NULL : name;
        rc = f ? KV_OK : rc;
    }
    if (rc)
        return rc;
    if (one)
        *e = (kv_err){0};
    if ((rc = choose_tensor(f, path, name, &at, e)) == KV_OK &&
        (rc = named_load(&a, f, at, e)) == KV_OK)
        rc = value_array(out, a, e);
    checkpoint_close(f);
    return rc;
}

/* ---- Any file -------------------------------------------------------------------------------- */

enum { TRIED = 1024 };

/* The first of n numbers, TRIED at most, that becomes an infinity or does not fit; -1: none. */
static int64_t first_lost(const void *data, tensor_type from, tensor_type to, int64_t n)
{
    double unused[TRIED];
    tensor_loss loss = {.first = -1};
    int64_t wrong = tensor_convert_counting(unused, to, data, from, n, &loss);
    if (wrong >= 0 || (loss.inf == 0 && loss.nan == 0))
        return wrong;
    for (int64_t i = 0; i < n; i++) { /* loss.first may be one that is rounded */
        tensor_loss one = {.first = -1};
        tensor_convert_counting(unused, to, (const char *)data + tensor_type_bytes(from, i), from,
                                1, &one);
        if (one.inf || one.nan)
            return i;
    }
    return -1;
}

/* Refuses what the dtype cannot hold, as readers of texts do. Rounding is what was asked for. */
static int check_fits(kv_array *a, kv_dtype dtype, const char *name, kv_err *e)
{
    const char *data;
    kv_dtype has = kv_array_dtype(a);
    tensor_type from = tensor_type_of(has), to = tensor_type_of(dtype);
    int64_t n = kv_array_size(a), lost = -1, at = 0;
    int rc = kv_array_read(a, (const void **)&data, e);
    if (rc || dtype == KV_BOOL)
        return rc;
    for (; at < n && lost < 0 && !(rc = stop_check_at(at, e)); at += TRIED)
        lost =
            first_lost(data + at * kv_dtype_bytes(has), from, to, n - at < TRIED ? n - at : TRIED);
    if (rc || lost < 0)
        return rc;
    char text[NUM_TEXT_MAX];
    double x;
    int64_t whole;
    at += lost - TRIED;
    data += at * kv_dtype_bytes(has);
    if (kv_dtype_is_float(has)) {
        tensor_decode_f64(&x, from, data, 1);
        num_plain(text, x, NUM_BINARY64);
    } else {
        tensor_decode_i64(&whole, from, data, 1);
        text[num_int(text, whole)] = '\0';
    }
    kv_err_set(e, KV_E_VALUE, "%s: element %lld is %s, which does not fit %s", name, (long long)at,
               text, kv_dtype_name(dtype));
    kv_err_hint(e, "without dtype=, astype(\"%s\") converts all of them", kv_dtype_name(dtype));
    return e->code;
}

/* Converts an array of a file that has dtypes of its own. */
static int convert(value *v, kv_dtype dtype, const char *name, kv_err *e)
{
    kv_array *a;
    if (kv_array_dtype(v->u.box->array) == dtype)
        return KV_OK;
    int rc = check_fits(v->u.box->array, dtype, name, e);
    if (rc == KV_OK)
        rc = kv_array_dup(&a, v->u.box->array, dtype, kv_array_ctx(v->u.box->array), e);
    if (rc == KV_OK) {
        value_release(v);
        rc = value_array(v, a, e);
    }
    return rc;
}

/* Checks that a file of this kind has the given options. */
static int check_options(const char *name, file_kind kind, const load_options *o, kv_err *e)
{
    bool table = kind == FILE_CSV || kind == FILE_TSV;
    if (o->has_header && !table)
        return kv_err_set(e, KV_E_VALUE, "header= is for CSV and TSV, \"%s\" is neither", name);
    if (o->csv.columns && !table)
        return kv_err_set(e, KV_E_VALUE, "cols= is for CSV and TSV, \"%s\" is neither", name);
    if ((o->csv.separator || o->csv.fills) && !table)
        return kv_err_set(e, KV_E_VALUE, "%s= is for CSV and TSV, \"%s\" is neither",
                          o->csv.separator ? "sep" : "missing", name);
    if (o->name && kind != FILE_SAFETENSORS)
        return kv_err_set(e, KV_E_VALUE, "\"%s\" holds one array, and it has no name", name);
    return KV_OK;
}

static int read_open(datafile *d, file_kind kind, const load_options *o, value *out, kv_err *e)
{
    switch (kind) {
    case FILE_CSV:
        return read_csv(d, o, ',', out, e);
    case FILE_TSV:
        return read_csv(d, o, '\t', out, e);
    case FILE_JSON:
        return read_json(d, o, out, e);
    case FILE_NDJSON:
        return read_ndjson(d, o, out, e);
    case FILE_NPY:
        return read_npy(d, out, e);
    case FILE_SAFETENSORS:
    case FILE_TEXT:
    case FILE_UNKNOWN:
        break;
    }
    kv_assert(false, "a file of kind %d is read", (int)kind);
    return kv_assert_report(e);
}

/* Says of a file that is none of its ending what it is instead. */
static int name_other(const char *path, kv_err *e)
{
    input in;
    kv_err other = {0};
    if (input_open(&in, path, &other))
        return e->code;
    if (looks_like_table(&in, &other) == KV_E_FORMAT)
        *e = other;
    input_close(&in);
    return e->code;
}

static int read_stream(session *s, const char *path, file_kind kind, const load_options *o,
                       value *out, kv_err *e)
{
    datafile d;
    int rc = datafile_open(&d, s, path, e);
    if (rc)
        return rc;
    if (kind == FILE_TEXT) {
        char first = datafile_first(&d);
        kind = first == '[' || first == '{' ? FILE_JSON : FILE_CSV;
    }
    rc = check_options(d.name, kind, o, e);
    if (rc == KV_OK)
        rc = read_open(&d, kind, o, out, e);
    bool is_stdin = d.is_stdin;
    if (datafile_close(&d, rc, e)) {
        value_release(out);
        return e->code == KV_E_FORMAT && !is_stdin ? name_other(path, e) : e->code;
    }
    return KV_OK;
}

/* A checkpoint by its ending; a folder; a file of another tool, which is named for what it is. */
static bool is_checkpoint(const char *path)
{
    struct stat about;
    if (file_is_checkpoint(path))
        return true;
    return file_kind_of(path) == FILE_UNKNOWN && stat(path, &about) == 0 &&
           (S_ISDIR(about.st_mode) || file_is_of_other_tool(path));
}

static int unknown_ending(const char *path, kv_err *e)
{
    const char *key = strrchr(path, '#');
    char file[sizeof e->hint];
    snprintf(file, sizeof file, "%.*s", key ? (int)(key - path) : 0, path);
    kv_err_set(e, KV_E_USAGE, "\"%s\" has no known ending", path);
    if (file_is_checkpoint(file))
        return kv_err_hint(e, "a key stands behind the quotes: @\"%s\"%s", file, key), KV_E_USAGE;
    return kv_err_hint(e, "say what it is: load(\"%s\", format=\"csv\"), or another format", path),
           KV_E_USAGE;
}

/* The value of a file. */
static int load(session *s, const char *path, const load_options *o, value *out, kv_err *e)
{
    file_kind kind = o->kind != FILE_UNKNOWN ? o->kind
                     : is_checkpoint(path)   ? FILE_SAFETENSORS
                                             : file_kind_of(path);
    bool is_stdin = strcmp(path, "-") == 0;
    int rc;
    *out = value_none();
    if (o->csv.separator && (kind == FILE_UNKNOWN || kind == FILE_TEXT))
        kind = FILE_CSV;
    if (kind == FILE_NPY && o->name && !is_stdin)
        kind = FILE_SAFETENSORS; /* named like the file, as keys() has it */
    if (kind == FILE_UNKNOWN || (kind == FILE_TEXT && !is_stdin))
        return unknown_ending(path, e);
    if (kind != FILE_SAFETENSORS)
        rc = read_stream(s, path, kind, o, out, e);
    else if ((rc = check_options(path, kind, o, e)) == KV_OK)
        rc = read_named(path, o->name, out, e);
    bool typed = kind == FILE_SAFETENSORS || kind == FILE_NPY;
    if (rc == KV_OK && typed && o->csv.has_dtype &&
        (rc = convert(out, o->csv.dtype, is_stdin ? "stdin" : path, e)))
        value_release(out);
    return rc;
}

int load_eval(session *s, const ast *node, value *out, kv_err *e)
{
    value path;
    load_options o = {.name = node->n == 2 ? node->kid[1]->u.text : NULL};
    int rc = eval_text(s, node->kid[0], "a file name", &path, e);
    if (rc)
        return rc;
    rc = load(s, path.u.text, &o, out, e);
    value_release(&path);
    return rc ? unit_at(s, node, e) : KV_OK;
}

int load_named(session *s, const ast *node, checkpoint **out, kv_err *e)
{
    value path;
    *out = NULL;
    bool one = false;
    if (node->kind != AST_FILE)
        return KV_OK;
    int rc = eval_text(s, node->kid[0], "a file name", &path, e);
    if (rc)
        return rc;
    if (is_checkpoint(path.u.text))
        rc = node->n == 2 ? named_open_part(path.u.text, node->kid[1]->u.text, out, &one, e)
                          : named_open(path.u.text, out, e);
    value_release(&path);
    if (one) { /* an array, as @FILE#KEY is of every file */
        checkpoint_close(*out);
        *out = NULL;
    }
    return rc ? unit_at(s, node, e) : KV_OK;
}

/* ---- load() ---------------------------------------------------------------------------------- */

static int column_of(value v, csv_column *out, kv_err *e)
{
    *out = (csv_column){0};
    if (v.kind == VALUE_TEXT) {
        out->name = v.u.text; /* lives as long as the argument */
        return KV_OK;
    }
    return function_int(v, "a column", &out->number, e);
}

/* cols=: a number, a name, or a list of them. *columns is the caller's to mem_free. */
static int columns_of(value v, csv_column **columns, csv_options *o, kv_err *e)
{
    int64_t n;
    const value *items = value_items(&v, &n);
    int rc = KV_OK;
    if (n == 0)
        return kv_err_set(e, KV_E_VALUE, "cols= is an empty list: no column is left");
    if (!(*columns = mem_alloc(n, sizeof **columns, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        rc = column_of(items[i], &(*columns)[i], e);
    o->columns = *columns;
    o->ncolumns = n;
    return rc;
}

static int header_of(value v, load_options *o, kv_err *e)
{
    if (v.kind != VALUE_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "header= is true or false, not %s", value_kind_name(v));
    o->csv.header = v.u.integer ? 1 : -1;
    o->has_header = true;
    return KV_OK;
}

/* sep=: one character, a blank for any run of blanks and tabs. */
static int separator_of(value v, char *out, kv_err *e)
{
    const char *text;
    int rc = function_text(v, "sep=", &text, e);
    if (rc)
        return rc;
    *out = *text;
    if (!*text || text[1] || strchr("\"\r\n#", *text))
        return kv_err_set(e, KV_E_VALUE, "sep= is one character, such as \";\" or \"\\t\"; \" \" "
                                         "stands for any run of blanks");
    return KV_OK;
}

/* missing=: the number that fills empty cells, or the texts that are nan, as empty cells are.
 * *words is the caller's to mem_free. */
static int missing_of(value v, const char ***words, csv_options *o, kv_err *e)
{
    int64_t n;
    const value *items = value_items(&v, &n);
    int rc = KV_OK;
    o->fills = true;
    o->filler = (double)NAN;
    if (value_is_number(v))
        return function_number(v, "missing=", &o->filler, e);
    if (!(*words = mem_alloc(n + 1, sizeof **words, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        rc = function_text(items[i], "missing=, when it is not a number,", &(*words)[i], e);
    o->missing = *words;
    o->nmissing = n;
    return rc;
}

/* Returns true if argument i was given, and is not none. */
static bool has(const function_args *args, int i)
{
    return args->given[i] && args->v[i].kind != VALUE_NONE;
}

int load_call(function_args *args, value *out, kv_err *e)
{
    enum { PATH, DTYPE, COLS, HEADER, FORMAT, NAME, SEP, MISSING };
    load_options o = {.kind = FILE_UNKNOWN};
    csv_column *columns = NULL;
    const char *path, *format, **words = NULL;
    int rc = function_text(args->v[PATH], "the name of a file", &path, e);
    o.csv.has_dtype = has(args, DTYPE);
    if (rc == KV_OK && has(args, DTYPE))
        rc = function_dtype(args->v[DTYPE], KV_FLOAT32, &o.csv.dtype, e);
    if (rc == KV_OK && has(args, HEADER))
        rc = header_of(args->v[HEADER], &o, e);
    if (rc == KV_OK && has(args, FORMAT) &&
        (rc = function_text(args->v[FORMAT], "a format", &format, e)) == KV_OK)
        rc = file_kind_parse(&o.kind, format, e);
    if (rc == KV_OK && has(args, NAME))
        rc = function_text(args->v[NAME], "the name of an array", &o.name, e);
    if (rc == KV_OK && has(args, COLS))
        rc = columns_of(args->v[COLS], &columns, &o.csv, e);
    if (rc == KV_OK && has(args, SEP))
        rc = separator_of(args->v[SEP], &o.csv.separator, e);
    if (rc == KV_OK && has(args, MISSING))
        rc = missing_of(args->v[MISSING], &words, &o.csv, e);
    if (rc == KV_OK)
        rc = load(args->session, path, &o, out, e);
    mem_free(words);
    mem_free(columns);
    return rc;
}
