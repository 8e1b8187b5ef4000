/* GNU Readline, which the first line that is edited loads: a process that is linked with it starts
 * half a millisecond later, and most never show a prompt.
 *
 * The names stand for what they mean in Readline's headers once readline_load has returned true.
 * Only line.c includes this.
 */
#ifndef TERM_LAZY_READLINE_H
#define TERM_LAZY_READLINE_H

#include <dlfcn.h>
#include <readline/history.h>
#include <readline/readline.h>
#include <stdbool.h>
#include <string.h>

#define READLINE_TEXT_OF(x) #x
#define READLINE_TEXT(x)    READLINE_TEXT_OF(x)
#define READLINE_LIBRARY    "libreadline.so." READLINE_TEXT(RL_VERSION_MAJOR)

/* Every function and variable of Readline that line.c uses. */
#define READLINE_NAMES(X)                                                                          \
    X(add_history) X(append_history) X(clear_history) X(emacs_standard_keymap)                     \
    X(history_comment_char) X(history_truncate_file) X(history_write_timestamps) X(read_history)   \
    X(rl_add_defun) X(rl_attempted_completion_function) X(rl_attempted_completion_over)            \
    X(rl_basic_quote_characters) X(rl_bind_keyseq_in_map) X(rl_callback_handler_install)           \
    X(rl_callback_handler_remove) X(rl_callback_read_char) X(rl_callback_sigcleanup)               \
    X(rl_catch_signals) X(rl_check_signals) X(rl_completion_append_character)                      \
    X(rl_clear_visible_line) X(rl_completion_matches) X(rl_completion_word_break_hook) X(rl_crlf)  \
    X(rl_delete_text)                                                                              \
    X(rl_deprep_term_function) X(rl_deprep_terminal) X(rl_ding) X(rl_echo_signal_char) X(rl_end)   \
    X(rl_eof_found) X(rl_filename_completion_desired) X(rl_filename_quoting_desired)               \
    X(rl_free_line_state) X(rl_get_keymap) X(rl_get_screen_size) X(rl_getc_function)               \
    X(rl_initialize) X(rl_input_available_hook) X(rl_insert_mode) X(rl_insert_text)                \
    X(rl_instream) X(rl_line_buffer) X(rl_on_new_line) X(rl_outstream)                             \
    X(rl_persistent_signal_handlers) X(rl_point) X(rl_prep_terminal) X(rl_readline_name)           \
    X(rl_readline_state) X(rl_redisplay) X(rl_set_keyboard_input_timeout) X(rl_variable_bind)      \
    X(stifle_history) X(using_history) X(vi_insertion_keymap)

/* Pointers to them, and their names in the same order. */
static struct {
#define READLINE_POINTER(name) __typeof__(name) *name##_;
    READLINE_NAMES(READLINE_POINTER)
} readline_pointers;

static const char *const readline_names[] = {
#define READLINE_NAME(name) #name,
    READLINE_NAMES(READLINE_NAME)
};

/* Returns false if there is no library, or it lacks a name. */
static bool readline_load(void)
{
    enum { NNAMES = sizeof readline_names / sizeof *readline_names };
    void *library = dlopen(READLINE_LIBRARY, RTLD_NOW | RTLD_LOCAL); /* stays */
    void *found[NNAMES];
    _Static_assert(sizeof found == sizeof readline_pointers, "one pointer a name");
    for (int i = 0; i < NNAMES; i++)
        if (!library || !(found[i] = dlsym(library, readline_names[i])))
            return false;
    memcpy(&readline_pointers, found, sizeof found);
    return true;
}

