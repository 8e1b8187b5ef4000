/* The gradients of two workers go into a store, their sum comes out.
 *
 *     cc sum.c $(pkg-config --cflags --libs kvstore) -o sum
 */
#include <kvstore.h>
#include <stdio.h>

int main(void)
{
    float grads[2][3] = {{1, 2, 3}, {10, 20, 30}};
    int64_t shape[] = {3};
    kv_key key[2] = {{.name = "grad"}, {.name = "grad"}};
    kv_array *value[2] = {NULL, NULL};
    const void *sum = NULL;
    kv *store = NULL;
    kv_err err = {0};

    kv_create("local", NULL, 0, &store, &err);
    for (int i = 0; i < 2 && !err.code; i++)
        kv_array_wrap(&value[i], grads[i], KV_FLOAT32, 1, shape, (kv_ctx){0}, NULL, NULL, &err);
    if (!err.code && !kv_push(store, key, 2, value, NULL, &err) &&
        !kv_pull(store, key, 1, value, NULL, &err) && !kv_array_read(value[0], &sum, &err))
        for (int i = 0; i < 3; i++)
            printf("%g\n", ((const float *)sum)[i]);

    if (err.code)
        fprintf(stderr, "sum: %s\n", err.text);
    kv_array_unref(value[0]);
    kv_array_unref(value[1]);
    kv_free(store);
    return err.code != 0;
}
