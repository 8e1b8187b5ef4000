/* The words of `explain`. See explain.h.
 *
 * Nothing is computed here that the store computes: a sum is what a store of its own without an
 * updater gives for the same values, and what a call makes of a key is pulled afterwards.
 */
#include "cmd/explain.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "io/scalar.h"
#include "lang/lex.h"
#include "run/run.h"
#include "session/containers.h"
#include "session/result.h"
#include "session/unit.h"
#include "term/terminal.h"

/* Values that are listed one by one, of a key with more. */
#define VALUES_SHOWN 8

/* A rule of more lines is not shown. */
#define RULE_LINES 12

/* ---- Looking into the store ---- */

/* Types of several machines; NULL for one process. */
static const char *cluster_type(kv *store)
{
    const kv_type_ops *ops;
    if (kv_find_type(kv_type(store), &ops, &(kv_err){0}) || !ops->cluster)
        return NULL;
    return ops->names[0];
}

static bool can(kv *store, const char *what)
{
    bool yes = false;
    return kv_is_capable(store, what, &yes, &(kv_err){0}) == KV_OK && yes;
}

/* teststore, horovod and byteps sum and copy, and keep nothing that could be pulled. */
static bool keeps_values(kv *store)
{
    return can(store, "pull");
}

/* Marks the text as incomplete where an error is one of memory; others are part of the
 * explanation. */
static void note_lack(buf *out, const kv_err *e)
{
    out->failed = out->failed || e->code == KV_E_MEMORY;
}

int pull_stored(kv_array **out, kv *store, kv_key key, kv_err *e)
{
    kv_info info;
    own_array *a = NULL;
    TRY(kv_find(store, &key, &info, e));
    TRY(kv_array_new(&a, info.dtype, info.ndim, info.shape, (kv_ctx){0}, e));
    TRY(kv_pull(store, &key, 1, &a, NULL, e));
    *out = a;
    a = NULL;
    return KV_OK;
}

/* The same; NULL if it has none. Lack of memory marks out. */
static kv_array *stored(kv *store, kv_key key, buf *out)
{
    kv_array *a = NULL;
    kv_err why = {0};
    pull_stored(&a, store, key, &why);
    note_lack(out, &why);
    return a;
}

/* The sum of the values of a key, in a store without an updater: a transaction, or
 * a scratch one. */
static int pushed_sum(kv_array **out, kv *store, kv_key key, const pairs *p, kv_err *e)
{
    int64_t n = 0;
    own_mem kv_array **arrays = mem_alloc(p->n, sizeof *arrays, e);
    own_mem kv_key *keys = mem_alloc(p->n, sizeof *keys, e);
    TRY(arrays && keys ? KV_OK : KV_E_MEMORY);
    for (int64_t i = 0; i < p->n; i++) {
        if (!map_same_key(&p->keys[i], &key))
            continue;
        arrays[n] = p->arrays[i];
        keys[n++] = key;
    }
    TRY(n > 0 ? kv_push(store, keys, n, arrays, NULL, e) : KV_E_KEY);
    return pull_stored(out, store, key, e);
}

/* The sum in a scratch store whose key is like the one of `of`. */
static int scratch_sum(kv_array **out, kv *of, kv_key key, const pairs *p, kv_err *e)
{
    own_store *scratch = NULL;
    kv_info info;
    own_array *zeros = NULL;
    TRY(kv_create("local", NULL, 0, &scratch, e));
    if (kv_find(of, &key, &info, &(kv_err){0}) == KV_OK) {
        TRY(kv_array_new(&zeros, info.dtype, info.ndim, info.shape, (kv_ctx){0}, e));
        TRY(kv_init(scratch, &key, 1, &zeros, NULL, e));
    }
    return pushed_sum(out, scratch, key, p, e);
}

