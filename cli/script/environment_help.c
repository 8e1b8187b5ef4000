/* The page on environment variables. tests/cli/help.bats compares it with what the source
 * reads. */
#include "script/environment_help.h"

void environment_help(buf *out)
{
    static const char text[] =
        "Of kvctl; an option wins over its variable:\n"
        "  KVCTL_STORE            the state file, as -s FILE\n"
        "  KVCTL_RC               the prompt's start file, as --rc; empty: none\n"
        "                         ($XDG_CONFIG_HOME/kvctl/rc, ~/.config/kvctl/rc)\n"
        "  KVCTL_HISTORY          where the prompt remembers what was typed, as --history, or off\n"
        "                         ($XDG_STATE_HOME/kvctl/history, ~/.local/state/kvctl/history)\n"
        "  NO_COLOR               when it is not empty: no colours, as --no-color\n"
        "  TERM, LC_ALL, PAGER, LESS  as everywhere; TERM=dumb: no colours and no editing\n"
        "  TMPDIR                 where launch and doctor have their files (/tmp)\n"
        "  HADOOP_HOME            where launch --launcher yarn finds Hadoop\n"
        "Of the library:\n"
        "  KVSTORE_THREADS        how many threads work (one a processor)\n"
        "  KVSTORE_PLUGINS        folders, joined by :, where plugins are looked for before the\n"
        "                         library's own\n"
        "  XDG_CACHE_HOME         kvctl/ in it keeps compiled rules of GPUs (~/.cache)\n"
        "Of jobs of several ranks; launch --env NAME=VALUE sets one for all ranks:\n"
        "  KVSTORE_TIMEOUT        seconds that a wait for other ranks may take; 0: for ever (300)\n"
        "  KVSTORE_DEADLINE       seconds that a rank may be silent; under launch: --deadline "
        "(10)\n"
        "  KVSTORE_AHEAD          bytes that a worker may be ahead of the servers (268435456)\n"
        "  KVSTORE_SHARED_MEMORY  0: ranks of one machine talk as those of several do\n"
        "  KVSTORE_SERVERS        how many ranks only serve; under launch: -s\n"
        "  KVSTORE_CHECKPOINT, KVSTORE_CHECKPOINT_EVERY, KVSTORE_CHECKPOINT_ROUND,\n"
        "  KVSTORE_RUN_DIR        launch sets these for its ranks\n"
        "  OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK, PMIX_RANK  set by Open MPI: a rank of a "
        "job\n"
        "Of MXNet; they are not read, and this stands for them:\n"
        "  MXNET_KVSTORE_REDUCTION_NTHREADS  KVSTORE_THREADS\n"
        "  MXNET_KVSTORE_BIGARRAY_BOUND      nothing: arrays of 1000000 elements or more are\n"
        "                                    spread over all servers (info: spread_elements)\n"
        "  MXNET_ENABLE_GPU_P2P              nothing: GPUs that reach each other do so (doctor)\n"
        "  MXNET_GPU_MEM_POOL_TYPE, MXNET_KVSTORE_USETREE  nothing\n"
        "  DMLC_ROLE, DMLC_RANK, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI,\n"
        "  DMLC_PS_ROOT_PORT, DMLC_INTERFACE  kvctl launch -n WORKERS -s SERVERS, or mpirun\n"
        "  PS_VERBOSE                        explain on, info --cluster\n"
        "  PS_RESEND, PS_HEARTBEAT_TIMEOUT   launch --deadline\n";
    buf_add(out, text);
}
