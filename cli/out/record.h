/* Records: what --json writes instead of text, one JSON object on one line for each command and
 * each bare expression that ran, and for each other statement that failed.
 *
 * While a command runs, what it prints is caught; at its end the record holds it as `out`, beside
 * what the command gave. Commands inside others (a sourced file, the body of a function) have
 * records of their own, which come first. An error has one record for each command that it ended.
 *
 * Fields of every record, in this order:
 *
 * - v: 1
 * - seq: its number, from 1
 * - file, line: of the statement; null when there is none, as for the command line. A command that
 *   looks at several checkpoints has a record for each, whose file is the path of that checkpoint
 * - cmd: a command's name, "expr" or "!"; of another statement that failed "assign", "if", "for"
 * and so on; null for a text that cannot be read
 * - ok: whether it worked
 * - store: the name of the store in use, null before the first
 * - rank: of this worker
 *
 * Then, as far as they belong to it:
 *
 * - us: microseconds that it took
 * - keys: the keys that it worked on
 * - out: the lines that it printed
 * - value, values (one a key) or entries (rows of a table, with what stands above it as about):
 * what it gave and did not send elsewhere
 * - dropped: the number of keys whose states set-optimizer or set-updater dropped, unless 0
 * - left, right, index, max_diff, differences: both sides of an assert that does not hold, without
 *   data when they have more than 64 elements; the first element that differs, the largest
 *   difference, and [index, left, right] of the first five
 * - error: code, exit, message, file when it is another one, line, col, end, hint, and the lines
 *   below it in a report as detail
 *
 * An array is an object with dtype, shape, ctx, stype and data, a list one with list. Numbers are
 * the shortest that read back equal; "nan", "inf" and "-inf" are texts, and so are integers beyond
 * 2^53. Bytes that are not UTF-8 become U+FFFD. Fields are only ever added; else v changes.
 */
#pragma once

#include "lang/ast.h"
#include "session/session.h"
#include "syntax/command.h"
#include "term/terminal.h"

/* A command that runs. */
typedef struct record {
    sink out;      /* gets what it prints */
    int64_t begun; /* microseconds on a clock that only goes forward */
} record;

/* Both do nothing without --json. */
void record_begin(session *s, record *r);

/* Writes the record of the statement: of e when it holds an error, else of what was given. Errors:
 * those of writing, io and memory. Returns e's code. */
int record_end(session *s, record *r, const ast *node, const result *given, kv_err *e);

/* Writes the record of an error, unless a command had one for it. node: the statement, or NULL. */
void record_error(session *s, const ast *node, const kv_err *e);

/* With --json notes the keys that a command works on. */
int record_keys(session *s, result *out, const kv_key *keys, int64_t n, kv_err *e);

/* ---- Errors as people read them, and exit codes ---- */

/* Appends e as report_error writes it, and empties the session's details. */
void report_text(session *s, const kv_err *e, buf *out);

/* Writes e to stderr: place, sentence, source line with a caret, details, hint. Keeps the exit code
 * of the first error of the session, and empties the session's details. */
void report_error(session *s, const kv_err *e);

/* Reports all that --check found, in the order of files and places, each error once. */
void check_report(session *s);
