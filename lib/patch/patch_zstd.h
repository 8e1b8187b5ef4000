/* Compression by zstd. */
#pragma once

#include <stdint.h>

#include "kv_err.h"

/* The state with which one thread compresses or decompresses. */
typedef struct zstd_packer zstd_packer;
typedef struct zstd_unpacker zstd_unpacker;

/* Errors: memory. */
int zstd_packer_new(zstd_packer **out, kv_err *e);
void zstd_packer_free(zstd_packer *p); /* NULL is allowed */
int zstd_unpacker_new(zstd_unpacker **out, kv_err *e);
void zstd_unpacker_free(zstd_unpacker *u); /* NULL is allowed */

/* A level: single bytes are coded by how often they are there, and long repetitions are found. */
#define ZSTD_QUICK 0

/* The most bytes that n bytes become. */
int64_t zstd_bound(int64_t n);

/* Compresses n bytes into one frame of at most `room` bytes, and returns its length; 0 where it
 * would be longer. checked: the frame ends in a checksum. */
int64_t zstd_pack(zstd_packer *p, void *to, int64_t room, const void *data, int64_t n, int level,
                  int checked);

/* Decompresses one frame of n bytes. Returns 0 unless it is whole and becomes exactly `bytes`
 * bytes. */
int zstd_unpack(zstd_unpacker *u, void *to, int64_t bytes, const void *data, int64_t n);
