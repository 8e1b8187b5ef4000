/* Sorting without looking: the exchanges that put any n values in order (Batcher's odd-even merge
 * sort, 1968). */
#ifndef VM_MERGE_SORT_H
#define VM_MERGE_SORT_H

/* Calls exchange(arg, i, j), i < j, in order: of the values i and j the smaller one goes to i. */
void merge_sort(int n, void (*exchange)(void *arg, int i, int j), void *arg);

#endif
