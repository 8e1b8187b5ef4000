/* Completion and hints: what may stand at the cursor, and what is still missing behind it.
 *
 * Everything comes from the tables that the parser reads and from what the session holds: commands,
 * functions, settings, keys, variables, stores, updaters. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "session/session.h"
#include "syntax/command.h"
#include "syntax/read_unit.h"
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

/* ---- What is offered, for the files of this room ---- */

/* Words that the language, the session and the folder know, offered for the word at the cursor.
 * Each function adds those of its words that begin with what is typed. */

/* The text that is being completed. */
typedef struct complete_request {
    session *s;
    const char *text; /* up to the cursor */
    parse_cursor at;
    const command *command; /* of the statement, or NULL */
    const char *typed; /* the part of the word that is there */
    line_words *out;
    arena nodes; /* with the names in `at` */
} complete_request;

/* Finds what is expected at the end of the text (n bytes). The caller releases r->nodes. */
void complete_request_init(complete_request *r, session *s, const char *text, size_t n,
                           line_words *out);

/* Returns true if the file at the cursor is an argument of the command. */
bool complete_at_file(const complete_request *r);

/* The word behind the one at text. */
static inline const char *complete_next_word(const char *text)
{
    text += strcspn(text, " \t");
    return text + strspn(text, " \t");
}

void offer_word(complete_request *r, const char *word);
void offer_all(complete_request *r, const char *const *words); /* a NULL ends them */
/* A word that the language wants in quotes: with them, unless one is open already. */
void offer_text(complete_request *r, const char *word);

/* --warm-up for a parameter warm_up, warm_up= where no dash is typed; all of the rule in a text;
 * those of a merge of the library, or in a file. */
void offer_parameter(complete_request *r, const char *name);
void offer_parameters_of(complete_request *r, const char *text, bool merge);
void offer_merge_parameters(complete_request *r, const char *path);
void offer_merges(complete_request *r);

/* The tensors of the checkpoint behind the first word of a statement: `ls m/ `. None where there is
 * none, for stdin and pipes, nor from one of so many tensors that nobody would look at them. */
void offer_tensors_of(complete_request *r, const char *statement);

void offer_keys(complete_request *r);
void offer_variables(complete_request *r);
void offer_stores(complete_request *r);
void offer_call(complete_request *r, const char *name); /* with its `(` */
void offer_functions(complete_request *r);
void offer_commands(complete_request *r);
void offer_dtypes(complete_request *r);
void offer_formats(complete_request *r);
void offer_codes(complete_request *r);
void offer_contexts(complete_request *r);
/* What an expression may begin with. */
void offer_operands(complete_request *r);

typedef enum wanted_files { FILES_ALL, FILES_ARRAYS, FILES_SCRIPTS, FILES_RULES } wanted_files;

/* The files of the folder that is typed, in quotes where they need them, and its folders. */
void offer_files(complete_request *r, wanted_files wanted);
