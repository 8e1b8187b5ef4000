/* Records: JSON of the results of commands; and errors as people read them. */
#include "out/record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "io/json.h"
#include "out/transcript.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/check.h"
#include "syntax/parse_statement.h"
#include "term/terminal.h"

/* Elements up to which a side of a comparison is written whole. */
#define WHOLE_SIDE 64

/* ---- Values ---- */

static int put_value(json_writer *w, const char *name, value v, kv_err *e);

static void put_key(json_writer *w, const char *name, kv_key key)
{
    if (key.name)
        json_text(w, name, key.name);
    else
        json_int(w, name, key.id);
}

static void put_form(json_writer *w, kv_array *a)
{
    char ctx[KV_CTX_TEXT];
    json_text(w, "dtype", kv_dtype_name(kv_array_dtype(a)));
    json_ints(w, "shape", kv_array_ndim(a), kv_array_shape(a));
    json_text(w, "ctx", kv_ctx_text(ctx, kv_array_ctx(a)));
    json_write_storage(w, a);
}

static int put_items(json_writer *w, const char *name, const value_list *list, kv_err *e)
{
    TRY(value_descend(e));
    json_begin(w, name, '[');
    for (int64_t i = 0; i < list->n; i++)
        TRY(put_value(w, NULL, list->items[i], e));
    json_end(w, ']');
    return KV_OK;
}

/* The members of the object that an array or a list is. */
static int put_members(json_writer *w, value v, kv_err *e)
{
    if (v.kind != VALUE_ARRAY)
        return put_items(w, "list", v.u.list, e);
    put_form(w, v.u.box->array);
    return json_write_data(json_field(w, "data"), v.u.box->array, e);
}

static int put_value(json_writer *w, const char *name, value v, kv_err *e)
{
    if (v.kind == VALUE_TUPLE)
        return put_items(w, name, v.u.list, e);
    if (v.kind == VALUE_DICT)
        return show_dict_json(w, name, v, put_value, e);
    if (v.kind != VALUE_ARRAY && v.kind != VALUE_LIST) {
        show_scalar_json(w, name, v);
        return KV_OK;
    }
    json_begin(w, name, '{');
    TRY(put_members(w, v, e));
    json_end(w, '}');
    return KV_OK;
}

/* ---- Keys, tables, comparisons ---- */

/* One value a key: of the pull family; or the round of its array. Empty when they went to
 * a variable or a file. */
static int put_values(json_writer *w, const result *r, kv_err *e)
{
    int64_t n = !r->shown || r->v.kind == VALUE_NONE ? 0 : r->keys ? r->nkeys : 1;
    json_begin(w, "values", '[');
    for (int64_t i = 0; i < n; i++) {
        json_begin(w, NULL, '{');
        put_key(w, "key", r->keys ? r->keys[i] : r->about[0]);
        value v = r->keys ? r->v.u.list->items[i] : r->v;
        TRY(v.kind == VALUE_INT ? put_value(w, "round", v, e) : put_members(w, v, e));
        json_end(w, '}');
    }
    json_end(w, ']');
    return KV_OK;
}

/* Rows of a name and a value, as one object. */
static int put_object(json_writer *w, const char *name, const rows *table, kv_err *e)
{
    json_begin(w, name, '{');
    for (int64_t i = 0; i + 1 < table->n; i += 2)
        TRY(put_value(w, table->cells[i].u.text, table->cells[i + 1], e));
    json_end(w, '}');
    return KV_OK;
}

/* One side of a comparison. Of a large array only its form: the differences tell where it fails. */
static int put_side(json_writer *w, const char *name, value v, kv_err *e)
{
    bool array = v.kind == VALUE_ARRAY;
    if (!(array && kv_array_size(v.u.box->array) > WHOLE_SIDE) &&
        !(v.kind == VALUE_LIST && v.u.list->n > WHOLE_SIDE))
        return put_value(w, name, v, e);
    json_begin(w, name, '{');
    if (array)
        put_form(w, v.u.box->array);
    else
        json_int(w, "length", v.u.list->n);
    json_end(w, '}');
    return KV_OK;
}

