/* What kvctl launch reads of a checkpoint: src/distributed/checkpoint.h says what it is. */
#include "base/file.h"
#include "kvstore.h"
#include "launch/launch_job.h"

int launch_round(const char *path, int64_t *round, kv_err *e)
{
    kv *store;
    kv_info info;
    bool there;
    *round = 0;
    int rc = file_look(path, &there, e);
    if (rc || !there || (rc = kv_load(&store, path, e)))
        return rc;
    for (int64_t i = 0; i < kv_num_keys(store) && !rc; i++) {
        rc = kv_info_at(store, i, &info, e);
        *round = !rc && info.pushes > *round ? info.pushes : *round;
    }
    kv_free(store);
    if (!rc && *round == 0)
        rc = file_bad(e, KV_E_VALUE, path, "no checkpoint of a job: nothing was pushed");
    return rc;
}
