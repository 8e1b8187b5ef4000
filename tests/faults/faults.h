/* Calls of the C library that fail: the n-th of a kind, alone or with all behind it.
 *
 * A call of a kind counts between the begin of main and the end of the process, in the process that
 * was started and in its forks, not in the programs that it starts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FAULT_NAMES "memory", "open", "read", "write", "sync", "rename", "map", "size", "stat"
typedef enum fault_kind {
    FAULT_MEMORY, /* malloc, calloc, realloc, posix_memalign: ENOMEM */
    FAULT_OPEN,   /* open, openat, opendir, mkdir, mkstemp and the like: EMFILE */
    FAULT_READ,   /* read, pread, readdir: EIO */
    FAULT_WRITE,  /* write, pwrite, not to stderr: ENOSPC, after half of the bytes */
    FAULT_SYNC,   /* fsync, fdatasync: EIO */
    FAULT_RENAME, /* rename, renameat2, link: EACCES */
    FAULT_MAP,    /* mmap: ENOMEM */
    FAULT_SIZE,   /* ftruncate, fallocate: ENOSPC */
    FAULT_STAT,   /* stat, lstat, fstat, fstatat: EIO */
    FAULT_KINDS
} fault_kind;

typedef struct fault_plan {
    int32_t kind;  /* of fault_kind; -1: nothing fails */
    int32_t ever;  /* also all calls of the kind behind it */
    int32_t more;  /* so many calls of the kind behind it */
    int32_t error; /* 0: the one above; -1: none */
    int64_t at;    /* 1 is the first; 0: none */
} fault_plan;

/* What happened in a process, shared with the one that started it. */
typedef struct fault_page {
    _Atomic int64_t made[FAULT_KINDS], hits;
    /* At the end: blocks that nothing points to and that kvctl or its library asked for, the number
     * of the first among the calls of FAULT_MEMORY and its size; those of other libraries;
     * descriptors that are still open, and one of them. */
    int64_t leaks, first_leak, first_bytes, foreign_leaks;
    int64_t descriptors;
    char descriptor[256];
} fault_page;

/* What the process that starts a program asks its server for, and gets; see server.c. */
typedef struct fault_answer {
    int32_t status; /* of waitpid */
    int32_t hung;
} fault_answer;

/* Begins to count, and to let calls fail. path: only calls about a file of this name. */
void faults_begin(const fault_plan *plan, const char *path, fault_page *page);
void faults_end(void);

/* Between these two calls of the same thread no call fails. */
void faults_pause(void);
void faults_go_on(void);

/* Returns true if a call must fail, and sets errno. path and fd say what it is about: NULL and -1
 * if it is about no file. */
bool faults_hits(fault_kind kind, const char *path, int fd);

/* Blocks of memory between faults_begin and the end. */
void blocks_add(void *block, uint64_t bytes, void *caller);
void blocks_drop(void *block);
void blocks_find_leaks(fault_page *page);
