/* Members that change what an adapter means, and are not known here, are refused where they are in
 * use; all others are passed over. */
#include "merge/adapter_config.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "checkpoint/json_scan.h"

#define CONFIG_NAME "adapter_config.json"
#define DEPTH_MAX   32 /* levels of nesting of a value that is skipped */

typedef struct config {
    double r, alpha;  /* -1: not there */
    bool rank_stable; /* use_rslora */
    bool other_kind;  /* of adapter: IA3, LOHA, … */
    const char *more; /* a member that is in use and not supported; or NULL */
    bool takes_off;   /* by init_lora_weights the adapter's first product was taken off the base */
} config;

/* ---- The members ----------------------------------------------------------------------------- */

/* Steps over a value: the bytes of it. */
static int take_value(json_scan *s, const char **text, size_t *n)
{
    json_scan_peek(s);
    int64_t begin = s->at;
    int rc = json_scan_skip(s);
    *text = s->text + begin;
    *n = (size_t)(s->at - begin);
    return rc;
}

/* Returns true if a member is in use: not null, false, empty, or the word for nothing. */
static bool is_in_use(const char *text, size_t n)
{
    static const char *const off[] = {"null", "false", "\"\"", "\"none\"", "0"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (strlen(off[i]) == n && memcmp(off[i], text, n) == 0)
            return false;
    /* {} and [], with blanks or without */
    return !(n >= 2 && strchr("{[", text[0]) && strspn(text + 1, " \t\r\n") == n - 2);
}

static int take_number(json_scan *s, const char *name, double *x)
{
    const char *text;
    size_t n;
    int rc = take_value(s, &text, &n);
    if (rc)
        return rc;
    if (num_parse(text, n, NUM_BINARY64, x, NULL) != n || !isfinite(*x) || *x <= 0)
        return file_bad(s->e, KV_E_FORMAT, s->path, "\"%s\" is no positive number", name);
    return KV_OK;
}

/* Returns true for ways to begin an adapter by which PEFT takes its first product off the base: the
 * adapter is right for what is left alone. When PEFT converts such an adapter to an ordinary one it
 * writes true here. */
static bool is_taken_off(const char *text, size_t n)
{
    static const char *const ways[] = {"\"pissa", "\"olora", "\"corda", "\"loftq"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) /* pissa_niter_16, too */
        if (n > strlen(ways[i]) && strncmp(text, ways[i], strlen(ways[i])) == 0)
            return true;
    return false;
}

static int take_member(json_scan *s, const char *name, config *c)
{
    static const char *const others[] = {"use_dora",        "rank_pattern",      "alpha_pattern",
                                         "fan_in_fan_out",  "use_qalora",        "modules_to_save",
                                         "layer_replication"};
    const char *text;
    size_t n;
    if (strcmp(name, "r") == 0)
        return take_number(s, name, &c->r);
    if (strcmp(name, "lora_alpha") == 0)
        return take_number(s, name, &c->alpha);
    int rc = take_value(s, &text, &n);
    if (rc || !is_in_use(text, n))
        return rc;
    c->rank_stable |= strcmp(name, "use_rslora") == 0;
    c->other_kind |= strcmp(name, "peft_type") == 0 &&
                     !(n == strlen("\"LORA\"") && strncmp(text, "\"LORA\"", n) == 0);
    c->takes_off |= strcmp(name, "init_lora_weights") == 0 && is_taken_off(text, n);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            c->more = others[i];
    return KV_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int scale_of(const config *c, const char *path, double *scale, double *rank, kv_err *e)
{
    if (c->other_kind)
        return file_bad(e, KV_E_UNSUPPORTED, path, "\"peft_type\" is not LORA");
    if (c->more)
        return file_bad(e, KV_E_UNSUPPORTED, path,
                        "\"%s\" makes the adapter more than a scaled product", c->more);
    if (c->takes_off) {
        file_bad(e, KV_E_UNSUPPORTED, path,
                 "by \"init_lora_weights\" the adapter is not for the base as it is");
        return kv_err_hint(e, "path_initial_model_for_weight_conversion of PEFT's save_pretrained "
                              "makes an ordinary adapter of it"),
               KV_E_UNSUPPORTED;
    }
    if (c->r < 0 || c->alpha < 0)
        return file_bad(e, KV_E_FORMAT, path, "it has no \"%s\"", c->r < 0 ? "r" : "lora_alpha");
    *rank = c->r;
    *scale = c->alpha / (c->rank_stable ? sqrt(c->r) : c->r);
    return KV_OK;
}

static int read_config(const char *path, double *scale, double *rank, kv_err *e)
{
    char *text;
    size_t n;
    config c = {.r = -1, .alpha = -1};
    int rc = file_read_text(path, &text, &n, e);
    if (rc)
        return rc;
    json_scan s = {.path = path,
                   .text = text,
                   .n = (int64_t)n,
                   .what = "text",
                   .max_depth = DEPTH_MAX,
                   .e = e};
    buf name = {0};
    rc = json_scan_open(&s, '{');
    while (json_scan_item(&s, '}', &rc))
        if (!(rc = json_scan_name(&s, &name)))
            rc = take_member(&s, buf_text(&name), &c);
    buf_release(&name);
    rc = rc ? rc : json_scan_end(&s);
    if (rc == KV_OK)
        rc = scale_of(&c, path, scale, rank, e);
    mem_free(text);
    return rc;
}

int adapter_config_read(const char *path, double *scale, double *rank, kv_err *e)
{
    buf config_path = {0};
    bool there;
    *scale = 1;
    *rank = 0;
    if (strcmp(path, "-") == 0)
        return KV_OK;
    struct stat about;
    const char *slash = strrchr(path, '/');
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        buf_printf(&config_path, path[strlen(path) - 1] == '/' ? "%s%s" : "%s/%s", path,
                   CONFIG_NAME);
    else
        buf_printf(&config_path, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, CONFIG_NAME);
    int rc = buf_check(&config_path, e);
    if (rc == KV_OK && (rc = file_look(buf_text(&config_path), &there, e)) == KV_OK && there)
        rc = read_config(buf_text(&config_path), scale, rank, e);
    buf_release(&config_path);
    return rc;
}
