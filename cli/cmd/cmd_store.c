/* The commands that talk to a store: create, init, push, pull, and those that take keys away or
 * end a transaction. */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "cmd/commands.h"
#include "cmd/explain.h"
#include "cmd/pairs.h"
#include "eval/eval.h"
#include "files/files.h"
#include "out/record.h"
#include "session/result.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/function.h"
#include "syntax/parse_statement.h"

/* ---- Transactions ---- */

/* Writes the file of -s. It holds the store of this moment, also when a transaction is open. */
static int to_disk(session *s, kv_err *e)
{
    if (!s->state.path) {
        kv_err_set(e, KV_E_VALUE, "there is no file of -s to be written");
        return kv_err_hint(e, "save FILE writes the store to a file of its own");
    }
    const char *used = s->stores[s->current].name;
    if (strcmp(used, "kv") != 0) {
        kv_err_set(e, KV_E_VALUE, "\"%s\" keeps the store kv, and %s is in use", s->state.path,
                   used);
        return kv_err_hint(e, "save FILE writes the store in use");
    }
    return session_would(s, "write", s->state.path) ? KV_OK : s->state.save(s->state.arg, s, e);
}

/* First to the disk: when that fails the transaction is open as before. Where another process wrote
 * the file meanwhile, the store in use is a new one, without a transaction. */
int cmd_commit(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    bool disk = command_option_of(call, "disk") != NULL;
    (void)out;
    TRY(session_store(s, &store, e));
    TRY(disk ? to_disk(s, e) : KV_OK);
    if (disk)
        session_mark_undo(s);
    TRY(session_store(s, &store, e));
    if (disk && !kv_in_transaction(store))
        return KV_OK;
    TRY(kv_commit(store, e));
    follow_commit(s);
    return KV_OK;
}

/* Without a transaction the store of -s goes back to what its file holds. */
int cmd_rollback(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    (void)out, (void)call;
    TRY(session_store(s, &store, e));
    bool open = kv_in_transaction(store);
    if (!open && s->state.path && strcmp(s->stores[s->current].name, "kv") == 0) {
        TRY(s->state.go_back(s->state.arg, s, e));
        session_mark_undo(s);
        return KV_OK;
    }
    TRY(kv_rollback(store, e));
    return follow_rollback(s, e);
}

/* One statement is taken back where it is the only one since the opening of -s. */
int cmd_undo(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    TRY(session_store(s, &store, e));
    if (kv_in_transaction(store)) {
        kv_err_set(e, KV_E_VALUE, "a transaction is taken back as a whole");
        return kv_err_hint(e, "rollback takes back all since begin");
    }
    if (!s->state.path) {
        kv_err_set(e, KV_E_VALUE, "nothing was kept to go back to");
        return kv_err_hint(e, "begin before a change keeps it for a rollback, and so does -s FILE");
    }
    if (session_can_undo(s))
        return cmd_rollback(s, call, out, e);
    if (s->state.same)
        return kv_err_set(e, KV_E_VALUE, "nothing has changed since \"%s\" was opened or written",
                          s->state.path);
    kv_err_set(e, KV_E_VALUE, "undo takes back one statement, and several changed the store");
    return kv_err_hint(e, "rollback takes back all since \"%s\" was opened or written",
                       s->state.path);
}

/* ---- Keys that go ---- */

/* The line of -v for a key, as it is before the change: "delete 3: float32 (2, 3) cpu(0)". Nothing
 * is added for a key that is not there. */
static void add_line(buf *out, kv *store, const char *what, const kv_key *key, const kv_key *to)
{
    kv_info info;
    char shape[256], ctx[KV_CTX_TEXT];
    if (kv_find(store, key, &info, &(kv_err){0}))
        return;
    buf_printf(out, "%s%s ", out->len ? "\n" : "", what);
    show_key(out, info.key);
    if (to) {
        buf_char(out, ' ');
        show_key(out, *to);
    }
    buf_printf(out, ": %s %s %s", kv_dtype_name(info.dtype),
               kv_shape_text(shape, sizeof shape, info.ndim, info.shape),
               kv_ctx_text(ctx, info.ctx));
}

