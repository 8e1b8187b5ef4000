/* Completion and hints: what may stand at the cursor, and what is still missing behind it.
 *
 * Everything comes from the tables that the parser reads and from what the session holds: commands,
 * functions, settings, keys, variables, stores, updaters. */
#pragma once

#include <stddef.h>

#include "session/session.h"
#include "term/line.h"

/* Offers words for the last one of the text (n bytes), which ends at the cursor. */
void complete_words(session *s, const char *text, size_t n, line_words *out);

/* Appends what is still missing: the arguments of a command or of a call. */
void complete_hint(session *s, const char *text, size_t n, buf *out);

/* ---- The command line, for the shells ---- */

/* Completion of kvctl's command line, for the shells: `kvctl --completion bash` prints what a shell
 * needs, and that asks `kvctl --completion words WORD…` at each Tab. So the tables of commands,
 * options and types are the only lists, and what is typed behind -c is completed as at the prompt,
 * with the keys of the state file.
 */

/* Prints what may stand for the last of n words: a line "files" when names of files may stand there
 * too, else "words"; then a line for each candidate, with a tab and what it is behind it where that
 * is known. The words are those behind `kvctl`, with their quotes, up to the cursor; candidates
 * have none. Returns the exit code. */
int complete_shell_words(int n, char **words);