#define add_history                      (*readline_pointers.add_history_)
#define append_history                   (*readline_pointers.append_history_)
#define clear_history                    (*readline_pointers.clear_history_)
#define emacs_standard_keymap            (*readline_pointers.emacs_standard_keymap_)
#define history_comment_char             (*readline_pointers.history_comment_char_)
#define history_truncate_file            (*readline_pointers.history_truncate_file_)
#define history_write_timestamps         (*readline_pointers.history_write_timestamps_)
#define read_history                     (*readline_pointers.read_history_)
#define rl_add_defun                     (*readline_pointers.rl_add_defun_)
#define rl_attempted_completion_function (*readline_pointers.rl_attempted_completion_function_)
#define rl_attempted_completion_over     (*readline_pointers.rl_attempted_completion_over_)
#define rl_basic_quote_characters        (*readline_pointers.rl_basic_quote_characters_)
#define rl_bind_keyseq_in_map            (*readline_pointers.rl_bind_keyseq_in_map_)
#define rl_callback_handler_install      (*readline_pointers.rl_callback_handler_install_)
#define rl_callback_handler_remove       (*readline_pointers.rl_callback_handler_remove_)
#define rl_callback_read_char            (*readline_pointers.rl_callback_read_char_)
#define rl_callback_sigcleanup           (*readline_pointers.rl_callback_sigcleanup_)
#define rl_catch_signals                 (*readline_pointers.rl_catch_signals_)
#define rl_check_signals                 (*readline_pointers.rl_check_signals_)
#define rl_completion_append_character   (*readline_pointers.rl_completion_append_character_)
#define rl_completion_matches            (*readline_pointers.rl_completion_matches_)
#define rl_completion_word_break_hook    (*readline_pointers.rl_completion_word_break_hook_)
#define rl_crlf                          (*readline_pointers.rl_crlf_)
#define rl_delete_text                   (*readline_pointers.rl_delete_text_)
#define rl_deprep_term_function          (*readline_pointers.rl_deprep_term_function_)
#define rl_deprep_terminal               (*readline_pointers.rl_deprep_terminal_)
#define rl_ding                          (*readline_pointers.rl_ding_)
#define rl_echo_signal_char              (*readline_pointers.rl_echo_signal_char_)
#define rl_end                           (*readline_pointers.rl_end_)
#define rl_eof_found                     (*readline_pointers.rl_eof_found_)
#define rl_filename_completion_desired   (*readline_pointers.rl_filename_completion_desired_)
#define rl_filename_quoting_desired      (*readline_pointers.rl_filename_quoting_desired_)
#define rl_clear_visible_line            (*readline_pointers.rl_clear_visible_line_)
#define rl_free_line_state               (*readline_pointers.rl_free_line_state_)
#define rl_get_keymap                    (*readline_pointers.rl_get_keymap_)
#define rl_get_screen_size               (*readline_pointers.rl_get_screen_size_)
#define rl_getc_function                 (*readline_pointers.rl_getc_function_)
#define rl_initialize                    (*readline_pointers.rl_initialize_)
#define rl_input_available_hook          (*readline_pointers.rl_input_available_hook_)
#define rl_insert_mode                   (*readline_pointers.rl_insert_mode_)
#define rl_insert_text                   (*readline_pointers.rl_insert_text_)
#define rl_instream                      (*readline_pointers.rl_instream_)
#define rl_line_buffer                   (*readline_pointers.rl_line_buffer_)
#define rl_on_new_line                   (*readline_pointers.rl_on_new_line_)
#define rl_outstream                     (*readline_pointers.rl_outstream_)
#define rl_persistent_signal_handlers    (*readline_pointers.rl_persistent_signal_handlers_)
#define rl_point                         (*readline_pointers.rl_point_)
#define rl_prep_terminal                 (*readline_pointers.rl_prep_terminal_)
#define rl_readline_name                 (*readline_pointers.rl_readline_name_)
#define rl_readline_state                (*readline_pointers.rl_readline_state_)
#define rl_redisplay                     (*readline_pointers.rl_redisplay_)
#define rl_set_keyboard_input_timeout    (*readline_pointers.rl_set_keyboard_input_timeout_)
#define rl_variable_bind                 (*readline_pointers.rl_variable_bind_)
#define stifle_history                   (*readline_pointers.stifle_history_)
#define using_history                    (*readline_pointers.using_history_)
#define vi_insertion_keymap              (*readline_pointers.vi_insertion_keymap_)

#endif