int cmd_delete(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    own_key_list keys = {0};
    own_buf lines = {0};
    if (session_store(s, &store, e) ||
        kv_delete(store, NULL, 0, e) || /* a store that cannot delete says so */
        eval_keys(s, call->kid[0], &keys, e))
        return unit_at(s, call, e);
    TRY(record_keys(s, out, keys.keys, keys.n, e));
    for (int64_t i = 0; s->out.verbose && i < keys.n; i++)
        add_line(&lines, store, "delete", &keys.keys[i], NULL);
    if (kv_delete(store, keys.keys, keys.n, e)) {
        pairs_suggest(store, e);
        return unit_at(s, call->kid[0], e);
    }
    if (lines.len > 0)
        session_change(s, buf_text(&lines));
    return KV_OK;
}

/* The one key of an argument. The caller releases it, also after an error. */
static int one_key(session *s, const ast *node, key_list *key, kv_err *e)
{
    TRY(eval_keys(s, node, key, e));
    return key->n == 1 ? KV_OK
                       : unit_err(s, node, e, KV_E_VALUE,
                                  "rename takes one key and its new name, here are %lld",
                                  (long long)key->n);
}

static int rename_key(session *s, const ast *call, kv *store, const kv_key *from, const kv_key *to,
                      kv_err *e)
{
    kv_info info;
    own_buf line = {0};
    if (s->out.verbose)
        add_line(&line, store, "rename", from, to);
    if (kv_rename(store, from, to, e)) {
        /* if it is there its new name is wrong */
        bool is_there = kv_find(store, from, &info, &(kv_err){0}) == KV_OK;
        if (!is_there)
            pairs_suggest(store, e);
        return unit_at(s, call->kid[is_there], e);
    }
    if (line.len > 0)
        session_change(s, buf_text(&line));
    return KV_OK;
}

int cmd_rename(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    own_key_list from = {0}, to = {0};
    if (session_store(s, &store, e) ||
        kv_delete(store, NULL, 0, e)) /* a store that cannot rename says so */
        return unit_at(s, call, e);
    TRY(one_key(s, call->kid[0], &from, e));
    TRY(one_key(s, call->kid[1], &to, e));
    TRY(record_keys(s, out, (kv_key[]){from.keys[0], to.keys[0]}, 2, e));
    return rename_key(s, call, store, &from.keys[0], &to.keys[0], e);
}

/* ---- The store ---- */

int cmd_create(session *s, const ast *call, result *out, kv_err *e)
{
    const char *type = s->default_type,
               *called = s->current >= 0 ? s->stores[s->current].name : "kv";
    const ast *name = command_option_of(call, "name"),
              *bound = command_option_of(call, "staleness");
    char number[NUM_TEXT_MAX];
    kv_opt staleness = {"staleness", number};
    int32_t most = 0;
    TRY(bound ? eval_int32(s, bound, "the staleness", &most, e) : KV_OK);
    number[num_int(number, most)] = '\0';
    if (name && !(called = eval_word(s, name, "the name of a store", out, e)))
        return e->code;
    if (name && !parse_is_new_name(called))
        return unit_err(s, name, e, KV_E_NAME, "a store cannot be called \"%s\"", called);
    if (name && session_find(s, called))
        return unit_err(s, name, e, KV_E_NAME, "`%s` is a variable; a store needs another name",
                        called);
    if (call->kid[0] && !(type = eval_word(s, call->kid[0], "a store type", out, e)))
        return e->code;
    int rc = session_create(s, type, &staleness, bound != NULL, called, e);
    const ast *wrong = e->option ? bound : call->kid[0];
    return rc ? unit_at(s, wrong ? wrong : call, e) : KV_OK;
}

