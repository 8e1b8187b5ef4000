/* Data compressed by deflate, and CRC-32: what members of zip archives have, by zlib. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "checkpoint/input.h"

/* Compressed data of a file, inflated from their begin on. */
typedef struct inflate_stream inflate_stream;

/* Deflate makes no byte out of less than this: 258 bytes from two bits. */
#define INFLATE_MOST 1032

/* Errors: memory. */
int inflate_new(inflate_stream **out, kv_err *e);
void inflate_free(inflate_stream *s); /* NULL is allowed */

/* Begins at n bytes of a file from `at` on, whatever was read before. name is for messages: of the
 * data; it and the file are borrowed. */
void inflate_begin(inflate_stream *s, const input *in, int64_t at, int64_t n, const char *name);

/* Reads n bytes, or fewer at the end of the data, and says how many. Errors: io, format (damaged,
 * cut, or compressed bytes behind the end), memory. */
int inflate_read(inflate_stream *s, void *to, int64_t n, int64_t *got, kv_err *e);

/* ---- Files compressed by gzip ---------------------------------------------------------------- */

typedef struct gunzip gunzip;

/* Error: memory. */
int gunzip_new(gunzip **out, kv_err *e);
void gunzip_free(gunzip *g); /* NULL is allowed */

/* Unpacks n bytes at most of what `read` gives, a function like read(2). Returns as that does: 0 at
 * the end; -1 with errno, also where the data are damaged or cut, and then gunzip_damaged returns
 * true. */
ssize_t gunzip_read(gunzip *g, char *to, size_t n, ssize_t (*read)(void *arg, char *to, size_t n),
                    void *arg);
bool gunzip_damaged(const gunzip *g);

/* The CRC-32 of n bytes behind bytes whose CRC-32 is crc; 0 of none. */
uint32_t inflate_crc(uint32_t crc, const void *data, int64_t n);

/* The share of a piece with this CRC-32 in the CRC-32 of a whole in which `after` bytes follow
 * it. Shares are joined by exclusive or, so pieces can be added in any order. */
uint32_t inflate_crc_shift(uint32_t crc, int64_t after);
