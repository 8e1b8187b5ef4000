/* Every word and text of the user stands in the ConfigMap, in a script of the shell or as a file,
 * and values of variables in the Secret: Kubernetes would replace $(NAME) in the command of a pod.
 * What stands elsewhere is a name of a narrow kind or in quotes. */
#include "launch/launch_job.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "launch/launch_command.h"
#include "options/options.h"
#include "term/terminal.h"

enum {
    MOST_LABEL = 63,      /* of RFC 1123 */
    K8S_NAME = 64,        /* names obey RFC 1123, and end before what the operator appends */
    MOST_BYTES = 1 << 20, /* of a ConfigMap or a Secret, all values together */
    HOSTS_SECONDS = 600   /* until all pods answer, unless --queue-timeout says it */
};

/* Where a pod finds the ConfigMap, and the file of hosts that the operator puts there. Texts have
 * these paths, too. */
#define MOUNTED   "/mnt/kvctl"
#define HOST_FILE "/etc/mpi/hostfile"

/* ---- Files of a pod ---- */

/* text_k8s_launcher: the operator gives all pods one key; here it is that of the hosts too, so that
 * ssh knows them. Daemons of Open MPI would start others from their hosts, which have no such ssh.
 * text_k8s_ssh is the first ssh in $PATH, and becomes the next one. text_k8s_worker: ranks get the
 * paths of the image. The folder of the key is open to all users of the pod, as Kubernetes mounts
 * it, which sshd would refuse. */

typedef struct k8s_file {
    char key[32];        /* in the ConfigMap */
    const char *path;    /* in the pod, below MOUNTED; its folder and name */
    const char *folder;
    const char *bytes;
    char *read; /* these, of a script; NULL: they are of kvctl itself */
    size_t n;
} k8s_file;

typedef struct k8s_job {
    const launch_options *o;
    char name[K8S_NAME];
    int pods; /* with ranks */
    k8s_file *files;
    int64_t nfiles, cap, nscripts; /* nscripts: those that are not of kvctl itself */
    buf entry, yaml, secret; /* secret: the data of the Secret; empty: there is none */
} k8s_job;

/* ---- Names ---- */

/* The digits of the last pod are part of the longest name that the operator makes. */
static int longest_name(const k8s_job *j)
{
    char behind[32];
    return MOST_LABEL - snprintf(behind, sizeof behind, "-worker-%d", j->pods - 1);
}

static bool is_label(const char *name, int most)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '-')
            return false;
    return n > 0 && n <= (size_t)most && name[0] != '-' && name[n - 1] != '-';
}

/* "Train 2.kv" becomes train-2: letters, digits and single -, beginning with a letter. */
static void name_of_script(const k8s_job *j, const char *path, char name[K8S_NAME])
{
    int n = 0, most = longest_name(j);
    const char *slash = strrchr(path, '/'), *text = slash ? slash + 1 : path;
    const char *dot = strrchr(text, '.'), *end = dot && dot > text ? dot : text + strlen(text);
    for (; text < end && n < most; text++) {
        int c = tolower((unsigned char)*text);
        bool fits = (c >= 'a' && c <= 'z') || (n > 0 && isdigit(c));
        if (fits)
            name[n++] = (char)c;
        else if (n > 0 && name[n - 1] != '-')
            name[n++] = '-';
    }
    while (n > 0 && name[n - 1] == '-')
        n--;
    name[n] = '\0';
    if (n == 0)
        snprintf(name, K8S_NAME, "kvctl");
}

static int choose_name(k8s_job *j, const char *script, kv_err *e)
{
    const char *given = j->o->name;
    if (j->o->name_space && !is_label(j->o->name_space, MOST_LABEL))
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --namespace needs up to %d small letters, digits and -, not "
                          "\"%s\"",
                          MOST_LABEL, j->o->name_space);
    if (given && (!is_label(given, longest_name(j)) || isdigit((unsigned char)given[0])))
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --name needs a small letter and up to %d more, digits or -, "
                          "not \"%s\"",
                          longest_name(j) - 1, given);
    if (given)
        snprintf(j->name, sizeof j->name, "%s", given);
    else
        name_of_script(j, script ? script : "", j->name);
    return KV_OK;
}

