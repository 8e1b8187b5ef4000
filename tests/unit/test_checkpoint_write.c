/* Outputs: their bytes, what stands in the folder before, during and after, and every failure. */
#include "checkpoint/checkpoint_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "../memory.h"
#include "test.h"

static char folder[64];

static bool enter(void)
{
    return mkdtemp(memory_path(folder, sizeof folder, "kv-write")) && chdir(folder) == 0;
}

/* Removes the folder, and in it files and folders of files. */
static void leave(const bool *entered)
{
    (void)entered;
    DIR *d = opendir(".");
    for (struct dirent *entry; (entry = readdir(d));) {
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!dots && unlink(entry->d_name) != 0)
            file_remove_folder(entry->d_name);
    }
    closedir(d);
    CHECK(chdir("/") == 0 && rmdir(folder) == 0);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Enters a folder, which the end of the test removes. */
#define IN_SCRATCH()                                                                               \
    OWN(leave) bool entered = enter();                                                             \
    CHECK(entered)

/* The names in a folder, sorted, with blanks between them; borrowed until the next call. */
static const char *names_in(const char *path)
{
    static char all[4096];
    char *names[64];
    int n = 0;
    DIR *d = opendir(path);
    all[0] = '\0';
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names[n++] = strdup(entry->d_name);
    }
    if (d)
        closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n; i++) {
        strcat(strcat(all, i ? " " : ""), names[i]);
        free(names[i]);
    }
    return all;
}

static void holds(const char *path, const char *want, size_t n)
{
    size_t got;
    own_text *text = file_text(path, &got);
    CHECK_INT(got, n);
    CHECK(memcmp(text, want, n) == 0);
}

static void put_text(const char *path, const char *text)
{
    file_fill(path, text, strlen(text));
}

/* BOOL [true, false, true] as "on", F32 [[1, 2, 3], [4, 5, 6]] as "w": the floats come first in the
 * data, for their alignment. */
static const int64_t three[] = {3}, matrix[] = {2, 3};
static const checkpoint_entry entries[] = {{"on", TENSOR_BOOL, 1, three},
                                           {"w", TENSOR_F32, 2, matrix},
                                           {"none", TENSOR_F4, 1, (int64_t[]){0}}};
static const checkpoint_text metadata[] = {{"format", "pt"}};
static const float numbers[] = {1, 2, 3, 4, 5, 6};

#define FLOATS "\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xA0\x40\0\0\xC0\x40"

static const char pinned[] = "\xD0\0\0\0\0\0\0\0"
                             "{\"__metadata__\":{\"format\":\"pt\"},"
                             "\"on\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[24,27]},"
                             "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                             "\"none\":{\"dtype\":\"F4\",\"shape\":[0],\"data_offsets\":[27,27]}}"
                             "      " FLOATS "\1\0\1";

/* What shards of 3 bytes hold, besides the index. */
static const char first[] = "\x58\0\0\0\0\0\0\0"
                            "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}"
                            FLOATS;

/* npz has no F4: only the first two go there. */
static int64_t entries_for(const char *path)
{
    return strstr(path, ".npz") ? 2 : 3;
}

static int fill(checkpoint_out *out, kv_err *e)
{
    TRY(checkpoint_out_put(out, 1, 20, numbers + 5, 4, e));
    TRY(checkpoint_out_put(out, 0, 0, "\1\0\1", 3, e));
    TRY(checkpoint_out_put(out, 1, 0, NULL, 0, e));
    return checkpoint_out_put(out, 1, 0, numbers, 20, e);
}

static int write_out(const char *path, const checkpoint_out_options *o, kv_err *e)
{
    checkpoint_out *out = NULL;
    TRY(checkpoint_out_open(&out, path, entries, entries_for(path), metadata, 1, o, e));
    int code = fill(out, e);
    if (!code)
        return checkpoint_out_commit(out, e);
    checkpoint_out_abandon(out);
    return code;
}

