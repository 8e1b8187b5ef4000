/* One table: looking into $PATH would find names of variables there, too. */
#include "syntax/hint_shell.h"

#include <string.h>

bool hint_shell(const char *word, size_t n, kv_err *e)
{
    static const char *const words[] = {
        "awk",  "cat",  "cp",    "date", "df",   "du",         "find", "nano", "grep",
        "head", "htop", "less",  "make", "git",        "mkdir", "mv",
        "ps",   "pip",  "pwd",   "rm",   "sed",  "nvidia-smi", "ssh",   "vi", "python",
        "tail", "top",  "touch", "vim",  "wc",   "which",      "python3"};
    if (n == 2 && memcmp(word, "cd", n) == 0) {
        kv_err_hint(e, "kvctl stays in its folder; !cd DIR && COMMAND runs one in another");
        return true;
    }
    if (n == 3 && memcmp(word, "man", n) == 0) {
        kv_err_hint(e, "help COMMAND is the page of a command");
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0) {
            kv_err_hint(e, "!%s runs it in a shell", words[i]);
            return true;
        }
    }
    return false;
}