/* ---- What the objects cannot hold ---- */

static int check_utf8(const char *what, const char *text, kv_err *e)
{
    if (utf8_valid(text, strlen(text)))
        return KV_OK;
    return kv_err_set(e, KV_E_VALUE, "launch: %s \"%.200s\" is not UTF-8, which YAML needs", what,
                      text);
}

static int check_texts(const launch_options *o, kv_err *e)
{
    check_utf8("--image", o->image, e);
    for (int i = 0; i < o->nwords; i++)
        check_utf8("the word", o->words[i], e);
    for (int64_t i = 0; i < o->nvariables; i++) {
        const char *text = o->variables[i].text;
        if (!utf8_valid(text, strlen(text)))
            kv_err_set(e, KV_E_VALUE,
                       "launch: the value of %.*s is not UTF-8, which Kubernetes needs",
                       (int)strcspn(text, "="), text);
    }
    for (int64_t i = 0; i < o->nvolumes; i++)
        check_utf8("--volume", o->volumes[i].path, e);
    if (o->checkpoint)
        check_utf8("--checkpoint", o->checkpoint, e);
    return e->code;
}

/* A checkpoint is of use where it outlives the pods. */
static int check_checkpoint(const launch_options *o, kv_err *e)
{
    if (!o->checkpoint)
        return KV_OK;
    for (int64_t i = 0; i < o->nvolumes; i++) {
        size_t n = strlen(o->volumes[i].path);
        if (strncmp(o->checkpoint, o->volumes[i].path, n) == 0 && o->checkpoint[n] == '/')
            return KV_OK;
    }
    kv_err_set(e, KV_E_VALUE, "launch: --checkpoint \"%.200s\" lies on no volume of the pods",
               o->checkpoint);
    return kv_err_hint(e, "--volume CLAIM:/data --checkpoint /data/FILE");
}

/* ---- Files ---- */

static void add_file(k8s_job *j, k8s_file f, kv_err *e)
{
    if (mem_grow(&j->files, &j->cap, j->nfiles + 1, sizeof *j->files, e))
        mem_free(f.read);
    else
        j->files[j->nfiles++] = f;
}

static void add_own(k8s_job *j, const char *key, const char *path, const char *text, kv_err *e)
{
    k8s_file f = {.path = path, .folder = "entry/", .bytes = text, .n = strlen(text)};
    snprintf(f.key, sizeof f.key, "%s", key);
    add_file(j, f, e);
}

/* Kubernetes takes paths below the mount alone. */
static bool leaves_folder(const char *path)
{
    if (*path == '/')
        return true;
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

static int add_script(k8s_job *j, const char *path, kv_err *e)
{
    if (leaves_folder(path))
        return kv_err_set(e, KV_E_VALUE,
                          "launch: \"%.200s\" is not a file of this folder, and pods get no others",
                          path);
    TRY(check_utf8("the name", path, e));
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    for (int64_t i = 0; i < j->nfiles; i++)
        if (j->files[i].read && strcmp(j->files[i].path, path) == 0)
            return KV_OK;
    k8s_file f = {.path = path, .folder = "job/"};
    TRY(file_read_text(path, &f.read, &f.n, e));
    f.bytes = f.read;
    snprintf(f.key, sizeof f.key, "file-%lld", (long long)++j->nscripts);
    add_file(j, f, e);
    return e->code;
}

static int add_scripts(k8s_job *j, kv_err *e)
{
    const launch_options *o = j->o;
    const char *script = NULL;
    OWN(options_release) options each = {0};
    TRY(options_parse(&each, o->nwords + 1, o->words - 1, e));
    for (int i = 0; i < each.ninputs; i++) {
        if (each.inputs[i].kind != INPUT_FILE)
            continue;
        script = script ? script : each.inputs[i].text;
        TRY(add_script(j, each.inputs[i].text, e));
    }
    for (int64_t i = 0; i < o->nfiles; i++)
        TRY(add_script(j, o->files[i], e));
    return choose_name(j, script, e);
}

static int check_size(const k8s_job *j, kv_err *e)
{
    size_t n = 0;
    for (int64_t i = 0; i < j->nfiles; i++)
        n += j->files[i].n;
    if (n <= MOST_BYTES)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE,
               "launch: the files of the job have %zu bytes, and a ConfigMap holds %d", n,
               MOST_BYTES);
    return kv_err_hint(e, "data belongs on a volume: --volume CLAIM:PATH");
}