TEST(checkpoint_write_file)
{
    IN_SCRATCH();
    checkpoint_out *out;
    CHECK_OK(write_out("x.safetensors", NULL, &e));
    holds("x.safetensors", pinned, sizeof pinned - 1);
    CHECK_OK(write_out("x.kvs", &(checkpoint_out_options){.unsynced = true}, &e));
    holds("x.kvs", pinned, sizeof pinned - 1);
    put_text("x.kvs", "old");
    CHECK_OK(checkpoint_out_open(&out, "x.kvs", entries, 3, metadata, 1, NULL, &e));
    holds("x.kvs", "old", 3);
    CHECK_OK(fill(out, &e));
    checkpoint_out_abandon(out);
    holds("x.kvs", "old", 3);
    CHECK_TEXT(names_in("."), "x.kvs x.safetensors");

    CHECK_OK(write_out("x.npz", NULL, &e));
    checkpoint *c = MADE(checkpoint, checkpoint_open, "x.npz", NULL);
    CHECK_INT(checkpoint_count(c), 2);
    kv_array *a;
    CHECK_OK(checkpoint_load_name(&a, c, "w", &e)); /* its checksum is checked */
    CHECK(memcmp(array_elements(a), numbers, sizeof numbers) == 0);
    kv_array_unref(a);
    checkpoint_close(c);

    CHECK_OK(checkpoint_out_open(&out, "0.safetensors", NULL, 0, NULL, 0, NULL, &e));
    CHECK_OK(checkpoint_out_commit(out, &e));
    holds("0.safetensors", "\x08\0\0\0\0\0\0\0{}      ", 16);
}

TEST(checkpoint_write_folder)
{
    IN_SCRATCH();
    struct stat about;
    static const checkpoint_out_options small = {.shard_bytes = 3, .force = true};
    umask(027);
    CHECK_OK(write_out("m//", NULL, &e));
    CHECK_TEXT(names_in("m"), "model.safetensors");
    holds("m/model.safetensors", pinned, sizeof pinned - 1);
    CHECK(stat("m", &about) == 0 && (about.st_mode & 07777) == 0750);
    CHECK(stat("m/model.safetensors", &about) == 0 && (about.st_mode & 07777) == 0640);
    CHECK_ERR(write_out("m/", NULL, &e), KV_E_USAGE, "the folder \"m/\" exists");

    /* replaced whole, and with the mode that it had */
    chmod("m", 0705);
    put_text("m/model-00007-of-00009.safetensors", "old");
    CHECK_OK(write_out("m/", &small, &e));
    CHECK_TEXT(names_in("m"), "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
                              "model.safetensors.index.json");
    CHECK(stat("m", &about) == 0 && (about.st_mode & 07777) == 0705);
    static const char index[] = "{\n"
                                "  \"metadata\": {\n"
                                "    \"total_size\": 27\n"
                                "  },\n"
                                "  \"weight_map\": {\n"
                                "    \"none\": \"model-00002-of-00002.safetensors\",\n"
                                "    \"on\": \"model-00002-of-00002.safetensors\",\n"
                                "    \"w\": \"model-00001-of-00002.safetensors\"\n"
                                "  }\n"
                                "}\n";
    holds("m/model.safetensors.index.json", index, sizeof index - 1);
    holds("m/model-00001-of-00002.safetensors", first, sizeof first - 1);

    /* through a link, which stays one; and a link that leads nowhere yet */
    CHECK(symlink("m", "link") == 0 && symlink("new", "dangling") == 0);
    CHECK_OK(write_out("link/", &(checkpoint_out_options){.force = true}, &e));
    CHECK_OK(write_out("dangling/", NULL, &e));
    CHECK(lstat("link", &about) == 0 && S_ISLNK(about.st_mode));
    CHECK_TEXT(names_in("m"), "model.safetensors");
    CHECK_TEXT(names_in("new"), "model.safetensors");
    CHECK_TEXT(names_in("."), "dangling link m new");
}

