/* GGUF, the format of llama.cpp and ggml, to read. All numbers are little-endian; a text is its
 * length (u64) and its bytes, which are UTF-8.
 *
 *   bytes   meaning
 *   4       "GGUF"
 *   4       u32: the version, 2 or 3, which have the same form
 *   8       u64: the number of tensors
 *   8       u64: the number of metadata
 *   …       each of the metadata: its name (a text), u32: the type of its value, the value
 *   …       each tensor: its name (a text); u32: the number of its axes, at most 4; their sizes
 *           (u64), the fastest first; u32: its type; u64: where its data begin, counted from the
 *           begin of the data
 *   …       up to the next multiple of the alignment: no matter
 *   …       the data: each tensor begins at a multiple of the alignment
 *
 * Types of values: 0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool (a byte, 0 or 1), 8 text,
 * 9 list, 10 u64, 11 i64, 12 f64. A list is u32: the type of its items, u64: their number, and
 * they; its items may be lists. The alignment is the metadata "general.alignment" (u32, a power of
 * two), or 32. Types of tensors are the numbers of ggml_type. Source: docs/gguf.md of ggml.
 *
 * Shapes are given out with the slowest axis first. Numbers, bools and texts become texts of the
 * metadata, and lists of up to 64 of them JSON; longer lists, vocabularies mostly, and lists of
 * lists are left out, and so are those of a split model (below).
 */
#pragma once

#include "checkpoint/checkpoint_build.h"

#define GGUF_MAGIC "GGUF" /* no safetensors file begins so: its header would be too long */

/* Faults: a type that is not known, sizes that are no whole number of blocks, offsets that are not
 * aligned, names that stand twice, and those of data_layout_check. Errors: format, unsupported
 * (another version, big-endian), io, memory, interrupted. */
checkpoint_reader gguf_read;

/* A model in several GGUF files, as llama-gguf-split cuts it: NAME-00001-of-00003.gguf and so on,
 * each a GGUF file whose metadata say which part it is.
 *
 *   split.no              the part, from 0 (u16)
 *   split.count           how many there are (u16)
 *   split.tensors.count   the tensors of all parts (i32)
 *
 * Any part stands for the whole model. Its metadata are those of part 1, without these three. */

/* The name of a part: its first `prefix` bytes are that of the model. */
typedef struct gguf_part {
    size_t prefix; /* in front of -00001-of-00003.gguf */
    int no, count; /* both from 1 */
} gguf_part;

/* Reads a name without its folder. False: it does not name a part. */
bool gguf_part_find(gguf_part *out, const char *name);

/* Reads the other parts of the file that c holds, whose split.count is more than 1, and puts all
 * into the order of the parts. whole: nothing in that file was unreadable. Faults: a part that is
 * not there, a part whose metadata and name differ, another number of tensors than
 * split.tensors.count, a name that does not lead to the other parts. Other errors: those of the
 * files. */
int gguf_split_read(checkpoint *c, bool whole, kv_err *e);
