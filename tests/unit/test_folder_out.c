/* Folders that nobody else can have put files into. */
#include "base/folder_out.h"

#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char root[] = "/tmp/own-folder-XXXXXX";

static const char *in_root(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void remove_root(char **path)
{
    (void)path;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
}

#define IN_ROOT()                                                                                  \
    OWN(remove_root) char *made = mkdtemp(root);                                                   \
    CHECK(made != NULL)

/* e.text with the name of the scratch folder as X. */
static void check_refused(const char *name, const char *want)
{
    kv_err e = {0};
    char text[200];
    int fd = -1;
    CHECK_INT(own_folder_open(&fd, in_root(name), &e), KV_E_IO);
    CHECK_INT(fd, -1);
    const char *at = strstr(e.text, root);
    CHECK(at != NULL);
    snprintf(text, sizeof text, "%.*sX%s", (int)(at - e.text), e.text, at + strlen(root));
    CHECK_TEXT(text, want);
}

TEST(own_folder_is_made_for_this_user_alone)
{
    struct stat about, again;
    int fd = -1;
    IN_ROOT();
    CHECK_OK(own_folder_open(&fd, in_root("a/b/c"), &e));
    CHECK(fstat(fd, &about) == 0 && stat(in_root("a/b/c"), &again) == 0);
    CHECK(about.st_ino == again.st_ino && (about.st_mode & 07777) == 0700);
    CHECK(stat(in_root("a"), &about) == 0 && (about.st_mode & 07777) == 0700);
    close(fd);
    CHECK_OK(own_folder_open(&fd, in_root("a/b/c"), &e)); /* and one that is there is taken */
    close(fd);
    CHECK(chmod(in_root("a/b/c"), 0755) == 0); /* others may read */
    CHECK_OK(own_folder_open(&fd, in_root("a/b/c"), &e));
    close(fd);
}

TEST(own_folder_refuses_what_others_can_change)
{
    IN_ROOT();
    CHECK(mkdir(in_root("group"), 0700) == 0 && chmod(in_root("group"), 0770) == 0);
    check_refused("group", "other users may write into \"X/group\"");
    CHECK(mkdir(in_root("all"), 0700) == 0 && chmod(in_root("all"), 01777) == 0);
    check_refused("all", "other users may write into \"X/all\"");
    CHECK(symlink("/", in_root("link")) == 0);
    check_refused("link", "\"X/link\" is a link");
    FILE *f = fopen(in_root("file"), "w");
    CHECK(f && fclose(f) == 0);
    check_refused("file", "cannot open \"X/file\": Not a directory");
    check_refused("file/below", "cannot open \"X/file/below\": Not a directory");
}

TEST(own_folder_refuses_that_of_another_user)
{
    if (geteuid() != 0)
        test_skip("only root can give a folder away");
    IN_ROOT();
    CHECK(mkdir(in_root("theirs"), 0700) == 0 && chown(in_root("theirs"), 65534, 65534) == 0);
    check_refused("theirs", "\"X/theirs\" belongs to another user");
}
