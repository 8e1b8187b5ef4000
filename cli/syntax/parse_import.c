/* The whole statement is read, so that nothing is lost behind it or in it. */
#include "syntax/parse_import.h"

#include "syntax/refuse.h"

static bool begins_import(parser *p)
{
    return parse_is_word(p, "import") || parse_is_word(p, "from");
}

bool parse_at_import(parser *p)
{
    token t = *parse_peek(p);
    bool import = begins_import(p), of_module = false;
    if (import)
        parse_take(p);
    while (!import && parse_skip_module(p))
        of_module = true;
    if (!import && !of_module)
        return false;
    bool found = import ? parse_peek(p)->kind == TOK_NAME : parse_is_word(p, "set_np");
    parse_seek(p, t.pos);
    return found;
}

static bool name(parser *p, const char *wanted)
{
    if (parse_peek(p)->kind != TOK_NAME)
        return !parse_expects(p, EXPECT_NOTHING, 0) && parse_unexpected(p, wanted);
    parse_take(p);
    return true;
}

/* a.b.c */
static bool module(parser *p)
{
    if (refuse_module(p))
        return false;
    do
        if (!name(p, "the name of a module"))
            return false;
    while (parse_accept(p, SIGN1('.')));
    return true;
}

static bool imported_name(parser *p)
{
    return name(p, "a name");
}

/* one [as NAME], … In brackets a comma may come last. */
static bool list(parser *p, bool (*one)(parser *p), bool brackets)
{
    do {
        if (brackets && parse_is_sign(p, SIGN1(')')))
            return true;
        if (!one(p) || (parse_accept_word(p, "as") && !name(p, "a name")))
            return false;
    } while (parse_accept(p, SIGN1(',')));
    return true;
}

/* Behind from: MODULE import *, or names, which may stand in brackets. */
static bool from_module(parser *p)
{
    bracket b;
    if (!module(p) || !parse_expect_word(p, "import"))
        return false;
    if (parse_accept(p, SIGN1('*')))
        return true;
    if (!parse_is_sign(p, SIGN1('(')))
        return list(p, imported_name, false);
    return parse_open(p, &b) && imported_name(p) &&
           (!parse_accept_word(p, "as") || name(p, "a name")) &&
           (!parse_accept(p, SIGN1(',')) || list(p, imported_name, true)) && parse_close(p, &b);
}

ast *parse_import(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    bool read;
    if (parse_accept_word(p, "import"))
        read = list(p, module, false);
    else if (parse_accept_word(p, "from"))
        read = from_module(p);
    else
        read = parse_exprs(p, false) != NULL; /* npx.set_np() */
    return read ? parse_node_of(p, AST_BLOCK, pos, NULL, 0) : NULL;
}
