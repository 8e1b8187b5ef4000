/* Tables and functions of rooms above that rooms below reach only through here, so that neither
 * names the other in a circle. language_init fills it, once, before anything is read. */
#ifndef SESSION_REGISTRY_H
#define SESSION_REGISTRY_H

struct command;

extern struct registry {
    const struct command *commands; /* as help lists them; an entry without a name ends them */
} registry;

#endif
