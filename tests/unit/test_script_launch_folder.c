/* The folder of a job on a host: who ends last takes it away, whoever began to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/launch_folder.h"
#include "test.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

TEST(script_launch_folder)
{
    char folder[4096];
    kv_err e = {0};
    CHECK_OK(folder_new(folder, NULL, &e));
    int first = folder_hold(folder), second = folder_hold_existing(folder);
    CHECK(first >= 0 && second >= 0);
    close(first);
    folder_remove_last(folder); /* the second holds it */
    CHECK(is_there(folder));
    /* Another process removes it, and meanwhile the second writes: a part stays. */
    folder_remove(folder);
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(folder_tell(folder, "3 exit 0\n"));
    close(second);
    folder_remove_free(folder); /* it may be a folder that is about to be held */
    CHECK(is_there(folder));
    folder_remove_last(folder);
    CHECK(!is_there(folder));
    CHECK_INT(folder_hold_existing(folder), -1);
    folder_remove_last(folder);
}