static int put_comparison(json_writer *w, const comparison *c, kv_err *e)
{
    TRY(put_side(w, "left", c->left, e));
    TRY(put_side(w, "right", c->right, e));
    TRY(put_value(w, "index", c->index, e));
    TRY(put_value(w, "max_diff", c->max_diff, e));
    return c->differences.kind == VALUE_TUPLE ? put_value(w, "differences", c->differences, e)
                                              : KV_OK;
}

/* ---- Lines of text ---- */

/* "name":["line", …] */
static void put_lines(json_writer *w, const char *name, const char *text)
{
    own_buf line = {0};
    json_begin(w, name, '[');
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_clear(&line);
        buf_put(&line, text, n);
        json_text(w, NULL, buf_text(&line));
        text += n + (text[n] == '\n');
    }
    json_end(w, ']');
    w->out->failed = w->out->failed || line.failed;
}

/* ---- The result of a statement ---- */

/* The keys that a command worked on, by what the table says of it. */
static void put_worked_on(session *s, json_writer *w, const ast *node, const result *r, bool ok)
{
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    bool keyed = c && c->args[0].kind == ARG_KEYS && !r->entries.columns;
    if (keyed && (r->about || ok)) {
        json_begin(w, "keys", '[');
        for (int64_t i = 0; i < r->nabout; i++)
            put_key(w, NULL, r->about[i]);
        json_end(w, ']');
    }
    if (ok && c && (c->flags & COMMAND_ALL_KEYS)) {
        kv *store = s->current >= 0 ? s->stores[s->current].store : NULL;
        kv_info info;
        json_begin(w, "keys", '[');
        for (int64_t i = 0; store && i < kv_num_keys(store); i++) {
            if (kv_info_at(store, i, &info, &(kv_err){0}))
                break;
            put_key(w, NULL, info.key);
        }
        json_end(w, ']');
    }
}

/* Writes the result of a statement: values, value or entries. */
static int put_given(json_writer *w, const ast *node, const result *r, bool ok, kv_err *e)
{
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    bool keyed = c && c->args[0].kind == ARG_KEYS;
    if (r->sides.answered)
        json_bool(w, "value", r->sides.holds);
    if (r->sides.made)
        return put_comparison(w, &r->sides, e);
    if (!ok && !r->entries_name)
        return KV_OK;
    if (r->dropped > 0)
        json_int(w, "dropped", r->dropped);
    if (node->kind == STMT_SHOW)
        return put_value(w, "value", r->shown ? r->v : value_none(), e);
    int rc = r->summary.columns ? put_object(w, "about", &r->summary, e) : KV_OK;
    if (rc || r->entries.columns)
        return rc ? rc
                  : rows_json(w, r->entries_name ? r->entries_name : "entries", &r->entries, e);
    if (r->as_json && r->shown) {
        size_t n = strlen(r->v.u.text);
        buf_put(json_field(w, "value"), r->v.u.text, n - 1); /* without its newline */
        return KV_OK;
    }
    if (!c || !(c->flags & COMMAND_GIVES) || r->as_text)
        return KV_OK;
    if (keyed)
        return put_values(w, r, e);
    if (!r->shown || r->v.kind == VALUE_NONE)
        return KV_OK;
    return put_value(w, "value", r->v, e);
}

/* ---- Errors ---- */

static void put_text_or_null(json_writer *w, const char *name, const char *text)
{
    json_text(w, name, *text ? text : NULL);
}

static void put_int_or_null(json_writer *w, const char *name, bool known, int x)
{
    if (known)
        json_int(w, name, x);
    else
        json_text(w, name, NULL);
}

