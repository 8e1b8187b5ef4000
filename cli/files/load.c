/* Arrays from files. What a file is, its ending says, or format=; of stdin the first byte tells
 * JSON from CSV. Every kind has a reader here that makes a value from an open file. */
#include "files/files.h"

#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "checkpoint/input.h"
#include "checkpoint/looks_like.h"
#include "checkpoint/scales.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_values.h"
#include "eval/eval.h"
#include "io/csv.h"
#include "io/json.h"
#include "lang/lex.h"
#include "session/containers.h"
#include "session/unit.h"
#include "syntax/file_kind.h"
#include "term/line.h"

/* The options of load(). */
typedef struct load_options {
    csv_options csv;
    file_kind kind;   /* FILE_UNKNOWN: by the ending or the first byte */
    bool has_header;  /* header= was given */
    bool texts; /* a list of the texts of one column: csv.strings: of each row, else each once */
    const char *name; /* of one array of several, or NULL */
} load_options;

/* ---- One reader for each kind ---------------------------------------------------------------- */

static int add_text(void *list, const char *text, kv_err *e)
{
    value v;
    int rc = value_text(&v, text, e);
    return rc ? rc : value_stack_add(list, v, e);
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
        return kv_err_hint(e, "thousands=\".\""), KV_E_VALUE;
    }
    value_stack texts = {0};
    int rc = o->texts ? csv_read_texts(d->f, d->name, &csv, csv.strings, add_text, &texts, e)
                      : csv_read_stream(&a, d->f, d->name, &csv, e);
    if (o->texts)
        rc = value_stack_take(out, &texts, rc, e);
    if (unmarked && csv.nmissing > 0 && *csv.missing[0])
        session_note(d->s, "no cell of %s is \"%s\"; missing= takes it and empty cells for %s, "
                     "and missing=0 fills them",
                     d->name, csv.missing[0], o->texts ? "no text" : "nan");
    if (rc == KV_OK && doubtful && !o->texts)
        session_note(d->s, "the first row of %s is taken for a header: header=false reads it",
                     d->name);
    return rc || o->texts ? rc : value_array(out, a, e);
}

static int add_array(void *list, kv_array *a, kv_err *e)
{
    value v;
    int rc = value_array(&v, a, e);
    return rc ? rc : value_stack_add(list, v, e);
}

/* An array, or with `lines` a list of one a line. */
static int read_json(datafile *d, const load_options *o, bool lines, value *out, kv_err *e)
{
    char *text;
    size_t n;
    kv_array *a;
    value_stack l = {0};
    const csv_options *c = &o->csv;
    int rc = datafile_text(d, &text, &n, e);
    if (rc)
        return rc;
    if (!lines && (rc = json_read(&a, text, n, d->name, c->has_dtype, c->dtype, e)) == KV_OK)
        rc = value_array(out, a, e);
    if (lines) {
        rc = json_read_lines(text, n, d->name, c->has_dtype, c->dtype, add_array, &l, e);
        rc = value_stack_take(out, &l, rc, e);
    }
    mem_free(text);
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

/* ---- Files of named arrays ---- */

static int named_open(const char *path, checkpoint **out, kv_err *e)
{
    if (strcmp(path, "-") == 0)
        line_lend_terminal();
    int rc = checkpoint_open(out, path, &(checkpoint_options){.weights = true}, e);
    if (rc == KV_OK && (rc = tensor_values_decode(out, 1, NULL, NULL, e)))
        checkpoint_close(*out);
    return rc;
}

/* Returns true if a tensor of this name is all that a path of dicts leads to. */
static bool is_tensor(const checkpoint *c, const char *part)
{
    size_t n = strlen(part), m;
    if (checkpoint_count(c) != 1 || (m = strlen(checkpoint_at(c, 0)->name)) > n)
        return false;
    return strcmp(part + n - m, checkpoint_at(c, 0)->name) == 0 &&
           (m == n || part[n - m - 1] == '.');
}

/* The number of the array of this name, or -1: those too that are scales of another one, which no
 * pattern chooses. */
static int64_t named_find(const checkpoint *f, const char *name)
{
    int64_t i = checkpoint_find(f, name);
    return i >= 0 ? i : tensor_values_find_hidden(f, name);
}

static int named_open_part(const char *path, const char *part, checkpoint **out, bool *one,
                           kv_err *e)
{
    static const char *const endings[] = {".pt", ".pth", ".bin", ".ckpt"};
    const char *dot = strrchr(path, '.');
    bool torch = false;
    buf both = {0};
    kv_err why = {0};
    *out = NULL;
    *one = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && dot; i++)
        torch |= strcasecmp(dot, endings[i]) == 0;
    if (!torch)
        return KV_OK;
    buf_printf(&both, "%s#%s", path, part);
    int rc = buf_check(&both, &why);
    if (!rc)
        rc = named_open(buf_text(&both), out, &why);
    buf_release(&both);
    if (!rc) {
        *one = is_tensor(*out, part);
        return KV_OK;
    }
    *out = NULL;
    checkpoint *all; /* it may have an array of this name */
    if ((rc == KV_E_NAME || rc == KV_E_UNSUPPORTED) && !named_open(path, &all, &(kv_err){0})) {
        rc = named_find(all, part) >= 0 ? KV_OK : rc;
        checkpoint_close(all);
    }
    if (rc)
        *e = why;
    return rc;
}