int cmd_use(session *s, const ast *call, result *out, kv_err *e)
{
    const char *name = eval_word(s, call->kid[0], "the name of a store", out, e);
    int64_t at = name ? session_find_store(s, name) : -1;
    if (name && at < 0 && strcmp(name, "kv") == 0 && !s->guest) /* as the first push makes it */
        return session_create(s, s->default_type, NULL, 0, "kv", e) ? unit_at(s, call, e) : KV_OK;
    if (at >= 0) {
        session_use(s, at);
        s->create_failed = false;
    } else if (name) {
        unit_err(s, call->kid[0], e, KV_E_NAME, "there is no store `%s`", name);
        suggest near = {.word = name};
        for (int64_t i = 0; i < s->nstores; i++)
            suggest_add(&near, s->stores[i].name);
        suggest_done(&near, e);
        kv_err_hint(e, "make one: create --name %s", name);
    }
    return e->code;
}

/* ---- Keys with values ---- */

/* The arrays that a call fills: none but those of --out, new ones, or its values. */
typedef enum call_outs { NO_OUTS, NEW_OUTS, IN_PLACE } call_outs;

/* The value of one key: an array, a list of one, or where several are allowed a list of more. */
static int add_values(pairs *p, const ast *node, kv_key key, value v, bool several, kv_err *e)
{
    kv_array *a;
    p->node = node;
    if (value_is_several(v) && v.u.list->n == 0)
        return kv_err_set(e, KV_E_VALUE, "an empty list is not a value for a key");
    if (value_is_several(v) && (several || v.u.list->n == 1)) {
        for (int64_t i = 0; i < v.u.list->n; i++)
            TRY(add_values(p, pairs_item(node, v, i), key, v.u.list->items[i], false, e));
        return KV_OK;
    }
    if (value_is_several(v)) {
        kv_err_set(e, KV_E_DTYPE, "%s of %lld stands where one array is needed", value_kind_name(v),
                   (long long)v.u.list->n);
        return kv_err_hint(e, "stack([a, b]) makes one array of several");
    }
    if (p->in_place && v.kind == VALUE_ARRAY)
        return pairs_fill(p, key, v, e);
    TRY(value_to_array(&a, v, e));
    return pairs_add(p, key, a, e);
}

/* one: the only value, when there is one. */
static int wrong_count(session *s, const ast *node, int64_t keys, int64_t values, const value *one,
                       kv_err *e)
{
    unit_err(s, node, e, KV_E_VALUE, "%lld keys need %lld values, there %s %lld", (long long)keys,
             (long long)keys, values == 1 ? "is" : "are", (long long)values);
    const char *text = s->unit->src.text + node->pos;
    if (values != 1)
        return KV_E_VALUE;
    if (one->kind == VALUE_LIST || *text == '[')
        return kv_err_hint(e,
                           "a bracket of numbers only is one array; [a, b, c] of arrays holds one "
                           "for each key");
    return kv_err_hint(e,
                       one->kind == VALUE_ARRAY ? "the same for each key: [%.*s]*%lld"
                                                : "the same for each key: [array(%.*s)]*%lld",
                       (int)(node->end - node->pos), text, (long long)keys);
}

/* Values for a list of keys: one each, as separate arguments or as one list. single: the
 * value of a key is one array, no list, and one array or number alone gives each key a copy. A list
 * of numbers does not, because it looks like a value for each. */
static int pair_list(session *s, const ast *node, const key_list *keys, const value *v, int64_t n,
                     bool single, pairs *p, kv_err *e)
{
    bool one_list = n == 1 && value_is_several(v[0]);
    const value *items = one_list ? v[0].u.list->items : v;
    int64_t count = one_list ? v[0].u.list->n : n;
    bool for_all = single && n == 1 && !value_is_sequence(v[0]);
    if (!for_all && count != keys->n)
        return wrong_count(s, node, keys->n, count, v, e);
    for (int64_t i = 0; i < keys->n; i++)
        TRY(add_values(p,
                       one_list  ? pairs_item(node->kid[0], v[0], i)
                       : for_all ? node->kid[0]
                                 : node->kid[i],
                       keys->keys[i], items[for_all ? 0 : i], !single, e));
    return KV_OK;
}

/* The value of an expression that draws random numbers, for each key its own: `init a b x` is
 * `init a x; init b x`. first: that of the first key. */
