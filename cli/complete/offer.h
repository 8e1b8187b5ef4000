/* Words that the language, the session and the folder know, offered for the word at the cursor. The
 * room's own header: complete.h is what others read.
 *
 * Each function adds those of its words that begin with what is typed. */
#ifndef COMPLETE_OFFER_H
#define COMPLETE_OFFER_H

#include <stddef.h>

#include "base/mem.h"
#include "session/session.h"
#include "syntax/command.h"
#include "syntax/read_unit.h"
#include "term/line.h"

/* ---- Merges ---- */

/* The rules of merges, and their parameters. */

/* Offers the name of each rule of the library. */
void complete_merges(void (*offer)(void *arg, const char *name), void *arg);

/* Offers the parameters of the rule that a word of n bytes names: one of the library, or the path
 * of a file. */
void complete_merge_parameters(const char *word, size_t n,
                               void (*offer)(void *arg, const char *name), void *arg);

/* ---- Tensors ---- */

/* Names of tensors, for the patterns of commands on checkpoints. */

/* Calls offer with the name of each tensor of the checkpoint that a statement names behind its
 * command: `ls m/ `. statement: from its first byte on. Nothing is offered where there is none, for
 * stdin and pipes, nor from a checkpoint of so many tensors that nobody would look at them. */
void complete_tensors(const char *statement, void (*offer)(void *arg, const char *name), void *arg);

/* The same with the types of tensors that safetensors has. */
void complete_tensor_types(void (*offer)(void *arg, const char *name), void *arg);

/* ---- The language and the session ---- */

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

void offer_word(complete_request *r, const char *word);
void offer_all(complete_request *r, const char *const *words); /* a NULL ends them */
/* A word that the language wants in quotes: with them, unless one is open already. */
void offer_text(complete_request *r, const char *word);

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

#endif
