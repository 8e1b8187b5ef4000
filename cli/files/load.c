/* Arrays from files. What a file is, its ending says, or format=; of stdin the first byte tells
 * JSON from CSV. Every kind has a reader that makes a value from an open file; of
 * named arrays it is in named.c. */
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/zip.h"
#include "checkpoint/input.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/tensor_codec.h"
#include "eval/eval.h"
#include "io/csv.h"
#include "io/json.h"
#include "session/containers.h"
#include "session/unit.h"
#include "syntax/file_kind.h"
#include "term/line.h"
#include "term/terminal.h"

/* ---- Reading --------------------------------------------------------------------------------- */

/* A file of data, or stdin, is read in pieces, so that a large one needs little memory, and so that
 * Ctrl-C ends a read that waits: the stream of fopencookie takes its bytes through read_some, which
 * looks at the interrupt flag before each piece and after a read that a signal ended. A file that
 * changes while it is read gives half of this and half of that; datafile_end finds out. */

typedef struct datafile {
    FILE *f;          /* to read from */
    const char *name; /* for messages: the path, or stdin; borrowed */
    session *s;
    int fd;
    bool is_stdin;
    bool regular;       /* a file of a known size */
    struct stat before; /* when it was opened */
    gunzip *unpacks;    /* what is read, or NULL */
    char *ahead;        /* bytes from..to were looked at and come next */
    size_t from, to;
    int64_t done; /* bytes that were read, for the progress */
} datafile;

/* Bytes that are read at a time. */
#define PIECE 65536

/* Reads as read(2) does, but only signals that interrupt the session end it. */
static ssize_t read_some(datafile *d, char *out, size_t n)
{
    for (;;) {
        if (session_interrupted(d->s, NULL)) {
            errno = EINTR;
            return -1;
        }
        ssize_t got = read(d->fd, out, n);
        if (got > 0)
            progress_step(d->done += got);
        if (got >= 0 || errno != EINTR)
            return got;
    }
}

static ssize_t on_raw_read(void *cookie, char *out, size_t n)
{
    datafile *d = cookie;
    size_t there = d->to - d->from;
    if (there == 0)
        return read_some(d, out, n);
    n = n < there ? n : there;
    memcpy(out, d->ahead + d->from, n);
    d->from += n;
    return (ssize_t)n;
}

static ssize_t on_read(void *cookie, char *out, size_t n)
{
    datafile *d = cookie;
    return d->unpacks ? gunzip_read(d->unpacks, out, n, on_raw_read, d) : on_raw_read(d, out, n);
}

