/* What stands at a path while it is opened and read: files that are replaced, removed, enormous,
 * and what is no file. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/stop.h"
#include "checkpoint/tensor_reader.h"
#include "test_checkpoint.h"

static checkpoint *open_path(const char *path)
{
    return MADE(checkpoint, checkpoint_open, path, NULL);
}

#define X_HEADER "{\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}"

static void check_data(const checkpoint *c, const char *want)
{
    const void *data;
    tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    CHECK_OK(tensor_read(r, &data, 0, 0, 3, &e));
    CHECK(memcmp(data, want, 3) == 0);
    CHECK_OK(tensor_reader_check(r, &e));
    tensor_reader_free(r);
    own_array *a = MADE(kv_array, checkpoint_load, c, 0);
    CHECK_OK(kv_array_read(a, &data, &e));
    CHECK(memcmp(data, want, 3) == 0);
}

TEST(checkpoint_hostile_replaced)
{
    own_folder d = folder_new();
    char old[300];
    folder_header(&d, "m.safetensors", X_HEADER, "old", 3);
    folder_header(&d, "new", X_HEADER, "new", 3);
    strcpy(old, folder_file(&d, "m.safetensors"));
    own_checkpoint *c = open_path(old);
    CHECK(rename(folder_file(&d, "new"), old) == 0);
    check_data(c, "old");
    CHECK(unlink(old) == 0);
    check_data(c, "old");
}

/* Cut between the header and the data: each way to read says so. */
TEST(checkpoint_hostile_cut)
{
    own_folder d = folder_new();
    char path[300], want[400];
    const void *data;
    kv_array *a = NULL;
    folder_header(&d, "m.safetensors", X_HEADER, "old", 3);
    strcpy(path, folder_file(&d, "m.safetensors"));
    snprintf(want, sizeof want, "%s: the file became shorter while it was read", path);
    own_checkpoint *c = open_path(path);
    CHECK(truncate(path, 8 + (off_t)strlen(X_HEADER) + 2) == 0);
    tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    CHECK_ERR(tensor_read(r, &data, 0, 0, 3, &e), KV_E_IO, want);
    tensor_reader_free(r);
    CHECK_ERR(checkpoint_load(&a, c, 0, &e), KV_E_IO, want);
}

/* 10 TB of which nothing is on the disk, with a tensor at the end. */
TEST(checkpoint_hostile_enormous)
{
    own_folder d = folder_new();
    const void *data;
    char header[300], path[300];
    const int64_t huge = 10000000000000;
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[%lld,4],\"data_offsets\":[0,%lld]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[%lld,%lld]}}",
             (long long)huge / 3, (long long)huge / 3 * 3, (long long)huge / 3 * 3,
             (long long)huge / 3 * 3 + 3);
    folder_header(&d, "m.safetensors", header, "", 0);
    strcpy(path, folder_file(&d, "m.safetensors"));
    if (truncate(path, 8 + (off_t)strlen(header) + huge / 3 * 3 + 3) != 0) {
        folder_remove(&d);
        test_skip("the file system has no files of 10 TB");
    }
    own_checkpoint *c = open_path(path);
    CHECK_INT(checkpoint_at(c, 0)->bytes, huge / 3 * 3);
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    CHECK_OK(tensor_read(r, &data, 1, 0, 3, &e));
    CHECK_OK(tensor_read(r, &data, 0, huge / 3 * 3 - 3, 3, &e));
    CHECK(memcmp(data, "\0\0", 3) == 0);
}

TEST(checkpoint_hostile_no_file)
{
    own_folder d = folder_new();
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    folder_refused(&d, "/dev/zero", KV_E_IO,
                   "/dev/zero: a device, which may have no end; - reads stdin", "");
    folder_refused(&d, "/proc/self/status", KV_E_FORMAT, "/proc/self/status: the file is empty",
                   "");
    folder_refused(&d, "", KV_E_IO, "cannot read \"\": No such file or directory", "");
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(strlen(folder_file(&d, "m.safetensors")) < sizeof at.sun_path);
    strcpy(at.sun_path, folder_file(&d, "m.safetensors"));
    CHECK(bind(s, (struct sockaddr *)&at, sizeof at) == 0);
    folder_refused(&d, at.sun_path, KV_E_IO,
                   "cannot read \"%/m.safetensors\": No such device or address", "");
    folder_refused(&d, d.path, KV_E_IO, "%/m.safetensors: a shard has to be a regular file", "");
    close(s);
}

static int stop_soon(void)
{
    static int asked;
    return ++asked > 20;
}

/* A stream without an end, which is never waited for, ends when it is asked to. */
TEST(checkpoint_hostile_endless_stream)
{
    checkpoint *c = NULL;
    int fd = open("/dev/zero", O_RDONLY);
    CHECK(dup2(fd, STDIN_FILENO) == STDIN_FILENO && close(fd) == 0);
    stop_ask(stop_soon);
    CHECK_ERR(checkpoint_open(&c, "-", NULL, &e), KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
}

TEST(checkpoint_hostile_no_stdin)
{
    checkpoint *c = NULL;
    close(STDIN_FILENO);
    CHECK_CODE(checkpoint_open(&c, "-", NULL, &e), KV_E_IO);
    CHECK(open("/dev/null", O_WRONLY) == STDIN_FILENO);
    CHECK_ERR(checkpoint_open(&c, "-", NULL, &e), KV_E_IO,
              "cannot read \"stdin\": Bad file descriptor");
}

/* Headers are asked to end, too. */
TEST(checkpoint_hostile_header_interrupted)
{
    own_folder d = folder_new();
    own_checkpoint *c = NULL;
    own_buf header = {0};
    for (int i = 0; i < 100000; i++)
        buf_printf(&header, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                   i ? "," : "{", i);
    buf_char(&header, '}');
    folder_header(&d, "m.safetensors", buf_text(&header), "", 0);
    stop_ask(stop_soon);
    CHECK_ERR(checkpoint_open(&c, folder_file(&d, "m.safetensors"), NULL, &e), KV_E_INTERRUPTED,
              "interrupted");
    stop_ask(NULL);
    c = open_path(folder_file(&d, "m.safetensors"));
    CHECK_INT(checkpoint_count(c), 100000);
}
