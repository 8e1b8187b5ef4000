/* A store type of one's own, as a plugin: `average` keeps the average of what is pushed to a key in
 * one call, where local keeps the sum.
 *
 *     cc -shared -fPIC average.c $(pkg-config --cflags --libs kvstore) -o average.so
 *     kvctl -c 'register average --plugin average.so
 *               create average; pushpull 3 [ones(2), zeros(2)]'
 *
 * A type is a table of operations. This one is a copy of local's with another name and another
 * push: it averages, then hands one value a key to local's push, which calls the updater and
 * stores what it makes.
 */
#include <kvstore.h>
#include <stdlib.h>
#include <string.h>

static const kv_type_ops *local;

static int compare(const kv_key *a, const kv_key *b)
{
    return a->name ? strcmp(a->name, b->name) : (a->id > b->id) - (a->id < b->id);
}

/* The pairs of a call by key; those of one key stay in their order. */
typedef struct pair {
    const kv_key *key;
    kv_array *value;
} pair;

static int by_key(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    int order = compare(x->key, y->key);
    return order ? order : (x->key > y->key) - (x->key < y->key);
}

/* *out: the average of n values in float64. local refuses values of other shapes; so does this. */
static int average(kv_array **out, const pair *p, int64_t n, kv_err *e)
{
    const kv_ctx cpu = {KV_CPU, 0};
    void *sum;
    int rc =
        kv_array_new(out, KV_FLOAT64, kv_array_ndim(p->value), kv_array_shape(p->value), cpu, e);
    if (rc || (rc = kv_array_write(*out, &sum, e)))
        return rc;
    for (int64_t i = 0; i < n && !rc; i++) {
        kv_array *one = NULL;
        const void *x = NULL;
        if (!kv_array_same_shape(*out, p[i].value))
            return kv_err_set(e, KV_E_SHAPE, "the values of a key have different shapes");
        if ((rc = kv_array_dup(&one, p[i].value, KV_FLOAT64, cpu, e)) == KV_OK)
            rc = kv_array_read(one, &x, e); /* refuses row_sparse values */
        for (int64_t k = 0; k < kv_array_size(*out) && !rc; k++)
            ((double *)sum)[k] += ((const double *)x)[k] / (double)n;
        kv_array_unref(one);
    }
    return rc;
}

static int push(void *self, const kv_pairs *values, const kv_call *call, kv_err *e)
{
    int64_t n = values->n;
    pair *p = malloc((size_t)n * sizeof *p);
    kv_key *key = malloc((size_t)n * sizeof *key);
    kv_array **value = calloc((size_t)n, sizeof(kv_array *));
    int64_t nkeys = 0;
    int rc = p && key && value ? KV_OK : kv_err_set(e, KV_E_MEMORY, "no memory for a push");
    for (int64_t i = 0; i < n && !rc; i++)
        p[i] = (pair){&values->keys[i], values->arrays[i]};
    if (!rc)
        qsort(p, (size_t)n, sizeof *p, by_key);
    for (int64_t i = 0, end; i < n && !rc; i = end) {
        for (end = i + 1; end < n && compare(p[i].key, p[end].key) == 0; end++)
            ;
        key[nkeys] = *p[i].key;
        rc = average(&value[nkeys++], p + i, end - i, e);
    }
    if (!rc)
        rc = local->push(self, &(kv_pairs){key, value, nkeys}, call, e);
    for (int64_t i = 0; i < nkeys; i++)
        kv_array_unref(value[i]);
    free(p);
    free(key);
    free(value);
    return rc;
}

/* The one function that a plugin exports. */
int kv_plugin_init(const kv_host *host, kv_err *e);
int kv_plugin_init(const kv_host *host, kv_err *e)
{
    static const char *const names[] = {"average", NULL};
    static kv_type_ops mine;
    int rc = host->find_type("local", &local, e);
    if (rc)
        return rc;
    mine = *local;
    mine.names = names;
    mine.push = push;
    mine.pushpull = NULL; /* local's would go past our push; without one it is push, then pull */
    mine.capabilities &= ~KV_CAN_ROW_SPARSE;
    return host->register_type(&mine, e);
}
