/* Pictures by the endings of their paths. */
#include "syntax/plot_target.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *ending;
    plot_target target;
} endings[] = {{".svg", PLOT_SVG}, {".png", PLOT_PNG}, {".txt", PLOT_TEXT}};

plot_target plot_target_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (strcmp(path, "-") == 0)
        return PLOT_TEXT;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (dot && dot > path && dot[-1] != '/' && strcasecmp(dot, endings[i].ending) == 0)
            return endings[i].target;
    return PLOT_NOWHERE;
}

int plot_path_check(const char *path, bool append, kv_err *e)
{
    plot_target target = plot_target_of(path);
    if (target == PLOT_NOWHERE)
        return kv_err_set(e, KV_E_USAGE,
                          "`%s` is no file name of a picture (.svg, .png or .txt)", path);
    if (append && target != PLOT_TEXT) {
        kv_err_set(e, KV_E_USAGE, ">> adds lines, and \"%s\" is not made of lines", path);
        return kv_err_hint(e, "pictures that can grow end in .txt");
    }
    return KV_OK;
}
