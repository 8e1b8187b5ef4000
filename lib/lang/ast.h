/* The syntax tree of expressions and rules. A node is 24 bytes and its children; it lives in the
 * arena of the text it came from, and its texts are interned there. No expression is higher than
 * AST_MAX_HEIGHT and blocks nest at most PARSE_MAX_DEPTH deep (lang/parse.h), so that all who walk
 * trees may recurse. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

/* Kinds of nodes. Behind each: its children (kid[]) and the field of u. A child marked ?
 * may be NULL. */
typedef enum ast_kind {
    AST_INT,      /* u.integer */
    AST_FLOAT,    /* u.number */
    AST_TEXT,     /* u.text */
    AST_FTEXT,    /* pieces: AST_TEXT and AST_FIELD */
    AST_FIELD,    /* expr, format?; u.text: the format when it is plain text, or NULL; op: 'r' or
                     's' of {expr!r}, or 0 */
    AST_BOOL,     /* u.integer: 0 or 1 */
    AST_NONE,
    AST_NAME,     /* u.text */
    AST_LIST,     /* items */
    AST_TUPLE,    /* items */
    AST_DICT,     /* key, value, key, value, … */
    AST_COMP,     /* [body for target in list if condition …]: body, then AST_FOR and AST_ONLY */
    AST_FOR,      /* target (AST_NAME, AST_INDEX, or an AST_TUPLE of targets), list */
    AST_ONLY,     /* condition */
    AST_COPIES,   /* [body for COUNT gpus]: body, count; op: a kv_device (0 cpu, 1 gpu) */
    AST_CALL,     /* arguments, AST_ARG for NAME=expr; u.text: function. x.f(y) and x.f are
                     f(x, y) and f(x) with AST_METHOD set */
    AST_ARG,      /* expr; u.text: NAME */
    AST_STORE,    /* kv.push(3, a): an STMT_COMMAND of cli/syntax; u.text: kv */
    AST_INDEX,    /* base, slices */
    AST_SLICE,    /* from?, to?, step? */
    AST_ELLIPSIS,
    AST_AT,       /* value, context(s); op: or an array, by which it is multiplied */
    AST_FILE,     /* path?; u.text: the path when it is a word ("-" for @-). op 1: "#" and a
                     tensor's name follows as kid[1], an AST_TEXT */
    AST_UNARY,    /* operand; op: OP_NEG, OP_POS, OP_NOT */
    AST_BINARY,   /* left, right; op */
    AST_RANGE,    /* from, to, by? */
    AST_TEST,     /* left, right; op: OP_IN, OP_NOT_IN, OP_IS, OP_IS_NOT */
    AST_CHAIN,    /* a < b < c: comparisons. The left side of each but the first is an AST_NONE at
                     the place of the right side of the one before it, whose value it has */
    AST_CHOICE,   /* a if c else b: c, a, b */

    /* keys: words of their own */
    AST_KEYS,     /* keys; a list, even of one, unless AST_SINGLE is set */
    AST_KEY,      /* one key or pattern: an integer (u.integer) when op is 0, a word (u.text) when
                     op is 1, a word with * ? or {a..b} when op is 2 */
    AST_KEY_RANGE,/* 3..7; from, to: AST_INT */
    AST_KEY_VALUE,/* $name, $name[…] or (expr): one child, whose value is a key or a list of keys */

    /* statements of rules */
    RULE_STATE,   /* initial?; u.text: name; op: a rule_state */
    RULE_SET,     /* expr; u.text: name. a += b is stored as a = a + b */
    RULE_IF,      /* condition, then, else?: AST_BLOCK */
    RULE_ROWS,    /* rows present */
    RULE_SKIP,
    RULE_FAIL,    /* text */
    RULE_PRINT,   /* exprs */
    RULE_FOR,     /* targets, list, AST_BLOCK: of merges alone */
    AST_BLOCK,    /* statements; op 1: written by indentation */

    AST_SCRIPT    /* kinds from here on belong to cli/syntax */
} ast_kind;

/* The hint at `m[key]` in a rule, of three times the name: Python keeps arrays in a dict. */
#define RULE_STATE_HINT "state %s is an array for each key, 0 at first: state %s; %s = …"

typedef enum ast_op {
    OP_NEG, OP_POS, OP_NOT,
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW,
    OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE,
    OP_AND, OP_OR,
    OP_IN, OP_NOT_IN, OP_IS, OP_IS_NOT
} ast_op;

/* The sign or word of an operator: "+", "//", "and". */
const char *ast_op_text(ast_op op);

typedef enum rule_state {
    STATE_ARRAY,
    STATE_KEY,
    STATE_SHARED,
    STATE_ROW,
    STATE_COLUMN
} rule_state;

enum {
    AST_METHOD = 1, /* AST_CALL written x.f or x.f(…) */
    AST_SINGLE = 2, /* AST_KEYS written as one plain key */
    AST_PARENS = 4  /* stood in ( ) */
};

#define AST_MAX_HEIGHT 1000

typedef struct ast ast;
struct ast {
    uint8_t kind;      /* an ast_kind */
    uint8_t op;
    uint16_t flags : 4;
    uint16_t height : 12; /* 0 without children, else one more than the highest child has */
    uint32_t pos, end; /* bytes of the source, end exclusive */
    uint32_t n;        /* children */
    union {
        int64_t integer;
        double number;
        const char *text;
        void *other;   /* cli/syntax */
    } u;
    ast *kid[];
};

/* The name of argument i of a call; NULL: it is given by its place. call NULL: all are. */
static inline const char *ast_argument_name(const ast *call, int64_t i)
{
    return call && call->kid[i]->kind == AST_ARG ? call->kid[i]->u.text : NULL;
}

/* updater NAME, NAME (PARAM = literal in a..b, …) counts after { … }, or merge NAME … */
typedef struct rule_param {
    const char *name;
    const ast *value;      /* AST_INT, AST_FLOAT, AST_BOOL, AST_NONE, AST_TEXT; NULL: no default, as
                              of a name that the rule reads and does not define (rule_check) */
    const ast *low, *high; /* NULL: no range */
    bool below;            /* ..<, the range ends before high */
    bool is_lr;            /* learning_rate that is written lr, as the lines read it */
    uint32_t pos, end;
} rule_param;

typedef struct rule_ast {
    const char *const *names; /* none for an anonymous block */
    rule_param *params;       /* rule_add_param */
    const ast *body;          /* AST_BLOCK */
    int nnames, nparams;
    int64_t params_cap;
    bool counts_after;
    bool is_def;              /* written as Python has it: its own names may be taken */
    bool is_merge;            /* of lists of arrays: vm/merge.h */
    const struct rule_given_name *given; /* of a merge that was written out: the names that it is
                                            given. NULL: those that every updater is given */
    int ngiven;
    uint32_t pos, end;        /* the whole text of the rule */
} rule_ast;

/* Adds a copy of p, in a. False: no memory. */
bool rule_add_param(rule_ast *r, const rule_param *p, arena *a, kv_err *e);
