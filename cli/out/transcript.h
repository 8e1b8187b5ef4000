/* --record: a session as a page that --verify accepts. Each entry stands there as `kv> ` lines, and
 * behind it what it put out and what failed.
 *
 * An entry is what was typed at the prompt up to a complete statement; in a script, the whole lines
 * that a statement touches. It is written when it is over, all of it or, when that fails, nothing:
 * the file never ends in half an entry, whatever ends the process.
 *
 * Entries go to PATH.part, which becomes PATH when the session ends, so that the page before stays
 * until there is a whole new one. A session that is killed, or whose disk is full, leaves its
 * entries in PATH.part; the next one that records there begins it anew. */
#pragma once

#include "base/buf.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "session/session.h"

/* ---- Differences ---- */

/* Two texts line by line, for people. */

/* Drops blanks at the ends of lines, and blanks and newlines at the end of the text: what a reader
 * cannot see. */
void diff_normalise(buf *text);

/* Appends a line for each line of both texts: "  " before what they share, "- " before what only
 * `expected` has, "+ " before what only `got` has. Of long runs that are equal, only the lines
 * next to a difference are shown; control characters are made visible. */
void diff_lines(buf *out, const char *expected, const char *got);

/* ---- Prompts ---- */

/* Appends n bytes of text line by line, the first one behind `first`, the others behind `next`;
 * visible: with control characters made visible. */
void prompt_lines(buf *out, const char *first, const char *next, const char *text, size_t n,
                  bool visible);

/* ---- The page of --record ---- */

/* Begins. Errors: io, busy (another process records there), memory. */
int transcript_open(session *s, const char *path, kv_err *e);

/* An entry of the prompt begins: what happens up to transcript_done belongs to it. */
void transcript_entry(session *s, const char *text, size_t n);
/* A statement of a script begins; its lines are an entry, with others that stand on them. */
void transcript_statement(session *s, const source *src, const ast *node);
/* A report of an error goes into the entry. */
void transcript_error(session *s, const char *report);
/* Writes the entry that is open. Errors: io, memory; nothing is recorded after one. */
int transcript_done(session *s, kv_err *e);

/* Writes the last entry and ends. The first error of all, once. */
int transcript_close(session *s, kv_err *e);
