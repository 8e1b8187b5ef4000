/* Calls in PyTorch's pickles by their names. */
#include "checkpoint/torch_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const torch_meaning meanings[] = {
    {"collections.OrderedDict", DICT, NULL, 0},
    {"collections.defaultdict", DICT, NULL, 0},
    {"collections.Counter", DICT, NULL, 0},
    {"builtins.dict", DICT, NULL, 0},
    {"argparse.Namespace", ATTRIBUTES, NULL, 0},
    {"types.SimpleNamespace", ATTRIBUTES, NULL, 0},
    {"builtins.list", LIST, NULL, 0},
    {"builtins.tuple", LIST, NULL, 0},
    {"torch.Size", LIST, NULL, 0},
    {"builtins.set", VALUE, NULL, 0},
    {"builtins.frozenset", VALUE, NULL, 0},
    {"builtins.complex", VALUE, NULL, 0},
    {"builtins.bytearray", VALUE, NULL, 0},
    {"builtins.slice", VALUE, NULL, 0},
    {"builtins.int", VALUE, NULL, 0},
    {"builtins.float", VALUE, NULL, 0},
    {"builtins.bool", VALUE, NULL, 0},
    {"torch.device", VALUE, NULL, 0},
    {"torch.serialization._get_layout", VALUE, NULL, 0},
    {"_codecs.encode", BYTES, NULL, 0},
    {"torch._utils._rebuild_tensor", TENSOR, NULL, 0},
    {"torch._utils._rebuild_tensor_v2", TENSOR, NULL, 6},
    {"torch._utils._rebuild_tensor_v3", TENSOR, NULL, 7},
    {"torch._utils._rebuild_parameter", PARAMETER, NULL, 0},
    {"torch._utils._rebuild_parameter_with_state", PARAMETER, NULL, 0},
    {"torch.nn.parameter.Parameter", PARAMETER, NULL, 0},
    {"torch._tensor._rebuild_from_type_v2", OF_TYPE, NULL, 0},
    {"torch._utils._rebuild_qtensor", UNREAD, "quantised", 2},
    {"torch._utils._rebuild_sparse_tensor", UNREAD, "sparse", 0},
    {"torch._utils._rebuild_meta_tensor_no_storage", UNREAD, "meta", 1},
    {"torch._utils._rebuild_wrapper_subclass", UNREAD, "subclass", 0},
    {"numpy.core.multiarray._reconstruct", ARRAY, NULL, 0},
    {"numpy._core.multiarray._reconstruct", ARRAY, NULL, 0},
    {"numpy.core.multiarray.scalar", SCALAR, NULL, 0},
    {"numpy._core.multiarray.scalar", SCALAR, NULL, 0},
};

static const torch_element elements[] = {
    {"float64", "DoubleStorage", TENSOR_F64, 8},
    {"float32", "FloatStorage", TENSOR_F32, 4},
    {"float16", "HalfStorage", TENSOR_F16, 2},
    {"bfloat16", "BFloat16Storage", TENSOR_BF16, 2},
    {"int64", "LongStorage", TENSOR_I64, 8},
    {"int32", "IntStorage", TENSOR_I32, 4},
    {"int16", "ShortStorage", TENSOR_I16, 2},
    {"int8", "CharStorage", TENSOR_I8, 1},
    {"uint8", "ByteStorage", TENSOR_U8, 1},
    {"bool", "BoolStorage", TENSOR_BOOL, 1},
    {"complex64", "ComplexFloatStorage", TENSOR_C64, 8},
    {"complex128", "ComplexDoubleStorage", TENSOR_NONE, 16},
    {"uint8", "UntypedStorage", TENSOR_U8, 1},
    {"uint16", NULL, TENSOR_U16, 2},
    {"uint32", NULL, TENSOR_U32, 4},
    {"uint64", NULL, TENSOR_U64, 8},
    {"float8_e4m3fn", NULL, TENSOR_F8_E4M3, 1},
    {"float8_e5m2", NULL, TENSOR_F8_E5M2, 1},
    {"float8_e4m3fnuz", NULL, TENSOR_F8_E4M3FNUZ, 1},
    {"float8_e5m2fnuz", NULL, TENSOR_F8_E5M2FNUZ, 1},
    {"float8_e8m0fnu", NULL, TENSOR_F8_E8M0, 1},
    {"float4_e2m1fn_x2", NULL, TENSOR_F4, 1},
};
enum { NELEMENTS = sizeof elements / sizeof *elements };

const char *torch_name_of(const pickle *p, pickle_ref ref, char out[GLOBAL_MAX])
{
    *out = '\0';
    if (pickle_at(p, ref)->kind != PICKLE_GLOBAL)
        return out;
    const pickle_node *module = pickle_at(p, pickle_item(p, ref, 0));
    const pickle_node *name = pickle_at(p, pickle_item(p, ref, 1));
    bool built_in = pickle_is_text(p, pickle_item(p, ref, 0), "__builtin__");
    snprintf(out, GLOBAL_MAX, "%.*s.%.*s", built_in ? 8 : (int)(module->n < 120 ? module->n : 120),
             built_in ? "builtins" : module->u.text, (int)(name->n < 120 ? name->n : 120),
             name->u.text);
    return out;
}

