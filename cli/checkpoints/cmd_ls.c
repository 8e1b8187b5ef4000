/* What is in a checkpoint: names, dtypes, shapes and bytes, from its header alone. */
#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"

static int add_row(rows *table, const tensor_info *t, kv_err *e)
{
    kv_key key = {.name = t->name};
    int code;
    if ((code = rows_add_key(table, key, e)) ||
        (code = rows_add_text(table, tensor_type_name(t->type), e)) ||
        (code = rows_add_shape(table, t->ndim, t->shape, e)))
        return code;
    return rows_add(table, value_int(t->bytes), e);
}

int cmd_ls(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {
        {"key", "key"}, {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"}};
    rows table = {columns, 4, NULL, 0, 0};
    choice chosen = {0};
    checkpoint *file = NULL;
    int64_t *keys = NULL, n = 0;
    buf text = {0};
    int code = choose_read(s, call, call->kid[1], out, &chosen, e);
    if (code == KV_OK && (code = choose_open(s, call->kid[0], false, out, &file, e)) == KV_OK)
        code = choose_keys(s, &chosen, file, &keys, &n, e);
    for (int64_t i = 0; i < n && code == KV_OK; i++)
        code = add_row(&table, checkpoint_at(file, keys[i]), e);
    mem_free(keys);
    checkpoint_close(file);
    return result_table(out, &text, &table, code, e);
}