static int open_fd(datafile *d, const char *path, kv_err *e)
{
    d->fd = open(path, O_RDONLY | O_CLOEXEC);
    /* A pipe without a writer is waited for. */
    while (d->fd < 0 && errno == EINTR) {
        if (session_interrupted(d->s, e))
            return KV_E_INTERRUPTED;
        d->fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return d->fd < 0 ? file_error(e, "read", path, errno) : KV_OK;
}

static void datafile_release(datafile *d)
{
    if (d->f)
        fclose(d->f);
    if (!d->is_stdin && d->fd >= 0)
        close(d->fd);
    gunzip_free(d->unpacks);
    mem_free(d->ahead);
}
#define own_datafile OWN(datafile_release) datafile

/* Opens path, "-" for stdin. Borrows path; d must stay where it is. Errors: io (missing, a folder,
 * no permission), interrupted, memory. */
static int datafile_open(datafile *d, session *s, const char *path, kv_err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *d = (datafile){
        .name = is_stdin ? "stdin" : path, .s = s, .fd = STDIN_FILENO, .is_stdin = is_stdin};
    if (is_stdin)
        line_lend_terminal();
    TRY(is_stdin ? KV_OK : open_fd(d, path, e));
    if (fstat(d->fd, &d->before) != 0)
        return file_error(e, "read", d->name, errno);
    if (S_ISDIR(d->before.st_mode))
        return file_error(e, "read", d->name, EISDIR);
    d->regular = S_ISREG(d->before.st_mode);
    if (!(d->ahead = mem_alloc(PIECE, 1, e)))
        return KV_E_MEMORY;
    /* the first bytes of a file, which may be packed */
    ssize_t got = d->regular && !d->is_stdin ? read_some(d, d->ahead, PIECE) : 0;
    d->to = got > 0 ? (size_t)got : 0;
    if (d->to > 2 && memcmp(d->ahead, "\x1F\x8B\x08", 3) == 0)
        TRY(gunzip_new(&d->unpacks, e));
    d->f = fopencookie(d, "rb", (cookie_io_functions_t){.read = on_read});
    if (!d->f)
        return file_error(e, "read", d->name, errno);
    setvbuf(d->f, NULL, _IOFBF, PIECE);
    progress_begin("load", d->regular ? d->before.st_size : 0, PROGRESS_BYTES);
    return KV_OK;
}

/* The first byte behind blanks and a byte order mark, without taking it; '\0' when there is
 * none within the first piece. */
static char datafile_first(datafile *d)
{
    while (d->to < PIECE) {
        size_t at = d->to >= 3 && memcmp(d->ahead, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        while (at < d->to && letter_is_blank(d->ahead[at]))
            at++;
        bool mark = at == 0 && d->to > 0 && d->to < 3 && d->ahead[0] == '\xEF';
        if (at < d->to && !mark)
            return d->ahead[at];
        ssize_t got = read_some(d, d->ahead + d->to, PIECE - d->to);
        if (got <= 0)
            break; /* the reader meets the error, if it is one, again */
        d->to += (size_t)got;
    }
    return '\0';
}

/* Reads all of it. A NUL stands behind the text; mem_free it, also after an error. Errors: io,
 * memory. */
static int datafile_text(datafile *d, char **text, size_t *n, kv_err *e)
{
    int64_t cap = 0, begin = d->regular ? d->before.st_size + 2 : PIECE;
    ssize_t got = 1;
    *text = NULL;
    *n = 0;
    TRY(mem_grow(text, &cap, begin, 1, e));
    for (; got > 0; *n += (size_t)got) {
        TRY(mem_grow(text, &cap, (int64_t)*n + 2, 1, e));
        got = on_read(d, *text + *n, (size_t)cap - *n - 1);
        if (got < 0)
            return file_error(e, "read", d->name, errno);
    }
    (*text)[*n] = '\0';
    return KV_OK;
}

/* Returns true if a file was changed while it was read. A file without a size, as in /proc, counts
 * as unchanged. */
static bool has_changed(const datafile *d)
{
    struct stat now;
    if (!d->regular || fstat(d->fd, &now) != 0)
        return false;
    return now.st_size != d->before.st_size ||
           (now.st_size > 0 && (now.st_mtim.tv_sec != d->before.st_mtim.tv_sec ||
                                now.st_mtim.tv_nsec != d->before.st_mtim.tv_nsec));
}

/* Ends the read of d. rc is what it came to; returns it, or why it cannot count: interrupted, io
 * (the file changed meanwhile). Such an error replaces the one in e. */
static int datafile_end(datafile *d, int rc, kv_err *e)
{
    kv_err why = {0};
    bool of_content = rc == KV_OK || rc == KV_E_FORMAT || rc == KV_E_IO;
    progress_end();
    if (rc && session_interrupted(d->s, &why))
        rc = why.code;
    else if (of_content && has_changed(d))
        rc = kv_err_set(&why, KV_E_IO, "cannot read \"%s\": it changed while it was read", d->name);
    else if (rc == KV_E_IO && d->unpacks && gunzip_damaged(d->unpacks))
        rc = file_bad(&why, KV_E_FORMAT, d->name, "its compressed data are damaged, or cut");
    *e = why.code ? why : *e;
    return rc;
}

/* The options of load(). */
typedef struct load_options {
    csv_options csv;
    file_kind kind; /* FILE_UNKNOWN: by the ending or the first byte */
    bool texts; /* a list of the texts of one column: of each row (csv.strings), else each once */
    const char *name; /* of one array of several, or NULL */
} load_options;

/* ---- One reader for each kind ---------------------------------------------------------------- */

static int add_text(void *list, const char *text, kv_err *e)
{
    return value_stack_text(list, text, -1, e);
}

static int read_csv(datafile *d, const load_options *o, char separator, value *out, kv_err *e)
{
    kv_array *a;
    bool doubtful = false, unmarked = false;
    csv_options csv = o->csv;
    csv.separator = csv.separator || separator == ',' ? csv.separator : separator;
    csv.path = d->is_stdin ? "-" : NULL;
    csv.doubtful = &doubtful;
    csv.unmarked = &unmarked;
    if (csv.decimal && csv.decimal == csv.thousands) {
        kv_err_set(e, KV_E_VALUE, "decimal=\"%c\" is also what parts thousands", csv.decimal);
        return kv_err_hint(e, "thousands=\".\"");
    }
    own_stack texts = {0};
    int rc = o->texts ? csv_read_texts(d->f, d->name, &csv, csv.strings, add_text, &texts, e)
                      : csv_read_stream(&a, d->f, d->name, &csv, e);
    if (unmarked && csv.nmissing > 0 && *csv.missing[0])
        session_note(d->s, "no cell of %s is \"%s\"; missing= takes it and empty cells for %s, "
                     "and missing=0 fills them",
                     d->name, csv.missing[0], o->texts ? "no text" : "nan");
    if (rc == KV_OK && doubtful && !o->texts)
        session_note(d->s, "the first row of %s is taken for a header: header=false reads it",
                     d->name);
    TRY(rc);
    return o->texts ? value_stack_take(out, &texts, KV_OK, e) : value_array(out, a, e);
}

static int add_array(void *list, kv_array *a, kv_err *e)
{
    value v;
    TRY(value_array(&v, a, e));
    return value_stack_add(list, v, e);
}

/* An array, or with `lines` a list of one a line. */
static int read_json(datafile *d, const load_options *o, bool lines, value *out, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n;
    kv_array *a;
    own_stack l = {0};
    const csv_options *c = &o->csv;
    TRY(datafile_text(d, &text, &n, e));
    if (lines) {
        TRY(json_read_lines(text, n, d->name, c->has_dtype, c->dtype, add_array, &l, e));
        return value_stack_take(out, &l, KV_OK, e);
    }
    TRY(json_read(&a, text, n, d->name, c->has_dtype, c->dtype, e));
    return value_array(out, a, e);
}

/* The file is opened once more, by the reader of checkpoints. */
static int read_npy(const datafile *d, value *out, kv_err *e)
{
    static const checkpoint_options npy = {.npy = true};
    own_checkpoint *f = NULL;
    kv_array *a;
    TRY(checkpoint_open(&f, d->is_stdin ? "-" : d->name, &npy, e));
    TRY(checkpoint_load(&a, f, 0, e));
    return value_array(out, a, e);
}

/* ---- Any file -------------------------------------------------------------------------------- */

/* Converts an array of a file that has dtypes of its own. */
static int convert(value *v, kv_dtype dtype, const char *name, kv_err *e)
{
    kv_array *a;
    if (kv_array_dtype(v->u.box->array) == dtype)
        return KV_OK;
    TRY(tensor_check_fits(v->u.box->array, dtype, name, e));
    TRY(kv_array_dup(&a, v->u.box->array, dtype, kv_array_ctx(v->u.box->array), e));
    value_release(v);
    return value_array(v, a, e);
}

/* Checks that a file of this kind has the given options. */
static int check_options(const char *name, file_kind kind, const load_options *o, kv_err *e)
{
    const csv_options *c = &o->csv;
    const char *option = c->header               ? "header="
                         : o->texts              ? "a column of texts"
                         : c->columns            ? "cols="
                         : c->separator          ? "sep="
                         : c->fills              ? "missing="
                         : c->decimal            ? "decimal="
                         : c->thousands          ? "thousands="
                         : c->percent            ? "percent="
                         : c->comment            ? "comment="
                         : c->ntexts || c->every ? "cats="
                                                 : NULL;
    if (option && kind != FILE_CSV && kind != FILE_TSV)
        return kv_err_set(e, KV_E_VALUE, "%s is for CSV and TSV, \"%s\" is neither", option, name);
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
    case FILE_NDJSON:
        return read_json(d, o, kind == FILE_NDJSON, out, e);
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
    own_datafile d = {.fd = -1};
    TRY(datafile_open(&d, s, path, e));
    if (kind == FILE_TEXT) {
        char first = datafile_first(&d);
        kind = first == '[' || first == '{' ? FILE_JSON : FILE_CSV;
    }
    int rc = check_options(d.name, kind, o, e);
    if (rc == KV_OK)
        rc = read_open(&d, kind, o, out, e);
    bool is_plain = !d.is_stdin && (!d.unpacks || kind == FILE_NPY);
    if (datafile_end(&d, rc, e)) {
        value_release(out);
        return e->code == KV_E_FORMAT && is_plain ? name_other(path, e) : e->code;
    }
    return KV_OK;
}

/* Returns true for FILE#PART where FILE ends as a checkpoint. */
static bool has_part(const char *path)
{
    const char *part = strrchr(path, '#');
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%.*s", part ? (int)(part - path) : 0, path);
    return file_is_checkpoint(file);
}

/* The kind of a file by its ending; of a packed table the one that it has besides .gz. */
static file_kind kind_of(const char *path)
{
    char inner[PATH_MAX];
    size_t n = strlen(path);
    bool packed = n > 3 && n < sizeof inner && strcmp(path + n - 3, ".gz") == 0;
    snprintf(inner, sizeof inner, "%.*s", packed ? (int)n - 3 : 0, path);
    file_kind kind = file_kind_of(inner);
    return packed && kind >= FILE_CSV && kind <= FILE_NDJSON ? kind
           : named_is_checkpoint(path)                             ? FILE_SAFETENSORS
                                                             : file_kind_of(path);
}

/* The value of a file. */
static int load(session *s, const char *path, const load_options *o, value *out, kv_err *e)
{
    file_kind kind = o->kind != FILE_UNKNOWN       ? o->kind
                     : o->name && has_part(path) ? FILE_SAFETENSORS
                                                 : kind_of(path);
    bool is_stdin = strcmp(path, "-") == 0;
    *out = value_none();
    if (o->csv.separator && (kind == FILE_UNKNOWN || kind == FILE_TEXT))
        kind = FILE_CSV;
    if (kind == FILE_NPY && o->name && !is_stdin)
        kind = FILE_SAFETENSORS; /* named like the file, as keys() has it */
    if (kind == FILE_UNKNOWN || (kind == FILE_TEXT && !is_stdin)) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" has no known ending", path);
        if (has_part(path))
            kv_err_hint(e, "a key stands behind the quotes: @\"%.*s\"%s", (int)strcspn(path, "#"),
                        path, strrchr(path, '#'));
        if (strstr(path, ".xls") || strstr(path, ".parquet") || strstr(path, ".feather"))
            kv_err_hint(e, "it is not read: save it as CSV");
        return kv_err_hint(e, "say what it is: load(\"%s\", format=\"csv\"), or another format",
                           path);
    }
    bool named = kind == FILE_SAFETENSORS, typed = named || kind == FILE_NPY;
    if (named) {
        TRY(check_options(path, kind, o, e));
        TRY(named_read(s, path, o->name, out, e));
    } else {
        TRY(read_stream(s, path, kind, o, out, e));
    }
    int rc = typed && o->csv.has_dtype ? convert(out, o->csv.dtype, is_stdin ? "stdin" : path, e)
                                       : KV_OK;
    return value_finish(out, rc);
}

