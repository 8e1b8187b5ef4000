/* Records: JSON from what commands gave. */
#include "out/record.h"

#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/json.h"
#include "out/report.h"
#include "session/show.h"
#include "syntax/statement.h"
#include "session/unit.h"
#include "session/details.h"

/* Elements up to which a side of a comparison is written whole. */
#define WHOLE_SIDE 64

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- Values ---- */

static int put_value(buf *out, value v, kv_err *e);

static void put_int(buf *out, int64_t x)
{
    show_scalar_json(out, value_int(x));
}

static void put_key(buf *out, kv_key key)
{
    if (key.name)
        json_write_text(out, key.name);
    else
        put_int(out, key.id);
}

static void put_form(buf *out, kv_array *a)
{
    char ctx[KV_CTX_TEXT];
    buf_printf(out, "\"dtype\":\"%s\",\"shape\":[", kv_dtype_name(kv_array_dtype(a)));
    for (int i = 0; i < kv_array_ndim(a); i++)
        buf_printf(out, i > 0 ? ",%lld" : "%lld", (long long)kv_array_shape(a)[i]);
    buf_printf(out, "],\"ctx\":\"%s\",", kv_ctx_text(ctx, kv_array_ctx(a)));
    json_write_storage(out, a);
}

static int put_array(buf *out, kv_array *a, kv_err *e)
{
    put_form(out, a);
    buf_add(out, ",\"data\":");
    return json_write_data(out, a, e);
}

/* [a,b,…] */
static int put_items(buf *out, const value_list *list, kv_err *e)
{
    int code = value_descend(e);
    if (code)
        return code;
    buf_char(out, '[');
    for (int64_t i = 0; i < list->n && code == KV_OK; i++) {
        if (i > 0)
            buf_char(out, ',');
        code = put_value(out, list->items[i], e);
    }
    buf_char(out, ']');
    return code;
}

/* The members of the object that an array or a list is. */
static int put_members(buf *out, value v, kv_err *e)
{
    if (v.kind == VALUE_ARRAY)
        return put_array(out, v.u.array, e);
    buf_add(out, "\"list\":");
    return put_items(out, v.u.list, e);
}

static int put_value(buf *out, value v, kv_err *e)
{
    int code = KV_OK;
    if (v.kind == VALUE_TUPLE)
        return put_items(out, v.u.list, e);
    if (v.kind == VALUE_ARRAY || v.kind == VALUE_LIST) {
        buf_char(out, '{');
        code = put_members(out, v, e);
        buf_char(out, '}');
    } else {
        show_scalar_json(out, v);
    }
    return code;
}

/* ---- Keys, tables, comparisons ---- */

static void put_keys(buf *out, const kv_key *keys, int64_t n)
{
    buf_add(out, ",\"keys\":[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            buf_char(out, ',');
        put_key(out, keys[i]);
    }
    buf_char(out, ']');
}

/* The keys of a store: those that a new updater is for. */
static void put_all_keys(session *s, buf *out)
{
    kv *store = s->current >= 0 ? s->stores[s->current].store : NULL;
    buf_add(out, ",\"keys\":[");
    for (int64_t i = 0; store && i < kv_num_keys(store); i++) {
        kv_info info;
        kv_err unused = {0};
        if (kv_info_at(store, i, &info, &unused))
            break;
        if (i > 0)
            buf_char(out, ',');
        put_key(out, info.key);
    }
    buf_char(out, ']');
}

/* One value a key: of the pull family. Empty when they went to a variable or a file. */
static int put_values(buf *out, const result *r, kv_err *e)
{
    int64_t n = !r->shown || r->v.kind == VALUE_NONE ? 0 : r->keys ? r->nkeys : 1;
    int code = KV_OK;
    buf_add(out, ",\"values\":[");
    for (int64_t i = 0; i < n && code == KV_OK; i++) {
        buf_add(out, i > 0 ? ",{\"key\":" : "{\"key\":");
        put_key(out, r->keys ? r->keys[i] : r->about[0]);
        buf_char(out, ',');
        code = put_members(out, r->keys ? r->v.u.list->items[i] : r->v, e);
        buf_char(out, '}');
    }
    buf_char(out, ']');
    return code;
}

static int put_entries(buf *out, const char *name, const rows *table, kv_err *e)
{
    int code = KV_OK;
    buf_printf(out, ",\"%s\":[", name ? name : "entries");
    for (int64_t i = 0; i < table->n && code == KV_OK; i++) {
        int64_t column = i % table->ncolumns;
        if (column == 0)
            buf_add(out, i > 0 ? "},{" : "{");
        else
            buf_char(out, ',');
        buf_printf(out, "\"%s\":", table->columns[column].name);
        code = put_value(out, table->cells[i], e);
    }
    buf_add(out, table->n > 0 ? "}]" : "]");
    return code;
}