bool named_is_pattern(const ast *keys)
{
    const ast *only = keys->n == 1 ? keys->kid[0] : NULL;
    return only && only->kind == AST_KEY && only->op == 2 && strpbrk(only->u.text, "*?");
}

/* Returns true if a name is an integer in its usual form: 7, -3, but not 007. */
static bool is_integer(const char *name, int64_t *id)
{
    char again[NUM_TEXT_MAX];
    bool over = false;
    size_t n = strlen(name);
    if (n == 0 || num_parse_int(name, n, id, &over) != n || over)
        return false;
    num_int(again, *id);
    return strcmp(again, name) == 0;
}

/* Adds the names that match; room is there for all. */
static int add_matching(const char *pattern, const checkpoint *f, bool *integers, key_list *out,
                        kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(f); i++) {
        const char *name = checkpoint_at(f, i)->name;
        int64_t id;
        if (fnmatch(pattern, name, 0) != 0)
            continue;
        if (strlen(name) > KV_KEY_MAX)
            return kv_err_set(e, KV_E_VALUE, "the name \"%.40s...\" is too long for a key", name);
        *integers = *integers && is_integer(name, &id);
        char *copy = arena_text(&out->names, name, strlen(name), e);
        if (!copy)
            return KV_E_MEMORY;
        out->keys[out->n++] = (kv_key){0, copy};
    }
    return KV_OK;
}

int named_keys(session *s, const ast *keys, const checkpoint *f, key_list *out, kv_err *e)
{
    const char *pattern = keys->kid[0]->u.text;
    bool texts = false, integers = true;
    *out = (key_list){.list = true};
    kv *store;
    kv_info info;
    int rc = session_store(s, &store, e);
    if (rc == KV_OK && kv_num_keys(store) > 0 && (rc = kv_info_at(store, 0, &info, e)) == KV_OK)
        texts = info.key.name != NULL;
    if (rc == KV_OK)
        rc = mem_grow(&out->keys, &out->cap, checkpoint_count(f) + 1, sizeof *out->keys, e);
    if (rc == KV_OK)
        rc = add_matching(pattern, f, &integers, out, e);
    if (rc == KV_OK && out->n == 0)
        rc =
            kv_err_set(e, KV_E_KEY, "no array of the file has a name that matches `%s`", pattern);
    if (rc) {
        key_list_release(out);
        return unit_at(s, keys, e);
    }
    for (int64_t i = 0; i < out->n && integers && !texts; i++) {
        is_integer(out->keys[i].name, &out->keys[i].id);
        out->keys[i].name = NULL;
    }
    return KV_OK;
}

/* Array i of f. Errors: those of checkpoint_load; dtype (it is codes, whose scales are other
 * arrays: checkpoint/scales.h). */
static int named_load(kv_array **out, const checkpoint *f, int64_t i, kv_err *e)
{
    scales found;
    const tensor_info *t = checkpoint_at(f, i);
    return scales_find_of(&found, f, t) ? scales_refuse(&found, false, e)
                                        : checkpoint_load(out, f, i, e);
}

void bare_codes_count(bare_codes *b, const checkpoint *f, int64_t i)
{
    const tensor_info *t = i < 0 ? NULL : checkpoint_at(f, i);
    if (t && (t->type == TENSOR_F8_E4M3 || t->type == TENSOR_F8_E5M2) && b->n++ == 0) {
        b->name = t->name;
        b->f = f;
    }
}

void bare_codes_tell(session *s, const bare_codes *b)
{
    if (b->n > 0 && tensor_values_has_scales(b->f))
        session_note(s, "%lld key%s of F8 without a scale in this file, read as numbers: %.80s",
                     (long long)b->n, b->n == 1 ? " is" : "s are", b->name);
}

int named_array(kv_array **out, const checkpoint *f, kv_key key, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    num_int(number, key.id);
    int64_t i = named_find(f, key.name ? key.name : number);
    return i >= 0 ? named_load(out, f, i, e)
                  : checkpoint_load_name(out, f, key.name ? key.name : number, e);
}

