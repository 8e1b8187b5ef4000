/* The pieces of help. */
#pragma once

#include "syntax/command.h"
#include "syntax/function.h"

/* cli/language.md and the other pages, as `help language` shows them; made by the build. */
extern const char language_text[], rules_text[], checkpoints_text[], environment_text[],
    lecture_text[], python_text[];

/* Each is in a file of its name in cmd/texts. Those of rows have lines of words, and below each
 * what they lead to, indented: text_concerns what to try first, text_sections headings of the page
 * on the language. text_commands has a section for each command, text_types for each store type. */
extern const char text_commands[], text_concerns[], text_schedules[], text_sections[], text_seed[],
    text_statements[], text_types[];

/* ---- help.c ---- */

/* Appends what two words name, such as `optimizer adam`, or what mentions both. Error: name
 * (nothing does). */
int help_words(buf *out, const char *first, const char *second, kv_err *e);

/* Appends what a command does, in one line. */
void command_summary(buf *out, const command *c);

/* ---- topics.c: lines of lists and usages ---- */

enum { HELP_COLUMN = 18 }; /* where the texts of a list begin */

/* Appends words as lines that begin at HELP_COLUMN, behind the names, and have at most 80 columns.
 * at: the column that the line has reached, 0 for a new one. */
void help_lines(buf *out, const char *text, int at);

/* Appends a usage as lines of at most 80 columns; an option stands beside its value, and all lines
 * but the first are indented. */
void help_usage(buf *out, const char *usage);

/* ---- topics.c: the page of the language ---- */

/* What a text of rows has for a word, in any case, or with plural for its plural; *n: its bytes.
 * NULL: nothing. */
const char *help_row(const char *text, const char *word, bool plural, int *n);

/* What stands below a heading of a page up to the next one; *n: its bytes. NULL: there is none. */
const char *help_section(const char *page, const char *heading, int length, size_t *n);

/* Appends the section of the page that a word or sign is about: `for`, `slices`, `->`. False when
 * there is none. */
bool language_section(buf *out, const char *word);

/* Offers the words of sections that letters begin. */
void language_words(void (*offer)(void *arg, const char *word), void *arg);

/* ---- topics.c: store types ---- */

/* Appends a line for each type: its name and what it is for, or why it is not available here. */
void type_list(buf *out);

/* Appends what there is to know of a type, by its name or another word for it, in any case. False
 * when there is no such type. */
bool type_show(buf *out, const char *name);

/* ---- topics.c: optimizers, what one does and takes ---- */

/* Appends one line an optimizer: its names, and the comment of its rule. */
void optimizer_list(buf *out);

/* Appends the rule of an optimizer, in any case, the parameters that every optimizer takes, and the
 * schedules. False when there is none of that name. */
bool optimizer_show(buf *out, const char *name);

/* Hints the optimizers of close names. */
void optimizer_suggest(const char *word, kv_err *e);

/* ---- topics.c: the rules of merges ---- */

/* Appends each rule with its names, the first sentence of its comment, and its parameters. */
void merges_list(buf *out);

/* Appends the text of a rule. False when there is none of that name. */
bool merges_show(buf *out, const char *name);