static void put_error(session *s, json_writer *w, const char *file, const kv_err *e)
{
    json_begin(w, "error", '{');
    json_text(w, "code", kv_code_name(e->code));
    json_int(w, "exit", (int)exit_code_of_error(e->code));
    put_text_or_null(w, "message", e->text);
    /* an error in a rule of another file; names of files are cut in errors, so only then */
    if (e->line > 0 && file && strcmp(file, e->file) != 0 && strlen(e->file) + 1 < sizeof e->file)
        put_text_or_null(w, "file", e->file);
    put_int_or_null(w, "line", e->line > 0, e->line);
    put_int_or_null(w, "col", e->line > 0, e->col);
    put_int_or_null(w, "end", e->line > 0, e->end);
    put_text_or_null(w, "hint", e->hint);
    if (s->detail.len > 0) {
        own_buf lines = {0};
        session_details(s, &lines);
        put_lines(w, "detail", buf_text(&lines));
        w->out->failed = w->out->failed || lines.failed;
    }
    json_end(w, '}');
}

/* ---- Records ---- */

static const char *name_of(const ast *node)
{
    static const char *const names[] = {
        [STMT_SHOW - AST_SCRIPT] = "expr",     [STMT_ASSIGN - AST_SCRIPT] = "assign",
        [STMT_IF - AST_SCRIPT] = "if",         [STMT_FOR - AST_SCRIPT] = "for",
        [STMT_WHILE - AST_SCRIPT] = "while",   [STMT_REPEAT - AST_SCRIPT] = "repeat",
        [STMT_DEF - AST_SCRIPT] = "def",       [STMT_RETURN - AST_SCRIPT] = "return",
        [STMT_RULE - AST_SCRIPT] = "updater",  [STMT_SHELL - AST_SCRIPT] = "!",
        [STMT_SOURCE - AST_SCRIPT] = "source",
    };
    return node->kind == STMT_COMMAND ? ((const command *)node->u.other)->name
           : node->kind >= AST_SCRIPT ? names[node->kind - AST_SCRIPT]
                                      : NULL;
}

/* The line of a node of the unit that runs. Fast when asked in the order of the text. */
static int line_of(session *s, const ast *node)
{
    recorder *rec = &s->out.recorder;
    const source *src = &s->unit->src;
    if (rec->unit != s->unit || node->pos < rec->pos) {
        rec->unit = s->unit;
        rec->pos = 0;
        rec->line = src->line;
    }
    for (; rec->pos < node->pos; rec->pos++)
        rec->line += src->text[rec->pos] == '\n';
    return rec->line;
}

/* v to rank. path: of the checkpoint that the record is about, or NULL. */
static void put_head(session *s, json_writer *w, const ast *node, const char *path,
                     const kv_err *e)
{
    const char *store = s->current >= 0 ? s->stores[s->current].name : "";
    int line = node ? line_of(s, node) : e->line;
    json_begin(w, NULL, '{');
    json_int(w, "v", 1);
    json_int(w, "seq", ++s->out.recorder.seq);
    const char *file = node ? s->unit->src.name : e->line > 0 ? e->file : "";
    put_text_or_null(w, "file", path ? path : file);
    put_int_or_null(w, "line", line > 0, line);
    json_text(w, "cmd", node ? name_of(node) : NULL);
    json_bool(w, "ok", !e->code);
    put_text_or_null(w, "store", store);
    json_int(w, "rank", *store ? kv_rank(s->stores[s->current].store) : 0);
}

static int write_line(session *s, json_writer *w, kv_err *e)
{
    json_end(w, '}');
    buf_char(w->out, '\n');
    int rc = buf_check(w->out, e);
    return rc ? rc : session_out_record(s, w->out, e);
}

void record_begin(session *s, record *r)
{
    if (!s->out.recorder.on)
        return;
    *r = (record){.out = {.kind = SINK_RECORDS}, .begun = clock_ns() / 1000};
    s->out.recorder.failed = false;
    sink_push(s, &r->out);
}

/* Writes one record. Takes the lines of printed. */
static int put_record(session *s, const ast *node, const char *path, int64_t us, buf *printed,
                      const result *given, const kv_err *e, kv_err *own)
{
    own_buf line = {0};
    json_writer w = {.out = &line};
    bool given_back = e->code == KV_OK || given->refusal;
    put_head(s, &w, node, path, e);
    json_int(&w, "us", us);
    put_worked_on(s, &w, node, given, e->code == KV_OK);
    if (given_back && given->as_text && given->shown && !given->as_json && !given->entries.columns)
        buf_add(printed, given->v.u.text);
    w.out->failed = w.out->failed || printed->failed;
    put_lines(&w, "out", buf_text(printed));
    int rc = put_given(&w, node, given, given_back, own);
    if (e->code)
        put_error(s, &w, s->unit->src.name, e);
    if (rc == KV_OK)
        rc = write_line(s, &w, own);
    buf_release(printed);
    return rc;
}

