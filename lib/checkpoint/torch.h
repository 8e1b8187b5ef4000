/* Checkpoints as torch.save writes them: a zip archive with a pickle and the bytes of storages.
 *
 *   ROOT/data.pkl      the pickle (pickle.h): a tree of dicts and lists with tensors in it
 *   ROOT/data/KEY      a storage: the elements of one or more tensors
 *   ROOT/byteorder     "little" or "big"; older files are little-endian without it
 *
 * A tensor is a view of a storage: an offset, sizes and strides. Its name is its path in the tree,
 * joined by dots. Sources: PyTorch's torch/serialization.py, torch/_utils.py and
 * torch/_weights_only_unpickler.py.
 */
#pragma once

#include "base/mem.h"
#include "checkpoint/zip.h"

/* The members of an archive that may be one. All zero is none. */
typedef struct torch_archive {
    zip_member *members; /* sorted by torch_read; their `data` is gone */
    int64_t n, cap;
    arena names;
} torch_archive;

int torch_add(torch_archive *a, const zip_member *m, kv_err *e);
void torch_release(torch_archive *a);

/* Adds the tensors of the part of file number `file` that the checkpoint is about. Errors: io,
 * memory, format (malformed, or an object that only Python can make), name (there is no such part).
 */
int torch_read(torch_archive *a, checkpoint *c, int file, kv_err *e);
