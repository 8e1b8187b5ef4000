/* Expressions of a merge, without lists. Private to merge_lists.c. */
#ifndef VM_MERGE_VALUE_H
#define VM_MERGE_VALUE_H

#include "vm/merge_writer.h"

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

#endif
