/* Tables of words: looking into $PATH would find names of variables there, too. */
#include "syntax/hint_shell.h"

#include <string.h>

/* Words with a hint of their own. Names that a variable may well have (id, env, free) are in
 * neither table. An expression begins with `nvidia` of nvidia-smi. */
static const char *const hints[][2] = {
    {"cd", "kvctl stays in its folder; !cd DIR && COMMAND runs one in another"},
    {"man", "help COMMAND is the page of a command"},
    {"nvidia", "!nvidia-smi runs it in a shell, and doctor says which GPUs can be used"},
    {"sudo", "! before the line runs it in a shell"}};

static const char *const programs[] = {
    "awk",        "bash", "cat",  "chmod", "cp",     "curl",    "date", "df",    "du",    "find",
    "git",        "grep", "gzip", "head",  "htop",   "less",    "make", "mkdir", "mv",    "nano",
    "nvidia-smi", "pip",  "ps",   "pwd",   "python", "python3", "rm",   "rmdir", "rsync", "scp",
    "sed",        "sh",   "ssh",  "tail",  "tar",    "tmux",    "top",  "touch", "uname", "unzip",
    "vi",         "vim",  "wc",   "wget",  "which",  "whoami",  "xargs"};

const char *const process_words[] = {"attach",     "jobs",        "launch", "launch-rank",
                                     "launch-ssh", "launch-tell", "serve",  NULL};

static bool is_word(const char *name, const char *word, size_t n)
{
    return strlen(name) == n && memcmp(name, word, n) == 0;
}

bool is_process_word(const char *word, size_t n)
{
    for (size_t i = 0; process_words[i]; i++)
        if (is_word(process_words[i], word, n))
            return true;
    return false;
}

const char *process_word_page(const char *word, size_t n)
{
    for (size_t i = 0; i < PROCESS_WORDS_OF_USERS; i++)
        if (is_word(process_words[i], word, n))
            return process_words[i];
    return "launch";
}

bool hint_shell(const char *word, size_t n, kv_err *e)
{
    if (is_process_word(word, n)) {
        kv_err_hint(e, "!kvctl %.*s …; help %s", (int)n, word, process_word_page(word, n));
        return true;
    }
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (is_word(hints[i][0], word, n)) {
            kv_err_hint(e, "%s", hints[i][1]);
            return true;
        }
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (is_word(programs[i], word, n)) {
            kv_err_hint(e, "!%s runs it in a shell", programs[i]);
            return true;
        }
    return false;
}

bool hint_shell_path(const char *statement, size_t n, kv_err *e)
{
    static const char *const begins[] = {"./", "../", "~/", "/"};
    size_t end = 0;
    while (end < n && !strchr(" \n;", statement[end]))
        end++;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t len = strlen(begins[i]);
        if (end <= len || memcmp(statement, begins[i], len) != 0)
            continue;
        kv_err_hint(e, "!%.*s runs a program in a shell; source runs a script of kvctl", (int)end,
                    statement);
        return true;
    }
    return false;
}
