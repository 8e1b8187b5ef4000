/* The table of capabilities: their names, and the test of a type's table for each. */
#include "capability.h"

#include <stdio.h>
#include <strings.h>

#include "base/kv_assert.h"
#include "base/suggest.h"
#include "core/store.h"
#include "runtime.h"

enum { NNAMES = 3 };

static const struct capability {
    const char *names[NNAMES]; /* the name, and other words for it */
    uint32_t bit;
    const char *plural; /* behind "stores of this type have no …" */
} table[] = {
    {{"init"}, CAN_INIT, "init"},
    {{"push"}, CAN_PUSH, "push"},
    {{"pull"}, CAN_PULL, "pull"},
    {{"pushpull"}, CAN_PUSHPULL, "pushpull"},
    {{"broadcast"}, CAN_BROADCAST, "broadcast"},
    {{"updater"}, CAN_RULES, "updater"},
    {{"optimizer"}, KV_CAN_OPTIMIZER, "optimizer"},
    {{"states"}, KV_CAN_STATES, "states of an optimizer"},
    {{"row_sparse", "sparse", "sparsity"}, KV_CAN_ROW_SPARSE, "row_sparse arrays"},
    {{"gradient_compression", "compression"}, KV_CAN_GRADIENT_COMPRESSION, "gradient compression"},
    {{"transactions"}, KV_CAN_TRANSACTIONS, "transactions"},
    {{"files"}, KV_CAN_FILES, "files"},
    {{"delete", "rename"}, KV_CAN_DELETE, "delete or rename"},
};

enum { NCAPABILITIES = sizeof table / sizeof *table };

static uint32_t all_of(const kv_type_ops *ops)
{
    uint32_t bits = ops->capabilities;
    bits |= ops->init ? CAN_INIT : 0;
    bits |= ops->push ? CAN_PUSH : 0;
    bits |= ops->pull ? CAN_PULL : 0;
    bits |= ops->pushpull || (ops->push && ops->pull) ? CAN_PUSHPULL : 0;
    bits |= ops->broadcast || (ops->init && ops->pull) ? CAN_BROADCAST : 0;
    return bits;
}

static char joined(char c)
{
    return c == '-' || c == ' ' ? '_' : c;
}

/* Returns true if two words are equal but for case, and for a blank, - or _ within them. */
static bool same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char x = joined(*a), y = joined(*b);
        if (strncasecmp(&x, &y, 1) != 0)
            return false;
    }
    return *a == *b;
}

const char *kv_capability(int i)
{
    return i >= 0 && i < NCAPABILITIES ? table[i].names[0] : NULL;
}

int kv_is_capable(const kv *store, const char *capability, bool *yes, kv_err *e)
{
    suggest near = {.word = capability};
    int rc = arg_given(capability, "capability", e);
    if (rc || (rc = arg_given(yes, "yes", e)))
        return rc;
    for (int i = 0; i < NCAPABILITIES; i++) {
        const struct capability *c = &table[i];
        for (int k = 0; k < NNAMES && c->names[k]; k++) {
            if (same_word(c->names[k], capability)) {
                bool of_slots = c->bit & (KV_CAN_TRANSACTIONS | KV_CAN_FILES | KV_CAN_DELETE);
                *yes = store && (all_of(store->ops) & c->bit) && (store->in_slots || !of_slots);
                return KV_OK;
            }
            suggest_add(&near, c->names[k]);
        }
    }
    kv_err_set(e, KV_E_USAGE, "there is no capability \"%.64s\"", capability);
    suggest_done(&near, e);
    kv_err_hint(e, "init, push, pull, pushpull, broadcast, updater, optimizer, states, row_sparse, "
                   "gradient_compression, transactions, files, delete");
    return KV_E_USAGE;
}

/* Appends the name of a type that can. */
typedef struct able {
    uint32_t bit;
    char list[200];
    int len;
} able;

static void add_able(void *arg, const kv_type_ops *ops)
{
    able *a = arg;
    int room = (int)sizeof a->list - a->len;
    if (!(all_of(ops) & a->bit))
        return;
    int n = snprintf(a->list + a->len, (size_t)room, "%s%s", a->len ? ", " : "", ops->names[0]);
    a->len += n < room ? n : room - 1;
}

static int refuse(const char *type, uint32_t bit, kv_err *e)
{
    able who = {.bit = bit};
    const char *what = "";
    for (int i = 0; i < NCAPABILITIES; i++)
        what = table[i].bit == bit ? table[i].plural : what;
    kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have no %s", type, what);
    runtime_each_type(add_able, &who);
    if (who.len)
        kv_err_hint(e, "types that have it: %s", who.list);
    return KV_E_UNSUPPORTED;
}

int capability_need(const kv_type_ops *ops, const char *type, uint32_t bit, kv_err *e)
{
    return all_of(ops) & bit ? KV_OK : refuse(type, bit, e);
}
