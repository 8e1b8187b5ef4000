/* The directory of a zip archive: which members it has, where their bytes stand, and their
 * checksums. Only members are named here that can be read: stored or deflated, not encrypted.
 *
 *   offset  size  a member where it stands
 *   0       4     PK 3 4
 *   4       2     version of zip that reads it
 *   6       2     flags: 1 encrypted, 8 sizes and CRC stand behind the data, 0x800 UTF-8 name
 *   8       2     method: 0 stored, 8 deflated
 *   10      4     time and date
 *   14      4     CRC-32 of the inflated bytes
 *   18      4, 4  compressed and inflated size; 0xFFFFFFFF: stands in the extra field 1
 *   26      2, 2  bytes of the name and of the extra fields, which follow
 *
 *   0       4     the same in the directory: PK 1 2
 *   4       2     version of zip that wrote it
 *   6-31          from the version on, as above, and then
 *   32      2     bytes of a comment behind name and extra fields
 *   34      8     disk and attributes
 *   42      4     where the member stands, counted from the begin of the archive
 *
 *   0       4     the end of the archive: PK 5 6
 *   4       2, 2  number of this disk, and of the one with the directory: 0
 *   8       2, 2  members on this disk, and of all; 0xFFFF: see zip64's end
 *   12      4, 4  bytes of the directory, and where it begins; 0xFFFFFFFF: see zip64's end
 *   20      2     bytes of the comment that follows
 *
 * zip64's end, PK 6 6, stands before it, with the same numbers in 8 bytes, and between the two
 * PK 6 7, which says where. Bytes may stand before the archive; offsets count from its begin or
 * from that of the file. Source: PKWARE's APPNOTE.TXT 6.3.10.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/input.h"

enum {
    ZIP_LOCAL = 0x04034B50,
    ZIP_ENTRY = 0x02014B50,
    ZIP_END = 0x06054B50,
    ZIP_END64 = 0x06064B50,
    ZIP_LOCATOR = 0x07064B50
};

enum {
    ZIP_LOCAL_BYTES = 30,
    ZIP_ENTRY_BYTES = 46,
    ZIP_END_BYTES = 22,
    ZIP_END64_BYTES = 56,
    ZIP_LOCATOR_BYTES = 20
};

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };
enum { ZIP_ENCRYPTED = 1, ZIP_SIZES_BEHIND = 8, ZIP_UTF8 = 0x800 };

#define ZIP_BESIDE UINT32_MAX /* a size of 4 bytes: it stands in 8 bytes elsewhere */

/* A member, while it is read. */
typedef struct zip_member {
    const char *name;  /* NUL-terminated UTF-8, borrowed until the next member */
    bool deflated;
    uint32_t crc;      /* of its bytes once inflated */
    int64_t offset;    /* of its header in the file */
    int64_t begin;     /* of its data in the file */
    int64_t stored;    /* bytes there */
    int64_t bytes;     /* inflated */
    byte_reader *data; /* from `begin` on, until the next member: some of it is in the buffer */
} zip_member;

/* Calls each for every member of file number `file` of c, in the order of the directory; folders
 * are none. A member that cannot be read is left out (checkpoint_leave_out), as one is for which
 * each returns LEFT_OUT; members that overlap, and bytes behind the archive, are faults, too.
 * Errors: io, memory, those of each, format (no archive, or no readable directory), unsupported (in
 * several files), interrupted. */
int zip_read(const checkpoint *c, int file, int (*each)(void *arg, const zip_member *m, kv_err *e),
             void *arg, kv_err *e);

/* ---- Deflated data --------------------------------------------------------------------------- */

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