static int pair_drawn(session *s, const ast *expr, const key_list *keys, value first, pairs *p,
                      kv_err *e)
{
    TRY(add_values(p, expr, keys->keys[0], first, false, e));
    for (int64_t i = 1; i < keys->n; i++) {
        own_value v = value_none();
        TRY(eval(s, expr, &v, e));
        TRY(add_values(p, expr, keys->keys[i], v, false, e));
    }
    return KV_OK;
}

static const char *command_name(const ast *call)
{
    return ((const command *)call->u.other)->name;
}

/* The keys and values of init, push and their kind. single: one array a key. fill: they are filled,
 * too (p->in_place), unless nothing refers to them: what is filled would be lost. */
static int make_pairs(session *s, const ast *call, kv *store, key_list *keys, bool single,
                      bool fill, pairs *p, kv_err *e)
{
    const ast *list = call->kid[1];
    own_value_files files = {0};
    TRY(value_files_open(&files, s, call, e));
    if (files.n > 0) {
        TRY(value_files_keys(&files, s, call, store, single, keys, e));
        return value_files_pairs(&files, keys, 0, keys->n, p, e) ? unit_at(s, list, e) : KV_OK;
    }
    value small[8] = {{0}}, *v = list->n <= 8 ? small : mem_zalloc(list->n, sizeof *v, e);
    int rc = v ? eval_keys(s, call->kid[0], keys, e) : KV_E_MEMORY;
    uint32_t n = 0;
    uint64_t draws = s->draws;
    for (; n < list->n && rc == KV_OK; n++)
        rc = eval(s, list->kid[n], &v[n], e);
    bool drawn = single && n == 1 && keys->n > 1 && s->draws != draws && !value_is_sequence(v[0]);
    for (uint32_t i = 0; i < n && fill; i++)
        p->in_place |= pairs_are_held(v[i], false);
    for (uint32_t i = 0; i < n && p->in_place; i++)
        eval_warn_parts(s, list->kid[i], v[i]);
    if (rc == KV_OK && drawn) {
        rc = pair_drawn(s, list->kid[0], keys, v[0], p, e);
    } else if (rc == KV_OK && keys->list) {
        rc = pair_list(s, list, keys, v, n, single, p, e);
    } else if (rc == KV_OK && single && n > 1) {
        rc = unit_err(s, list->kid[1], e, KV_E_VALUE, "%s takes one value a key, there are %d",
                      command_name(call), (int)n);
    } else {
        for (uint32_t i = 0; i < n && rc == KV_OK; i++)
            rc = add_values(p, list->kid[i], keys->keys[0], v[i], !single, e);
    }
    if (rc)
        unit_at(s, p->node ? p->node : list, e);
    for (uint32_t i = 0; v && i < list->n; i++)
        value_release(&v[i]);
    if (v != small)
        mem_free(v);
    return rc;
}

/* The place of an error that came from the store: the keys, or the values. An error in a rule has
 * a place there already, and gets that of the call as its caller. */
static int place_error(session *s, const ast *call, const pairs *p, kv *store, kv_err *e)
{
    bool of_value = e->code == KV_E_SHAPE || e->code == KV_E_DTYPE;
    session_caller_of_rule(s, call, e);
    if (e->code == KV_E_SHAPE)
        unit_at(s, pairs_misfit(p, store), e);
    if (e->code == KV_E_KEY)
        pairs_suggest(store, e);
    return unit_at(s, of_value && call->n > 1 && call->kid[1] ? call->kid[1] : call->kid[0], e);
}

/* A transposed value is the likeliest mistake with two axes: show the statement without it. */
static void hint_transpose(session *s, const ast *call, const pairs *p, kv *store, kv_err *e)
{
    const ast *list = call->kid[1], *v = list->kid[0];
    const char *text = s->unit->src.text;
    kv_info info;
    if (e->code != KV_E_SHAPE || e->line || p->n != 1 || list->n != 1 || e->hint[0] ||
        kv_find(store, &p->keys[0], &info, &(kv_err){0}) != KV_OK || info.ndim != 2 ||
        kv_array_ndim(p->arrays[0]) != 2)
        return;
    const int64_t *shape = kv_array_shape(p->arrays[0]);
    if (shape[0] != info.shape[1] || shape[1] != info.shape[0])
        return;
    bool plain = v->kind == AST_NAME || v->kind == AST_CALL || (v->flags & AST_PARENS);
    bool turned = v->kind == AST_CALL && strcmp(v->u.text, "T") == 0 && text[v->end - 1] == 'T';
    kv_err_hint(e, "%s: %.*s%s%.*s%s%.*s", turned ? "leave out .T" : "transpose it",
                (int)(v->pos - call->pos), text + call->pos, plain ? "" : "(",
                (int)(v->end - v->pos) - 2 * turned, text + v->pos,
                turned ? "" : plain ? ".T" : ").T", (int)(call->end - v->end), text + v->end);
}

