/* Changes of one key after the other into the chunks of a patch; patch_format.h describes them.
 *
 *     patch_pack_begin(p, unit);
 *     …                                  for each block of the key, in order:
 *     patch_pack_room(p, units, e);      its changes go to patch_pack_at and patch_pack_values
 *     patch_pack_add(p, first, n, …);
 *     …
 *     patch_pack_end(p, e);              chunks stand in p->out, which the caller empties
 *
 * What becomes of a key depends on its changes and its blocks alone. One thread at a time may use a
 * packer.
 */
#ifndef PATCH_PATCH_PACK_H
#define PATCH_PATCH_PACK_H

#include <stdint.h>

#include "base/buf.h"

typedef struct patch_pack patch_pack;

/* Errors: memory, unsupported. */
int patch_pack_new(patch_pack **out, kv_err *e);
void patch_pack_free(patch_pack *p); /* NULL is allowed */

/* Begins a key with units of so many bytes. */
void patch_pack_begin(patch_pack *p, int unit);

/* Makes room for n changes more. Error: memory. */
int patch_pack_room(patch_pack *p, int64_t n, kv_err *e);

/* Where the next changes go: the numbers of the units, ascending, and their values. */
int64_t *patch_pack_at(patch_pack *p);
void *patch_pack_values(patch_pack *p);

/* n changes were put there, of the block of `units` units from `first` on; at most PATCH_RANGE.
 * block: all values of it, or NULL where they are not known. Error: memory. */
int patch_pack_add(patch_pack *p, int64_t n, int64_t first, int64_t units, const void *block,
                   kv_err *e);

/* The same for a block that is stored whole. */
int patch_pack_whole(patch_pack *p, int64_t first, int64_t units, const void *block, kv_err *e);

/* The key ends: all of its chunks are in the output. Error: memory. */
int patch_pack_end(patch_pack *p, kv_err *e);

/* The chunks made so far. */
buf *patch_pack_out(patch_pack *p);

/* Compresses n bytes as the index of a patch is, behind their number. */
int patch_pack_index(patch_pack *p, buf *out, const void *data, int64_t n, kv_err *e);

#endif
