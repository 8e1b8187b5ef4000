/* Checking and grouping the pairs of a call.
 *
 * Mostly the keys come in the order of updates and each group's values side by side. Then the pairs
 * are already grouped, and finding them is one linear walk. Otherwise they are sorted, stably, by a
 * natural merge sort: it takes the ascending runs that are there and merges neighbours until one is
 * left, so that a list of keys given k times over costs log k passes.
 */
#include "core/call.h"

#include <stdio.h>
#include <string.h>

#include "array/sparse.h"
#include "base/kv_assert.h"
#include "base/utf8.h"

/* ---- Checks ---- */

/* A text key is UTF-8 of bounded length, so that it can stand in messages and files. It is not part
 * of call_check_key, which would make room for the text at each call. */
static __attribute__((noinline)) int check_text(const kv_key *key, kv_err *e)
{
    size_t n = strnlen(key->name, KV_KEY_MAX + 1);
    bool ok = true;
    for (size_t i = 0; i < n && ok && n <= KV_KEY_MAX;)
        i += utf8_length(key->name + i, n - i, &ok);
    if (ok && n <= KV_KEY_MAX)
        return KV_OK;
    return ok ? slot_error(e, KV_E_KEY, key, NULL, "the key %s is longer than %d bytes",
                           SLOT_KEY(key), KV_KEY_MAX)
              : slot_error(e, KV_E_KEY, key, NULL, "the key %s is not UTF-8", SLOT_KEY(key));
}

static int two_kinds(const kv_key *key, const kv_key *first, kv_err *e)
{
    const kv_key *text = key->name ? key : first, *integer = key->name ? first : key;
    return slot_error(e, KV_E_KEY, key, NULL,
                      "one call takes keys of one kind, %s is a text key and %s an integer",
                      SLOT_KEY(text), SLOT_KEY(integer));
}

int call_check_key(const kv_key *key, const kv_key *first, kv_err *e)
{
    if (!key->name != !first->name)
        return two_kinds(key, first, e);
    return key->name ? check_text(key, e) : KV_OK;
}

static __attribute__((noinline)) int no_array(const kv_key *key, kv_err *e)
{
    return slot_error(e, KV_E_VALUE, key, NULL, "key %s has no array (NULL)", SLOT_KEY(key));
}

int call_check_form(const kv_pairs *p, kv_err *e)
{
    const kv_key *keys = p->keys;
    for (int64_t i = 0, n = p->n; i < n; i++) {
        if (keys[i].name || keys[0].name)
            TRY(call_check_key(&keys[i], keys, e));
        if (!p->arrays[i])
            return no_array(&keys[i], e);
    }
    return KV_OK;
}

int call_find(const slot_table *t, const kv_key *key, int64_t guess, int64_t *number, kv_err *e)
{
    *number = slot_find(t, key, guess);
    if (*number >= 0)
        return KV_OK;
    TRY(slot_check_kind(t, key, e));
    if (!t->lost_keys)
        return slot_refuse_unknown(key, e);
    return slot_error(e, KV_E_KEY, key, "init it first", "there is no key %s", SLOT_KEY(key));
}

static int shape_error(const kv_key *key, const kv_array *held, const kv_array *a, const char *what,
                       kv_err *e)
{
    char one[128], other[128], hint[192];
    kv_shape_text(one, sizeof one, kv_array_ndim(held), kv_array_shape(held));
    snprintf(hint, sizeof hint, "full(%s, x) is an array in which each element is x", one);
    return slot_error(e, KV_E_SHAPE, key, kv_array_ndim(a) ? NULL : hint,
                      "key %s holds %s, this %s has shape %s", SLOT_KEY(key), one, what,
                      kv_shape_text(other, sizeof other, kv_array_ndim(a), kv_array_shape(a)));
}

int call_check_shape(const slot *s, const kv_array *a, const char *what, kv_err *e)
{
    if (array_fits(s->stored, a))
        return KV_OK;
    return shape_error(&s->key, s->stored, a, what, e);
}

int call_check_round(const slot *s, int64_t round, kv_err *e)
{
    if (round <= s->pushes)
        return KV_OK;
    return slot_error(e, KV_E_VALUE, &s->key,
                      "a round is how often a key was pushed; none pulls all of it",
                      "key %s is at round %lld, and this array would be at round %lld",
                      SLOT_KEY(&s->key), (long long)s->pushes, (long long)round);
}