/* The lines of -v for a call: `push 3: float32 (2, 3) cpu(0)` for each key, as it is stored now. */
static void tell_change(session *s, const char *what, const key_list *keys, kv *store)
{
    for (int64_t i = 0; s->out.verbose && i < keys->n; i++) {
        own_buf text = {0};
        add_line(&text, store, what, &keys->keys[i], NULL);
        if (text.len > 0)
            session_change(s, buf_text(&text));
    }
}

/* ---- pull --since ---- */

/* A key may have several arrays, which share its round. Pairs stand in the order of the keys. */

/* A round as the store has it. */
static int read_round(value v, int64_t *round, kv_err *e)
{
    *round = KV_NO_ROUND;
    if (v.kind == VALUE_NONE)
        return KV_OK;
    if (v.kind != VALUE_INT)
        return kv_err_set(e, KV_E_DTYPE, "a round is a number or none, not %s", value_kind_name(v));
    if (v.u.integer < 0)
        return kv_err_set(e, KV_E_VALUE, "a round is a number from 0 on, not %lld",
                          (long long)v.u.integer);
    *round = v.u.integer;
    return KV_OK;
}

/* The number of the key of pair i, where the pair before it has key number k. */
static int64_t key_at(const key_list *keys, const pairs *p, int64_t i, int64_t k)
{
    while (k + 1 < keys->n && !map_same_key(&keys->keys[k], &p->keys[i]))
        k++;
    return k;
}

static int read_rounds(value v, const key_list *keys, const pairs *p, int64_t *rounds, kv_err *e)
{
    bool several = value_is_sequence(v);
    if (several && !keys->list)
        return kv_err_set(e, KV_E_VALUE, "one key has one round, not a list of them");
    if (several && v.u.list->n != keys->n)
        return kv_err_set(e, KV_E_VALUE, "%lld round%s stand%s for %lld key%s",
                          (long long)v.u.list->n, v.u.list->n == 1 ? "" : "s",
                          v.u.list->n == 1 ? "s" : "", (long long)keys->n, keys->n == 1 ? "" : "s");
    for (int64_t i = 0, k = 0; i < p->n; i++) {
        k = key_at(keys, p, i, k);
        TRY(read_round(several ? v.u.list->items[k] : v, &rounds[i], e));
    }
    return KV_OK;
}

static int give_rounds(const key_list *keys, const pairs *p, const int64_t *rounds, result *out,
                       kv_err *e)
{
    if (!keys->list) {
        out->v = value_int(rounds[0]);
        return KV_OK;
    }
    TRY(result_for_keys(out, keys->n, e));
    for (int64_t i = 0, k = 0; i < p->n; i++) {
        k = key_at(keys, p, i, k);
        out->v.u.list->items[k] = value_int(rounds[i]);
    }
    for (int64_t k = 0; k < keys->n; k++) {
        out->keys[k] = keys->keys[k];
        if (out->v.u.list->items[k].kind == VALUE_NONE && k > 0) /* a key that stands twice */
            out->v.u.list->items[k] = value_int(out->v.u.list->items[k - 1].u.integer);
    }
    return KV_OK;
}

/* Pulls into the arrays of --out what changed behind the rounds of --since: a number or none for
 * all keys, or a list with one of them for each key. The result becomes the round that the arrays
 * hold then: a number, of a list of keys one a key. Errors: usage (without --out, or with
 * --ignore-sparse), dtype, value, those of kv_pull_since. */