/* The sum of compressed values, as their codes give it: by a push that is taken back. */
static int decoded_sum(kv_array **out, kv *store, kv_key key, const pairs *p, kv_err *e)
{
    TRY(can(store, "transactions") ? kv_begin(store, e) : KV_E_UNSUPPORTED);
    int rc = kv_set_updater(store, NULL, NULL, NULL, e);
    rc = rc ? rc : pushed_sum(out, store, key, p, e);
    kv_rollback(store, &(kv_err){0});
    return rc;
}

/* ---- Descriptions of the store ---- */

typedef struct described {
    const char *field;
    buf *out;
} described;

static int take_field(void *arg, const kv_field *f, int n, kv_err *e)
{
    const described *d = arg;
    (void)e;
    for (int i = 0; i < n; i++)
        if (strcmp(f[i].name, d->field) == 0 && f[i].text)
            buf_add(d->out, f[i].text);
        else if (strcmp(f[i].name, d->field) == 0)
            buf_printf(d->out, "%lld", (long long)f[i].number);
    return KV_OK;
}

int describe_field(kv *store, const char *topic, const char *field, buf *out, kv_err *e)
{
    TRY(kv_describe(store, topic, take_field, &(described){field, out}, e));
    return buf_check(out, e);
}

static void describe(kv *store, const char *field, char text[64])
{
    own_buf found = {0};
    describe_field(store, "store", field, &found, &(kv_err){0});
    snprintf(text, 64, "%s", buf_text(&found));
}

/* "2bit 0.5"; NULL for none. */
static const char *compression_of(kv *store, char text[64])
{
    describe(store, "compression", text);
    return strcmp(text, "none") == 0 || !*text ? NULL : text;
}

/* The rule in use, each line indented; nothing when it is long. The comment above it
 * is left out. */
static void add_rule(buf *out, kv *store)
{
    own_buf text = {0}, reads = {0};
    kv_err unused = {0};
    int lines = 1;
    if (describe_field(store, "rule", "text", &text, &unused) == KV_OK &&
        describe_field(store, "rule", "reads", &reads, &unused) == KV_OK) {
        const char *at = buf_text(&text);
        while (*at == '#' || *at == '\n')
            at += *at == '\n' ? 1 : strcspn(at, "\n");
        for (const char *c = at; *c; c++)
            lines += *c == '\n' && c[1];
        while (*at && lines <= RULE_LINES) {
            size_t n = strcspn(at, "\n"), margin = lex_margin(at, n);
            buf_add(out, "       ");
            buf_put(out, at + margin, n - margin); /* it may have been pasted */
            buf_char(out, '\n');
            at += n + (at[n] == '\n');
        }
        if (reads.len > 0)
            buf_printf(out, "       which reads %s\n", buf_text(&reads));
    }
    note_lack(out, &unused);
}

/* ---- Numbers ---- */

/* The element of an array that is followed; "nothing" when there is none. */
static void add_element(followed_key *t, kv_array *a)
{
    char text[NUM_TEXT_MAX];
    const void *data;
    kv_err unused = {0};
    own_array *dense = NULL;
    if (!a || kv_array_to_dense(&dense, a, &unused) || t->at >= kv_array_size(dense) ||
        kv_array_read(dense, &data, &unused)) {
        buf_add(&t->out, "nothing");
    } else {
        scalar_text(text, kv_array_dtype(dense), data, t->at);
        buf_add(&t->out, text);
    }
    note_lack(&t->out, &unused);
}

/* The element that is followed: the first that is not 0. */
static int64_t interesting(kv_array *a, buf *out)
{
    const void *data;
    kv_err unused = {0};
    own_array *dense = NULL;
    int64_t found = 0;
    if (a && kv_array_to_dense(&dense, a, &unused) == KV_OK &&
        kv_array_read(dense, &data, &unused) == KV_OK) {
        while (found < kv_array_size(dense) &&
               scalar_float(kv_array_dtype(dense), data, found) == 0)
            found++;
        found = found < kv_array_size(dense) ? found : 0;
    }
    note_lack(out, &unused);
    return found;
}