/* The values of a new key must agree with its first one. */
static int check_new(const slot *s, const kv_array *first, const kv_array *a, kv_err *e)
{
    char one[128], other[128];
    if (array_fits(first, a))
        return KV_OK;
    return slot_error(e, KV_E_SHAPE, &s->key, NULL,
                      "the values of the new key %s have the shapes %s and %s", SLOT_KEY(&s->key),
                      kv_shape_text(one, sizeof one, kv_array_ndim(first), kv_array_shape(first)),
                      kv_shape_text(other, sizeof other, kv_array_ndim(a), kv_array_shape(a)));
}

/* Checks the values of a group, and lists their elements and what the engine must know. */
static int check_group(call *c, call_group *g, kv_err *e)
{
    const slot *s = call_slot(c, g);
    kv_array *const *values = c->values + g->first;
    const kv_array *model = s->stored ? s->stored : values[0];
    c->sparse |= model->storage == KV_ROW_SPARSE;
    g->same_dtype = true;
    g->sparse = values[0]->storage == KV_ROW_SPARSE;
    for (int64_t i = 0; i < g->n; i++) {
        kv_array *a = values[i];
        TRY(s->stored ? call_check_shape(s, a, "value", e) : check_new(s, model, a, e));
        c->sparse |= a->storage == KV_ROW_SPARSE;
        c->gpus |= call_is_on_gpu(a);
        g->mixed |= g->sparse != (a->storage == KV_ROW_SPARSE);
        g->same_dtype &= a->dtype == model->dtype;
        /* a pull that is pending may give a row_sparse array other elements; they are not read
         * here but by its sum */
        c->data[g->first + i] = g->sparse ? NULL : a->data;
        c->uses[g->use + 1 + i] = (engine_use){.var = array_var(a)};
    }
    /* Values of both storages are summed at once, which waits for them. */
    g->sparse &= !g->mixed;
    g->nuses = g->mixed ? 1 : 1 + g->n;
    return KV_OK;
}

/* Gives the group an array of its own when its key is new, or moves after its first value, or when
 * a transaction or a file being written holds on to what is stored, or when rows are missing. The
 * uses of a group are of its target, its values, and its source. */
static int place_group(call *c, call_group *g, int flags, kv_err *e)
{
    kv_array *stored = call_slot(c, g)->stored;
    const kv_array *first = c->values[g->first], *like = stored ? stored : first;
    kv_ctx ctx = stored ? stored->ctx : (kv_ctx){KV_CPU, 0};
    bool moves = (flags & CALL_FOLLOW_GPU) && ctx.device == KV_CPU && first->ctx.device == KV_GPU;
    bool replaced =
        !(flags & CALL_UPDATE) && (g->sparse || (stored && stored->storage == KV_ROW_SPARSE));
    g->ctx = moves ? first->ctx : ctx;
    if (replaced) {
        g->nuses = 0;
        return KV_OK;
    }
    if (!stored || moves || kv_array_refs(stored) > 1 || !sparse_is_full(stored)) {
        TRY(sparse_new_full(&g->fresh, like, g->ctx, e));
        c->owns = true;
        if (flags & CALL_UPDATE) {
            g->source = kv_array_ref(stored);
            c->uses[g->use + g->nuses++] = (engine_use){.var = array_var(stored)};
        }
    }
    g->target = g->fresh ? g->fresh : stored;
    c->gpus |= call_is_on_gpu(g->target);
    c->uses[g->use] = (engine_use){.var = array_var(g->target), .write = true};
    c->work_bytes += kv_array_bytes(g->target);
    return KV_OK;
}

/* ---- Grouping ---- */

/* A pair of the call: where its slot stands in the order of updates, which slot, which value. */
typedef struct pair {
    int64_t rank, number, value;
} pair;

/* The end of the ascending run that begins at `from`. */
static int64_t run_end(const pair *p, int64_t from, int64_t n)
{
    int64_t i = from + 1;
    while (i < n && p[i - 1].rank <= p[i].rank)
        i++;
    return i < n ? i : n;
}