static int since_pull(session *s, const ast *call, kv *store, const key_list *keys, const pairs *p,
                      const kv_call *how, result *out, kv_err *e)
{
    const ast *since = command_option_of(call, "since");
    own_value v = value_none();
    own_mem int64_t *rounds = mem_alloc(p->n, sizeof *rounds, e);
    TRY(rounds ? eval(s, since, &v, e) : KV_E_MEMORY);
    int rc = read_rounds(v, keys, p, rounds, e);
    rc = rc ? rc : kv_pull_since(store, p->keys, p->n, p->arrays, rounds, how, e);
    if (rc == KV_E_VALUE || rc == KV_E_DTYPE)
        unit_at(s, since, e);
    return rc || p->n == 0 ? rc : give_rounds(keys, p, rounds, out, e);
}

/* ---- pull ---- */

/* --ignore-sparse false fills row_sparse arrays, too. */
static int sparse_flag(session *s, const ast *call, kv_call *how, kv_err *e)
{
    const ast *node = command_option_of(call, "ignore-sparse");
    own_value v = value_none();
    if (!node)
        return KV_OK;
    TRY(eval(s, node, &v, e));
    if (v.kind != VALUE_BOOL)
        return unit_err(s, node, e, KV_E_DTYPE, "--ignore-sparse is true or false, not %s",
                        value_kind_name(v));
    how->flags |= v.u.integer ? 0 : KV_FILL_SPARSE;
    return KV_OK;
}

static void warn_ignored(session *s, const ast *into, int64_t ignored)
{
    char text[UNIT_TEXT];
    if (ignored == 1)
        session_warn(s, into,
                     "a row_sparse array in `%s` stays as it was; `pull --ignore-sparse false` "
                     "fills it, row-sparse-pull takes rows",
                     unit_text(text, s->unit, into));
    else if (ignored > 1)
        session_warn(s, into,
                     "%lld row_sparse arrays in `%s` stay as they were; `pull --ignore-sparse "
                     "false` fills them, row-sparse-pull takes rows",
                     (long long)ignored, unit_text(text, s->unit, into));
}

/* A guest's pull: what the keys hold now, which is no pull for the store. */
static int look(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    own_key_list keys = {0};
    int64_t rounds[2];
    TRY(session_store(s, &store, e));
    TRY(eval_keys(s, call->kid[0], &keys, e));
    if (command_keys(s, &keys, out, e) || (keys.list && result_for_keys(out, keys.n, e)))
        return unit_at(s, call->kid[0], e);
    for (int64_t i = 0; i < keys.n; i++) {
        kv_array *a;
        value *v = keys.list ? &out->v.u.list->items[i] : &out->v;
        if (session_interrupted(s, e) || kv_peek(store, &keys.keys[i], &a, rounds, e) ||
            value_array(v, a, e))
            return unit_at(s, call->kid[0], e);
        if (rounds[0] != rounds[1])
            session_note(s, "parts of it are of the rounds %lld to %lld, others came meanwhile",
                         (long long)rounds[0], (long long)rounds[1]);
        out->has_key = !keys.list;
        if (keys.list)
            out->keys[i] = keys.keys[i];
        else
            out->key = keys.keys[i];
    }
    return KV_OK;
}

int cmd_pull(session *s, const ast *call, result *out, kv_err *e)
{
    if (s->guest && !s->explanation)
        return look(s, call, out, e);
    kv *store;
    kv_call how;
    int64_t ignored = 0;
    own_key_list keys = {0};
    own_pairs p = {0};
    const ast *into = command_option_of(call, "out");
    bool since = command_option_of(call, "since");
    TRY(session_store(s, &store, e));
    TRY(command_priority(s, call, &how, e));
    TRY(sparse_flag(s, call, &how, e));
    TRY(kv_pull(store, NULL, 0, NULL, NULL, e)); /* a store that has no pull says so */
    TRY(eval_keys(s, call->kid[0], &keys, e));
    how.ignored = &ignored;
    TRY(command_keys(s, &keys, out, e));
    p.since = since;
    int rc = pairs_outs(&p, s, store, call, &keys, false, out, e);
    explainer x = {0};
    if (rc == KV_OK)
        rc = explain_begin(&x, s, command_name(call), store, &keys, NULL, &p, e);
    if (rc == KV_OK && x.makes_call)
        rc = since ? since_pull(s, call, store, &keys, &p, &how, out, e)
                   : kv_pull(store, p.keys, p.n, p.arrays, &how, e);
    rc = explain_end(&x, e);
    if (rc)
        place_error(s, call, &p, store, e);
    else if (into)
        warn_ignored(s, into, ignored);
    return rc;
}

