/* The lexer: words, numbers, signs and blanks of the language.
 *
 * The parser drives it. Tokens are read one ahead and on demand, because what a character means can
 * depend on where the parser is: newlines end statements outside brackets only, and keys, paths and
 * shell text have word rules of their own, for which the parser reads the text directly.
 *
 * A prompt at the begin of a line, `>>> `, `... `, `kv> ` or `..> `, is a blank, so that what was
 * copied from a page runs. A text whose first line has a prompt is a transcript: what stands in its
 * lines without one was printed there, and is a blank, too. So is a report of an error outside
 * brackets, in any text.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lang/source.h"

typedef enum tok_kind {
    TOK_END,     /* of the text */
    TOK_NEWLINE, /* a line's end outside brackets, or ; */
    TOK_INT,
    TOK_FLOAT,
    TOK_NAME,
    TOK_STRING,  /* a text in quotes; lex_quote_at says in which */
    TOK_FSTRING, /* one with fields: f"…" */
    TOK_OPTION,  /* --name: a blank, two dashes and a letter */
    TOK_SIGN,    /* everything else; sign holds its characters */
    TOK_CURSOR,  /* the word, perhaps an empty one, that ends at the cursor; sign: its quote */
    TOK_BAD      /* no token; lex_explain says why */
} tok_kind;

/* A sign of up to three characters as one number: SIGN2('*', '*'). */
#define SIGN1(a) ((uint32_t)(a))
#define SIGN2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)
#define SIGN3(a, b, c) (SIGN2(a, b) | (uint32_t)(c) << 16)

typedef struct token {
    tok_kind kind;
    uint32_t pos, end;
    bool blank_before; /* a blank, a newline, or nothing stands before it */
    bool blank_after;
    bool open;         /* TOK_BAD: a text in quotes that more lines may close */
    uint32_t sign;
    int64_t integer;   /* >= 0, but INT64_MIN for 2^63, which only a minus before it makes fit */
    double number;
} token;

typedef struct lexer {
    const source *src;
    uint32_t start;      /* of the text: behind a BOM */
    uint32_t pos, limit; /* what remains is [pos, limit); a NUL byte ends it */
    bool in_brackets;    /* a newline is a blank */
    bool prompted;       /* a line so far had a prompt: in brackets `...` is one then, too */
    bool transcript;     /* lines without a prompt are blanks */
    bool incomplete;     /* the text ended inside something that was open */
    bool cursor;         /* the text is completed where it ends, which is not in a comment */
} lexer;

/* How a text in quotes begins. */
typedef struct lex_quote {
    uint32_t prefix; /* letters before the quote */
    uint32_t marks;  /* 1, or 3, between which newlines may stand */
    char mark;       /* " or ' */
    bool raw;        /* r"…": a backslash is a character like any other */
    bool fields;     /* f"…" */
    bool bytes;      /* b"…", which is refused */
} lex_quote;

/* Returns true if a text in quotes begins at pos. */
bool lex_quote_at(const lexer *lx, uint32_t pos, lex_quote *out);

/* Begins at the start of s. */
void lex_init(lexer *lx, const source *s);

/* Reads the next token. */
token lex_next(lexer *lx);

/* Sets the error of the TOK_BAD that lex_next gave last, and incomplete when the text ended in it.
 * It is no part of reading a token, because
 * where a word of the parser's own stands (`2bit`, `3-1`), it does not matter what tokens would
 * make of it. */
void lex_explain(lexer *lx, kv_err *e);

/* Moves over blanks, comments and continued lines, and in brackets over newlines. */
void lex_blanks(lexer *lx);

/* The bytes of a prompt of kvctl at text, of n bytes, or 0: `kv> ` and its kin (`kv:b> `, `kv[1/2]>
 * `, `kv*> `), or with more `..> `. It may have lost its last blank when nothing follows it. */
size_t lex_prompt(const char *text, size_t n, bool more);
/* The same for a prompt of Python. */
size_t lex_python_prompt(const char *text, size_t n, bool more);

/* The bytes of the prompt of any kind, and of the blanks before it, that a line of n bytes begins
 * with, or 0. */
size_t lex_margin(const char *line, size_t n);

/* Returns true if a line of n bytes has the prompt of an entry, `kv> ` or `>>> `, not of a
 * continuation. */
bool lex_begins_entry(const char *line, size_t n);

/* The column of the sign between the line number and the source line of an excerpt, or above and
 * below it, or 0 when the line of n bytes is no excerpt:
 *
 *        33 : init mean
 *           :      ^^^^
 *
 * No statement has a colon there, so an excerpt that is pasted runs nothing. */
size_t lex_gutter(const char *line, size_t n);

/* Returns true if the line of pos is an output, which a transcript passes over. */
bool lex_is_output(const lexer *lx, uint32_t pos);

/* The begin of the text of the line of pos, behind its prompt and blanks. */
uint32_t lex_line_text(const lexer *lx, uint32_t pos);

/* Where the line of pos ends: at its newline, or at the limit. */
uint32_t lex_line_end(const lexer *lx, uint32_t pos);

/* The indent of the line of pos, behind its prompt if it has one; a tab goes to the next
 * multiple of 8. */
int lex_indent(const lexer *lx, uint32_t pos);

/* ASCII letters, _, and bytes of other characters */
static inline bool lex_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static inline bool lex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static inline bool lex_is_word_char(char c)
{
    return lex_is_letter(c) || lex_is_digit(c);
}
/* blank, tab, carriage return */
static inline bool lex_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}