int load_eval(session *s, const ast *node, value *out, kv_err *e)
{
    own_value path = value_none();
    load_options o = {.name = node->n == 2 ? node->kid[1]->u.text : NULL};
    TRY(eval_text(s, node->kid[0], "a file name", &path, e));
    return load(s, path.u.text, &o, out, e) ? unit_at(s, node, e) : KV_OK;
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

/* cols=: a number, a name, or a list of them. */
static int columns_of(value v, arena *memory, csv_options *o, kv_err *e)
{
    int64_t n;
    const value *items = value_items(&v, &n);
    int rc = KV_OK;
    if (n == 0)
        return kv_err_set(e, KV_E_VALUE, "cols= is an empty list: no column is left");
    csv_column *columns = arena_alloc(memory, (size_t)n * sizeof *columns, e);
    for (int64_t i = 0; i < n && rc == KV_OK; i++)
        rc = columns ? column_of(items[i], &columns[i], e) : KV_E_MEMORY;
    o->columns = columns;
    o->ncolumns = n;
    return rc;
}

/* A list of texts, or one text. */
static int texts_of(value v, const char *what, arena *memory, const char *const **out, int64_t *n,
                    kv_err *e)
{
    const value *items = value_items(&v, n);
    const char **texts = arena_alloc(memory, (size_t)(*n + 1) * sizeof *texts, e);
    int rc = texts ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < *n && rc == KV_OK; i++)
        rc = function_text(items[i], what, &texts[i], e);
    *out = texts;
    return rc;
}

