/* Values into files.
 *
 * A value is first made into parts: the arrays that the file will hold, or the text. Everything
 * that can be wrong with them is found there. Then the file is written beside the old one, and when
 * several are written they are renamed into place together, at the end.
 */
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "checkpoint/in_place.h"
#include "checkpoint/safetensors.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/npy.h"
#include "session/containers.h"
#include "session/result.h"
#include "syntax/effect.h"
#include "syntax/file_kind.h"
#include "term/terminal.h"

/* ---- A stream that can be interrupted -------------------------------------------------------- */

/* The writers of the library write to any stream. This one, of fopencookie, shows progress, hands
 * their bytes on, in pieces, to another, and between the pieces looks whether the session was
 * interrupted. */

typedef struct watch {
    FILE *f; /* to write to */
    FILE *to;
    session *s;
    int64_t done; /* bytes */
} watch;

/* Bytes between two looks: well below a tenth of a second on any disk. */
#define WRITE_PIECE 1048576

static ssize_t on_write(void *cookie, const char *text, size_t n)
{
    watch *w = cookie;
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < WRITE_PIECE ? n - at : WRITE_PIECE;
        errno = session_interrupted(w->s, NULL) ? EINTR : 0;
        if (errno || fwrite(text + at, 1, part, w->to) != part) {
            errno = errno ? errno : EIO;
            return 0;
        }
        progress_step(w->done += (int64_t)part);
    }
    return (ssize_t)n;
}

/* Opens w->f, which hands on to `to`; w must stay where it is. path: for messages. Error: io. */
static int watch_open(watch *w, session *s, FILE *to, const char *path, kv_err *e)
{
    *w = (watch){.to = to, .s = s};
    w->f = fopencookie(w, "wb", (cookie_io_functions_t){.write = on_write});
    if (!w->f)
        return file_error(e, "write", path, errno);
    progress_begin("write", 0, PROGRESS_BYTES);
    return KV_OK;
}

/* Closes w->f, not `to`. rc is what writing came to; returns it, or io. */
static int watch_close(watch *w, const char *path, int rc, kv_err *e)
{
    if (fclose(w->f) != 0 && rc == KV_OK)
        rc = file_error(e, "write", path, errno);
    progress_end();
    return rc;
}

/* ---- Adding rows ---- */

/* Adding to a file of lines: its old contents are copied in front of the new ones, so that the file
 * is replaced at once, and two processes that add to one file wait for each other. */

typedef struct old_file {
    FILE *f;          /* the old file; NULL: there is none, or it is empty or no file */
    const char *path; /* borrowed */
    int folder;       /* locked while it is open; -1: could not be opened */
} old_file;

/* Bytes that are copied at a time. */
#define PIECE 65536

/* Opens and locks the folder of path, following links; *folder is -1 when that cannot be done, and
 * then writing says what is wrong, if anything is. */
static int lock_folder(int *folder, session *s, const char *path, kv_err *e)
{
    char target[PATH_MAX];
    TRY(file_follow(path, target, e));
    char *slash = strrchr(target, '/');
    strcpy(slash ? slash + 1 : target, slash ? "" : ".");
    *folder = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = KV_OK;
    while (*folder >= 0 && flock(*folder, LOCK_EX) != 0) {
        if (errno == EINTR && (rc = session_interrupted(s, e)) == KV_OK)
            continue;
        close(*folder); /* interrupted, or a file system without locks */
        *folder = -1;
        return rc;
    }
    return KV_OK;
}

static void old_file_close(old_file *o)
{
    if (o->f)
        fclose(o->f);
    if (o->path && o->folder >= 0)
        close(o->folder);
    *o = (old_file){0};
}

/* Opens path if it is there. lock: keeps others who add to files of its folder waiting until
 * old_file_close; whoever opens several at a time locks for the first one only, since it would wait
 * for itself. Errors: io, interrupted; the caller closes all the same. */
static int old_file_open(old_file *o, session *s, const char *path, bool lock, kv_err *e)
{
    struct stat about;
    *o = (old_file){.path = path, .folder = -1};
    TRY(lock ? lock_folder(&o->folder, s, path, e) : KV_OK);
    if (stat(path, &about) != 0) /* one that cannot be looked at is not missing */
        return errno == ENOENT ? KV_OK : file_error(e, "read", path, errno);
    if (!S_ISREG(about.st_mode) || about.st_size == 0)
        return KV_OK;
    o->f = fopen(path, "rbe");
    return o->f ? KV_OK : file_error(e, "read", path, errno);
}