/* Rows of a name and a value, as one object. */
static int put_object(buf *out, const char *name, const rows *table, kv_err *e)
{
    int code = KV_OK;
    buf_printf(out, ",\"%s\":{", name);
    for (int64_t i = 0; i + 1 < table->n && code == KV_OK; i += 2) {
        if (i > 0)
            buf_char(out, ',');
        show_scalar_json(out, table->cells[i]);
        buf_char(out, ':');
        code = put_value(out, table->cells[i + 1], e);
    }
    buf_char(out, '}');
    return code;
}

static int put_named(buf *out, const char *name, value v, kv_err *e)
{
    buf_printf(out, ",\"%s\":", name);
    return put_value(out, v, e);
}

/* One side of a comparison. Of a large array only its form: the differences tell where it fails. */
static int put_side(buf *out, const char *name, value v, kv_err *e)
{
    bool array = v.kind == VALUE_ARRAY;
    if (!(array && kv_array_size(v.u.array) > WHOLE_SIDE) &&
        !(v.kind == VALUE_LIST && v.u.list->n > WHOLE_SIDE))
        return put_named(out, name, v, e);
    buf_printf(out, ",\"%s\":{", name);
    if (array)
        put_form(out, v.u.array);
    else
        buf_printf(out, "\"length\":%lld", (long long)v.u.list->n);
    buf_char(out, '}');
    return KV_OK;
}

static int put_comparison(buf *out, const comparison *c, kv_err *e)
{
    int code = put_side(out, "left", c->left, e);
    if (code == KV_OK)
        code = put_side(out, "right", c->right, e);
    if (code == KV_OK)
        code = put_named(out, "index", c->index, e);
    if (code == KV_OK)
        code = put_named(out, "max_diff", c->max_diff, e);
    if (code == KV_OK && c->differences.kind == VALUE_TUPLE)
        code = put_named(out, "differences", c->differences, e);
    return code;
}

/* ---- Lines of text ---- */

/* ,"name":["line", …] */
static void put_lines(buf *out, const char *name, const char *text)
{
    buf line = {0};
    buf_printf(out, ",\"%s\":[", name);
    for (bool first = true; *text; first = false) {
        size_t n = strcspn(text, "\n");
        buf_clear(&line);
        buf_put(&line, text, n);
        if (!first)
            buf_char(out, ',');
        json_write_text(out, buf_text(&line));
        text += n + (text[n] == '\n');
    }
    buf_char(out, ']');
    out->failed = out->failed || line.failed;
    buf_release(&line);
}

/* What a command printed, and what it gave as text that is complete: help, settings. */
static void put_out(buf *out, buf *printed, const result *r)
{
    if (r && r->as_text && r->shown && !r->as_json && !r->entries.columns)
        buf_add(printed, r->v.u.text->text);
    out->failed = out->failed || printed->failed;
    put_lines(out, "out", buf_text(printed));
}

/* ---- What a statement gave ---- */

/* The keys that a command worked on, by what the table says of it. */
static void put_worked_on(session *s, buf *out, const ast *node, const result *r, bool ok)
{
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    bool keyed = c && c->args[0].kind == ARG_KEYS && !r->entries.columns;
    if (keyed && (r->about || ok))
        put_keys(out, r->about, r->nabout);
    if (ok && c && (c->flags & COMMAND_ALL_KEYS))
        put_all_keys(s, out);
}

/* What a statement gave: values, value or entries. */
static int put_given(buf *out, const ast *node, const result *r, bool ok, kv_err *e)
{
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    bool keyed = c && c->args[0].kind == ARG_KEYS;
    if (r->sides.answered)
        put_named(out, "value", value_bool(r->sides.holds), e);
    if (r->sides.made)
        return put_comparison(out, &r->sides, e);
    if (!ok && !r->entries_name)
        return KV_OK;
    if (node->kind == STMT_SHOW)
        return put_named(out, "value", r->shown ? r->v : value_none(), e);
    if (r->entries.columns) {
        int code = r->summary.columns ? put_object(out, "about", &r->summary, e) : KV_OK;
        return code ? code : put_entries(out, r->entries_name, &r->entries, e);
    }
    if (r->as_json && r->shown) {
        size_t n = strlen(r->v.u.text->text);
        buf_add(out, ",\"value\":");
        buf_put(out, r->v.u.text->text, n - 1); /* without its newline */
        return KV_OK;
    }
    if (!c || !(c->flags & COMMAND_GIVES) || r->as_text)
        return KV_OK;
    if (keyed)
        return put_values(out, r, e);
    if (!r->shown || r->v.kind == VALUE_NONE)
        return KV_OK;
    return put_named(out, "value", r->v, e);
}

/* ---- Errors ---- */

/* A text, or null when it is empty. */
static void put_text_or_null(buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    if (*text)
        json_write_text(out, text);
    else
        buf_add(out, "null");
}

