/* Where the cursor stands in what was typed so far: which word, and what may stand there.
 *
 * Completion and hints ask this at every key, about text that is seldom complete, so it is found by
 * one pass over the text that follows the rules of the language but builds no tree and finds no
 * mistakes. Where the text is beyond it, such as in a text that a word of its own ends, the answer
 * is CURSOR_NOTHING: no offer is better than a wrong one.
 */
#ifndef COMPLETE_CURSOR_H
#define COMPLETE_CURSOR_H

#include "syntax/command.h"

typedef enum cursor_place {
    CURSOR_NOTHING,   /* a comment, a number, shell text, a name to be made, right behind a value */
    CURSOR_STATEMENT, /* the first word of a statement */
    CURSOR_ARGUMENT,  /* begins argument number `argument` of the command */
    CURSOR_OPTION,    /* --… */
    CURSOR_OPTION_VALUE, /* the value of `option` */
    CURSOR_OPERAND,      /* a value in an expression */
    CURSOR_OPERATOR,     /* a word between two values */
    CURSOR_MEMBER,       /* behind a value and a dot */
    CURSOR_CONTEXT,      /* behind a value and @ */
    CURSOR_FILE,         /* behind @, > or >> */
    CURSOR_VARIABLE,     /* behind $ or -> */
    CURSOR_RULE          /* in the braces of an updater */
} cursor_place;

/* A part of the text. */
typedef struct cursor_part {
    size_t at, n; /* n is 0 for none */
} cursor_part;

typedef struct cursor {
    cursor_place place;
    size_t word;      /* where the word begins that ends at the cursor; it may be empty */
    char quote;       /* the quote that is open before it, or 0 */
    size_t statement; /* where the statement begins */
    const command *command;       /* of the statement, once its word is complete; or NULL */
    int argument;                 /* CURSOR_ARGUMENT: which */
    int begun;                    /* how many of its arguments have begun, with the word's */
    uint32_t options;             /* bit i: its option i was given */
    const command_option *option; /* CURSOR_OPTION_VALUE: which; NULL for the parameter of a rule */
    int depth;                    /* of brackets and braces of the statement around the cursor */
    cursor_part object;           /* CURSOR_MEMBER: the name in front of the dot, if it is one */
    /* The call in whose brackets the cursor stands, its argument and that one's name if it has one.
     * A method counts the value in front of the dot as argument 0. */
    cursor_part call, keyword;
    int call_argument;
    size_t block; /* CURSOR_RULE: where the braces open */
} cursor;

/* Finds out about the cursor behind n bytes of text. */
void cursor_find(cursor *out, const char *text, size_t n);

#endif
