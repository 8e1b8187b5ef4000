/* The folder of a job on a host: the last process to end removes it, and none ends before. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/launch_folder.h"
#include "test.h"

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Other users of a host neither read nor write what a job keeps there. */
TEST(script_launch_folder_is_private)
{
    char folder[4096], path[FOLDER_PATH];
    const char *const files[] = {"held", "events"};
    struct stat s;
    mode_t mask = umask(0);
    CHECK_OK(folder_new(folder, NULL, &e));
    int held = folder_hold(folder, "held");
    CHECK(held >= 0 && folder_add(folder, "events", 3, "exit 0"));
    umask(mask);
    CHECK(stat(folder, &s) == 0);
    CHECK_INT(s.st_mode & 07777, 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        folder_path(folder, path, files[i]);
        CHECK(stat(path, &s) == 0);
        CHECK_INT(s.st_mode & 07777, 0600);
    }
    close(held);
    folder_remove_free(folder, true);
    CHECK(!is_there(folder));
}

TEST(script_launch_folder)
{
    char folder[4096];
    CHECK_OK(folder_new(folder, NULL, &e));
    int launch = folder_hold(folder, "launch"), watcher = folder_hold(folder, "held");
    int second = folder_hold_existing(folder);
    CHECK(launch >= 0 && watcher >= 0 && second >= 0);
    close(watcher);
    folder_remove_free(folder, true); /* launch will do it */
    CHECK(is_there(folder));
    close(launch);
    folder_remove_free(folder, false); /* the second holds it */
    CHECK(is_there(folder));
    /* Another process removes it, and meanwhile the second writes: a part stays. */
    folder_remove(folder);
    CHECK(mkdir(folder, 0700) == 0);
    CHECK(folder_add(folder, "events", 3, "exit 0"));
    close(second);
    folder_remove_free(folder, false); /* it may be a folder that is about to be held */
    CHECK(is_there(folder));
    folder_remove_free(folder, true);
    CHECK(!is_there(folder));
    CHECK_INT(folder_hold_existing(folder), -1);
    folder_remove_free(folder, true);
}

TEST(script_launch_folder_waits)
{
    char folder[4096];
    CHECK_OK(folder_new(folder, NULL, &e));
    int held = folder_hold(folder, "held");
    CHECK(held >= 0);
    pid_t other = fork();
    if (other == 0) {
        usleep(200000); /* its rank is slow to end */
        close(held);
        folder_remove_free(folder, true);
        _exit(0);
    }
    close(held);
    folder_remove_free(folder, true);
    CHECK(!is_there(folder));
    CHECK_INT(waitpid(other, NULL, 0), other);
}

/* A process that is killed while it removes a folder leaves what the next job removes. */
TEST(script_launch_folder_half_removed)
{
    char folder[4096], inside[FOLDER_PATH];
    CHECK_OK(folder_new(folder, NULL, &e));
    close(folder_hold(folder, "held"));
    folder_path(folder, inside, "stays"); /* a folder cannot be unlinked */
    CHECK(mkdir(inside, 0700) == 0);
    folder_remove_free(folder, false);
    CHECK(is_there(folder));
    CHECK(rmdir(inside) == 0);
    folder_remove_free(folder, false);
    CHECK(!is_there(folder));
}