/* ---- init, push, pushpull, broadcast ---- */

/* New arrays for the results, one a key: like the stored array, or like the key's first value
 * where it holds nothing yet. `in` has the values in the order of the keys. */
static int result_outs(kv *store, const key_list *keys, const pairs *in, pairs *outs, result *out,
                       kv_err *e)
{
    int64_t at = 0, own = 0; /* the pairs not looked at yet; the first of the last key */
    TRY(keys->list ? result_for_keys(out, keys->n, e) : KV_OK);
    for (int64_t i = 0; i < keys->n; i++) {
        kv_info info;
        for (bool first = true; at < in->n && map_same_key(&in->keys[at], &keys->keys[i]); at++) {
            own = first ? at : own;
            first = false;
        }
        if (kv_find(store, &keys->keys[i], &info, &(kv_err){0})) {
            const kv_array *a = in->arrays[own];
            info = (kv_info){
                .dtype = kv_array_dtype(a), .ndim = kv_array_ndim(a), .shape = kv_array_shape(a)};
        }
        info.key = keys->keys[i];
        TRY(pairs_new(outs, &info, value_ctx((kv_ctx){0}), false, out, i, e));
    }
    return KV_OK;
}

typedef int both_call(kv *, const kv_key *, int64_t, kv_array *const *, const kv_key *, int64_t,
                      kv_array *const *, const kv_call *, kv_err *);

/* single: one array a key. run: NULL for init, which is single, and push. */
static int call_with_pairs(session *s, const ast *call, bool single, call_outs to, both_call *run,
                           result *out, kv_err *e)
{
    kv *store;
    kv_call how;
    int64_t ignored = 0;
    own_key_list keys = {0};
    own_pairs p = {0}, outs = {0};
    const ast *into = command_option_of(call, "out");
    TRY(session_store(s, &store, e));
    TRY(command_priority(s, call, &how, e));
    how.ignored = &ignored;
    TRY(make_pairs(s, call, store, &keys, single, to == IN_PLACE, &p, e));
    TRY(command_keys(s, &keys, out, e));
    pairs_warn_twice(&p, s, call->kid[1]);
    TRY(into                           ? pairs_into(&outs, s, into, &keys, e)
        : to != NO_OUTS && !p.in_place ? result_outs(store, &keys, &p, &outs, out, e)
                                       : KV_OK);
    explainer x = {0};
    int rc = explain_begin(&x, s, command_name(call), store, &keys, &p, p.in_place ? &p : &outs, e);
    if (rc == KV_OK && x.makes_call &&
        (rc = run ? run(store, p.keys, p.n, p.arrays, outs.keys, outs.n, outs.arrays, &how, e)
                  : (single ? kv_init : kv_push)(store, p.keys, p.n, p.arrays, &how, e))) {
        hint_transpose(s, call, &p, store, e);
        if (into && rc == KV_E_SHAPE)
            unit_at(s, pairs_misfit(&outs, store), e);
        place_error(s, call, &p, store, e);
    }
    TRY(explain_end(&x, e));
    tell_change(s, command_name(call), &keys, store);
    if (into || p.in_place)
        warn_ignored(s, into ? into : call->kid[1], ignored);
    return KV_OK;
}

/* Runs the call of some keys whose values stand in files. */
static int run_files(session *s, const ast *call, const value_files *f, kv *store,
                     const key_list *keys, int64_t from, int64_t to, bool init, const kv_call *how,
                     kv_err *e)
{
    own_pairs p = {0};
    if (value_files_pairs(f, keys, from, to, &p, e))
        return unit_at(s, call->kid[1], e);
    int rc = (init ? kv_init : kv_push)(store, p.keys, p.n, p.arrays, how, e);
    return rc ? place_error(s, call, &p, store, e) : KV_OK;
}