static void merge(pair *out, const pair *a, int64_t na, const pair *b, int64_t nb)
{
    while (na && nb) {
        bool left = a->rank <= b->rank; /* equal ones keep their order */
        *out++ = left ? *a : *b;
        a += left, na -= left;
        b += !left, nb -= !left;
    }
    memcpy(out, a, (size_t)na * sizeof *a);
    memcpy(out + na, b, (size_t)nb * sizeof *b);
}

/* Merges neighbouring runs of p into spare; says whether one run is left. */
static bool merge_pass(pair *spare, const pair *p, int64_t n)
{
    bool one = true;
    for (int64_t i = 0; i < n;) {
        int64_t middle = run_end(p, i, n);
        int64_t end = middle < n ? run_end(p, middle, n) : n;
        merge(spare + i, p + i, middle - i, p + middle, end - middle);
        one &= i == 0 && end == n;
        i = end;
    }
    return one;
}

/* Sorts p; the result is in p or in spare, which have n places each, and is returned. */
static pair *sort_pairs(pair *p, pair *spare, int64_t n)
{
    bool sorted = run_end(p, 0, n) == n;
    while (!sorted) {
        sorted = merge_pass(spare, p, n);
        pair *t = p;
        p = spare;
        spare = t;
    }
    return p;
}

/* Finds or makes the slot of each key. */
static int find_slots(const call *c, pair *p, bool create, kv_err *e)
{
    slot_table *t = c->table;
    const kv_key *keys = c->pairs->keys;
    int64_t n = c->nvalues;
    int64_t guess = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t number = slot_find(t, &keys[i], guess);
        if (number < 0 && !create)
            return call_find(t, &keys[i], -1, &number, e);
        if (number < 0) {
            TRY(slot_check_kind(t, &keys[i], e));
            TRY(slot_add(t, &keys[i], NULL, e));
            number = t->n - 1;
        }
        p[i] = (pair){keys[i].name ? number : keys[i].id, number, i};
        guess = number + 1;
    }
    return KV_OK;
}

/* Makes the groups of the sorted pairs p. */
static int make_groups(call *c, const pair *p, int flags, kv_err *e)
{
    int64_t n = c->nvalues;
    for (int64_t i = 0, end, asked = 1; i < n; i = end) {
        for (end = i + 1; end < n && p[end].number == p[i].number; end++)
            ;
        for (; asked < n && asked < end + CALL_AHEAD; asked++) { /* their headers */
            const kv_array *stored = c->table->items[p[asked].number].stored;
            call_prefetch(c->values[asked]);
            if (stored && p[asked].number != p[asked - 1].number)
                call_prefetch(stored);
        }
        call_group *g = &c->groups[c->ngroups++];
        *g = (call_group){.number = p[i].number, .first = i, .n = end - i, .use = c->op.nuses};
        g->key = *slot_own_key(call_slot(c, g));
        if (g->n > c->max_values)
            c->max_values = g->n;
        TRY(check_group(c, g, e));
        TRY(place_group(c, g, flags, e));
        c->op.nuses += g->nuses;
    }
    return KV_OK;
}

int call_group_pairs(call *c, int flags, kv_err *e)
{
    int64_t n = c->nvalues;
    pair *p = (pair *)(void *)c->memory;
    TRY(find_slots(c, p, flags & CALL_CREATE, e));
    if (run_end(p, 0, n) < n) {
        p = sort_pairs(p, p + n, n);
        for (int64_t i = 0; i < n; i++)
            c->list[i] = c->values[p[i].value];
        c->values = c->list;
    }
    return make_groups(c, p, flags, e);
}

/* ---- Outs ---- */

/* The uses of outs come before all others: the engine wants writes before reads. */
void call_expect_outs(call *c)
{
    int64_t n = c->results->n;
    if (n > c->nvalues) /* there is no room for more; see USES */
        return;
    c->nouts = n;
    c->op.nuses = n;
}

void call_drop_outs(call *c)
{
    if (c->nouts == 0)
        return;
    kv_assert(c->uses == c->op.uses && c->op.nuses >= c->nouts,
              "%lld outs are dropped from %lld uses, and they are not the first ones",
              (long long)c->nouts, (long long)c->op.nuses);
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->use -= c->nouts;
        g->nouts = 0;
    }
    c->uses += c->nouts;
    c->op.uses = c->uses;
    c->op.nuses -= c->nouts;
    c->nouts = 0;
}