/* A link in a folder that is replaced goes, what it leads to does not. */
TEST(checkpoint_write_follows_no_link_away)
{
    IN_SCRATCH();
    CHECK(mkdir("m", 0777) == 0 && mkdir("other", 0777) == 0);
    put_text("other/kept", "kept");
    CHECK(symlink("../other", "m/link") == 0);
    CHECK_OK(write_out("m/", &(checkpoint_out_options){.force = true}, &e));
    CHECK_TEXT(names_in("other"), "kept");
    CHECK(mkdir("m/inner", 0777) == 0);
    CHECK_ERR(write_out("m/", &(checkpoint_out_options){.force = true}, &e), KV_E_USAGE,
              "cannot replace \"m/\": it holds the folder \"inner\"");
    CHECK_TEXT(names_in("."), "m other");
    CHECK(rmdir("m/inner") == 0);
}

TEST(checkpoint_write_refuses)
{
    IN_SCRATCH();
    checkpoint_out *out;
    static const checkpoint_out_options force = {.force = true};
    CHECK(mkdir("f.safetensors", 0777) == 0 && mkfifo("p.kvs", 0777) == 0);
    put_text("file", "kept");
    CHECK_ERR(write_out("m.pt", NULL, &e), KV_E_USAGE,
              "\"m.pt\": nothing says in which format to write it");
    static const char *const places[][2] = {{"no/x.kvs", "No such file or directory"},
                                            {"no/x/", "No such file or directory"},
                                            {"f.safetensors", "Is a directory"},
                                            {"p.kvs", "it is not a regular file"},
                                            {"file/", "Not a directory"}};
    for (int i = 0; i < 5; i++) {
        char want[80];
        snprintf(want, sizeof want, "cannot write \"%s\": %s", places[i][0], places[i][1]);
        CHECK_ERR(write_out(places[i][0], &force, &e), KV_E_IO, want);
    }
    CHECK_CODE(write_out("/", &force, &e), KV_E_USAGE);
    const checkpoint_entry twice[] = {{"a", TENSOR_F32, 1, matrix}, {"a", TENSOR_U8, 1, three}};
    const checkpoint_entry latin[] = {{"\xE4", TENSOR_F32, 1, matrix}};
    const char *const paths[] = {"x/", "x.kvs", "x.npz", "x.params"};
    for (int i = 0; i < 4; i++) {
        char want[80];
        snprintf(want, sizeof want, "%s: two tensors have the name \"a\"", paths[i]);
        CHECK_ERR(checkpoint_out_open(&out, paths[i], twice, 2, NULL, 0,
                                      &(checkpoint_out_options){.shard_bytes = 1}, &e),
                  KV_E_VALUE, want);
        snprintf(want, sizeof want, "%s: the name of a tensor is not UTF-8", paths[i]);
        CHECK_ERR(checkpoint_out_open(&out, paths[i], latin, 1, NULL, 0, NULL, &e), KV_E_VALUE,
                  want);
    }
    const checkpoint_entry odd[] = {{"a", TENSOR_F4, 1, three}};
    CHECK_ERR(checkpoint_out_open(&out, "x/", odd, 1, NULL, 0, NULL, &e), KV_E_VALUE,
              "x/model.safetensors: tensor \"a\" has 3 elements, and those of dtype F4 would end "
              "within a byte");
    const checkpoint_entry quantised[] = {{"a", TENSOR_Q4_0, 1, (int64_t[]){32}}};
    CHECK_ERR(checkpoint_out_open(&out, "x.kvs", quantised, 1, NULL, 0, NULL, &e), KV_E_DTYPE,
              "x.kvs: \"a\" is quantised, Q4_0, which only GGUF files hold");
    CHECK_TEXT(names_in("."), "f.safetensors file p.kvs");
}

static bool cannot_exchange;
static int rename_fails; /* the call that does, from 1; 0: none */

/* In the place of those of the C library. */
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (!cannot_exchange)
        return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    errno = EINVAL;
    return -1;
}

int rename(const char *from, const char *to)
{
    if (rename_fails == 0 || --rename_fails > 0)
        return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = EACCES;
    return -1;
}