/* "element [0, 1] of (2, 3) float32" */
static void add_place(followed_key *t, kv_array *like)
{
    char shape[256];
    const char *dtype = kv_dtype_name(kv_array_dtype(like));
    int ndim = kv_array_ndim(like);
    if (ndim == 0) {
        buf_printf(&t->out, "the %s number", dtype);
        return;
    }
    buf_add(&t->out, "element ");
    show_index(&t->out, like, t->at);
    buf_printf(&t->out, " of %s %s", kv_shape_text(shape, sizeof shape, ndim, kv_array_shape(like)),
               dtype);
}

/* ---- Steps ---- */

static buf *step(followed_key *t)
{
    buf_printf(&t->out, "  %d. ", ++t->n);
    return &t->out;
}

/* "workers 0, 1 and 2", without the one called `but`. */
static void add_workers(buf *out, int workers, int but)
{
    int n = workers - (but >= 0 && but < workers), left = n;
    buf_add(out, n == 1 ? "worker " : "workers ");
    for (int i = 0; i < workers; i++) {
        if (i == but)
            continue;
        buf_printf(out, "%d%s", i, --left > 1 ? ", " : left == 1 ? " and " : "");
    }
}

static int64_t count_values(const followed_key *t, const pairs *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        n += map_same_key(&p->keys[i], &t->key);
    return n;
}

/* "1 from gpu(0), 1 from gpu(1)"; or with sum "1 + 1". */
static void add_values(followed_key *t, bool sum)
{
    const pairs *p = t->x->values;
    char ctx[KV_CTX_TEXT];
    int64_t shown = 0, n = count_values(t, p);
    for (int64_t i = 0; i < p->n; i++) {
        if (!map_same_key(&p->keys[i], &t->key))
            continue;
        if (shown == VALUES_SHOWN) {
            buf_printf(&t->out, sum ? " + … (%lld more)" : ", … (%lld more)",
                       (long long)(n - shown));
            break;
        }
        buf_add(&t->out, shown++ == 0 ? "" : sum ? " + " : ", ");
        add_element(t, p->arrays[i]);
        if (!sum)
            buf_printf(&t->out, " from %s", kv_ctx_text(ctx, kv_array_ctx(p->arrays[i])));
    }
}

/* Tells which values come in. Returns how many. */
static int64_t tell_incoming(followed_key *t)
{
    int64_t n = count_values(t, t->x->values);
    if (n == 1)
        buf_add(step(t), "one value comes in: ");
    else
        buf_printf(step(t), "%lld values come in: ", (long long)n);
    add_values(t, false);
    buf_char(&t->out, '\n');
    return n;
}

static void tell_sum(followed_key *t)
{
    int64_t n = tell_incoming(t);
    kv_array *input = t->input;
    char how[64];
    const char *compression = compression_of(t->x->store, how);
    if (compression) {
        buf_printf(step(t),
                   "each becomes a code (%s), what that leaves out waits for the next push",
                   compression);
        if (input) {
            buf_add(&t->out, ": the codes add up to ");
            add_element(t, input);
        }
    } else if (n == 1) {
        buf_add(step(t), "it is the only one, so it is the sum");
    } else {
        buf_add(step(t), "they are summed from left to right: ");
        add_values(t, true);
        if (input) {
            buf_add(&t->out, " = ");
            add_element(t, input);
        }
    }
    buf_char(&t->out, '\n');
}