/* cats= and onehot=: columns of texts, those and their texts by a dict, or all of them by true. */
static int text_columns_of(value v, bool onehot, arena *memory, csv_options *o, kv_err *e)
{
    int64_t n;
    const value *items = value_items(&v, &n);
    bool is_dict = v.kind == VALUE_DICT;
    if (v.kind == VALUE_BOOL && v.u.integer && onehot && (o->ntexts || o->every)) {
        kv_err_set(e, KV_E_VALUE, "onehot=true is for all columns of texts, and cats= is given");
        return kv_err_hint(e, "onehot=[\"city\"] makes columns of 0 and 1 of that one");
    }
    if (v.kind == VALUE_BOOL) {
        o->every = v.u.integer ? onehot ? CSV_ONEHOT : CSV_CODES : o->every;
        return KV_OK;
    }
    if (is_dict) {
        dict_settle(v);
        items = v.u.list->items;
        n = dict_count(v);
    }
    csv_text_column *all = arena_alloc(memory, (size_t)(o->ntexts + n) * sizeof *all, e);
    if (!all)
        return KV_E_MEMORY;
    if (o->ntexts)
        memcpy(all, o->texts, (size_t)o->ntexts * sizeof *all);
    o->texts = all;
    for (int64_t i = 0; i < n; i++) {
        csv_text_column *t = &all[o->ntexts++];
        *t = (csv_text_column){.onehot = onehot};
        TRY(column_of(items[is_dict ? 2 * i : i], &t->column, e));
        if (is_dict)
            TRY(texts_of(items[2 * i + 1], "a text of a column", memory, &t->texts, &t->ntexts, e));
    }
    return KV_OK;
}

