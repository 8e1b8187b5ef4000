/* The page on environment variables, cli/environment.md, which `help environment` shows; made by
 * the build. */
#ifndef CMD_ENVIRONMENT_TEXT_H
#define CMD_ENVIRONMENT_TEXT_H

extern const char environment_text[];

#endif