static int make_secret(k8s_job *j, kv_err *e)
{
    size_t n = variables_secret(&j->secret, j->o);
    if (n > MOST_BYTES)
        return kv_err_set(e, KV_E_VALUE,
                          "launch: the values of --env have %zu bytes, and a Secret holds %d", n,
                          MOST_BYTES);
    return buf_check(&j->secret, e);
}

static int make_entry(k8s_job *j, kv_err *e)
{
    own_command inner = {0};
    char seconds[32];
    double wait = j->o->queue_timeout > 0 ? j->o->queue_timeout : HOSTS_SECONDS;
    buf_add(&j->entry, text_k8s_launcher);
    launch_add_filled(&inner, "kvctl launch --launcher ssh -H " HOST_FILE " --queue-timeout {wait}",
                      (launch_hole[]){{"wait", launch_seconds(seconds, wait)}, {NULL, NULL}});
    if (inner_options(&inner, j->o, e) == KV_OK) {
        buf_add(&j->entry, "exec ");
        launch_command_text(&j->entry, &inner);
        buf_char(&j->entry, '\n');
    }
    return buf_check(&j->entry, e);
}

/* ---- The objects ---- */

/* text_k8s_secret: whoever may read pods and ConfigMaps need not be allowed to read Secrets.
 * text_k8s_job: the operator keeps the pods of a job that has ended, unless cleanPodPolicy is set;
 * launch begins a job again by itself, so the operator does not. text_k8s_pod: sshd and the mounts
 * of the operator need root. Workers are known to the others once their sshd answers. */

static const char shared_mount[] = "                - name: shared-memory\n"
                                   "                  mountPath: /dev/shm\n";
static const char shared_volume[] = "            - name: shared-memory\n"
                                    "              emptyDir:\n"
                                    "                medium: Memory\n";

static void put_map(k8s_job *j, const launch_hole *holes)
{
    own_buf binary = {0}; /* stands behind the texts */
    launch_fill(&j->yaml, text_k8s_map, holes);
    for (int64_t i = 0; i < j->nfiles; i++) {
        const k8s_file *f = &j->files[i];
        if (utf8_valid(f->bytes, f->n)) {
            yaml_text(&j->yaml, 2, f->key, f->bytes, f->n);
            continue;
        }
        buf_printf(&binary, "%s  %s: \"", binary.len ? "" : "binaryData:\n", f->key);
        yaml_base64(&binary, f->bytes, f->n);
        buf_add(&binary, "\"\n");
    }
    buf_add(&j->yaml, buf_text(&binary));
    j->yaml.failed |= binary.failed;
}

/* Behind the text of a pod: the files of the ConfigMap, then its volumes. */
static void put_items(buf *out, const k8s_job *j)
{
    for (int64_t i = 0; i < j->nfiles; i++) {
        own_buf path = {0};
        buf_add(&path, j->files[i].folder);
        buf_add(&path, j->files[i].path);
        buf_printf(out, "                  - key: %s\n                    path: ", j->files[i].key);
        yaml_quote(out, buf_text(&path), path.len);
        buf_char(out, '\n');
        out->failed |= path.failed;
    }
}

static void put_volumes(buf *mounts, buf *volumes, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvolumes; i++) {
        const launch_volume *v = &o->volumes[i];
        buf_printf(mounts, "                - name: volume-%lld\n                  mountPath: ",
                   (long long)i + 1);
        yaml_quote(mounts, v->path, strlen(v->path));
        buf_char(mounts, '\n');
        buf_printf(volumes,
                   "            - name: volume-%lld\n"
                   "              persistentVolumeClaim:\n"
                   "                claimName: \"%s\"\n",
                   (long long)i + 1, v->claim);
    }
    if (o->slots > 1) { /* ranks of one pod share memory there, and Kubernetes gives 64 MiB */
        buf_add(mounts, shared_mount);
        buf_add(volumes, shared_volume);
    }
}

