/* The lines that the report of an error adds below it. */
#ifndef SESSION_DETAILS_H
#define SESSION_DETAILS_H

#include "lang/ast.h"
#include "session/session.h"

/* Adds to the session's details that what failed was called at node of the text that runs. */
void session_caller(session *s, const ast *node);

/* Appends the session's details as reports show them. */
void session_details(const session *s, buf *out);

#endif