int record_end(session *s, record *r, const ast *node, const result *given, kv_err *e)
{
    if (!s->out.recorder.on)
        return e->code;
    kv_err own = {0};
    bool by_file = given->nfiles > 0 && (e->code == KV_OK || given->refusal);
    int rc = by_file ? KV_OK
                     : put_record(s, node, NULL, clock_ns() / 1000 - r->begun, &r->out.text,
                                    given, e, &own);
    for (int64_t i = 0; by_file && i < given->nfiles && rc == KV_OK; i++) {
        const result_file *f = &given->files[i];
        rc = put_record(s, node, f->path, f->us, &r->out.text, &f->given, &f->e, &own);
    }
    s->out.recorder.failed = e->code != KV_OK;
    sink_pop(s, &r->out);
    if (rc && e->code == KV_OK)
        *e = own;
    buf_release(&r->out.text);
    return e->code;
}

void record_error(session *s, const ast *node, const kv_err *e)
{
    if (!s->out.recorder.on || s->out.recorder.failed)
        return;
    own_buf line = {0};
    json_writer w = {.out = &line};
    put_head(s, &w, node, NULL, e);
    put_error(s, &w, node ? s->unit->src.name : NULL, e);
    write_line(s, &w, &(kv_err){0});
    s->out.recorder.failed = true;
}

int record_keys(session *s, result *out, const kv_key *keys, int64_t n, kv_err *e)
{
    if (!s->out.recorder.on || n == 0)
        return KV_OK;
    kv_key *copy = arena_alloc(&out->names, (size_t)n * sizeof *copy, e);
    for (int64_t i = 0; copy && i < n; i++) {
        copy[i] = keys[i];
        if (keys[i].name &&
            !(copy[i].name = arena_text(&out->names, keys[i].name, strlen(keys[i].name), e)))
            return KV_E_MEMORY;
    }
    out->about = copy;
    out->nabout = copy ? n : 0;
    return copy ? KV_OK : KV_E_MEMORY;
}

/* ---- Reports of errors ---- */

/* Writes an error as compilers do: file:line:col: error[code]: text, the source line, a caret line,
 * the hint. What stands in scripts and files may be anything, so control characters are made
 * visible and long lines are cut around the place.
 */

/* The margin in front of carets. */
#define MARGIN "      : "

/* Characters of a long source line that are shown around the place. */
#define SHOWN_MAX 100

/* The bytes that n characters take. */
static size_t bytes_of(const char *text, size_t len, size_t n)
{
    size_t i = 0;
    while (i < len && n > 0) {
        for (i++; i < len && ((unsigned char)text[i] & 0xc0) == 0x80; i++)
            ;
        n--;
    }
    return i;
}

/* A tab becomes a blank, so that carets stand right. */
static void excerpt(buf *out, const char *text, size_t n)
{
    for (size_t part; n > 0; text += part, n -= part) {
        const char *tab = memchr(text, '\t', n);
        part = tab ? (size_t)(tab - text) : n;
        visible_line(out, text, part);
        if (tab)
            buf_char(out, ' ');
        part += tab != NULL;
    }
}

/* What a terminal with colours shows red and bold, between two of its signs; or as it is. */
typedef struct paint {
    const char *red, *plain;
} paint;

