/* Ending a change in place that was cut short. Private to in_place.c. */
#pragma once

#include "checkpoint/in_place_names.h"
#include "checkpoint/in_place_redo.h"

/* The end of a journal that stood there. */
typedef enum journal_fate {
    JOURNAL_GONE, /* the change is ended, or it had not begun */
    JOURNAL_HELD, /* somebody works with it, or reads the file */
    JOURNAL_LEFT  /* this user cannot end it */
} journal_fate;

/* Ends the change whose journal stands beside the file, if there is one. Errors: io; format (the
 * file is not the one that the journal is about, or a damaged journal left it half changed). */
int in_place_recover(const in_place_names *n, journal_fate *fate, kv_err *e);

/* Ends a change whose journal was read to its end and fits, and removes it: the places are written,
 * up to three times where that fails; then the file is copied. found: another process began it, so
 * the mark may not be on the disk yet, and the sums of keys are compared. Errors: io, format; the
 * hint says what to do about the file, which keeps its mark. */
int in_place_end(const in_place_names *n, in_place_target *t, journal_reader *r, bool found,
                 journal_fate *fate, kv_err *e);

/* Error: io, the removal may not last. */
int in_place_drop_journal(const in_place_names *n, int file, journal_fate *fate, kv_err *e);