/* Tells the work of the updater, on this machine or on a server. */
static void tell_updater(followed_key *t, bool here)
{
    kv_array *before = t->before, *input = t->input;
    char name[64], norm[64];
    describe(t->x->store, "updater", name);
    if (strcmp(name, "assign") == 0) {
        buf_add(step(t), "no updater is set, so the sum ");
        if (here && !before)
            buf_add(&t->out, "becomes the first value of the key");
        else
            buf_add(&t->out, here ? "replaces what was stored, " : "replaces what was stored");
        if (here && before)
            add_element(t, before);
        buf_char(&t->out, '\n');
        return;
    }
    describe(t->x->store, "clip_global_norm", norm);
    if (*norm) {
        buf_printf(step(t), "it is scaled by min(1, %s / norm), with the norm over all keys of the "
                   "push\n", norm);
        input = NULL; /* which is not known here */
    }
    buf_printf(step(t), "the updater, %s, runs", strcmp(name, "rule") == 0 ? "a rule" : name);
    if (here && input) {
        buf_add(&t->out, " with input ");
        add_element(t, input);
        buf_add(&t->out, " and stored ");
        add_element(t, before);
    }
    buf_add(&t->out, ":\n");
    size_t from = t->out.len;
    add_rule(&t->out, t->x->store);
    if (t->out.len == from && t->out.len >= 2 && t->out.data[from - 2] == ':') {
        t->out.len -= 2; /* the rule is long */
        buf_printf(&t->out, " (help optimizer %s shows it)\n", name);
    }
}

static bool is_call(const followed_key *t, const char *name)
{
    return strcmp(t->x->what, name) == 0;
}

static bool is_push(const followed_key *t)
{
    return is_call(t, "push") || is_call(t, "pushpull");
}

/* Tells the arrays that receive the stored array, or the result of a store that keeps nothing. */
static void tell_copies(followed_key *t)
{
    const pairs *p = t->x->outs;
    char ctx[KV_CTX_TEXT];
    own_array *after = cluster_type(t->x->store) ? NULL : stored(t->x->store, t->key, &t->out);
    int n = 0;
    for (int64_t i = 0; p && i < p->n; i++) {
        if (!map_same_key(&p->keys[i], &t->key))
            continue;
        if (n == 0) {
            buf_add(step(t), keeps_values(t->x->store) ? "what is stored"
                             : is_push(t)              ? "nothing is stored, the sum"
                                                       : "nothing is stored, the value");
            if (after) {
                buf_add(&t->out, ", ");
                add_element(t, after);
                buf_char(&t->out, ',');
            }
            buf_add(&t->out, " is copied to ");
        }
        if (n == VALUES_SHOWN) {
            buf_add(&t->out, ", …");
            break;
        }
        buf_printf(&t->out, "%s%s", n++ > 0 ? ", " : "",
                   kv_ctx_text(ctx, kv_array_ctx(p->arrays[i])));
    }
    if (n > 0)
        buf_char(&t->out, '\n');
}

/* ---- Several machines: ranks that wait for others ---- */

static void tell_async_push(followed_key *t)
{
    char bound[64];
    describe(t->x->store, "staleness", bound);
    tell_updater(t, false);
    buf_add(step(t), "the server does so for each push as it comes, and nobody waits");
    if (*bound && strcmp(bound, "unbounded") != 0)
        buf_printf(&t->out, ", but for a worker that is more than %s pushes ahead of the slowest",
                   bound);
    buf_char(&t->out, '\n');
}

static void tell_cluster_push(followed_key *t, const char *type)
{
    int workers = kv_num_workers(t->x->store), rank = kv_rank(t->x->store);
    if (!keeps_values(t->x->store)) {
        add_workers(step(t), workers, -1);
        buf_add(&t->out, workers == 1 ? " has its sum" : " wait until each has its sum");
        buf_add(&t->out, "; the sums are added by rank, and all get the result\n");
        return;
    }
    buf_printf(step(t), "worker %d sends the sum to the server that keeps the key, and goes on\n",
               rank);
    if (strstr(type, "async")) {
        tell_async_push(t);
        return;
    }
    buf_add(step(t), "the server waits until ");
    add_workers(&t->out, workers, -1);
    buf_add(&t->out, workers == 1 ? " has" : " have");
    buf_add(&t->out, " pushed this round, and adds their sums by rank\n");
    tell_updater(t, false);
    if (workers > 1) {
        buf_printf(step(t), "a pull of worker %d waits for the end of this round, so for ", rank);
        add_workers(&t->out, workers, rank);
        buf_char(&t->out, '\n');
    }
}