/* true or false, of an option. */
static int flag_of(value v, const char *option, bool *out, kv_err *e)
{
    if (v.kind != VALUE_BOOL && v.kind != VALUE_NONE)
        return kv_err_set(e, KV_E_DTYPE, "%s is true or false, not %s", option, value_kind_name(v));
    *out = v.kind == VALUE_BOOL && v.u.integer;
    return KV_OK;
}

static int header_of(value v, load_options *o, kv_err *e)
{
    bool is = false;
    TRY(flag_of(v, "header=", &is, e));
    o->csv.header = is ? 1 : -1;
    return KV_OK;
}

/* missing=: the number that fills empty cells, or the texts that are nan, as empty cells are. */
static int missing_of(value v, arena *memory, csv_options *o, kv_err *e)
{
    o->fills = true;
    o->filler = (double)NAN;
    if (v.kind == VALUE_BOOL) {
        kv_err_set(e, KV_E_DTYPE, "missing= is a number or texts, not true or false");
        return kv_err_hint(e, "missing=nan reads empty cells as nan; missing=0 fills them");
    }
    return value_is_number(v) ? function_number(v, "missing=", &o->filler, e)
                              : texts_of(v, "missing=, when it is not a number,", memory,
                                         &o->missing, &o->nmissing, e);
}

/* Returns true if argument i was given, and is not none. */
static bool has(const function_args *args, int i)
{
    return args->given[i] && args->v[i].kind != VALUE_NONE;
}

/* One character, if it was given: of sep= a blank stands for any run of blanks and tabs. */
static int sign_of(const function_args *args, int i, const char *option, const char *not,
                   const char *rule, char *out, kv_err *e)
{
    const char *text;
    if (!has(args, i))
        return KV_OK;
    TRY(function_text(args->v[i], option, &text, e));
    *out = *text;
    if (!*text || text[1] || strchr(not, *text))
        return kv_err_set(e, KV_E_VALUE, "%s is one character, such as %s", option, rule);
    return KV_OK;
}

