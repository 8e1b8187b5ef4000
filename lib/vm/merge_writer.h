/* What is known of a merge while its lists are written out, and the trees that are made. Private to
 * merge_lists.c (lines) and merge_value.c (expressions).
 *
 * A node is made anew where something below it changed; others are those of the parsed rule, and
 * shared where a value is used twice. The first failure stays in rc: everything after it gives
 * NULL, or nothing.
 */
#pragma once

#include "base/mem.h"
#include "vm/merge.h"

/* What an expression becomes: a tree without lists, or a list. */
typedef struct list_value list_value;
struct list_value {
    const ast *node; /* NULL: a list */
    list_value *items;
    int n;
};

static inline list_value value_of_node(const ast *node)
{
    return (list_value){.node = node};
}

/* A name that stands for a value: of a loop or comprehension, or of a list. */
typedef struct list_meaning list_meaning;
struct list_meaning {
    const char *name;
    list_value is;
    bool loop;
    list_meaning *next;
};

/* A name whose number is known, whatever arrays hold. */
typedef struct list_number list_number;
struct list_number {
    const char *name;
    host is;
    bool known; /* still */
    list_number *next;
};

typedef struct list_writer {
    const rule_ast *rule;
    const source *src;
    merge_form form;
    const char *const *names, *const *texts; /* given parameters */
    int nparams;
    arena *a;
    list_meaning *meanings;
    list_number *numbers;
    bool inner;  /* in a block of which it is not known whether it runs */
    ast **lines; /* of the block that is being written */
    int64_t nlines, cap;
    int64_t nodes; /* made so far */
    int sorted;    /* names made for sorting */
    bool ended;    /* by `fail`: nothing behind it is reached */
    int rc;
    kv_err *e;
} list_writer;

#define REJECT(w, node, code, ...)                                                                 \
    ((w)->rc = source_err((w)->src, (node)->pos, (node)->end, (w)->e, code, __VA_ARGS__))

void *writer_keep(list_writer *w, size_t bytes); /* memory that lives as long as the rule */

/* ---- Nodes ---- */

/* A node like another one, at its place, with other children; and one of a kind at the place of
 * another. */
ast *writer_make_like(list_writer *w, const ast *like, const ast *const *kids, uint32_t n);
ast *writer_make(list_writer *w, ast_kind kind, int op, const ast *at, const ast *const *kids,
                 uint32_t n);
const ast *writer_int(list_writer *w, const ast *at, int64_t x);
const ast *writer_name(list_writer *w, const ast *at, const char *name);
const ast *writer_call(list_writer *w, const ast *at, const char *function, const ast *const *args,
                       uint32_t n);
const ast *writer_binary(list_writer *w, const ast *at, ast_op op, const ast *x, const ast *y);

/* ---- Lists and names ---- */

list_value writer_list(list_writer *w, int n); /* of n items, to be filled */
list_meaning *writer_find(const list_writer *w, const char *name);
void writer_mean(list_writer *w, const char *name, list_value is, bool loop);

/* "list[i]", which nobody can write, and a list of such names. */
const char *writer_item(list_writer *w, const char *list, int i);
list_value writer_items(list_writer *w, const ast *at, const char *name, int n);

void writer_refuse_list(list_writer *w, const ast *node, list_value list);

/* ---- What is known ---- */

/* Returns true if the value of a tree follows from literals, parameters and names with known
 * numbers: *out. Errors of its arithmetic show when the rule runs. */
bool writer_knows(const list_writer *w, const ast *node, host *out);

/* The integer that the tree `written` is, which must be known; `at` is where it was read. */
int64_t writer_integer(list_writer *w, const ast *written, const ast *at);

/* A name gets a value: notes its number, if that is known. */
void writer_note(list_writer *w, const char *name, const ast *is);

/* ---- Lines ---- */

void writer_put(list_writer *w, ast *line);
void writer_put_set(list_writer *w, const ast *at, const char *name, const ast *is);

/* ---- Expressions ---- */

list_value merge_value(list_writer *w, const ast *node);

/* The same, which must be no list, or one. */
const ast *merge_one(list_writer *w, const ast *node);
list_value merge_list(list_writer *w, const ast *node);

/* A node all of whose children are no lists. */
list_value merge_kids(list_writer *w, const ast *node);

/* Gives the names of a target, a name or a tuple of such, the value of an item. */
void merge_bind(list_writer *w, const ast *target, list_value item);

/* Gives a value a name of its own, so that what reads it several times is written once. */
const ast *merge_put_named(list_writer *w, const ast *at, const ast *is);

/* Refuses a list that holds lists. */
bool merge_are_single(list_writer *w, const ast *at, list_value list);
