/* The options of kvctl launch. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "kv_err.h"
#include "options/shell_option.h"

/* ---- launch ---- */

/* Every launcher, by the name that --launcher takes. */
#define LAUNCHERS(X)                                                                               \
    X(LAUNCH_LOCAL, "local") /* mpirun on this machine */                                          \
    X(LAUNCH_MPI, "mpi")     /* mpirun, which knows the hosts or is told them */                   \
    X(LAUNCH_SSH, "ssh")     /* mpirun, which starts its daemons over ssh */                       \
    X(LAUNCH_SGE, "sge")     /* qsub of a job in which launch runs as mpi */                       \
    X(LAUNCH_SLURM, "slurm") /* salloc of hosts, and launch runs as mpi */                         \
    X(LAUNCH_YARN, "yarn")   /* one container of YARN, in which launch runs as local */            \
    X(LAUNCH_K8S, "k8s")     /* pods of Kubernetes, in one of which launch runs as ssh */

typedef enum launcher {
#define LAUNCHER_ENUM(id, name) id,
    LAUNCHERS(LAUNCHER_ENUM)
#undef LAUNCHER_ENUM
        LAUNCHER_NONE
} launcher;

/* The meaning of a lost worker. */
typedef enum launch_losses {
    LOSSES_END,   /* the job ends, or begins again */
    LOSSES_ASYNC, /* the others go on where no round waits for all workers */
    LOSSES_GO_ON  /* the others go on: --elastic */
} launch_losses;

/* A variable that ranks get. */
typedef struct launch_variable {
    char role;  /* 'w', 's': of workers, of servers alone; 'a': of all */
    char *text; /* NAME=VALUE, owned */
    bool by_name; /* the value is that of the variable here */
} launch_variable;

/* A PersistentVolumeClaim of Kubernetes, and where pods mount it. */
typedef struct launch_volume {
    char claim[256];
    const char *path;
} launch_volume;

struct job;
struct signal_masks;
struct options;

typedef struct launch_options {
    launcher by;
    int workers, servers; /* workers: and the spares, once launch.c has looked at them */
    int spares;
    double deadline, timeout, queue_timeout; /* seconds; 0: none */
    const char *checkpoint;                  /* or NULL */
    const char *every;                       /* rounds between two of them, or seconds: "30s" */
    int restarts;                            /* at most */
    const char *hostfile, *sync_folder;      /* or NULL */
    const char *queue, *pe;                  /* or NULL */
    int memory;                              /* MB of a rank; 0: not said */
    int cpus, gpus, slots;                   /* of a rank; ranks of a pod; 0: not said */
    const char *image, *name, *name_space; /* of pods, of the job; or NULL; launch.c finds a name */
    const char **files;                      /* nfiles of them: what the script reads */
    int64_t nfiles, files_cap;
    launch_volume *volumes;
    int64_t nvolumes, volumes_cap;
    bool dry_run, help, elastic;
    launch_losses losses; /* found by launch.c */
    launch_variable *variables;
    int64_t nvariables, cap;
    bool forgets; /* its loop pushes, and it never asks for rounds(): note_rounds() */
    bool python;  /* the words are a program of Python and its arguments, not those of kvctl */
    char **words; /* of each worker's command line */
    int nwords;
    int (*foresee)(const struct options *worker); /* those of the tool, from main.c */
    bool prompt;  /* launch reads entries, and sends them to the workers */
    bool stops;   /* the first entry that fails ends the job */
    /* runs the prompt; NULL: there is none */
    void (*talk)(void *talker, struct job *j, const struct signal_masks *m);
    void *talker;
} launch_options;

extern const shell_table launch_table;

/* Appends what `help launch` and `kvctl launch --help` show. */
void launch_help(buf *out);

/* "ssh" */
const char *launcher_name(launcher by);

/* Reads the words of launch up to those of the workers. The first `front` of argv are options that
 * stood in front of `launch`: they are moved to the words of the workers, which begin with them.
 * Errors: usage, memory, value (a variable that is not set here). On failure too the options are to
 * be released. */
int launch_options_parse(launch_options *o, int argc, char **argv, int front, kv_err *e);
void launch_options_release(launch_options *o);

/* ---- attach and jobs ---- */

typedef struct attach_options {
    shell_texts entries;
    int rank; /* -1: not said */
    bool help, json;
    bool quiet; /* no notes */
    const char *job; /* NULL: not said */
    buf words;       /* behind the job, the last one of entries */
} attach_options;

typedef struct jobs_options {
    const char *job; /* whose ranks are shown; NULL: all jobs are */
    bool help, json;
    bool quiet; /* no line when there is no job */
} jobs_options;

extern const shell_table attach_table, jobs_table;

/* The texts of `help attach` and `help jobs`, also shown by --help. */
void attach_help(buf *out);
void jobs_help(buf *out);

/* Reads the words of attach. Errors: usage, memory; the options are to be released then, too. */
int attach_options_parse(attach_options *o, int argc, char **argv, kv_err *e);
void attach_options_release(attach_options *o);

/* Reads the words of jobs. Error: usage. */
int jobs_options_parse(jobs_options *o, int argc, char **argv, kv_err *e);

/* ---- Texts ---- */

/* Each is in a file of its name in launch/texts, from which the build takes it. Those of jobs of
 * queues and of Kubernetes are templates for launch_fill, but for the files that pods get. */
extern const char text_launch_help[], text_attach_help[], text_jobs_help[];
extern const char text_sge_job[], text_slurm_job[], text_yarn_job[];
extern const char text_k8s_map[], text_k8s_secret[], text_k8s_job[], text_k8s_pod[];
extern const char text_k8s_launcher[], text_k8s_ssh[], text_k8s_ssh_config[], text_k8s_worker[];