static void tell_cluster_pull(followed_key *t, const char *type)
{
    kv *store = t->x->store;
    int workers = kv_num_workers(store), rank = kv_rank(store);
    if (strstr(type, "async")) {
        buf_printf(step(t), "worker %d waits for its own pushes of the key, not for others'\n",
                   rank);
    } else if (workers > 1) {
        buf_printf(step(t), "worker %d waits for the end of the round of its last push, so for ",
                   rank);
        add_workers(&t->out, workers, rank);
        buf_char(&t->out, '\n');
    }
    buf_add(step(t), t->x->outs && t->x->outs->since ? "the server sends the elements whose bits "
                                   "changed since that round if it knows them, else all\n"
                                 : "the server sends what it stores\n");
}

static void tell_cluster_init(followed_key *t)
{
    int workers = kv_num_workers(t->x->store);
    bool keeps = keeps_values(t->x->store);
    buf_add(step(t), "the value of worker 0 counts");
    buf_add(&t->out,
            keeps ? ", and goes to the server that keeps the key\n" : ", and all get it\n");
    if (workers > 1) {
        add_workers(step(t), workers, 0);
        buf_add(&t->out, workers == 2 ? " waits" : " wait");
        buf_add(&t->out, keeps ? " until it is there\n" : " for it\n");
    }
}

/* ---- Whole calls ---- */

/* Tells the steps up to the call, before it is made: an array that the call fills may be one of its
 * values. */
static void tell_before(followed_key *t)
{
    const explainer *x = t->x;
    const char *type = cluster_type(x->store);
    if (is_push(t))
        tell_sum(t);
    else if (is_call(t, "pull") && type)
        tell_cluster_pull(t, type);
    else if (is_call(t, "pull"))
        buf_add(step(t), "pushes of the key that are under way end first\n");
    else if (type)
        tell_cluster_init(t);
    else if (!keeps_values(x->store))
        tell_incoming(t);
    else {
        buf_add(step(t), "the key is new, and the store keeps a copy of its value, ");
        add_values(t, true);
        buf_char(&t->out, '\n');
    }
}

/* Tells the results of the call. */
static void tell_after(followed_key *t)
{
    const char *type = cluster_type(t->x->store);
    if (is_push(t) && type) {
        tell_cluster_push(t, type);
    } else if (is_push(t) && keeps_values(t->x->store)) {
        tell_updater(t, true);
        own_array *after = stored(t->x->store, t->key, &t->out);
        if (after) {
            buf_add(step(t), "the key then holds ");
            add_element(t, after);
            buf_char(&t->out, '\n');
        }
    }
    tell_copies(t);
}

static kv_array *first_value(const followed_key *t)
{
    const pairs *p = t->x->values;
    for (int64_t i = 0; p && i < p->n; i++)
        if (map_same_key(&p->keys[i], &t->key))
            return p->arrays[i];
    return NULL;
}

static void begin_key(followed_key *t)
{
    kv_array *first = first_value(t), *like = first ? first : t->before;
    t->at = interesting(like, &t->out);
    buf_printf(&t->out, "%s ", t->x->what);
    show_key(&t->out, t->key);
    if (like) {
        buf_add(&t->out, ", following ");
        add_place(t, like);
    }
    buf_add(&t->out, ":\n");
    tell_before(t);
}

/* Hands the text to the listener: of a trial that is the command. */
static void put_out(session *s, buf *text)
{
    if (s->explanation) {
        buf_put(s->explanation, buf_text(text), text->len);
    } else {
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        fputs(buf_text(text), stderr);
    }
}

static bool listens(const session *s)
{
    return s->explains || s->explanation;
}