typedef struct wanted_text {
    const char *name;
    bool there;
} wanted_text;

/* Receives the topic "metadata" of kv_describe. */
static int look_for_text(void *arg, const kv_field *fields, int n, kv_err *e)
{
    wanted_text *w = arg;
    (void)n, (void)e;
    w->there = w->there || strcmp(fields[0].text, w->name) == 0;
    return KV_OK;
}

int named_metadata(kv *store, const checkpoint *f, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < checkpoint_metadata_count(f) && rc == KV_OK; i++) {
        const checkpoint_text *text = checkpoint_metadata_at(f, i);
        wanted_text w = {.name = text->name};
        if (strncmp(text->name, "kvstore.", 8) != 0)
            rc = kv_describe(store, "metadata", look_for_text, &w, e);
        else
            w.there = true; /* a store of the same library wrote these about itself */
        if (rc == KV_OK && !w.there)
            rc = kv_set_metadata(store, text->name, text->text, e);
    }
    return rc;
}

/* ---- One array of a file ---- */

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

/* Returns true if a text needs no quotes behind @ or #. */
static bool is_bare(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x80 && !lex_is_letter(*text) && !lex_is_digit(*text) &&
            !strchr("./~+-", *text))
            return false;
    return true;
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
    if (!name && n > 0) {
        const char *first = checkpoint_at(f, 0)->name;
        bool is_stdin = strcmp(path, "-") == 0;
        if (!is_stdin && is_bare(path) && *first && is_bare(first))
            buf_printf(&hint, "say which: @%s#%s; ", path, first);
        else
            buf_printf(&hint, "say which: load(\"%s\"%s, name=\"%s\"); ", path,
                       is_stdin ? ", format=\"safetensors\"" : "", first);
    }
    if (n > 0)
        all = list_names(&hint, f);
    else if (name)
        buf_add(&hint, "it holds none");
    if (!all && name) {
        for (int64_t i = 0; i < checkpoint_count(f); i++)
            suggest_add(&near, checkpoint_at(f, i)->name);
    }
    if (near.n > 0)
        suggest_done(&near, e);
    else if (hint.len > 0)
        kv_err_hint(e, "%s", buf_text(&hint));
    buf_release(&hint);
    return e->code;
}

static int read_named(session *s, const char *path, const char *name, value *out, kv_err *e)
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
    if (!rc) {
        bare_codes bare = {0};
        bare_codes_count(&bare, f, at);
        bare_codes_tell(s, &bare);
    }
    checkpoint_close(f);
    return rc;
}

/* ---- Any file -------------------------------------------------------------------------------- */