const torch_meaning *torch_meaning_of_name(const char *name)
{
    static const torch_meaning object = {NULL, OBJECT, NULL, 0};
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcmp(meanings[i].name, name) == 0)
            return &meanings[i];
    return &object;
}

pickle_ref torch_function_of(const pickle *p, pickle_ref ref)
{
    char name[GLOBAL_MAX];
    const pickle_call *call = &p->calls[pickle_at(p, ref)->call];
    while (pickle_at(p, call->function)->kind == PICKLE_CALL)
        call = &p->calls[pickle_at(p, call->function)->call];
    torch_name_of(p, call->function, name);
    if ((strcmp(name, "copy_reg._reconstructor") == 0 ||
         strcmp(name, "copyreg._reconstructor") == 0) &&
        pickle_at(p, call->args)->n > 0)
        return pickle_item(p, call->args, 0);
    return call->function;
}

const torch_meaning *torch_meaning_of(const pickle *p, pickle_ref ref)
{
    char name[GLOBAL_MAX];
    return torch_meaning_of_name(torch_name_of(p, torch_function_of(p, ref), name));
}

bool torch_argument(const pickle *p, pickle_ref args, uint32_t i, pickle_ref *out)
{
    const pickle_node *node = pickle_at(p, args);
    if (node->kind != PICKLE_TUPLE || i >= node->n)
        return false;
    *out = pickle_item(p, args, i);
    return true;
}

bool torch_integer(const pickle *p, pickle_ref ref, int64_t *out)
{
    const pickle_node *node = pickle_at(p, ref);
    *out = node->u.i;
    return node->kind == PICKLE_INT;
}

bool torch_integers(const pickle *p, pickle_ref ref, int64_t out[KV_MAX_NDIM], int *n)
{
    if (pickle_at(p, ref)->kind == PICKLE_CALL && torch_meaning_of(p, ref)->is == LIST &&
        !torch_argument(p, p->calls[pickle_at(p, ref)->call].args, 0, &ref))
        return false;
    const pickle_node *node = pickle_at(p, ref);
    if ((node->kind != PICKLE_TUPLE && node->kind != PICKLE_LIST) || node->n > KV_MAX_NDIM)
        return false;
    *n = (int)node->n;
    for (int i = 0; i < *n; i++)
        if (!torch_integer(p, pickle_item(p, ref, (uint32_t)i), &out[i]) || out[i] < 0)
            return false;
    return true;
}

int torch_dicts_of(const pickle *p, pickle_ref ref, pickle_ref out[2])
{
    const pickle_node *node = pickle_at(p, ref);
    const pickle_call *call = &p->calls[node->call];
    pickle_ref first;
    int n = 0;
    if (node->kind == PICKLE_DICT)
        return out[0] = ref, 1;
    if (node->kind != PICKLE_CALL)
        return 0;
    meaning is = torch_meaning_of(p, ref)->is;
    if (is == ATTRIBUTES && pickle_at(p, call->state)->kind == PICKLE_DICT)
        out[n++] = call->state;
    if (is == DICT && torch_argument(p, call->args, 0, &first) &&
        pickle_at(p, first)->kind == PICKLE_DICT)
        out[n++] = first;
    if (is == DICT && node->n % 2 == 0)
        out[n++] = ref;
    return n;
}

bool torch_key_text(const pickle *p, pickle_ref key, buf *out)
{
    const pickle_node *node = pickle_at(p, key);
    if (node->kind == PICKLE_INT)
        buf_printf(out, "%lld", (long long)node->u.i);
    else if (node->kind == PICKLE_TEXT)
        buf_put(out, node->u.text, node->n);
    return node->kind == PICKLE_INT ||
           (node->kind == PICKLE_TEXT && utf8_valid(node->u.text, node->n) &&
            !memchr(node->u.text, 0, node->n));
}

const torch_element *torch_find_dtype(const char *name)
{
    for (int i = 0; i < NELEMENTS; i++)
        if (strncmp(name, "torch.", 6) == 0 && strcmp(elements[i].dtype, name + 6) == 0)
            return &elements[i];
    return NULL;
}

const torch_element *torch_find_storage(const char *name)
{
    for (int i = 0; i < NELEMENTS; i++)
        if (elements[i].storage && strcmp(elements[i].storage, name) == 0)
            return &elements[i];
    return NULL;
}

const char *torch_dtype_of(tensor_type t)
{
    for (int i = 0; i < NELEMENTS; i++)
        if (elements[i].type == t)
            return elements[i].dtype;
    return NULL;
}
