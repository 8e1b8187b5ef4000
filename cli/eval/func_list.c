/* Functions of lists. */
#include "eval/func.h"
#include "session/list.h"

int func_append(function_args *args, value *out, kv_err *e)
{
    value list = args->v[0];
    *out = value_none();
    if (list.kind == VALUE_LIST)
        return list_append(list, args->v[1], e);
    kv_err_set(e, KV_E_DTYPE, "append() adds to a list, not to %s", value_kind_name(list));
    if (list.kind == VALUE_ARRAY)
        kv_err_hint(e, "concat(a, b) joins arrays");
    return e->code;
}
