/* Where tests write their files: in memory where there is such a file system, since much of what is
 * tested waits until its file is on the disk. scripts/test names a folder of its own in
 * $TEST_MEMORY and removes it, whatever ended a test. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

/* The pattern for mkdtemp or mkstemp of a NAME there. */
static inline char *memory_path(char *path, size_t n, const char *name)
{
    const char *folder = getenv("TEST_MEMORY");
    struct statvfs room;
    if (!folder)
        folder = statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_frsize >= 1u << 30
                     ? "/dev/shm"
                     : "/tmp";
    if (snprintf(path, n, "%s/%s-XXXXXX", folder, name) >= (int)n)
        abort();
    return path;
}