/* Converts an array of a file that has dtypes of its own. */
static int convert(value *v, kv_dtype dtype, const char *name, kv_err *e)
{
    kv_array *a;
    if (kv_array_dtype(v->u.box->array) == dtype)
        return KV_OK;
    int rc = tensor_check_fits(v->u.box->array, dtype, name, e);
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
    const csv_options *c = &o->csv;
    const char *option = o->has_header            ? "header="
                         : o->texts               ? "a column of texts"
                         : c->columns             ? "cols="
                         : c->separator           ? "sep="
                         : c->fills               ? "missing="
                         : c->decimal             ? "decimal="
                         : c->thousands           ? "thousands="
                         : c->percent             ? "percent="
                         : c->comment             ? "comment="
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
    bool is_plain = !d.is_stdin && (!d.unpacks || kind == FILE_NPY);
    if (datafile_close(&d, rc, e)) {
        value_release(out);
        return e->code == KV_E_FORMAT && is_plain ? name_other(path, e) : e->code;
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
           : is_checkpoint(path)                             ? FILE_SAFETENSORS
                                                             : file_kind_of(path);
}

/* The value of a file. */
static int load(session *s, const char *path, const load_options *o, value *out, kv_err *e)
{
    file_kind kind = o->kind != FILE_UNKNOWN       ? o->kind
                     : o->name && has_part(path) ? FILE_SAFETENSORS
                                                 : kind_of(path);
    bool is_stdin = strcmp(path, "-") == 0;
    int rc;
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
        kv_err_hint(e, "say what it is: load(\"%s\", format=\"csv\"), or another format", path);
        return KV_E_USAGE;
    }
    if (kind != FILE_SAFETENSORS)
        rc = read_stream(s, path, kind, o, out, e);
    else if ((rc = check_options(path, kind, o, e)) == KV_OK)
        rc = read_named(s, path, o->name, out, e);
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
    int rc = KV_OK;
    if (v.kind == VALUE_BOOL && v.u.integer && onehot && (o->ntexts || o->every)) {
        kv_err_set(e, KV_E_VALUE, "onehot=true is for all columns of texts, and cats= is given");
        return kv_err_hint(e, "onehot=[\"city\"] makes columns of 0 and 1 of that one"), KV_E_VALUE;
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
    for (int64_t i = 0; i < n && rc == KV_OK; i++) {
        csv_text_column *t = &all[o->ntexts++];
        *t = (csv_text_column){.onehot = onehot};
        rc = column_of(items[is_dict ? 2 * i : i], &t->column, e);
        if (is_dict && rc == KV_OK)
            rc = texts_of(items[2 * i + 1], "a text of a column", memory, &t->texts, &t->ntexts, e);
    }
    o->texts = all;
    return rc;
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
    if (flag_of(v, "header=", &is, e))
        return KV_E_DTYPE;
    o->csv.header = is ? 1 : -1;
    o->has_header = true;
    return KV_OK;
}

/* missing=: the number that fills empty cells, or the texts that are nan, as empty cells are. */
static int missing_of(value v, arena *memory, csv_options *o, kv_err *e)
{
    o->fills = true;
    o->filler = (double)NAN;
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
    int rc = has(args, i) ? function_text(args->v[i], option, &text, e) : KV_OK;
    if (rc || !has(args, i))
        return rc;
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
    enum { PATH, DTYPE, COLS, HEADER, FORMAT, NAME, SEP, MISSING, CATS, ONEHOT, POINT, MARK,
           PERCENT, HASH };
    load_options o = {.kind = FILE_UNKNOWN};
    csv_options *csv = &o.csv;
    arena memory = {0};
    const value *v = args->v;
    const char *path;
    o.texts = has(args, DTYPE) && v[DTYPE].kind == VALUE_TEXT && !strcmp(v[DTYPE].u.text, "str");
    csv->strings = o.texts;
    csv->has_dtype = has(args, DTYPE) && !csv->strings;
    int rc = function_text(v[PATH], "the name of a file", &path, e) ||
             (csv->has_dtype && function_dtype(v[DTYPE], KV_FLOAT32, &csv->dtype, e)) ||
             (args->given[HEADER] && header_of(v[HEADER], &o, e)) ||
             (has(args, FORMAT) && (function_text(v[FORMAT], "a format", &csv->format, e) ||
                                    file_kind_parse(&o.kind, csv->format, e))) ||
             (has(args, NAME) && function_text(v[NAME], "the name of an array", &o.name, e)) ||
             (has(args, COLS) && columns_of(v[COLS], &memory, csv, e)) ||
             sign_of(args, SEP, "sep=", "\"\r\n#", SEP_RULE, &csv->separator, e) ||
             (has(args, MISSING) && missing_of(v[MISSING], &memory, csv, e)) ||
             (has(args, CATS) && text_columns_of(v[CATS], false, &memory, csv, e)) ||
             (has(args, ONEHOT) && text_columns_of(v[ONEHOT], true, &memory, csv, e)) ||
             sign_of(args, POINT, "decimal=", NO_MARK, MARK_RULE, &csv->decimal, e) ||
             sign_of(args, MARK, "thousands=", NO_MARK, MARK_RULE, &csv->thousands, e) ||
             (has(args, PERCENT) && flag_of(v[PERCENT], "percent=", &csv->percent, e)) ||
             sign_of(args, HASH, "comment=", NO_COMMENT, "\"#\"", &csv->comment, e);
    if (!rc && csv->strings && csv->ncolumns != 1)
        rc = kv_err_set(e, KV_E_VALUE,
                        "dtype=\"str\" reads the texts of one column: cols=[\"name\"]");
    if (!rc)
        rc = load(args->session, path, &o, out, e);
    arena_release(&memory);
    return rc ? (int)e->code : KV_OK;
}

int load_categories(function_args *args, value *out, kv_err *e)
{
    enum { PATH, COL, HEADER, SEP, MISSING, COMMENT };
    load_options o = {.kind = FILE_UNKNOWN, .texts = true};
    arena memory = {0};
    const value *v = args->v;
    const char *path;
    csv_column column;
    o.csv.columns = &column;
    o.csv.ncolumns = 1;
    int rc = function_text(v[PATH], "the name of a file", &path, e) ||
             column_of(v[COL], &column, e) ||
             (args->given[HEADER] && header_of(v[HEADER], &o, e)) ||
             sign_of(args, SEP, "sep=", "\"\r\n#", SEP_RULE, &o.csv.separator, e) ||
             (has(args, MISSING) && missing_of(v[MISSING], &memory, &o.csv, e)) ||
             sign_of(args, COMMENT, "comment=", NO_COMMENT, "\"#\"", &o.csv.comment, e) ||
             load(args->session, path, &o, out, e);
    arena_release(&memory);
    return rc ? (int)e->code : KV_OK;
}