int explain_begin(explainer *x, session *s, const char *what, kv *store, const key_list *keys,
                  const pairs *values, const pairs *outs, kv_err *e)
{
    char how[64];
    /* a call that the type does not have is made all the same: it says so itself */
    x->on = listens(s) && can(store, what);
    x->makes_call = true;
    if (!x->on) /* the rest is not looked at */
        return KV_OK;
    *x = (explainer){.on = true,
                     .makes_call = true,
                     .s = s,
                     .store = store,
                     .what = what,
                     .keys = keys,
                     .values = values,
                     .outs = outs};
    if (s->guest && can(store, "transactions"))
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a call of a store of type \"%s\" is explained by making it and "
                          "taking it back, which the script would see",
                          kv_type(store));
    bool cluster = cluster_type(store), pushes = strncmp(what, "push", 4) == 0;
    bool compressed = compression_of(store, how) != NULL;
    if (s->explanation && kv_in_transaction(store)) {
        kv_err_set(e, KV_E_VALUE, "a transaction is open, and explaining a command needs one");
        return kv_err_hint(e, "commit or rollback first; `explain on` explains inside of one");
    }
    for (; x->n < keys->n && x->n < EXPLAIN_KEYS; x->n++) {
        followed_key *t = &x->followed[x->n];
        *t = (followed_key){.x = x, .key = keys->keys[x->n]};
        if (!cluster)
            t->before = stored(store, t->key, &t->out);
        kv_err why = {0};
        if (pushes)
            (compressed ? decoded_sum : scratch_sum)(&t->input, store, t->key, values, &why);
        note_lack(&t->out, &why);
        begin_key(t);
    }
    x->makes_call = !s->explanation || can(store, "transactions");
    x->begun = s->explanation && x->makes_call && kv_begin(store, e) == KV_OK;
    return e->code;
}

int explain_end(explainer *x, kv_err *e)
{
    own_buf text = {0};
    if (!x->on)
        return e->code;
    if (e->code == KV_OK) {
        int64_t more = x->keys->n - EXPLAIN_KEYS;
        for (followed_key *t = x->followed; t < x->followed + x->n; t++) {
            tell_after(t);
            buf_put(&text, buf_text(&t->out), t->out.len);
            text.failed = text.failed || t->out.failed;
        }
        if (more > 0)
            buf_printf(&text, "and so on for %lld more key%s\n", (long long)more,
                       more == 1 ? "" : "s");
        if (buf_check(&text, e) == KV_OK)
            put_out(x->s, &text);
    }
    for (; x->n > 0; x->n--) {
        kv_array_unref(x->followed[x->n - 1].before);
        kv_array_unref(x->followed[x->n - 1].input);
        buf_release(&x->followed[x->n - 1].out);
    }
    if (x->begun) {
        kv_rollback(x->store, &(kv_err){0});
        x->begun = false;
    }
    return e->code;
}

bool explain_barrier(session *s, kv *store)
{
    own_buf text = {0};
    int workers = kv_num_workers(store);
    if (!listens(s))
        return true;
    buf_add(&text, "barrier:\n  1. ");
    if (workers > 1) {
        buf_printf(&text, "worker %d waits until ", kv_rank(store));
        add_workers(&text, workers, kv_rank(store));
        buf_add(&text, workers == 2 ? " is here, too\n" : " are here, too\n");
    } else {
        buf_add(&text, "there is one worker, so nobody waits\n");
    }
    put_out(s, &text);
    return !s->explanation;
}

/* ---- The command ---- */

/* explain: the work that a command would do, or does, in words. */

/* The variables of a scope, and what the arrays and lists hold that they refer to. Elements of
 * arrays are shared until written, so this copies none. */
typedef struct snapshot {
    scope *of;
    value *values;
    int64_t n;
    value_stack objects, contents; /* another object with the same contents for each */
} snapshot;