/* Writes all of it to `to`, ending in a newline. Error: io. */
static int old_file_copy(old_file *o, FILE *to, kv_err *e)
{
    size_t n;
    char last = '\n';
    if (!o->f)
        return KV_OK;
    own_mem char *piece = mem_alloc(PIECE, 1, e);
    if (!piece)
        return KV_E_MEMORY;
    rewind(o->f);
    while ((n = fread(piece, 1, PIECE, o->f)) > 0) {
        last = piece[n - 1];
        if (fwrite(piece, 1, n, to) != n)
            return file_error(e, "write", o->path, errno);
    }
    if (ferror(o->f))
        return file_error(e, "read", o->path, errno);
    return last != '\n' && fputc('\n', to) == EOF ? file_error(e, "write", o->path, errno) : KV_OK;
}

/* ---- Files ---- */

/* The contents of one file: arrays, or text. */
typedef struct parts {
    file_kind kind; /* of the file, or FILE_TEXT whatever it is called */
    kv_array **arrays;
    int64_t n;
    const kv_key *keys; /* one an array, or NULL; borrowed */
    kv_key *names;      /* those of a dict, whose texts are borrowed; or NULL */
    kv *store;          /* in use, whose metadata of other tools a file gets; NULL: none */
    buf text;           /* of a text file, table or picture */
    bool append;
} parts;

static void parts_release(parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        kv_array_unref(p->arrays[i]);
    mem_free(p->arrays);
    mem_free(p->names);
    buf_release(&p->text);
}
#define own_parts OWN(parts_release) parts

/* ---- Making the parts ------------------------------------------------------------------------ */

/* Adds the array of v; room was made. */
static int add_array(parts *p, const char *path, value v, kv_err *e)
{
    if (v.kind == VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "\"%s\" holds an array, and this is text: .txt takes it",
                          path);
    TRY(value_to_array(&p->arrays[p->n], v, e));
    p->n++;
    return KV_OK;
}

/* Adds the text that would be shown in a format, without a limit of length. */
static int add_text(session *s, parts *p, const result *r, show_format format, kv_err *e)
{
    const int64_t threshold = s->out.style.threshold;
    const show_format shown = s->out.format;
    s->out.style.threshold = INT64_MAX;
    s->out.format = format;
    int rc = show_result(s, &p->text, r, e);
    s->out.style.threshold = threshold;
    s->out.format = shown;
    p->kind = FILE_TEXT;
    return rc ? rc : buf_check(&p->text, e);
}

/* Adds a table, a line of JSON for each row. */
static int add_lines(parts *p, const rows *r, kv_err *e)
{
    p->kind = FILE_TEXT;
    for (int64_t i = 0; i * r->ncolumns < r->n; i++) {
        json_writer w = {.out = &p->text};
        json_begin(&w, NULL, '{');
        TRY(rows_json_row(&w, r, i, e));
        json_end(&w, '}');
        buf_char(&p->text, '\n');
    }
    return buf_check(&p->text, e);
}

/* Returns true for a value that .json holds as --format json shows it. Numbers are an array, which
 * is read back, and booleans are not, as they would become numbers. */
static bool is_for_json(const result *r)
{
    if (r->as_text || r->keys || r->v.kind == VALUE_ARRAY)
        return r->as_json || r->entries.columns;
    unsigned array = VALUE_BIT(VALUE_INT) | VALUE_BIT(VALUE_FLOAT);
    return r->v.kind != VALUE_NONE && (value_kinds(r->v, ~array) & ~array);
}

/* A value for a file that holds one array. */
static int check_one(const char *path, const result *r, int64_t n, kv_err *e)
{
    if (r->keys && n != 1) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" holds one array, there are %lld keys", path,
                   (long long)n);
        return kv_err_hint(e, "a file for each: > grad-{key}.csv; one for all: .safetensors, "
                              ".ndjson");
    }
    if (value_is_several(r->v) && n != 1) {
        kv_err_set(e, KV_E_DTYPE, "\"%s\" holds one array, and this is a list of %lld", path,
                   (long long)n);
        return kv_err_hint(e, ".ndjson holds an array a line");
    }
    return KV_OK;
}

