/* The warning of names that have a meaning of their own in rules. */
#include "syntax/own_names.h"

#include "vm/rule.h"

/* Legend: name, the option that sets it, what it is. Keys and names of keys are not among them: a
 * loop over keys has such variables, and they mean the same. */
static const struct {
    const char *name, *option, *about;
} own_names[] = {
    {"lr", "learning-rate", "the learning rate of the updater"},
    {"base_lr", "learning-rate", "the learning rate of the updater"},
    {"wd", "wd", "the weight decay of the updater"},
    {"rescale_grad", "rescale-grad", "a parameter of the updater"},
    {"clip_gradient", "clip-gradient", "a parameter of the updater"},
    {"t", NULL, "the count of updates"},
};

void own_names_warn(session *s, unit *u, const rule_ast *rule,
                    bool (*hides)(void *arg, const char *name, const char *option), void *arg)
{
    unit *outer = s->unit;
    s->unit = u;
    for (size_t i = 0; !rule->is_def && i < sizeof own_names / sizeof *own_names; i++) {
        const char *name = own_names[i].name, *option = own_names[i].option;
        const ast *reader = rule_lists(rule, name) ? NULL : rule_reader(rule, name);
        if (!reader || !hides(arg, name, option))
            continue;
        if (option)
            session_warn(s, reader, "`%s` is %s in a rule, not the variable; --%s (%s) gives it",
                         name, own_names[i].about, option, name);
        else
            session_warn(s, reader, "`%s` is %s in a rule, not the variable", name,
                         own_names[i].about);
    }
    s->unit = outer;
}
