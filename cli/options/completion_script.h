/* The files of cli/completions: a script for each shell that `kvctl --completion` knows. */
#ifndef OPTIONS_COMPLETION_SCRIPT_H
#define OPTIONS_COMPLETION_SCRIPT_H

extern const char completion_bash[], completion_zsh[], completion_fish[];

typedef struct completion_script {
    const char *shell; /* NULL ends the table */
    const char *text;
} completion_script;

extern const completion_script completion_scripts[];

/* The text of the script for a shell, or NULL when there is none for it. */
const char *completion_script_of(const char *shell);

#endif
