/* The tree of values that a Python pickle of protocol 2 to 5 describes.
 *
 * A pickle is a program for a stack machine. Python runs it, and it may call any function. Here
 * nothing is called or imported: "call F with these arguments" becomes a node that says so, and who
 * reads the tree decides which F it knows. Only the opcodes are read that picklers write for
 * values; any other is an error.
 *
 * Containers may share values, so the tree is a graph, in which a container may even hold itself.
 * Source: CPython's Lib/pickletools.py, which describes each opcode.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "array/kv_array.h"
#include "base/buf.h"
#include "checkpoint/tensor_type.h"
#include "kv_err.h"

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_LONG, /* an integer beyond 64 bits: its bytes, the lowest first */
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_SET,
    PICKLE_DICT,
    PICKLE_GLOBAL,    /* two texts: a module and a name in it */
    PICKLE_CALL,      /* what a call gives; items that are added to it are its own */
    PICKLE_PERSISTENT /* one value: the id of what stands outside the pickle */
} pickle_kind;

/* A node by its number. */
typedef uint32_t pickle_ref;

typedef struct pickle_node {
    uint32_t kind : 7, busy : 1; /* busy: for walks, which find a container that holds itself */
    uint32_t call : 24;          /* of a call: its number, from 1 */
    uint32_t n;                  /* bytes of a text; items of a container, a dict's in pairs */
    union {
        int64_t i;
        double f;
        const char *text; /* in the pickle, n bytes without a NUL behind them */
        struct {
            uint32_t first, last; /* links to items */
        } items;
    } u;
} pickle_node;

/* An item of a container. A value may be in several, so the chain is not in the node. */
typedef struct pickle_link {
    pickle_ref node;
    uint32_t next; /* 0: none */
} pickle_link;

typedef struct pickle_call {
    pickle_ref function, args; /* args is a tuple */
    pickle_ref state;          /* given to the object by BUILD; 0, a None: nothing */
} pickle_call;

typedef struct pickle {
    pickle_node *nodes;
    pickle_link *links; /* from 1 */
    pickle_call *calls; /* from 1 */
    int64_t nnodes, nodes_cap, nlinks, links_cap, ncalls, calls_cap;
    pickle_ref root;
} pickle;

/* Reads n bytes, which stay the caller's as long as the tree is used. name: of the file, for
 * messages. Errors: format (malformed, cut, an opcode that is not read, more than 10 million nodes
 * or items), memory, interrupted. Release p in any case. */
int pickle_read(pickle *p, const char *bytes, int64_t n, const char *name, kv_err *e);
void pickle_release(pickle *p);

static inline pickle_node *pickle_at(const pickle *p, pickle_ref r)
{
    return &p->nodes[r];
}

/* The items of a container, one after the other; *link is pickle_first before the first. False:
 * there are no more. */
static inline uint32_t pickle_first(const pickle *p, pickle_ref r)
{
    return p->nodes[r].u.items.first;
}
static inline bool pickle_next(const pickle *p, uint32_t *link, pickle_ref *item)
{
    if (*link == 0)
        return false;
    *item = p->links[*link].node;
    *link = p->links[*link].next;
    return true;
}

/* Item i of a container, which has as many. Takes time in proportion to i. */
pickle_ref pickle_item(const pickle *p, pickle_ref r, uint32_t i);

/* Returns true if r is a text with these characters. */
bool pickle_is_text(const pickle *p, pickle_ref r, const char *text);

/* ---- PyTorch's calls ------------------------------------------------------------------------- */

typedef enum meaning {
    OBJECT,     /* only Python can make it */
    DICT,       /* of the argument, and of the items that are added */
    ATTRIBUTES, /* of the state */
    LIST,       /* the argument */
    VALUE,      /* a plain value, whose type is the last word of the name */
    BYTES,
    SCALAR,    /* of NumPy */
    TENSOR,    /* of storage, offset, sizes, strides */
    PARAMETER, /* the tensor that is the first argument */
    OF_TYPE,   /* a function, a type, the function's arguments */
    UNREAD,    /* a tensor without numbers here */
    ARRAY      /* of NumPy */
} meaning;

typedef struct torch_meaning {
    const char *name;
    meaning is;
    const char *type; /* of UNREAD: what its elements are */
    int at;           /* of TENSOR: where its metadata stand; of UNREAD: its sizes; 0: nowhere */
} torch_meaning;

enum { GLOBAL_MAX = 256 };

/* The name of a global as "module.name", "" for any other value. Python 2 had other names for what
 * is built in. */
const char *torch_name_of(const pickle *p, pickle_ref ref, char out[GLOBAL_MAX]);

/* The class or the function of a call, and what it means. */
pickle_ref torch_function_of(const pickle *p, pickle_ref ref);
const torch_meaning *torch_meaning_of(const pickle *p, pickle_ref ref);
const torch_meaning *torch_meaning_of_name(const char *name);

/* The type of elements by "torch.float32", and by the class of a storage; TENSOR_NONE: complex128,
 * which is only listed. False: not known. */
bool torch_find_dtype(tensor_type *out, const char *name);
bool torch_find_storage(tensor_type *out, const char *name);

/* Argument i of a call; a None where it has fewer. */
pickle_ref torch_argument(const pickle *p, pickle_ref args, uint32_t i);

bool torch_integer(const pickle *p, pickle_ref ref, int64_t *out);

/* Whole numbers from 0 on of a tuple, a list or a torch.Size; false: it is none, or out is too
 * small. */
bool torch_integers(const pickle *p, pickle_ref ref, int64_t out[KV_MAX_NDIM], int *n);

/* The containers that hold the pairs of a dict, or of what means one: their number. */
int torch_dicts_of(const pickle *p, pickle_ref ref, pickle_ref out[2]);

/* Appends the part of a name that a key gives: a text, or a number, bool or none as str() of Python
 * has them; false: it gives none. */
bool torch_key_text(const pickle *p, pickle_ref key, buf *out);
