/* Compiles rules for sm_90 by NVRTC, which needs no GPU and no driver.
 *
 *     gpu_compile FILE…       each a whole source; TAP, one test a file
 *
 * Exits with 77 where there is no NVRTC.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cuda/driver.h"

int main(int argc, char **argv)
{
    int failed = 0;
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
        if (rc)
            printf("# %s %s\n", e.text, e.hint);
        const char *slash = strrchr(argv[i], '/');
        printf("%sok %d - %s: %lld bytes\n", rc ? "not " : "", i, slash ? slash + 1 : argv[i],
               (long long)bytes);
        failed += rc != 0;
        mem_free(image);
        mem_free(text);
    }
    printf("1..%d\n", argc - 1);
    return failed > 0;
}
