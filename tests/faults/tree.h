/* The files below a folder, in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct tree_file {
    char path[240]; /* below the folder; of a folder it ends in "/" */
    char *data;
    size_t n;
} tree_file;

typedef struct tree {
    tree_file *files; /* in the order of their paths */
    int n;
} tree;

tree tree_read(const char *folder);
void tree_sort(tree *t);
void tree_read_file(tree_file *f, const char *path);
void tree_release(tree *t);

/* Makes the folder hold what t holds; now: what it holds, as tree_read gave it. */
void tree_write(const char *folder, const tree *now, const tree *t);

/* The first file, or folder with all that is in it, directly below the folder that is neither as in
 * a nor as in b; NULL if there is none. Paths that are words of `but` do not count. */
const char *tree_odd(const tree *now, const tree *a, const tree *b, const char *but);

const tree_file *tree_find(const tree *t, const char *path); /* or NULL */

bool tree_same(const tree *a, const tree *b);
