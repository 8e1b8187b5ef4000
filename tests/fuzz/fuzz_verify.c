/* A page of `--verify`: its entries are found, run with --safe and compared. */
#include "fuzz.h"

#include "pages.h"
#include "scripts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    session s;
    kv_err e = {0};
    static bool made;
    if (!made)
        fuzz_file("page.md", data, 0); /* before the session looks at its folder */
    made = true;
    scripts_begin(&s, 300);
    fuzz_file("page.md", data, n);
    fuzz_result(verify_file(&s, "page.md", false, &e), &e);
    fuzz_file("page.md", data, 0);
    session_release(&s);
    return 0;
}
