/* Functions that merges alone have. */
#ifndef VM_MERGE_ELEMENT_H
#define VM_MERGE_ELEMENT_H

#include "vm/merge.h"
#include "vm/rule_run.h"

/* Their call among elements, or a matmul of low-rank adapters: draws and rankings are added to
 * r->merge. */
rule_operand merge_element(rule_run *r, const ast *call, const element_function *f, prog_type type);

#endif