static void put_limits(buf *out, const launch_options *o, int slots)
{
    static const char indent[] = "                  ";
    if (o->cpus)
        buf_printf(out, "%scpu: %lld\n", indent, (long long)o->cpus * slots);
    if (o->memory)
        buf_printf(out, "%smemory: %lldMi\n", indent, (long long)o->memory * slots);
    if (o->gpus)
        buf_printf(out, "%snvidia.com/gpu: %lld\n", indent, (long long)o->gpus * slots);
}

static void put_objects(k8s_job *j, kv_err *e)
{
    const launch_options *o = j->o;
    char workers[16], servers[16], slots[16], pods[16], secret[K8S_NAME + 4];
    own_buf image = {0}, limits = {0}, mounts = {0}, volumes = {0};
    buf *const all[] = {&image, &limits, &mounts, &volumes, &j->yaml};
    snprintf(workers, sizeof workers, "%d", o->workers);
    snprintf(servers, sizeof servers, "%d", o->servers);
    snprintf(slots, sizeof slots, "%d", o->slots ? o->slots : 1);
    snprintf(pods, sizeof pods, "%d", j->pods);
    snprintf(secret, sizeof secret, "%s-env", j->name);
    yaml_quote(&image, o->image, strlen(o->image));
    put_limits(&limits, o, o->slots ? o->slots : 1);
    put_items(&volumes, j);
    put_volumes(&mounts, &volumes, o);
    launch_hole holes[] = {{"Role", "Launcher"},
                           {"role", "launcher"},
                           {"pods", "1"},
                           {"restart", "Never"},
                           {"port", NULL},
                           {"limits", NULL},
                           {"secret", j->secret.len ? secret : NULL},
                           {"name", j->name},
                           {"namespace", o->name_space},
                           {"workers", workers},
                           {"servers", servers},
                           {"slots", slots},
                           {"image", buf_text(&image)},
                           {"folder", j->nscripts ? MOUNTED "/job" : MOUNTED},
                           {"mode", "365"}, /* 0555: one is a program */
                           {"mounts", buf_text(&mounts)},
                           {NULL, NULL}};
    put_map(j, holes);
    if (j->secret.len) {
        launch_fill(&j->yaml, text_k8s_secret, holes);
        buf_put(&j->yaml, j->secret.data, j->secret.len);
    }
    launch_fill(&j->yaml, text_k8s_job, holes);
    launch_fill(&j->yaml, text_k8s_pod, holes);
    buf_add(&j->yaml, buf_text(&volumes));
    const char *const worker[] = {"Worker", "worker", pods, o->restarts ? "OnFailure" : "Never",
                                  "22", limits.len ? buf_text(&limits) : NULL, NULL};
    for (size_t i = 0; i < sizeof worker / sizeof *worker; i++)
        holes[i].value = worker[i];
    launch_fill(&j->yaml, text_k8s_pod, holes);
    buf_add(&j->yaml, buf_text(&volumes));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_check(all[i], e);
}

static int make(k8s_job *j, kv_err *e)
{
    const launch_options *o = j->o;
    int ranks = o->workers + o->servers, slots = o->slots ? o->slots : 1;
    j->pods = (ranks + slots - 1) / slots;
    if (check_texts(o, e) || check_checkpoint(o, e) || make_secret(j, e) || make_entry(j, e))
        return e->code;
    add_own(j, "launcher", "launcher", buf_text(&j->entry), e);
    add_own(j, "ssh", "bin/ssh", text_k8s_ssh, e);
    add_own(j, "ssh-config", "ssh_config", text_k8s_ssh_config, e);
    add_own(j, "worker", "worker", text_k8s_worker, e);
    if (!e->code && !add_scripts(j, e) && !check_size(j, e))
        put_objects(j, e);
    return e->code;
}

int launch_k8s(const launch_options *o, kv_err *e)
{
    k8s_job j = {.o = o};
    if (make(&j, e) == KV_OK) {
        terminal_pass(stdout, buf_text(&j.yaml), j.yaml.len);
        if (fflush(stdout))
            file_error(e, "write", "stdout", errno);
    }
    for (int64_t i = 0; i < j.nfiles; i++)
        mem_free(j.files[i].read);
    mem_free(j.files);
    buf_release(&j.entry);
    buf_release(&j.secret);
    buf_release(&j.yaml);
    return e->code;
}
