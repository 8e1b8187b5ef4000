/* NCCL of this machine has the functions that cuda/nccl_table.h names; no GPU needs to be there.
 * TAP. */
#include <stdio.h>
#include <string.h>

#include "cuda/nccl_table.h"

int main(void)
{
    kv_err e = {0};
    const nccl *f;
    int version = 0, rc = nccl_open(&f, &e);
    puts("1..1");
    if (rc && strstr(e.text, "cannot be loaded")) {
        printf("ok 1 - NCCL # SKIP %s\n", e.text);
        return 0;
    }
    if (!rc)
        rc = f->version(&version);
    bool ok = !rc && version >= 21000 && f->text(0) && f->connect && f->stop && f->begin &&
              f->end && f->reduce && f->broadcast;
    printf("%sok 1 - NCCL %d.%d.%d: %s\n", ok ? "" : "not ", version / 10000, version / 100 % 100,
           version % 100, e.text);
    return !ok;
}
