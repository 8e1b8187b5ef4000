/* The page on the rule language, cli/rules.md, which `help rules` shows; made by the build. */
#ifndef CMD_RULES_TEXT_H
#define CMD_RULES_TEXT_H

extern const char rules_text[];

#endif
