/* The machine of pickles: a stack of values, marks in it, and a memo of values that come again.
 * Then the meaning of the calls in PyTorch's. */
#include "checkpoint/pickle.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"

#define MOST 10000000 /* nodes, and items of containers */

enum { MARK = UINT32_MAX };                         /* on the stack */
enum { NODE_NONE, NODE_FALSE, NODE_TRUE, NSINGLE }; /* each stands there once */

typedef struct machine {
    pickle *p;
    const unsigned char *bytes;
    int64_t n, at, opcode; /* opcode: where the one that is run stands */
    const char *name;
    pickle_ref *stack, *memo; /* a memo of MARK is empty */
    int64_t nstack, stack_cap, nmemo, memo_cap;
    kv_err *e;
} machine;

static int wrong(const machine *m, const char *what)
{
    return file_bad(m->e, KV_E_FORMAT, m->name, "malformed pickle: %s at byte %lld", what,
                    (long long)m->opcode);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* The next n bytes, or NULL after an error. */
static const unsigned char *take(machine *m, uint64_t n)
{
    if (n > (uint64_t)(m->n - m->at)) {
        wrong(m, "it is cut");
        return NULL;
    }
    m->at += (int64_t)n;
    return m->bytes + m->at - n;
}

static int take_number(machine *m, int bytes, uint64_t *x)
{
    const unsigned char *p = take(m, (uint64_t)bytes);
    *x = 0;
    if (!p)
        return KV_E_FORMAT;
    memcpy(x, p, (size_t)bytes); /* little-endian, like the machine */
    return KV_OK;
}

/* ---- Nodes and the stack --------------------------------------------------------------------- */

static int push(machine *m, pickle_ref r)
{
    TRY(mem_grow(&m->stack, &m->stack_cap, m->nstack + 1, sizeof *m->stack, m->e));
    m->stack[m->nstack++] = r;
    return KV_OK;
}

static int push_new(machine *m, pickle_node node)
{
    pickle *p = m->p;
    if (p->nnodes == MOST)
        return wrong(m, "more than 10 million values");
    TRY(mem_grow(&p->nodes, &p->nodes_cap, p->nnodes + 1, sizeof *p->nodes, m->e));
    p->nodes[p->nnodes] = node;
    return push(m, (pickle_ref)p->nnodes++);
}

static int push_text(machine *m, pickle_kind kind, uint64_t n)
{
    const unsigned char *text = n > UINT32_MAX ? NULL : take(m, n);
    if (!text)
        return n > UINT32_MAX ? wrong(m, "a text of more than 4 GB") : KV_E_FORMAT;
    return push_new(m, (pickle_node){.kind = kind, .n = (uint32_t)n, .u.text = (const char *)text});
}

/* n values that no mark hides are on the stack. */
static bool has(const machine *m, int64_t n)
{
    for (int64_t i = 1; i <= n; i++)
        if (i > m->nstack || m->stack[m->nstack - i] == MARK)
            return false;
    return true;
}

static int pop(machine *m, pickle_ref *r)
{
    if (!has(m, 1))
        return wrong(m, "a value is missing");
    *r = m->stack[--m->nstack];
    return KV_OK;
}

/* Where the values begin that an opcode takes: the last n, or where n is 0 all behind the last
 * mark. keep: the stack before them, and before the mark. */
static int find_values(const machine *m, int64_t n, int64_t *first, int64_t *keep)
{
    *first = *keep = m->nstack - n;
    if (n)
        return has(m, n) ? KV_OK : wrong(m, "a value is missing");
    for (; *first > 0; --*first)
        if (m->stack[*first - 1] == MARK)
            return *keep = *first - 1, KV_OK;
    return wrong(m, "a mark is missing");
}

static int add_item(machine *m, pickle_ref to, pickle_ref item)
{
    pickle *p = m->p;
    if (p->nlinks == MOST)
        return wrong(m, "more than 10 million items");
    TRY(mem_grow(&p->links, &p->links_cap, p->nlinks + 1, sizeof *p->links, m->e));
    uint32_t link = (uint32_t)p->nlinks++;
    pickle_node *c = &p->nodes[to];
    p->links[link] = (pickle_link){item, 0};
    if (c->n++ == 0)
        c->u.items.first = link;
    else
        p->links[c->u.items.last].next = link;
    c->u.items.last = link;
    return KV_OK;
}

/* Adds values, n as in find_values, to the container before them, and drops them. */
static int add(machine *m, pickle_kind kind, int64_t n)
{
    int64_t first, keep;
    TRY(find_values(m, n, &first, &keep));
    pickle_ref to = keep > 0 ? m->stack[keep - 1] : MARK;
    if (to == MARK || (m->p->nodes[to].kind != kind && m->p->nodes[to].kind != PICKLE_CALL))
        return wrong(m, "items for what holds none");
    if (kind == PICKLE_DICT && (m->nstack - first) % 2)
        return wrong(m, "a key without a value");
    for (int64_t i = first; i < m->nstack; i++)
        TRY(add_item(m, to, m->stack[i]));
    m->nstack = keep;
    return KV_OK;
}

/* Puts a container of the values from stack[first] on in their place; keep: the stack before it. */
static int collect_from(machine *m, pickle_kind kind, int64_t first, int64_t keep)
{
    int64_t n = m->nstack;
    TRY(push_new(m, (pickle_node){.kind = kind}));
    pickle_ref made = m->stack[n];
    for (int64_t i = first; i < n; i++)
        TRY(add_item(m, made, m->stack[i]));
    if (kind == PICKLE_DICT && (n - first) % 2)
        return wrong(m, "a key without a value");
    m->stack[keep] = made;
    m->nstack = keep + 1;
    return KV_OK;
}

/* Puts a container of values in their place. */
static int collect(machine *m, pickle_kind kind, int64_t n)
{
    int64_t first, keep;
    TRY(find_values(m, n, &first, &keep));
    return collect_from(m, kind, first, keep);
}

/* ---- Globals and calls ----------------------------------------------------------------------- */

/* A line of the text that old opcodes have. */
static int push_line(machine *m)
{
    const unsigned char *from = m->bytes + m->at, *end = memchr(from, '\n', (size_t)(m->n - m->at));
    if (!end)
        return wrong(m, "it is cut");
    int rc = push_text(m, PICKLE_TEXT, (uint64_t)(end - from));
    m->at++;
    return rc;
}

static int push_global_lines(machine *m)
{
    TRY(push_line(m));
    TRY(push_line(m));
    return collect(m, PICKLE_GLOBAL, 2);
}

static int push_global_texts(machine *m)
{
    for (int64_t i = 1; i <= 2; i++)
        if (!has(m, i) || m->p->nodes[m->stack[m->nstack - i]].kind != PICKLE_TEXT)
            return wrong(m, "a global without a name");
    return collect(m, PICKLE_GLOBAL, 2);
}

/* Calls the value before the tuple on top of the stack. */
static int call(machine *m)
{
    pickle *p = m->p;
    pickle_ref args, function;
    TRY(pop(m, &args));
    TRY(pop(m, &function));
    if (p->nodes[args].kind != PICKLE_TUPLE)
        return wrong(m, "a call without a tuple");
    TRY(mem_grow(&p->calls, &p->calls_cap, p->ncalls + 1, sizeof *p->calls, m->e));
    p->calls[p->ncalls] = (pickle_call){function, args, NODE_NONE};
    return push_new(m,
                    (pickle_node){.kind = PICKLE_CALL, .call = (uint32_t)p->ncalls++ & 0xFFFFFF});
}

/* OBJ and INST: a class, and the arguments behind a mark. */
static int call_marked(machine *m, bool names_class)
{
    int64_t first, keep;
    pickle_ref class;
    TRY(find_values(m, 0, &first, &keep));
    if (names_class) {
        TRY(push_global_lines(m));
        TRY(pop(m, &class));
    } else {
        if (first == m->nstack)
            return wrong(m, "a class is missing");
        class = m->stack[first++];
    }
    TRY(collect_from(m, PICKLE_TUPLE, first, keep));
    pickle_ref args = m->stack[keep];
    m->stack[keep] = class;
    TRY(push(m, args));
    return call(m);
}

static int build(machine *m)
{
    pickle_ref state;
    int rc = pop(m, &state);
    if (rc || !has(m, 1))
        return rc ? rc : wrong(m, "a value is missing");
    const pickle_node *to = &m->p->nodes[m->stack[m->nstack - 1]];
    if (to->kind != PICKLE_CALL)
        return wrong(m, "a state for what has none");
    m->p->calls[to->call].state = state;
    return KV_OK;
}

/* ---- The memo -------------------------------------------------------------------------------- */

/* A pickle of n bytes has fewer than n values to remember, so larger numbers are lies. */
static int remember(machine *m, uint64_t i)
{
    if (!has(m, 1) || i >= (uint64_t)m->n)
        return wrong(m, "a place of the memo that cannot be");
    TRY(mem_grow(&m->memo, &m->memo_cap, (int64_t)i + 1, sizeof *m->memo, m->e));
    while (m->nmemo <= (int64_t)i)
        m->memo[m->nmemo++] = MARK;
    m->memo[i] = m->stack[m->nstack - 1];
    return KV_OK;
}

/* ---- Opcodes --------------------------------------------------------------------------------- */

static int push_int(machine *m, int64_t i)
{
    return push_new(m, (pickle_node){.kind = PICKLE_INT, .u.i = i});
}

/* An integer of n bytes, the lowest first, the highest with the sign. */
static int push_long(machine *m, uint64_t n)
{
    if (n > 8)
        return push_text(m, PICKLE_LONG, n);
    const unsigned char *p = take(m, n);
    if (!p)
        return KV_E_FORMAT;
    uint64_t x = n && p[n - 1] & 0x80 ? UINT64_MAX : 0;
    memcpy(&x, p, (size_t)n);
    return push_int(m, (int64_t)x);
}

static int push_float(machine *m)
{
    const unsigned char *p = take(m, 8);
    pickle_node node = {.kind = PICKLE_FLOAT};
    uint64_t bits;
    if (!p)
        return KV_E_FORMAT;
    memcpy(&bits, p, sizeof bits);
    bits = __builtin_bswap64(bits);
    memcpy(&node.u.f, &bits, sizeof bits);
    return push_new(m, node);
}

/* Runs an opcode; x: the number that follows it. */
static int run_opcode(machine *m, unsigned char op, uint64_t x)
{
    int64_t first, keep;
    pickle_ref r;
    switch (op) {
    case 'K': /* BININT1 */
    case 'M': /* BININT2 */
        return push_int(m, (int64_t)x);
    case 'J': /* BININT */
        return push_int(m, (int32_t)(uint32_t)x);
    case 0x8A: /* LONG1 */
    case 0x8B: /* LONG4 */
        return push_long(m, x);
    case 'X':  /* BINUNICODE */
    case 0x8C: /* SHORT_BINUNICODE */
    case 0x8D: /* BINUNICODE8 */
    case 'T':  /* BINSTRING */
    case 'U':  /* SHORT_BINSTRING */
        return push_text(m, PICKLE_TEXT, x);
    case 'B':  /* BINBYTES */
    case 'C':  /* SHORT_BINBYTES */
    case 0x8E: /* BINBYTES8 */
    case 0x96: /* BYTEARRAY8 */
        return push_text(m, PICKLE_BYTES, x);
    case 'h': /* BINGET */
    case 'j': /* LONG_BINGET */
        if (x >= (uint64_t)m->nmemo || m->memo[x] == MARK)
            return wrong(m, "a value that the memo lacks");
        return push(m, m->memo[x]);
    case 'q': /* BINPUT */
    case 'r': /* LONG_BINPUT */
        return remember(m, x);
    case 0x80: /* PROTO */
        return x < 2 || x > 5 ? wrong(m, "a protocol other than 2 to 5") : KV_OK;
    case 0x95: /* FRAME, which only helps to read ahead */
        return KV_OK;
    case '(': /* MARK */
        return push(m, MARK);
    case '0': /* POP, of a mark too */
        if (m->nstack > 0 && m->stack[m->nstack - 1] == MARK)
            return m->nstack--, KV_OK;
        return pop(m, &r);
    case '1': /* POP_MARK */
        TRY(find_values(m, 0, &first, &keep));
        m->nstack = keep;
        return KV_OK;
    case 'N': /* NONE */
        return push(m, NODE_NONE);
    case 0x88: /* NEWTRUE */
        return push(m, NODE_TRUE);
    case 0x89: /* NEWFALSE */
        return push(m, NODE_FALSE);
    case 'G': /* BINFLOAT */
        return push_float(m);
    case ')': /* EMPTY_TUPLE */
        return push_new(m, (pickle_node){.kind = PICKLE_TUPLE});
    case 't': /* TUPLE */
        return collect(m, PICKLE_TUPLE, 0);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        return collect(m, PICKLE_TUPLE, op - 0x84);
    case ']': /* EMPTY_LIST */
        return push_new(m, (pickle_node){.kind = PICKLE_LIST});
    case 'l': /* LIST */
        return collect(m, PICKLE_LIST, 0);
    case 'a': /* APPEND */
        return add(m, PICKLE_LIST, 1);
    case 'e': /* APPENDS */
        return add(m, PICKLE_LIST, 0);
    case '}': /* EMPTY_DICT */
        return push_new(m, (pickle_node){.kind = PICKLE_DICT});
    case 'd': /* DICT */
        return collect(m, PICKLE_DICT, 0);
    case 's': /* SETITEM */
        return add(m, PICKLE_DICT, 2);
    case 'u': /* SETITEMS */
        return add(m, PICKLE_DICT, 0);
    case 0x8F: /* EMPTY_SET */
        return push_new(m, (pickle_node){.kind = PICKLE_SET});
    case 0x90: /* ADDITEMS */
        return add(m, PICKLE_SET, 0);
    case 0x91: /* FROZENSET */
        return collect(m, PICKLE_SET, 0);
    case 'c': /* GLOBAL */
        return push_global_lines(m);
    case 0x93: /* STACK_GLOBAL */
        return push_global_texts(m);
    case 'R':  /* REDUCE */
    case 0x81: /* NEWOBJ */
        return call(m);
    case 0x92: /* NEWOBJ_EX, whose names of arguments no class has that is read */
        TRY(pop(m, &r));
        return call(m);
    case 'o': /* OBJ */
        return call_marked(m, false);
    case 'i': /* INST */
        return call_marked(m, true);
    case 'b': /* BUILD */
        return build(m);
    case 'Q': /* BINPERSID */
        return collect(m, PICKLE_PERSISTENT, 1);
    case 0x94: /* MEMOIZE */
        return remember(m, (uint64_t)m->nmemo);
    default:
        return file_bad(m->e, KV_E_FORMAT, m->name,
                        "the pickle has the opcode 0x%02X at byte %lld, which is not read", op,
                        (long long)m->opcode);
    }
}

/* How many bytes of a number follow an opcode. */
static const unsigned char numbers[256] = {
    ['K'] = 1,  ['M'] = 2, ['J'] = 4, [0x8A] = 1, [0x8B] = 4, ['X'] = 4,  [0x8C] = 1,
    [0x8D] = 8, ['T'] = 4, ['U'] = 1, ['B'] = 4,  ['C'] = 1,  [0x8E] = 8, [0x96] = 8,
    ['h'] = 1,  ['j'] = 4, ['q'] = 1, ['r'] = 4,  [0x80] = 1, [0x95] = 8,
};

static int run(machine *m)
{
    for (int64_t i = 0;; i++) {
        const unsigned char *op;
        uint64_t x = 0;
        m->opcode = m->at;
        TRY(stop_check_at(i, m->e));
        if (!(op = take(m, 1)))
            return KV_E_FORMAT;
        if (i == 0 && *op != 0x80)
            return wrong(m, "no protocol");
        if (*op == '.')
            break;
        TRY(numbers[*op] ? take_number(m, numbers[*op], &x) : KV_OK);
        TRY(run_opcode(m, *op, x));
    }
    TRY(pop(m, &m->p->root));
    return m->nstack ? wrong(m, "values that nothing takes") : KV_OK;
}

int pickle_read(pickle *p, const char *bytes, int64_t n, const char *name, kv_err *e)
{
    machine m = {.p = p, .bytes = (const unsigned char *)bytes, .n = n, .name = name, .e = e};
    TRY(mem_grow(&p->nodes, &p->nodes_cap, 64, sizeof *p->nodes, e));
    TRY(mem_grow(&p->links, &p->links_cap, 64, sizeof *p->links, e));
    TRY(mem_grow(&p->calls, &p->calls_cap, 16, sizeof *p->calls, e));
    p->nodes[NODE_NONE] = (pickle_node){.kind = PICKLE_NONE};
    p->nodes[NODE_FALSE] = (pickle_node){.kind = PICKLE_BOOL};
    p->nodes[NODE_TRUE] = (pickle_node){.kind = PICKLE_BOOL, .u.i = 1};
    p->nnodes = NSINGLE;
    p->nlinks = p->ncalls = 1;
    int rc = run(&m);
    mem_free(m.stack);
    mem_free(m.memo);
    return rc;
}

void pickle_release(pickle *p)
{
    mem_free(p->nodes);
    mem_free(p->links);
    mem_free(p->calls);
    *p = (pickle){0};
}

pickle_ref pickle_item(const pickle *p, pickle_ref r, uint32_t i)
{
    uint32_t link = p->nodes[r].u.items.first;
    while (i-- > 0)
        link = p->links[link].next;
    return p->links[link].node;
}

bool pickle_is_text(const pickle *p, pickle_ref r, const char *text)
{
    const pickle_node *node = &p->nodes[r];
    size_t n = strlen(text);
    return node->kind == PICKLE_TEXT && node->n == n && memcmp(node->u.text, text, n) == 0;
}

/* ---- PyTorch's calls ------------------------------------------------------------------------- */

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

/* Elements by the class of a storage. */
static const struct {
    const char *name;
    tensor_type type;
} storages[] = {
    {"DoubleStorage", TENSOR_F64},       {"FloatStorage", TENSOR_F32},
    {"HalfStorage", TENSOR_F16},         {"BFloat16Storage", TENSOR_BF16},
    {"LongStorage", TENSOR_I64},         {"IntStorage", TENSOR_I32},
    {"ShortStorage", TENSOR_I16},        {"CharStorage", TENSOR_I8},
    {"ByteStorage", TENSOR_U8},          {"BoolStorage", TENSOR_BOOL},
    {"ComplexFloatStorage", TENSOR_C64}, {"ComplexDoubleStorage", TENSOR_NONE},
    {"UntypedStorage", TENSOR_U8},
};

const char *torch_name_of(const pickle *p, pickle_ref ref, char out[GLOBAL_MAX])
{
    *out = '\0';
    if (pickle_at(p, ref)->kind != PICKLE_GLOBAL)
        return out;
    const pickle_node *module = pickle_at(p, pickle_item(p, ref, 0));
    const pickle_node *name = pickle_at(p, pickle_item(p, ref, 1));
    bool built_in = pickle_is_text(p, pickle_item(p, ref, 0), "__builtin__");
    snprintf(out, GLOBAL_MAX, "%.*s.%.*s", built_in ? 8 : (int)at_most(module->n, 120),
             built_in ? "builtins" : module->u.text, (int)at_most(name->n, 120), name->u.text);
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

pickle_ref torch_argument(const pickle *p, pickle_ref args, uint32_t i)
{
    const pickle_node *node = pickle_at(p, args);
    return node->kind == PICKLE_TUPLE && i < node->n ? pickle_item(p, args, i) : NODE_NONE;
}

bool torch_integer(const pickle *p, pickle_ref ref, int64_t *out)
{
    const pickle_node *node = pickle_at(p, ref);
    *out = node->u.i;
    return node->kind == PICKLE_INT;
}

bool torch_integers(const pickle *p, pickle_ref ref, int64_t out[KV_MAX_NDIM], int *n)
{
    if (pickle_at(p, ref)->kind == PICKLE_CALL && torch_meaning_of(p, ref)->is == LIST)
        ref = torch_argument(p, p->calls[pickle_at(p, ref)->call].args, 0);
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
    first = torch_argument(p, call->args, 0);
    if (is == DICT && pickle_at(p, first)->kind == PICKLE_DICT)
        out[n++] = first;
    if (is == DICT && node->n % 2 == 0)
        out[n++] = ref;
    return n;
}

bool torch_key_text(const pickle *p, pickle_ref key, buf *out)
{
    const pickle_node *node = pickle_at(p, key);
    char number[NUM_TEXT_MAX];
    switch ((pickle_kind)node->kind) {
    case PICKLE_INT:
        buf_printf(out, "%lld", (long long)node->u.i);
        return true;
    case PICKLE_FLOAT:
        num_repr(number, node->u.f, NUM_BINARY64);
        buf_add(out, number);
        return true;
    case PICKLE_BOOL:
        buf_add(out, node->u.i ? "True" : "False");
        return true;
    case PICKLE_NONE:
        buf_add(out, "None");
        return true;
    case PICKLE_TEXT:
        buf_put(out, node->u.text, node->n);
        return utf8_valid(node->u.text, node->n) && !memchr(node->u.text, 0, node->n);
    default:
        return false;
    }
}

bool torch_find_dtype(tensor_type *out, const char *name)
{
    *out = TENSOR_NONE;
    return strncmp(name, "torch.", 6) == 0 &&
           (strcmp(name + 6, "complex128") == 0 || tensor_type_find_python(out, name + 6));
}

bool torch_find_storage(tensor_type *out, const char *name)
{
    const char *last = strrchr(name, '.');
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++)
        if (last && strncmp(name, "torch.", 6) == 0 && strcmp(storages[i].name, last + 1) == 0)
            return *out = storages[i].type, true;
    return false;
}
