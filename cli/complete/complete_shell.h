/* Completion of kvctl's command line, for the shells: `kvctl --completion bash` prints what a shell
 * needs, and that asks `kvctl --completion words WORD…` at each Tab. So the tables of commands,
 * options and types are the only lists, and what is typed behind -c is completed as at the prompt,
 * with the keys of the state file.
 */
#ifndef COMPLETE_COMPLETE_SHELL_H
#define COMPLETE_COMPLETE_SHELL_H

/* Prints what may stand for the last of n words: a line "files" when names of files may stand there
 * too, else "words"; then a line for each candidate, with a tab and what it is behind it where that
 * is known. The words are those behind `kvctl`, with their quotes, up to the cursor; candidates
 * have none. Returns the exit code. */
int complete_shell_words(int n, char **words);

#endif
