/* On their way they are KVCTL_ENV_r_NAME, where r is the role. */
#include "launch/launch_variables.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch_yaml.h"

#define WAY "KVCTL_ENV_"

extern char **environ;

static int name_length(const launch_variable *v)
{
    return (int)strcspn(v->text, "=");
}

void variables_carry(launch_command *set, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++)
        launch_add(set, WAY "%c_%s", o->variables[i].role, o->variables[i].text);
}

void variables_name(launch_command *c, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, "-x");
        launch_add(c, WAY "%c_%.*s", v->role, name_length(v), v->text);
    }
}

void variables_inner(launch_command *c, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, v->role == 'a' ? "--env" : v->role == 'w' ? "--env-worker" : "--env-server");
        launch_add(c, "%.*s", name_length(v), v->text);
    }
}

void variables_text(buf *out, const launch_options *o, const char *begin, const char *end,
                    bool elsewhere)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        buf_printf(out, "%s" WAY "%c_%.*s=", begin, v->role, n, v->text);
        if (elsewhere)
            launch_quote(out, v->text + n + 1);
        else if (v->by_name)
            buf_printf(out, "\"$%.*s\"", n, v->text);
        else
            launch_show_word(out, v->text + n + 1);
        buf_add(out, end);
    }
}

/* Returns whether a later variable of the same role has the same name. */
static bool is_said_again(const launch_options *o, int64_t i)
{
    const launch_variable *v = &o->variables[i];
    size_t n = (size_t)name_length(v) + 1; /* with the = */
    for (int64_t k = i + 1; k < o->nvariables; k++)
        if (o->variables[k].role == v->role && strncmp(o->variables[k].text, v->text, n) == 0)
            return true;
    return false;
}

size_t variables_secret(buf *out, const launch_options *o)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        size_t size = strlen(v->text + n + 1);
        if (is_said_again(o, i))
            continue;
        buf_printf(out, "  " WAY "%c_%.*s: \"", v->role, n, v->text);
        yaml_base64(out, v->text + n + 1, size);
        buf_add(out, "\"\n");
        bytes += size;
    }
    return bytes;
}

const char *variables_carried(char role, const char *name)
{
    char way[sizeof WAY + 2 + VARIABLE_MOST];
    int n = snprintf(way, sizeof way, WAY "%c_%s", role, name);
    return n < (int)sizeof way ? getenv(way) : NULL;
}

/* holds: they are set, else only forgotten. */
static void take_role(char role, bool holds)
{
    char name[sizeof WAY + 2 + VARIABLE_MOST];
    for (int64_t i = 0; environ[i];) {
        const char *word = environ[i], *own = word + sizeof WAY + 1;
        bool found = strncmp(word, WAY, sizeof WAY - 1) == 0 && word[sizeof WAY - 1] == role &&
                     word[sizeof WAY] == '_';
        int n = found ? (int)strcspn(own, "=") : 0;
        if (!found || n > VARIABLE_MOST) {
            i++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", n, own);
        if (holds)
            setenv(name, own + n + 1, 1);
        snprintf(name, sizeof name, WAY "%c_%.*s", role, n, own);
        unsetenv(name);
        i = 0; /* the list has moved */
    }
}

/* A variable for one role holds over the same variable for all. */
void variables_take(char role)
{
    take_role('a', true);
    take_role(role, true);
    take_role(role == 'w' ? 's' : 'w', false);
}
