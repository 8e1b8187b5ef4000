/* Numbers as text, both ways, independent of the locale and correctly rounded.
 *
 * Formatting gives the shortest decimal digits that read back as the same number of its width
 * (Giulietti 2020, "The Schubfach way to render doubles"). Parsing rounds once, straight to the
 * width asked for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The binary formats that numbers are written in and read into: how many bits the significand has
 * (the hidden one included) and the smallest and largest exponent of a normal number. */
typedef enum num_width { NUM_BINARY16, NUM_BFLOAT16, NUM_BINARY32, NUM_BINARY64 } num_width;

/* A finite number other than zero as digits * 10^exp10, shortest for its width. */
typedef struct num_digits {
    uint64_t digits; /* no trailing zeros */
    int32_t exp10;
    int32_t n;       /* how many digits */
} num_digits;

/* The shortest digits of |x|, which must be finite, not zero, and representable in width. */
num_digits num_shortest(double x, num_width width);

#define NUM_TEXT_MAX 32

/* Writes x as Python's repr does for a double: 0.1, 1e-05, 1e+16, 3.0, nan, inf, -inf; digits are
 * the shortest for the width. Returns the length; out needs NUM_TEXT_MAX bytes and gets a NUL. */
int num_repr(char *out, double x, num_width width);

/* The same without ".0" behind whole numbers: 3, 0.1, 1e+16. For files. Only -0.0 keeps it, because
 * readers such as Python's json take -0 for an integer, which has no sign. */
int num_plain(char *out, double x, num_width width);

/* Decimal integer. Returns the length. */
int num_int(char *out, int64_t x);

/* x with exactly `precision` (0 to 60) digits after the point, correctly rounded, half to even. For
 * values and formats like C's %.*f, %.*e, %.*g: how is 'f', 'e' or 'g'. Returns the length that the
 * text has; at most size-1 bytes and a NUL are written. 400 bytes hold any %.60f of a double below
 * 1e300. */
int num_fixed(char *out, size_t size, double x, int precision, char how);

/* Reads the number at the start of text (n bytes): blanks are not skipped; an optional sign, digits
 * with an optional point (".3", "3." too) and an optional exponent, or nan, inf, infinity in any
 * case (nan loses its sign). Rounds once to width; a finite text too large for width gives an
 * infinity and sets *over. Returns how many bytes were read, 0 if there is no number. over may
 * be NULL. */
size_t num_parse(const char *text, size_t n, num_width width, double *x, bool *over);

/* x rounded once to width, half to even; *over is set when a finite x becomes an infinity. */
double num_narrow(double x, num_width width, bool *over);

/* Reads an integer (optional sign, digits). Returns the bytes read, 0 when there is none; *over is
 * set when it does not fit. */
size_t num_parse_int(const char *text, size_t n, int64_t *x, bool *over);
