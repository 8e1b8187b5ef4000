/* What `help launch` shows. */
#include "tools/launch_job.h"

void launch_help(buf *out)
{
    static const char text[] =
        "usage: kvctl launch -n WORKERS [-s SERVERS] [OPTIONS] FILE [ARG...]\n\n"
        "Runs a script as a job, through Open MPI: WORKERS ranks run it, and `create dist_sync`\n"
        "in it joins them. The first word that is no option of launch begins the words of kvctl\n"
        "in every worker: a FILE, or -c 'COMMANDS'.\n\n"
        "  -n WORKERS           how many ranks run the script (--num-workers)\n"
        "  -s SERVERS           ranks that only keep keys (kvctl serve); without it the workers\n"
        "                       keep them (--num-servers)\n"
        "  --deadline SEC       how long a rank may be silent, or be missing at the start (10)\n"
        "  --timeout SEC        end the job after SEC seconds, with exit code 6\n"
        "  --env NAME[=VALUE]   a variable for all ranks; with --env-worker and --env-server for\n"
        "                       those of one kind; without a VALUE the one that it has here\n"
        "  --checkpoint FILE    keep the store in FILE, and go on from there if it exists\n"
        "  --checkpoint-every N write it every N rounds\n"
        "  --max-restarts N     begin again from FILE when a rank was lost, at most N times (0)\n"
        "  --dry-run            print the command, or the job for a queue, and start nothing\n\n"
        "Where ranks are started:\n\n"
        "  --launcher local     on this machine; so without a launcher\n"
        "  --launcher ssh       on the hosts of a file, over ssh; so with -H\n"
        "  --launcher mpi       where Open MPI says, or on the hosts of a file\n"
        "  --launcher sge|slurm on hosts that Grid Engine or Slurm gives\n"
        "  --launcher yarn      in one container of YARN\n"
        "  -H, --hostfile FILE  the hosts, a line each: HOST[:PORT] [slots=N] (ssh, mpi)\n"
        "  --sync-dst-dir DIR   copy this folder to DIR on each host, and run there (ssh)\n"
        "  --queue NAME         the queue, or partition (sge, slurm, yarn)\n"
        "  --queue-timeout SEC  give up when the job has not started by then (sge, slurm, yarn)\n"
        "  --pe NAME            the parallel environment (sge; orte)\n"
        "  --memory MB          for each rank (yarn; 1024)\n\n"
        "Every line of a rank begins with its number, [1], or [s0] for the first server. Ctrl-C\n"
        "and SIGTERM go to every rank, stdin goes to rank 0. The exit code is that of the first\n"
        "rank that failed; when one is killed or silent the others end, and it is 6.\n\n"
        "A script that begins again runs from its first line. What init makes has the values of\n"
        "FILE then, and the optimizer its states; `for i in range(rounds(), 400) { ... }` makes\n"
        "the rounds of 400 that are left. FILE is a store, of dist_sync or dist_device_sync, that\n"
        "kvctl -s reads; the variables of the script are not in it. Without FILE, as at first,\n"
        "the job begins anew.\n\n"
        "Under plain `mpirun -n 2 kvctl FILE` the same script runs, and mpirun decides all that.\n";
    buf_add(out, text);
}
