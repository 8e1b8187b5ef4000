/* GNU Readline, which the first line that is edited loads: a process that is linked with it starts
 * half a millisecond later, and most never show a prompt.
 *
 * Once readline_load has returned true, rl points at what line.c uses: rl.redisplay() calls
 * rl_redisplay, and *rl.point is rl_point. Only line.c includes this.
 */
#pragma once

#include <dlfcn.h>
#include <readline/history.h>
#include <readline/readline.h>
#include <stdbool.h>
#include <string.h>

#define READLINE_TEXT_OF(x) #x
#define READLINE_TEXT(x)    READLINE_TEXT_OF(x)
#define READLINE_LIBRARY    "libreadline.so." READLINE_TEXT(RL_VERSION_MAJOR)

/* The names that begin with rl_, without it, and those that do not. */
#define READLINE_NAMES(X)                                                                          \
    X(add_defun) X(attempted_completion_function) X(attempted_completion_over)                     \
    X(basic_quote_characters) X(bind_keyseq_in_map) X(callback_handler_install)                    \
    X(callback_handler_remove) X(callback_read_char) X(callback_sigcleanup) X(catch_signals)       \
    X(check_signals) X(clear_visible_line) X(completion_append_character) X(completion_matches)    \
    X(completion_word_break_hook) X(crlf) X(delete_text) X(deprep_term_function)                   \
    X(deprep_terminal) X(ding) X(echo_signal_char) X(end) X(eof_found)                             \
    X(filename_completion_desired) X(filename_quoting_desired) X(free_line_state) X(get_keymap)    \
    X(get_screen_size) X(getc_function) X(initialize) X(input_available_hook) X(insert_mode)       \
    X(insert_text) X(instream) X(line_buffer) X(on_new_line) X(outstream)                          \
    X(persistent_signal_handlers) X(point) X(prep_terminal) X(readline_name) X(readline_state)     \
    X(redisplay) X(set_keyboard_input_timeout) X(variable_bind)
#define HISTORY_NAMES(X)                                                                           \
    X(add_history) X(append_history) X(clear_history) X(emacs_standard_keymap)                     \
    X(history_comment_char) X(history_truncate_file) X(history_write_timestamps) X(read_history)   \
    X(stifle_history) X(using_history) X(vi_insertion_keymap)

static struct {
#define POINTER(name) __typeof__(rl_##name) *name;
    READLINE_NAMES(POINTER)
#undef POINTER
#define POINTER(name) __typeof__(name) *name;
    HISTORY_NAMES(POINTER)
} rl;

/* In the order of the pointers. */
static const char *const readline_names[] = {
#define TEXT(name) "rl_" #name,
    READLINE_NAMES(TEXT)
#undef TEXT
#define TEXT(name) #name,
    HISTORY_NAMES(TEXT)
};

/* Returns false if there is no library, or it lacks a name. */
static bool readline_load(void)
{
    enum { NNAMES = sizeof readline_names / sizeof *readline_names };
    void *library = dlopen(READLINE_LIBRARY, RTLD_NOW | RTLD_LOCAL); /* stays */
    void *found[NNAMES];
    _Static_assert(sizeof found == sizeof rl, "one pointer a name");
    for (int i = 0; i < NNAMES; i++)
        if (!library || !(found[i] = dlsym(library, readline_names[i])))
            return false;
    memcpy(&rl, found, sizeof found);
    return true;
}

#undef POINTER
#undef TEXT