TEST(checkpoint_write_without_exchange)
{
    static const checkpoint_out_options force = {.force = true};
    IN_SCRATCH();
    cannot_exchange = true;
    CHECK_OK(write_out("m/", NULL, &e));
    for (int i = 0; i < 4; i++) { /* the first rename moves the old folder away */
        file_remove_folder("m");
        CHECK(mkdir("m", 0777) == 0);
        put_text("m/old", "old");
        rename_fails = i;
        if (i == 0 || i == 3)
            CHECK_OK(write_out("m/", &force, &e));
        else
            CHECK_ERR(write_out("m/", &force, &e), KV_E_IO,
                      "cannot write \"m/\": Permission denied");
        CHECK_TEXT(names_in("m"), i == 0 || i == 3 ? "model.safetensors" : "old");
        if (i < 3)
            CHECK_TEXT(names_in("."), "m");
    }
    /* what cannot be moved back to be removed stays, under another name */
    CHECK_INT(rename_fails, 0);
    CHECK(strstr(names_in("."), ".old m"));
}

static const char *const paths[] = {"x.safetensors", "x.npz", "x/"};
enum { NPATHS = sizeof paths / sizeof *paths };

/* What stood there before is there, and nothing else. */
static void check_old(void)
{
    CHECK_TEXT(names_in("."), "x x.npz x.safetensors");
    CHECK_TEXT(names_in("x"), "old");
    holds("x.safetensors", "old", 3);
    holds("x.npz", "old", 3);
}

static void put_old(void)
{
    file_remove_folder("x");
    CHECK(mkdir("x", 0777) == 0);
    put_text("x/old", "old");
    put_text("x.safetensors", "old");
    put_text("x.npz", "old");
}

/* Every allocation fails, with all that follow and alone: what was there stays, unless the failure
 * could be borne. */
TEST(checkpoint_write_without_memory)
{
    static const checkpoint_out_options o = {.shard_bytes = 3, .force = true, .unsynced = true};
    IN_SCRATCH();
    put_old();
    for (int i = 0; i < 2 * NPATHS; i++) {
        int64_t n, made;
        int code = KV_E_MEMORY, failures = 0;
        for (n = 1, made = 1; made >= n && n < 1000; n++) {
            e = (kv_err){0};
            mem_fail_at(i % 2 ? -n : n);
            code = write_out(paths[i / 2], &o, &e);
            made = mem_fail_at(0) + 1;
            failures += code != KV_OK;
            if (code) {
                CHECK_INT(code, KV_E_MEMORY);
                check_old();
            }
            put_old();
        }
        CHECK_INT(code, KV_OK);
        CHECK(failures > 10 && n < 1000);
    }
}

/* A limit on the bytes of a file makes each write in turn fail. */
TEST(checkpoint_write_without_room)
{
    IN_SCRATCH();
    static const checkpoint_out_options o = {.shard_bytes = 3, .force = true};
    signal(SIGXFSZ, SIG_IGN);
    put_old();
    for (int i = 0; i < NPATHS; i++, put_old()) {
        rlim_t n;
        for (n = 0; n < 600; n += 9) {
            e = (kv_err){0};
            CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){n, RLIM_INFINITY}) == 0);
            int code = write_out(paths[i], &o, &e);
            CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
            if (!code)
                break;
            CHECK_INT(code, KV_E_IO);
            CHECK(strstr(e.text, "File too large"));
            check_old();
        }
        CHECK(n > 9 && n < 600);
    }
}

/* A writer that is killed leaves what was there; the next one removes its remains. */
TEST(checkpoint_write_killed)
{
    IN_SCRATCH();
    put_old();
    for (int i = 0; i < NPATHS; i++) {
        static const checkpoint_out_options o = {.shard_bytes = 3, .force = true};
        checkpoint_out *out;
        pid_t child = fork();
        if (child == 0) {
            int64_t n = entries_for(paths[i]);
            if (!checkpoint_out_open(&out, paths[i], entries, n, metadata, 1, &o, &e))
                fill(out, &e);
            raise(SIGKILL);
        }
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK(strstr(names_in("."), ".kv-"));
        CHECK_OK(write_out("new.kvs", &o, &e));
        CHECK(unlink("new.kvs") == 0);
        check_old();
    }
}