/* The arrays of a dict under their names. */
static int add_dict(parts *p, const char *path, value dict, kv_err *e)
{
    dict_settle(dict);
    int64_t n = dict_count(dict);
    const value *item = dict.u.list->items;
    if (!(p->arrays = mem_zalloc(n, sizeof *p->arrays, e)) ||
        !(p->names = mem_zalloc(n, sizeof *p->names, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++, item += 2) {
        if (item->kind != VALUE_TEXT)
            return kv_err_set(e, KV_E_DTYPE, "the names in \"%s\" are texts, not %s", path,
                              value_kind_name(*item));
        p->names[i].name = item->u.text;
        TRY(add_array(p, path, item[1], e));
    }
    return KV_OK;
}

static int make_parts(session *s, parts *p, const char *path, const result *r, kv_err *e)
{
    file_kind kind = p->kind = file_kind_of(path);
    if (kind == FILE_TEXT)
        return add_text(s, p, r, s->out.format, e);
    if (kind == FILE_JSON && is_for_json(r))
        return add_text(s, p, r, SHOW_JSON, e);
    if (r->as_text && r->entries.columns && kind == FILE_NDJSON)
        return add_lines(p, &r->entries, e);
    if (r->as_text && r->entries.columns && (kind == FILE_CSV || kind == FILE_TSV)) {
        if (p->append)
            return kv_err_set(
                e, KV_E_USAGE,
                "\"%s\": a table with its line of names makes a whole file: > writes it", path);
        p->kind = FILE_TEXT;
        return rows_csv(&p->text, &r->entries, kind == FILE_TSV ? '\t' : ',', e);
    }
    if (kind == FILE_SAFETENSORS && r->v.kind == VALUE_DICT && dict_count(r->v) > 0)
        return add_dict(p, path, r->v, e);
    /* those of a list are arrays of their own; a bracket of numbers only is one array */
    bool list = value_is_several(r->v);
    int64_t n = list ? r->v.u.list->n : 1;
    const value *items = list ? r->v.u.list->items : &r->v;
    if (kind == FILE_SAFETENSORS && !r->keys && items != &r->v) {
        kv_err_set(e, KV_E_DTYPE, "the arrays in \"%s\" have names, those of a list have none",
                   path);
        return kv_err_hint(e, ".ndjson holds an array a line");
    }
    TRY(kind == FILE_NDJSON || kind == FILE_SAFETENSORS ? KV_OK : check_one(path, r, n, e));
    if (!(p->arrays = mem_zalloc(n, sizeof *p->arrays, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        int rc = add_array(p, path, items[i], e);
        if (rc == KV_E_SHAPE && kind == FILE_JSON) { /* lists that are not an array are JSON, too */
            *e = (kv_err){0};
            return add_text(s, p, r, SHOW_JSON, e);
        }
        TRY(rc);
    }
    return KV_OK;
}

/* ---- Writing one file ------------------------------------------------------------------------ */

/* The one array of a file whose value has no key. */
#define NAME_OF_ONE "data"

static int write_safetensors(FILE *f, const char *path, const parts *p, kv_err *e)
{
    own_arena names = {0};
    own_mem safetensors_item *items = mem_zalloc(p->n, sizeof *items, e);
    if (!items)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < p->n; i++) {
        char number[NUM_TEXT_MAX];
        const char *name = p->keys ? named_key(p->keys[i], number) : NAME_OF_ONE;
        if (!(name = arena_text(&names, name, strlen(name), e)))
            return KV_E_MEMORY;
        items[i] = (safetensors_item){name, p->arrays[i]};
    }
    checkpoint_text *texts = NULL;
    int64_t n = 0;
    TRY(p->store ? named_texts(p->store, &names, &texts, &n, e) : KV_OK);
    return safetensors_write(f, path, items, p->n, texts, n, e);
}

/* Rows that are added have no first line, but those of a new file say their dtype. */
static int write_rows(FILE *f, const char *path, const parts *p, bool is_new, char separator,
                      kv_err *e)
{
    csv_options o = {.separator = separator, .header = p->append ? -1 : 0};
    kv_dtype dtype = kv_array_dtype(p->arrays[0]);
    if (p->append && is_new && dtype != KV_FLOAT32)
        fprintf(f, "# dtype=%s\n", kv_dtype_name(dtype));
    return csv_write_stream(f, p->arrays[0], path, &o, e);
}

static int write_lines(FILE *f, const char *path, const parts *p, kv_err *e)
{
    for (int64_t i = 0; i < p->n; i++)
        TRY(json_write_stream(f, p->arrays[i], path, e));
    return KV_OK;
}

static int write_parts(FILE *f, const char *path, const parts *p, bool is_new, kv_err *e)
{
    switch (p->kind) {
    case FILE_CSV:
        return write_rows(f, path, p, is_new, ',', e);
    case FILE_TSV:
        return write_rows(f, path, p, is_new, '\t', e);
    case FILE_JSON:
    case FILE_NDJSON:
        return write_lines(f, path, p, e);
    case FILE_NPY:
        return npy_write(f, path, p->arrays[0], e);
    case FILE_SAFETENSORS:
        return write_safetensors(f, path, p, e);
    case FILE_TEXT:
        return file_put(f, path, buf_text(&p->text), p->text.len, e);
    case FILE_UNKNOWN:
        break;
    }
    kv_assert(false, "\"%s\" is written, and its kind was not found", path);
    return kv_assert_report(e);
}

/* A file that is written but not yet in its place. */
typedef struct written {
    file_out out;
    old_file old; /* its old contents, when rows are added */
    char *path;
} written;

static void written_release(written *w)
{
    old_file_close(&w->old);
    mem_free(w->path);
    w->path = NULL;
}

static void written_abandon(written *w)
{
    file_out_abandon(&w->out);
    written_release(w);
}

static int written_commit(written *w, kv_err *e)
{
    bool opened = w->out.name != NULL; /* a dry run opens none */
    int rc = opened ? file_out_commit(&w->out, e) : KV_OK;
    if (opened && !rc)
        in_place_forget(w->path);
    written_release(w);
    return rc;
}

static int write_whole(session *s, written *w, const char *path, const parts *p, bool lock,
                       kv_err *e)
{
    TRY(safe_write(s, path, e));
    if (session_would(s, "write", path))
        return KV_OK;
    if (!(w->path = mem_text(path, strlen(path), e)))
        return KV_E_MEMORY;
    TRY(p->append ? old_file_open(&w->old, s, w->path, lock, e) : KV_OK);
    if (p->append && (p->kind == FILE_CSV || p->kind == FILE_TSV))
        TRY(csv_rows_fit(w->old.f, path, p->arrays[0], p->kind == FILE_TSV ? '\t' : ',', e));
    TRY(file_out_open(&w->out, path, e));
    w->out.unsynced = s->writes_unsynced;
    watch through;
    TRY(old_file_copy(&w->old, w->out.f, e));
    TRY(watch_open(&through, s, w->out.f, path, e));
    TRY(watch_close(&through, path, write_parts(through.f, path, p, !w->old.f, e), e));
    return file_out_sync(&w->out, e);
}

/* Ctrl-C and the time limit end a write with an error of its own, also the wait of a pipe. */
static int write_file(session *s, written *w, const char *path, const parts *p, bool lock,
                      kv_err *e)
{
    kv_err why = {0};
    int rc = write_whole(s, w, path, p, lock, e);
    if (rc != KV_E_IO || !session_interrupted(s, &why))
        return rc;
    *e = why;
    return e->code;
}

/* Refuses one array without a name in place of a file of several that have names. */
static int check_keys(const char *path, const parts *p, kv_err *e)
{
    own_checkpoint *c = NULL;
    if (p->keys || p->n != 1 || p->kind != FILE_SAFETENSORS ||
        checkpoint_open(&c, path, NULL, &(kv_err){0}))
        return KV_OK;
    int64_t n = checkpoint_count(c);
    if (n < 2)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE,
               "\"%s\" holds %lld keys, which one array without a name would replace", path,
               (long long)n);
    return kv_err_hint(e, "kvctl -s FILE -c 'init KEY VALUE' adds one; else remove the file first");
}

/* key: of a value that is not a list, or NULL. */
static int save_one(session *s, written *w, const char *path, const result *r, const kv_key *key,
                    bool append, bool lock, kv_err *e)
{
    own_parts p = {.append = append};
    TRY(file_kind_check(path, append, e));
    TRY(make_parts(s, &p, path, r, e));
    p.keys = r->keys ? r->keys : p.names ? p.names : key;
    p.store = s->current < 0 ? NULL : s->stores[s->current].store;
    TRY(check_keys(path, &p, e));
    if (p.kind == FILE_NPY && kv_array_dtype(p.arrays[0]) == KV_BFLOAT16)
        session_note(s, "%s: npy has no bfloat16, so it holds the same numbers as float32", path);
    return write_file(s, w, path, &p, lock, e);
}

/* ---- The calls of commands ------------------------------------------------------------------- */

#define KEY_MARK "{key}"

/* path with the key in the place of {key}, if that stands in it. */
static int path_of_key(buf *out, const char *path, const kv_key *key, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    const char *at = strstr(path, KEY_MARK), *name = at ? named_key(*key, number) : "";
    if (strchr(name, '/'))
        return kv_err_set(e, KV_E_VALUE, "the key \"%s\" has a / and cannot stand in a file name",
                          name);
    buf_put(out, path, at ? (size_t)(at - path) : strlen(path));
    buf_add(out, name);
    buf_add(out, at ? at + strlen(KEY_MARK) : "");
    return buf_check(out, e);
}

int save_result(session *s, const char *path, const result *r, bool append, kv_err *e)
{
    bool marked = strstr(path, KEY_MARK) != NULL, each = marked && r->keys;
    int64_t n = 0, all = each ? r->nkeys : 1;
    if (strcmp(path, "-") == 0) {
        own_parts p = {0};
        TRY(add_text(s, &p, r, s->out.format, e));
        return session_out(s, buf_text(&p.text), p.text.len, e);
    }
    if (marked && !r->keys && !r->has_key)
        return kv_err_set(e, KV_E_USAGE,
                          "\"%s\": {key} stands for the keys of a pull, and there is none here",
                          path);
    written *files = mem_zalloc(all, sizeof *files, e);
    int rc = files ? KV_OK : KV_E_MEMORY;
    for (; n < all && rc == KV_OK; n++) {
        own_buf name = {0};
        result one = each ? (result){.v = r->v.u.list->items[n]} : *r;
        const kv_key *key = each ? &r->keys[n] : r->has_key ? &r->key : NULL;
        if ((rc = session_interrupted(s, e)) == KV_OK &&
            (rc = path_of_key(&name, path, key, e)) == KV_OK)
            rc = save_one(s, &files[n], buf_text(&name), &one, key, append, n == 0, e);
    }
    for (int64_t i = 0; i < n; i++) {
        if (rc)
            written_abandon(&files[i]);
        else
            rc = written_commit(&files[i], e);
    }
    mem_free(files);
    return rc;
}

int save_text(session *s, const char *path, const buf *text, bool append, kv_err *e)
{
    written w = {0};
    parts p = {.kind = FILE_TEXT, .text = *text, .append = append}; /* borrowed */
    if (strcmp(path, "-") == 0)
        return session_out(s, buf_text(text), text->len, e);
    if (write_file(s, &w, path, &p, true, e))
        written_abandon(&w);
    else
        written_commit(&w, e);
    return e->code;
}

static ssize_t to_session(void *cookie, const char *text, size_t n)
{
    return session_out(cookie, text, n, NULL) == KV_OK ? (ssize_t)n : 0;
}

int save_stdout(session *s, value v, kv_err *e)
{
    own_array *a = NULL;
    TRY(value_to_array(&a, v, e));
    FILE *f = fopencookie(s, "wb", (cookie_io_functions_t){.write = to_session});
    int rc = KV_OK;
    if (!f)
        rc = file_error(e, "write", "stdout", errno);
    else if (s->out.format == SHOW_JSON)
        rc = json_write_stream(f, a, "stdout", e);
    else
        rc = csv_write_stream(f, a, "stdout", NULL, e);
    if (f && fclose(f) != 0 && rc == KV_OK)
        rc = file_error(e, "write", "stdout", errno);
    return rc;
}
