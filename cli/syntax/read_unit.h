/* Reading and parsing texts of statements. */
#pragma once

#include "base/mem.h"
#include "lang/ast.h"
#include "lang/parse.h"
#include "lang/source.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/parse_shell.h"

/* Reads and parses a text. Nothing runs. text is taken over, also on failure (mem_free); name is
 * copied. Everything that the words alone show is checked: commands, options, functions, updaters,
 * counts of arguments, files that `source` names. line: the number of its first line.
 * *incomplete (may be NULL) is set when the text ends inside something that is open.
 * Out: *out stays owned by the session; unit_drop it when it will not run again. */
int unit_read(session *s, unit **out, const char *name, char *text, size_t n, int line,
              bool *incomplete, kv_err *e);

/* The same for a command in words of the shell, whose places it sets. */
int unit_read_words(session *s, unit **out, shell_words *words, kv_err *e);

/* Returns true if the text does not end inside an open bracket, block or text, even if it has
 * mistakes. The text ends in a NUL that n does not count. */
bool unit_is_complete(const char *text, size_t n);

/* Finds out about the cursor behind n bytes of a text, which end in a NUL. Names are in nodes. */
void unit_cursor(parse_cursor *out, arena *nodes, const char *text, size_t n);

/* The unit of a file that a parser meets in `source FILE`; NULL and an error at path when it cannot
 * be read. The parser's user is the session. */
unit *unit_source(parser *p, const ast *path);

/* Files that source each other deeper than this are refused, those with a computed name, which are
 * read when the statement runs, and those with a literal one, which are read before. */
#define SOURCE_MAX_DEPTH 50
#define SOURCE_TOO_DEEP  "files source each other deeper than 50"