/* The source line of an error, with carets under its place. */
static void show_place(session *s, const kv_err *e, paint p, buf *out)
{
    const char *text = NULL;
    size_t len = 0;
    uint32_t pos;
    for (const unit *u = s->units; u && !text; u = u->next)
        if (strcmp(u->src.name, e->file) == 0 && source_find_line(&u->src, e->line, &pos))
            text = source_line(&u->src, pos, &len);
    if (!text)
        return;
    size_t skip = e->col > SHOWN_MAX / 2 && len > SHOWN_MAX ? (size_t)e->col - SHOWN_MAX / 2 : 0;
    size_t from = bytes_of(text, len, skip);
    size_t shown = bytes_of(text + from, len - from, SHOWN_MAX);
    int carets = e->end > e->col ? e->end - e->col : 1;
    if ((size_t)carets + (size_t)e->col > skip + SHOWN_MAX)
        carets = (int)(skip + SHOWN_MAX + 1 - (size_t)e->col);
    buf_printf(out, " %4d : ", e->line);
    excerpt(out, text + from, shown);
    buf_add(out, "\n" MARGIN);
    buf_repeat(out, ' ', e->col - 1 - (int64_t)skip);
    buf_add(out, p.red);
    buf_repeat(out, '^', carets < 1 ? 1 : carets);
    buf_printf(out, "%s\n", p.plain);
}

static void put_report(session *s, const kv_err *e, paint p, buf *out)
{
    if (e->line > 0) {
        visible_line(out, e->file, strlen(e->file));
        buf_printf(out, ":%d:%d: ", e->line, e->col);
    } else {
        buf_add(out, "kvctl: ");
    }
    buf_printf(out, "%serror[%s]%s: ", p.red, kv_code_name(e->code), p.plain);
    visible_line(out, e->text, strlen(e->text));
    buf_char(out, '\n');
    if (e->line > 0)
        show_place(s, e, p, out);
    own_buf details = {0};
    session_details(s, &details);
    visible_lines(out, buf_text(&details), details.len);
    if (e->hint[0]) {
        buf_add(out, " hint: ");
        visible_line(out, e->hint, strlen(e->hint));
        buf_char(out, '\n');
    }
}

void report_text(session *s, const kv_err *e, buf *out)
{
    put_report(s, e, (paint){"", ""}, out);
    buf_clear(&s->detail);
}

void report_error(session *s, const kv_err *e)
{
    own_buf out = {0}, painted = {0};
    record_error(s, NULL, e);
    s->out.recorder.failed = false;
    put_report(s, e, (paint){"\033[1;31m", "\033[0m"}, &painted);
    report_text(s, e, &out);
    transcript_error(s, buf_text(&out));
    fflush(stdout);
    progress_hide(STDERR_FILENO);
    if (out.failed || painted.failed)
        terminal_fail(e);
    else if (!s->out.recorder.on || !s->out.quiet)
        fputs(buf_text(terminal_color(STDERR_FILENO) ? &painted : &out), stderr);
    if (s->failure == 0)
        s->failure = (int)exit_code_of_error(e->code);
}

/* ---- --check ---- */

static bool is_before(const kv_err *a, const kv_err *b)
{
    return a->line < b->line || (a->line == b->line && a->col < b->col);
}

static bool same(const kv_err *a, const kv_err *b)
{
    return a->line == b->line && a->col == b->col && strcmp(a->file, b->file) == 0 &&
           strcmp(a->text, b->text) == 0;
}

void check_report(session *s)
{
    check_errors c = *s->check;
    *s->check = (check_errors){0};
    for (int64_t i = 0, k; i < c.n; i++) {
        /* the next of the file of the one before, else of the first file that is left */
        for (k = i; k < c.n && i > 0 && strcmp(c.items[k].file, c.items[i - 1].file) != 0; k++)
            ;
        k = k < c.n ? k : i;
        for (int64_t m = k + 1; m < c.n; m++)
            if (is_before(&c.items[m], &c.items[k]) &&
                strcmp(c.items[m].file, c.items[k].file) == 0)
                k = m;
        kv_err next = c.items[k];
        memmove(&c.items[i + 1], &c.items[i], (size_t)(k - i) * sizeof next);
        c.items[i] = next;
        if (i == 0 || !same(&next, &c.items[i - 1]))
            report_error(s, &next);
    }
    if (c.n == CHECK_ERRORS_MAX)
        session_note(s, "only the first %d errors are shown", CHECK_ERRORS_MAX);
    mem_free(c.items);
}
