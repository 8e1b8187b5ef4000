/* A disk that may lose its power.
 *
 * What was synced is there. Of what was not, each PAGE bytes of a file are as they were at the last
 * sync or after any write since, independently of all others; the size of a file is one of those
 * that it had since; every change of names (a file or a folder made, renamed, linked, removed)
 * happened or did not, independently of data and of each other. A rename happens whole, also one by
 * which two names change places. A sync of a file is for its data alone, that of a folder for the
 * names in it alone: file systems promise more, and nothing here relies on it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "tree.h"

#define NODES   192 /* files and folders that the calls of a log have */
#define NAMES   128 /* at once */
#define CHANGES 256 /* of names, and sizes of a file, that are not synced */
#define CHOICES 512 /* things that may have happened at one time */

typedef struct bytes {
    char *data;
    int64_t n;
} bytes;

typedef struct page_version {
    int64_t page; /* its number */
    char *data;
} page_version;

typedef struct node {
    bool is_folder;
    bytes now, synced;
    page_version *versions; /* of pages since the last sync, oldest first */
    int64_t nversions;
    int64_t sizes[CHANGES];
    int nsizes;
} node;

/* A name in a folder; a node of -1 is a name that is gone. Node 0 is the folder that is watched. */
typedef struct entry {
    int folder, node;
    char name[64];
} entry;

typedef struct name_change {
    entry set[2];
    int n;
} name_change;

typedef struct disk {
    int64_t page;
    node nodes[NODES];
    int nnodes;
    entry now[NAMES], synced[NAMES];
    int nnow, nsynced;
    name_change pending[CHANGES];
    int npending;
} disk;

/* Something that may have happened in several ways: 0 is that it did not. */
typedef struct choice {
    enum { OF_PAGE, OF_SIZE, OF_NAME } what;
    int node;
    int64_t page; /* or the number of the change of names */
    int ways, way;
} choice;

void disk_from(disk *d, const tree *t, int64_t page);
void disk_release(disk *d);

/* Does a call that was recorded. */
void disk_apply(disk *d, const calls_head *h, const char *name, const char *other,
                const char *data);

/* What may have happened since the last syncs; returns how many. */
int disk_choices(const disk *d, choice list[CHOICES]);

/* What the disk holds after these choices. */
tree disk_state(const disk *d, const choice *list, int n);

__attribute__((noreturn)) void disk_stop(const char *why);
