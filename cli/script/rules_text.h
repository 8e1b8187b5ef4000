/* The page on the rule language, cli/rules.md, which `help rules` shows; made by the build. */
#ifndef SCRIPT_RULES_TEXT_H
#define SCRIPT_RULES_TEXT_H

extern const char rules_text[];

#endif