static int keep_contents(snapshot *p, value v, kv_err *e)
{
    value same = value_none();
    bool items = value_has_items(v);
    TRY(items ? value_descend(e) : KV_OK);
    if (v.kind == VALUE_DICT)
        dict_settle(v);
    TRY(v.kind == VALUE_ARRAY  ? value_array(&same, kv_array_ref(v.u.box->array), e)
        : v.kind == VALUE_LIST ? list_repeat(&same, v, 1, e)
        : v.kind == VALUE_DICT ? dict_copy(&same, v, e)
                               : KV_OK);
    if (same.kind != VALUE_NONE) {
        TRY(value_stack_add(&p->contents, same, e));
        TRY(value_stack_add(&p->objects, value_ref(v), e));
    }
    for (int64_t i = 0; items && i < v.u.list->n; i++) {
        TRY(stop_check_at(i, e));
        TRY(keep_contents(p, v.u.list->items[i], e));
    }
    return KV_OK;
}

static int snapshot_take(snapshot *p, scope *of, kv_err *e)
{
    *p = (snapshot){.of = of};
    if (!of || !(p->values = mem_alloc(of->n, sizeof *p->values, e)))
        return of ? KV_E_MEMORY : KV_OK;
    for (; p->n < of->n; p->n++)
        p->values[p->n] = value_ref(of->items[p->n].v);
    for (int64_t i = 0; i < p->n; i++)
        TRY(keep_contents(p, p->values[i], e));
    return KV_OK;
}

/* Variables that were made since then are there, but none. */
static void snapshot_restore(snapshot *p)
{
    if (p->of)
        scope_cut(p->of, p->n);
    for (int64_t i = 0; i < p->n; i++) {
        value_release(&p->of->items[i].v);
        p->of->items[i].v = p->values[i];
    }
    kv_err unused = {0};
    for (int64_t i = 0; i < p->objects.n; i++) {
        value object = p->objects.items[i], had = p->contents.items[i];
        if (object.kind == VALUE_ARRAY) {
            value_replace(object, kv_array_ref(had.u.box->array));
        } else if (object.kind == VALUE_DICT) {
            dict_clear(object);
            dict_update(object, had, &unused);
        } else {
            list_splice(object, 0, object.u.list->n, had, &unused);
        }
    }
    value_stack_release(&p->objects);
    value_stack_release(&p->contents);
    mem_free(p->values);
}

/* Runs the command and takes back what it did; s->explanation hears what the store did. */
static int try(session *s, const ast *node, kv_err *e)
{
    snapshot globals, locals = {0};
    sink dropped = {.kind = SINK_TAKES};
    session before = *s;
    int rc = snapshot_take(&globals, &s->globals, e);
    if (rc == KV_OK)
        rc = snapshot_take(&locals, s->locals, e);
    value last = value_ref(s->last);
    sink_push(s, &dropped);
    s->out.recorder.on = false;
    s->out.verbose = false;
    if (rc == KV_OK)
        rc = run_argument(s, node, e);
    sink_pop(s, &dropped);
    s->out.recorder.on = before.out.recorder.on;
    s->out.verbose = before.out.verbose;
    s->seed = before.seed;
    s->draws = before.draws;
    snapshot_restore(&globals);
    snapshot_restore(&locals);
    value_release(&s->last);
    s->last = last;
    buf_release(&dropped.text);
    return rc;
}

int cmd_explain(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *what = call->kid[0];
    buf text = {0};
    if (s->guest && what->kind == AST_TEXT)
        return unit_err(s, what, e, KV_E_UNSUPPORTED,
                        "the script alone can say whether its calls are explained");
    if (what->kind == AST_TEXT) {
        s->explains = strcmp(what->u.text, "on") == 0;
        return KV_OK;
    }
    if (s->explanation)
        return unit_err(s, what, e, KV_E_USAGE, "explain does not explain itself");
    s->explanation = &text;
    int rc = try(s, what, e);
    s->explanation = NULL;
    buf_add(&text, "nothing was changed\n");
    return result_text(out, &text, rc, e);
}
