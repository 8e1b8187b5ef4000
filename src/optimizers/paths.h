/* The paths of an optimizer's rule: what its parameters, the key and its states may be, so that
 * each of its programs occurs. A path is a choice for each of these, 0 being the default. Of a
 * merge: two or three models, up to eight without parameters, of float32 or bfloat16, with weights
 * of 1 or others. */
#pragma once

#include "vm/rule.h"

enum { PATH_CHOICES = 48, PATH_TEXTS = 32 };

typedef struct rule_paths {
    source src;
    arena memory;
    rule_ast *rule;
    bool merge; /* the rule is one, and parsed only */
    const char
        *texts[PATH_TEXTS]; /* for parameters and the name: numbers, truths, the rule's own */
    int ntexts, nchoices;
} rule_paths;

/* Reads a rule, whose text must outlive the paths. Release it also after an error. */
int rule_paths_read(rule_paths *p, const char *text, kv_err *e);
void rule_paths_release(rule_paths *p);

/* How many values choice i has. */
int rule_paths_count(const rule_paths *p, int i);

/* Makes the update of a float32 key. Returns false for a path that the rule refuses. */
bool rule_path_update(rule_update *u, const rule_paths *p, const uint8_t *choice);

/* Called with programs over elements. adds: it may run with two arrays for the input. */
typedef void rule_path_visit(void *arg, const struct prog *p, bool adds);

void rule_path_programs(const rule_update *u, rule_path_visit *visit, void *arg);

/* Goes from each path to those with one choice changed, as long as they have programs that the rule
 * had not before, and visits each of them once. Error: memory. */
int rule_paths_walk(const rule_paths *p, rule_path_visit *visit, void *arg, kv_err *e);
