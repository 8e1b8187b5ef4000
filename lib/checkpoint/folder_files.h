/* The files of a model's folder that hold no weights: configuration, tokenizer, licence. A folder
 * that is made of another one gets copies of them, or other tools could not open it. What is
 * copied, what is not, and what changes in config.json, stands at the head of folder_files.c. */
#pragma once

#include "base/mem.h"
#include "checkpoint/checkpoint.h"

/* A copy. Begins zeroed but for the first four; to be released. */
typedef struct folder_files {
    const checkpoint *from; /* opened by the path of its folder */
    const char *dtype; /* (optional) what config.json says of the floats now, as PyTorch names it */
    bool unquantised;  /* no codes with scales are left: quantization_config goes */
    bool folded;       /* adapters were folded in: adapter_config.json stays behind */
    /* Out: names, sorted, config.json and tokenizer.json before others. Weights that were read and
     * hidden files are in neither. */
    const char **copied, **left;
    int64_t ncopied, nleft, copied_cap, left_cap;
    bool odd_config; /* config.json is not a JSON object, and was copied as it is */
    arena memory;
} folder_files;

void folder_files_release(folder_files *f);

/* Returns true if c was opened by the path of a folder. */
bool folder_files_has(const checkpoint *c);

/* PyTorch's name for a type of floats; NULL: it has none, or t is not a float. */
const char *folder_files_dtype(tensor_type t);

/* Copies the files into the folder `to`, which holds none of these names. name: of that, for
 * messages. unsynced: nothing waits for the disk. Errors: io, memory, interrupted. */
int folder_files_copy(folder_files *f, int to, const char *name, bool unsynced, kv_err *e);
