/* Compiles rules for sm_90 by NVRTC, which needs no GPU and no driver; the first one also for a
 * device that is newer than any NVRTC, which gets PTX.
 *
 *     gpu_compile FILE…       each a whole source; TAP, one test a file and one more
 *
 * Exits with 77 where there is no NVRTC.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cuda/driver.h"

static void say(const kv_err *e)
{
    if (e->code)
        printf("# %s %s\n", e->text, e->hint);
}

/* A text that ends with its zero byte, for a device that there was before. */
static bool is_ptx(const char *image, int64_t bytes)
{
    return bytes > 0 && image[bytes - 1] == '\0' && strlen(image) == (size_t)bytes - 1 &&
           strstr(image, ".target sm_") && strstr(image, ".entry");
}

static bool compiles_for_later(const char *text)
{
    kv_err e = {0};
    void *image = NULL;
    int64_t bytes = 0;
    bool ok = driver_compile(&image, &bytes, text, 19, 9, &e) == KV_OK && is_ptx(image, bytes);
    say(&e);
    mem_free(image);
    return ok;
}

int main(int argc, char **argv)
{
    int failed = 0;
    bool later = false;
    for (int i = 1; i < argc; i++) {
        kv_err e = {0};
        char *text = NULL;
        size_t n;
        void *image = NULL;
        int64_t bytes = 0;
        int rc = file_read(argv[i], &text, &n, &e);
        if (!rc)
            rc = driver_compile(&image, &bytes, text, 9, 0, &e);
        if (rc && strstr(e.text, "NVRTC")) {
            printf("# SKIP %s\n", e.text);
            return 77;
        }
        say(&e);
        if (i == 1 && !rc)
            later = compiles_for_later(text);
        const char *slash = strrchr(argv[i], '/');
        printf("%sok %d - %s: %lld bytes\n", rc ? "not " : "", i, slash ? slash + 1 : argv[i],
               (long long)bytes);
        failed += rc != 0;
        mem_free(image);
        mem_free(text);
    }
    printf("%sok %d - PTX for a device that is newer than the compiler\n", later ? "" : "not ",
           argc);
    printf("1..%d\n", argc);
    return failed > 0 || !later;
}