#define SEP_RULE   "\";\" or \"\\t\"; \" \" stands for any run of blanks"
#define MARK_RULE  "\",\""
#define NO_MARK    "+-0123456789eE\"\r\n"
#define NO_COMMENT "+-.0123456789,; \t\"\r\n"

int load_call(function_args *args, value *out, kv_err *e)
{
    enum { PATH, DTYPE, COLS, HEADER, FORMAT, NAME, SEP, MISSING, CATS, ONEHOT, DECIMAL, THOUSANDS,
           PERCENT, COMMENT };
    load_options o = {.kind = FILE_UNKNOWN};
    csv_options *csv = &o.csv;
    own_arena memory = {0};
    const value *v = args->v;
    const char *path;
    o.texts = has(args, DTYPE) && v[DTYPE].kind == VALUE_TEXT && !strcmp(v[DTYPE].u.text, "str");
    csv->strings = o.texts;
    csv->has_dtype = has(args, DTYPE) && !csv->strings;
    TRY(function_text(v[PATH], "the name of a file", &path, e));
    TRY(csv->has_dtype ? function_dtype(v[DTYPE], KV_FLOAT32, &csv->dtype, e) : KV_OK);
    TRY(args->given[HEADER] ? header_of(v[HEADER], &o, e) : KV_OK); /* None is False */
    TRY(has(args, FORMAT) ? function_text(v[FORMAT], "a format", &csv->format, e) : KV_OK);
    TRY(csv->format ? file_kind_parse(&o.kind, csv->format, e) : KV_OK);
    TRY(has(args, NAME) ? function_text(v[NAME], "the name of an array", &o.name, e) : KV_OK);
    TRY(has(args, COLS) ? columns_of(v[COLS], &memory, csv, e) : KV_OK);
    TRY(sign_of(args, SEP, "sep=", "\"\r\n#", SEP_RULE, &csv->separator, e));
    TRY(has(args, MISSING) ? missing_of(v[MISSING], &memory, csv, e) : KV_OK);
    TRY(has(args, CATS) ? text_columns_of(v[CATS], false, &memory, csv, e) : KV_OK);
    TRY(has(args, ONEHOT) ? text_columns_of(v[ONEHOT], true, &memory, csv, e) : KV_OK);
    TRY(sign_of(args, DECIMAL, "decimal=", NO_MARK, MARK_RULE, &csv->decimal, e));
    TRY(sign_of(args, THOUSANDS, "thousands=", NO_MARK, MARK_RULE, &csv->thousands, e));
    TRY(has(args, PERCENT) ? flag_of(v[PERCENT], "percent=", &csv->percent, e) : KV_OK);
    TRY(sign_of(args, COMMENT, "comment=", NO_COMMENT, "\"#\"", &csv->comment, e));
    if (csv->strings && csv->ncolumns != 1)
        return kv_err_set(e, KV_E_VALUE,
                          "dtype=\"str\" reads the texts of one column: cols=[\"name\"]");
    return load(args->session, path, &o, out, e);
}

int load_categories(function_args *args, value *out, kv_err *e)
{
    enum { PATH, COL, HEADER, SEP, MISSING, COMMENT };
    load_options o = {.kind = FILE_UNKNOWN, .texts = true};
    own_arena memory = {0};
    const value *v = args->v;
    const char *path;
    csv_column column;
    o.csv.columns = &column;
    o.csv.ncolumns = 1;
    TRY(function_text(v[PATH], "the name of a file", &path, e));
    TRY(column_of(v[COL], &column, e));
    TRY(args->given[HEADER] ? header_of(v[HEADER], &o, e) : KV_OK);
    TRY(sign_of(args, SEP, "sep=", "\"\r\n#", SEP_RULE, &o.csv.separator, e));
    TRY(has(args, MISSING) ? missing_of(v[MISSING], &memory, &o.csv, e) : KV_OK);
    TRY(sign_of(args, COMMENT, "comment=", NO_COMMENT, "\"#\"", &o.csv.comment, e));
    return load(args->session, path, &o, out, e);
}