static void put_error(session *s, buf *out, const char *file, const kv_err *e)
{
    buf_printf(out, ",\"error\":{\"code\":\"%s\",\"exit\":%d", kv_code_name(e->code),
               (int)exit_code_of_error(e->code));
    put_text_or_null(out, "message", e->text);
    /* an error in a rule of another file; names of files are cut in errors, so only then */
    if (e->line > 0 && file && strcmp(file, e->file) != 0 && strlen(e->file) + 1 < sizeof e->file)
        put_text_or_null(out, "file", e->file);
    if (e->line > 0)
        buf_printf(out, ",\"line\":%d,\"col\":%d,\"end\":%d", e->line, e->col, e->end);
    else
        buf_add(out, ",\"line\":null,\"col\":null,\"end\":null");
    put_text_or_null(out, "hint", e->hint);
    if (s->detail.len > 0) {
        buf lines = {0};
        session_details(s, &lines);
        put_lines(out, "detail", buf_text(&lines));
        out->failed = out->failed || lines.failed;
        buf_release(&lines);
    }
    buf_char(out, '}');
}

/* ---- Records ---- */

static const char *name_of(const ast *node)
{
    switch (node->kind) {
    case STMT_COMMAND:
        return ((const command *)node->u.other)->name;
    case STMT_SHOW:
        return "expr";
    case STMT_ASSIGN:
        return "assign";
    case STMT_IF:
        return "if";
    case STMT_FOR:
        return "for";
    case STMT_WHILE:
        return "while";
    case STMT_REPEAT:
        return "repeat";
    case STMT_DEF:
        return "def";
    case STMT_RETURN:
        return "return";
    case STMT_RULE:
        return "updater";
    case STMT_SHELL:
        return "!";
    case STMT_SOURCE:
        return "source";
    }
    return "";
}

int record_line(session *s, const ast *node)
{
    recorder *rec = &s->recorder;
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

/* v to rank. */
static void put_head(session *s, buf *out, const ast *node, const kv_err *e)
{
    const char *store = s->current >= 0 ? s->stores[s->current].name : "";
    const char *file = node ? s->unit->src.name : e->line > 0 ? e->file : "";
    int line = node ? record_line(s, node) : e->line;
    buf_printf(out, "{\"v\":1,\"seq\":%lld", (long long)++s->recorder.seq);
    put_text_or_null(out, "file", file);
    if (line > 0)
        buf_printf(out, ",\"line\":%d", line);
    else
        buf_add(out, ",\"line\":null");
    put_text_or_null(out, "cmd", node ? name_of(node) : "");
    buf_printf(out, ",\"ok\":%s", e->code ? "false" : "true");
    put_text_or_null(out, "store", store);
    buf_printf(out, ",\"rank\":%d", *store ? kv_rank(s->stores[s->current].store) : 0);
}

/* Writes a finished record to where all of them go, which may be outside what is caught now. */
static int write_line(session *s, buf *line, kv_err *e)
{
    buf *now = s->captured, *hearing = s->hearing;
    buf_add(line, "}\n");
    int code = buf_check(line, e);
    if (s->recorder.depth > 0)
        s->captured = s->recorder.base;
    s->hearing = NULL;
    if (code == KV_OK)
        code = session_out(s, buf_text(line), line->len, e);
    s->captured = now;
    s->hearing = hearing;
    return code;
}

void record_begin(session *s, record *r)
{
    if (!s->recorder.on)
        return;
    *r = (record){.before = s->captured, .begun = now_us()};
    if (s->recorder.depth++ == 0)
        s->recorder.base = s->captured;
    s->recorder.failed = false;
    s->captured = &r->out;
}

int record_end(session *s, record *r, const ast *node, const result *given, kv_err *e)
{
    if (!s->recorder.on)
        return e->code;
    buf line = {0};
    kv_err own = {0};
    put_head(s, &line, node, e);
    buf_printf(&line, ",\"us\":%lld", (long long)(now_us() - r->begun));
    put_worked_on(s, &line, node, given, e->code == KV_OK);
    put_out(&line, &r->out, e->code ? NULL : given);
    int code = put_given(&line, node, given, e->code == KV_OK, &own);
    if (e->code)
        put_error(s, &line, s->unit->src.name, e);
    s->recorder.failed = e->code != KV_OK;
    s->captured = r->before;
    if (code == KV_OK)
        code = write_line(s, &line, &own);
    s->recorder.depth--;
    if (code && e->code == KV_OK)
        *e = own;
    buf_release(&line);
    buf_release(&r->out);
    return e->code;
}

void record_error(session *s, const ast *node, const kv_err *e)
{
    if (!s->recorder.on || s->recorder.failed)
        return;
    buf line = {0};
    kv_err unused = {0};
    put_head(s, &line, node, e);
    put_error(s, &line, node ? s->unit->src.name : NULL, e);
    write_line(s, &line, &unused);
    s->recorder.failed = true;
    buf_release(&line);
}

int record_keys(session *s, result *out, const kv_key *keys, int64_t n, kv_err *e)
{
    if (!s->recorder.on || n == 0)
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