/* A call whose values stand in files that memory need not hold: batch by batch, after all that the
 * headers show was checked. */
static int run_batches(session *s, const ast *call, const value_files *f, kv *store,
                       const key_list *keys, bool init, kv_err *e)
{
    kv_call how;
    int64_t at = 0, next, ignored = 0;
    int rc = command_priority(s, call, &how, e);
    how.ignored = &ignored;
    int64_t misfit = value_files_misfit(f, store, keys, init);
    /* Its call fails with a sentence of its own, unless a plugin's type takes it: then it is done,
     * and is left out below. */
    if (!rc && misfit >= 0)
        rc = run_files(s, call, f, store, keys, misfit, misfit + 1, init, &how, e);
    for (; !rc && at < keys->n; at = next) {
        next = at == misfit ? at + 1 : value_files_batch(f, keys, at);
        if (at < misfit && misfit < next)
            next = misfit;
        if (at != misfit && (rc = run_files(s, call, f, store, keys, at, next, init, &how, e)))
            break;
        if (next < keys->n)
            rc = stop_check(e);
    }
    if (rc && at > 0 && at < keys->n)
        kv_err_hint(e, "%lld of %lld keys were done before", (long long)at, (long long)keys->n);
    if (!rc)
        tell_change(s, command_name(call), keys, store);
    return rc;
}

/* init and push: values from files stream through, others are made first. */
static int init_or_push(session *s, const ast *call, bool init, result *out, kv_err *e)
{
    kv *store;
    own_value_files f = {0};
    own_key_list keys = {0};
    TRY(session_store(s, &store, e));
    TRY(value_files_open(&f, s, call, e));
    if (f.n == 0 || s->explanation)
        return call_with_pairs(s, call, init, NO_OUTS, NULL, out, e);
    TRY(value_files_keys(&f, s, call, store, init, &keys, e));
    TRY(command_keys(s, &keys, out, e));
    TRY(run_batches(s, call, &f, store, &keys, init, e));
    bool copies = init && named_is_pattern(call->kid[0]); /* a copy has the metadata, too */
    return copies ? named_metadata(store, f.files[0], e) : KV_OK;
}

int cmd_init(session *s, const ast *call, result *out, kv_err *e)
{
    return init_or_push(s, call, true, out, e);
}

int cmd_push(session *s, const ast *call, result *out, kv_err *e)
{
    return init_or_push(s, call, false, out, e);
}

int cmd_pushpull(session *s, const ast *call, result *out, kv_err *e)
{
    bool sent = command_redirect_of(call, true) || command_redirect_of(call, false);
    call_outs to = sent ? NEW_OUTS : command_option_of(call, "out") ? NO_OUTS : IN_PLACE;
    return call_with_pairs(s, call, false, to, kv_pushpull, out, e);
}

int cmd_broadcast(session *s, const ast *call, result *out, kv_err *e)
{
    return call_with_pairs(s, call, true, NEW_OUTS, kv_broadcast, out, e);
}

int cmd_call_store(session *s, const ast *call, result *out, kv_err *e)
{
    kv *store;
    const command *c = call->u.other;
    (void)out;
    TRY(session_store(s, &store, e));
    return c->on_store(store, e);
}

/* The function that has the name of the command, and its argument. */
int cmd_call_function(session *s, const ast *call, result *out, kv_err *e)
{
    const command *c = call->u.other;
    const ast *arg = c->args[0].kind == ARG_END ? NULL : call->kid[0];
    own_buf name = {0};
    own_value given = value_none();
    name_put(&name, c->name, strlen(c->name), '_');
    TRY(buf_check(&name, e));
    TRY(arg ? eval(s, arg, &given, e) : KV_OK);
    const function *f = function_find(buf_text(&name));
    return function_call(s, f, &given, NULL, arg != NULL, &out->v, e) ? unit_at(s, arg, e) : KV_OK;
}