static bool is_plain(call *c)
{
    for (int64_t i = 0; i < c->nouts; i++) {
        c->gpus |= call_is_on_gpu(c->outs[i]);
        if (c->outs[i]->storage != KV_DEFAULT)
            return false;
    }
    for (int64_t i = 0; i < c->ngroups; i++) {
        const call_group *g = &c->groups[i];
        if (g->sparse || g->mixed || !g->target)
            return false;
    }
    return true;
}

/* Gives each group its outs. Returns false if the outs are not in the order of the groups. */
static bool share_out(call *c)
{
    const kv_pairs *outs = c->results;
    int64_t taken = 0, number = -1;
    c->outs = outs->arrays;
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        g->first_out = taken;
        while (taken < c->nouts) {
            number = slot_find(c->table, &outs->keys[taken], number + 1);
            if (number != g->number)
                break;
            taken++;
        }
        g->nouts = taken - g->first_out;
    }
    return taken == c->nouts;
}

static engine_lot lot_of(const void *arg, int64_t i)
{
    const call *c = arg;
    const call_group *g = &c->groups[i];
    return (engine_lot){g->use, g->nuses, g->first_out, g->nouts};
}

void call_take_outs(call *c)
{
    bool fit = true;
    if (c->nouts == 0)
        return;
    if (c->results == c->pairs) {
        c->outs = c->values;
        for (int64_t i = 0; i < c->ngroups; i++) {
            call_group *g = &c->groups[i];
            g->first_out = g->first;
            g->nouts = g->n;
        }
    } else
        fit = share_out(c);
    if (fit && is_plain(c)) {
        for (int64_t i = 0; i < c->nouts; i++)
            c->uses[i] = (engine_use){.var = array_var(c->outs[i]), .write = true};
        fit = engine_apart(&c->op, c->ngroups, lot_of, c);
    } else {
        fit = false;
    }
    if (!fit)
        call_drop_outs(c);
}

/* ---- Pulls ---- */

int call_find_pairs(call *c, bool sparse_too, kv_err *e)
{
    const kv_key *keys = c->pairs->keys;
    kv_array *const *outs = c->values;
    int64_t n = c->nvalues, guess = 0, number;
    c->pulls = true;
    c->values = c->list;
    c->nvalues = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i + CALL_AHEAD < n) {
            call_prefetch(outs[i + CALL_AHEAD]);
            if (guess + CALL_AHEAD < c->table->n)
                call_prefetch(c->table->items[guess + CALL_AHEAD].stored);
        }
        kv_array *out = outs[i];
        TRY(call_find(c->table, &keys[i], guess, &number, e));
        TRY(call_check_shape(&c->table->items[number], out, "array", e));
        guess = number + 1;
        if (out->storage != KV_DEFAULT && !sparse_too)
            continue;
        int64_t k = c->nvalues++;
        c->list[k] = out;
        c->stored[k] = c->table->items[number].stored;
        c->gpus |= call_is_on_gpu(out) || call_is_on_gpu(c->stored[k]);
        c->uses[2 * k] = (engine_use){.var = array_var(out), .write = true};
        c->uses[2 * k + 1] = (engine_use){.var = array_var(c->stored[k])};
        if (out->storage == KV_DEFAULT) /* what the others hold may be changing */
            c->work_bytes += kv_array_bytes(out);
        /* Neighbouring pairs of one key are a group, for which the stored array is read once. */
        call_group *g = c->ngroups ? &c->groups[c->ngroups - 1] : NULL;
        if (!g || g->target != c->stored[k]) {
            g = &c->groups[c->ngroups++];
            *g = (call_group){.key = c->table->items[number].key, .first = k,
                              .target = c->stored[k], .use = 2 * k};
            g->work = sparse_is_full(g->target) ? CALL_COPY : CALL_COPY_ROWS;
        }
        g->n++;
        g->nuses += 2;
    }
    c->op.nuses = 2 * c->nvalues;
    kv_assert(c->ngroups <= c->nvalues, "a pull into %lld arrays has %lld groups",
              (long long)c->nvalues, (long long)c->ngroups);
    return KV_OK;
}

int64_t call_bytes_a_pair(void)
{
    return 2 * sizeof(pair);
}
