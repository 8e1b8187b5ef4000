/* Variables that rules read: the lists of the stores, and what an assignment does. */
#include "session/session.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

int follow_text(value *out, value v, bool quoted, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    buf text = {0};
    switch (v.kind) {
    case VALUE_FLOAT:
        num_repr(number, v.u.number, NUM_BINARY64);
        return value_text(out, number, e);
    case VALUE_BOOL:
        return value_text(out, v.u.integer ? "true" : "false", e);
    case VALUE_NONE:
        return value_text(out, "none", e);
    case VALUE_TEXT:
        buf_add(&text, quoted ? "\"" : "");
        buf_add(&text, v.u.text);
        buf_add(&text, quoted ? "\"" : "");
        return value_text_take(out, &text, KV_OK, e);
    default: /* VALUE_INT */
        value_print(&text, v, false);
        return value_text_take(out, &text, KV_OK, e);
    }
}

int follow_add(session *s, followed_names *f, const char *name, variable *here, kv_err *e)
{
    char *copy = mem_text(name, strlen(name), e);
    if (!copy || mem_grow(&f->items, &f->cap, f->n + 1, sizeof *f->items, e)) {
        mem_free(copy);
        return KV_E_MEMORY;
    }
    if (here && !here->follow)
        here->follow = ++s->follow_numbers;
    f->items[f->n++] = (followed){copy, here ? here->follow : 0};
    return KV_OK;
}

void follow_release(followed_names *f)
{
    for (int64_t i = 0; i < f->n; i++)
        mem_free(f->items[i].name);
    mem_free(f->items);
    mem_free(f->rule);
    *f = (followed_names){0};
}

/* Some rule awaits a name that is no variable yet. */
static void settle_awaited(session *s)
{
    s->awaits = false;
    for (int64_t i = 0; i < s->nstores; i++)
        for (int64_t j = 0; j < s->stores[i].follows.n; j++)
            s->awaits |= s->stores[i].follows.items[j].number == 0;
}

void follow_use(session *s, followed_names *f, const char *rule)
{
    store_entry *entry = &s->stores[s->current];
    if (s->explanation) { /* nothing changes */
        follow_release(f);
        return;
    }
    bool first = kv_in_transaction(entry->store) && !entry->replaced;
    if (first) {
        entry->before = entry->follows;
        entry->replaced = true;
    } else {
        follow_release(&entry->follows);
    }
    entry->follows = *f;
    entry->follows.rule = mem_text(rule, strlen(rule), NULL); /* for messages alone */
    *f = (followed_names){0};
    settle_awaited(s);
}

/* ---- Assignments ---- */

static int change(const store_entry *entry, const char *name, value v, kv_err *e)
{
    value text;
    if (!value_is_scalar(v)) {
        const char *rule = entry->follows.rule;
        kv_err_set(e, KV_E_DTYPE,
                   "the rule %s of the store %s reads `%s`, which can be a number, a text, true, "
                   "false or none there, not %s",
                   rule ? rule : "", entry->name, name, value_kind_name(v));
        return kv_err_hint(e, "give it another name, or set another updater first"), KV_E_DTYPE;
    }
    int rc = follow_text(&text, v, true, e);
    if (rc)
        return rc;
    kv_opt param = {name, text.u.text};
    rc = kv_update_optimizer(entry->store, &param, 1, e);
    value_release(&text);
    return rc;
}

int follow_assign(session *s, uint32_t number, value v, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < s->nstores && rc == KV_OK && !s->explanation; i++) {
        const followed_names *f = &s->stores[i].follows;
        for (int64_t j = 0; j < f->n && rc == KV_OK; j++)
            if (f->items[j].number == number)
                rc = change(&s->stores[i], f->items[j].name, v, e);
    }
    return rc;
}

int follow_new(session *s, const char *name, value v, uint32_t *number, kv_err *e)
{
    int rc = KV_OK;
    *number = 0;
    for (int64_t i = 0; i < s->nstores && rc == KV_OK && !s->explanation; i++) {
        const followed_names *f = &s->stores[i].follows;
        for (int64_t j = 0; j < f->n && rc == KV_OK; j++) {
            if (f->items[j].number || strcmp(f->items[j].name, name) != 0)
                continue;
            rc = change(&s->stores[i], name, v, e);
            *number = *number ? *number : ++s->follow_numbers;
            f->items[j].number = *number;
        }
    }
    if (*number)
        settle_awaited(s);
    return rc;
}

/* ---- Transactions ---- */

static int restore(const store_entry *entry, const scope *of, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; of && i < of->n && rc == KV_OK; i++)
        for (int64_t j = 0; j < entry->follows.n && rc == KV_OK; j++)
            if (of->items[i].follow && of->items[i].follow == entry->follows.items[j].number)
                rc = change(entry, entry->follows.items[j].name, of->items[i].v, e);
    return rc;
}

int follow_rollback(session *s, kv_err *e)
{
    store_entry *entry = &s->stores[s->current];
    if (entry->replaced) {
        follow_release(&entry->follows);
        entry->follows = entry->before;
        entry->before = (followed_names){0};
        entry->replaced = false;
        settle_awaited(s);
    }
    int rc = restore(entry, &s->globals, e);
    return rc ? rc : restore(entry, s->locals, e);
}

void follow_commit(session *s)
{
    store_entry *entry = &s->stores[s->current];
    follow_release(&entry->before);
    entry->replaced = false;
}
