/* The end of kvctl after a failed assertion. */
#ifndef TERM_BUG_H
#define TERM_BUG_H

/* From now on a failed assertion (base/kv_assert.h) ends the process at once: its report goes to
 * stderr and the exit code is 70. Nothing is saved, because what is in memory may be wrong. */
void bug_ends_process(void);

#endif
