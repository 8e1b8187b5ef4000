/* The calls and names in PyTorch's pickles, and their arguments. */
#pragma once

#include "array/kv_array.h"
#include "base/buf.h"
#include "checkpoint/pickle.h"
#include "checkpoint/tensor_type.h"

typedef enum meaning {
    OBJECT,     /* only Python can make it */
    DICT,       /* of the argument, and of the items that are added */
    ATTRIBUTES, /* of the state */
    LIST,       /* the argument */
    VALUE,      /* a plain value, whose type is the last word of the name */
    BYTES,
    TENSOR,    /* of storage, offset, sizes, strides */
    PARAMETER, /* the tensor that is the first argument */
    OF_TYPE,   /* a function, a type, the function's arguments */
    UNREAD,    /* a tensor without numbers here */
    ARRAY,     /* of NumPy */
    SCALAR
} meaning;

typedef struct torch_meaning {
    const char *name;
    meaning is;
    const char *type; /* of UNREAD: what its elements are */
    int at;           /* of TENSOR: where its metadata stand; of UNREAD: its sizes; 0: nowhere */
} torch_meaning;

/* Elements: the name of a dtype, the class of its storages, and the bytes of one. */
typedef struct torch_element {
    const char *dtype, *storage; /* storage: NULL: it has none of its own */
    tensor_type type;            /* TENSOR_NONE: it is only listed */
    int bytes;
} torch_element;

enum { GLOBAL_MAX = 256 };

/* The name of a global as "module.name", "" for any other value. Python 2 had other names for what
 * is built in. */
const char *torch_name_of(const pickle *p, pickle_ref ref, char out[GLOBAL_MAX]);

/* The class or the function of a call, and what it means. */
pickle_ref torch_function_of(const pickle *p, pickle_ref ref);
const torch_meaning *torch_meaning_of(const pickle *p, pickle_ref ref);
const torch_meaning *torch_meaning_of_name(const char *name);

/* Elements by "torch.float32", and by the class of a storage; NULL: not known. */
const torch_element *torch_find_dtype(const char *name);
const torch_element *torch_find_storage(const char *name);

/* The name of a type's dtype, "float32"; NULL: PyTorch has none. */
const char *torch_dtype_of(tensor_type t);

/* Argument i of a call; false: there are fewer. */
bool torch_argument(const pickle *p, pickle_ref args, uint32_t i, pickle_ref *out);

bool torch_integer(const pickle *p, pickle_ref ref, int64_t *out);

/* Whole numbers from 0 on of a tuple, a list or a torch.Size; false: it is none, or out is too
 * small. */
bool torch_integers(const pickle *p, pickle_ref ref, int64_t out[KV_MAX_NDIM], int *n);

/* The containers that hold the pairs of a dict, or of what means one: their number. */
int torch_dicts_of(const pickle *p, pickle_ref ref, pickle_ref out[2]);

/* Appends the part of a name that a key gives; false: it gives none. */
bool torch_key_text(const pickle *p, pickle_ref key, buf *out);
