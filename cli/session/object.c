/* The items of an object are its name, then the name and the value of each part. Values of a def
 * are counted, since a function may be defined anew while it runs. */
#include "session/containers.h"

#include <string.h>

#include "base/mem.h"

/* ---- Values of a def ---- */

void def_values_unref(def_values *d)
{
    if (!d || --d->refs > 0)
        return;
    map_release(&d->assigned);
    for (int64_t i = 0; i < d->n; i++)
        value_release(&d->defaults[i]);
    mem_free(d);
}

/* ---- Objects ---- */

#define STORE "<KVStore "

int object_new(value *out, const char *name, const value *parts, const char *const *names,
               int64_t n, kv_err *e)
{
    int rc = value_list_new(out, VALUE_OBJECT, 1 + 2 * n, e);
    if (rc)
        return rc;
    value *item = out->u.list->items;
    rc = value_text(item++, name, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        rc = value_text(item++, names[i] ? names[i] : "", e);
        *item++ = value_ref(parts[i]);
    }
    return value_finish(out, rc);
}

static int nameless(value *out, const char *before, const char *name, const char *behind, kv_err *e)
{
    buf text = {0};
    buf_add(&text, before);
    buf_add(&text, name);
    buf_add(&text, behind);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = object_new(out, buf_text(&text), NULL, NULL, 0, e);
    buf_release(&text);
    return rc;
}

int object_store(value *out, const char *type, kv_err *e)
{
    return nameless(out, STORE, type, ">", e);
}

/* The types of MXNet's KVStore have one class, the others one of their own; so has each that was
 * registered. */
static const char *store_class(const char *type)
{
    static const char *const classes[][2] = {{"local", "KVStore"},     {"device", "KVStore"},
                                             {"nccl", "KVStore"},      {"horovod", "Horovod"},
                                             {"byteps", "BytePS"},     {"teststore", "TestStore"}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(type, classes[i][0]) == 0)
            return classes[i][1];
    return strncmp(type, "dist_", 5) == 0 ? "KVStore" : type;
}

static const char *class_name(value v)
{
    static const char *const names[] = {
        [VALUE_NONE] = "NoneType", [VALUE_BOOL] = "bool",      [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float",   [VALUE_TEXT] = "str",       [VALUE_CTX] = "Context",
        [VALUE_ARRAY] = "NDArray", [VALUE_LIST] = "list",      [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict"};
    if (v.kind == VALUE_ARRAY && kv_array_storage(v.u.box->array) == KV_ROW_SPARSE)
        return "RowSparseNDArray";
    if (v.kind != VALUE_OBJECT)
        return names[v.kind];
    return *object_name(v) == '<' ? "type" : object_name(v);
}

int object_class(value *out, value of, kv_err *e)
{
    const char *name = class_name(of);
    if (of.kind == VALUE_OBJECT && strncmp(object_name(of), STORE, strlen(STORE)) == 0) {
        buf type = {0};
        buf_put(&type, object_name(of) + strlen(STORE),
                strlen(object_name(of)) - strlen(STORE) - 1);
        int rc = buf_check(&type, e);
        if (!rc)
            rc = nameless(out, "<class '", store_class(buf_text(&type)), "'>", e);
        buf_release(&type);
        return rc;
    }
    return nameless(out, "<class '", name, "'>", e);
}

const char *object_name(value v)
{
    return v.u.list->items[0].u.text;
}

int64_t object_count(value v)
{
    return (v.u.list->n - 1) / 2;
}

value object_part(value v, int64_t i, const char **name)
{
    const value *at = v.u.list->items + 1 + 2 * i;
    *name = at->u.text;
    return at[1];
}

const value *object_find(value v, const char *name)
{
    const value *items = v.u.list->items;
    for (int64_t i = 1; i < v.u.list->n; i += 2)
        if (strcmp(items[i].u.text, name) == 0)
            return &items[i + 1];
    return NULL;
}

bool object_same(value a, value b)
{
    return a.u.list == b.u.list ||
           (*object_name(a) == '<' && strcmp(object_name(a), object_name(b)) == 0);
}

bool object_is_schedule(value v)
{
    return v.kind == VALUE_OBJECT && strstr(object_name(v), "Scheduler");
}

bool object_is_optimizer(value v)
{
    return v.kind == VALUE_OBJECT && *object_name(v) != '<' && !object_is_schedule(v);
}
