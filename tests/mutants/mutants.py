"""The mutants of a C file: places where one operator, constant, condition, statement or result is
changed. Only the bodies of functions and of macros with parameters are read; what stands in
kv_assert, ALWAYS and NEVER is defence and left alone. So is what cannot change what the program does:
a prefetch that is left out, and memory for more than was asked for.

A mutant keeps all lines where they are. Its name, a line before and after, does not hold a line
number, so that it stays the same while other lines of the file change; and so does the order in
which mutants are drawn, which is that of hashes of their names."""
import hashlib
import re
from typing import NamedTuple

TOKEN = re.compile(r"""
    (?P<skip>/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \s+ | \\\n)
  | (?P<define>^[ \t]*\#[ \t]*define[ \t]+\w+\([^)]*\))
  | (?P<directive>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+\w* | \d+\.?\d*(?:[eE][-+]?\d+)?\w*)
  | (?P<op><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S | re.M)

SWAPS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"],
    "&": ["|"], "|": ["&"], "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="],
    "++": ["--"], "--": ["++"],
}
UNARY_TOO = {"+", "-", "*", "&"}
DEFENCE = {"kv_assert", "ALWAYS", "NEVER", "__builtin_prefetch", "prefetch", "prefetch_write"}
PREFETCH = re.compile(r"\w*prefetch\w*\s*\(")
ALLOCATES = {"mem_alloc", "mem_zalloc", "mem_grow"}
SHRINK = {"-", "/", "%", ">>", "&", "?", "<", "<=", ">", ">=", "==", "!=", "[", "!", "~"}
NO_STATEMENT = re.compile(r"(return|case|default|else|if|for|while|switch|do|goto|typedef|static|const|"
                          r"struct|enum|union|unsigned|extern|_Thread_local|_Alignas)\b")
DECLARATION = re.compile(r"[A-Za-z_]\w*\s+\**\s*[A-Za-z_]\w*\s*(=|;|\[|,)|[A-Za-z_]\w*\s*\(\*")


class Mutant(NamedTuple):
    file: str
    line: int
    before: str
    after: str
    text: str  # of the whole file

    @property
    def name(self):
        return f"{self.file}\n- {self.before}\n+ {self.after}\n"


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def tokens_of_bodies(text):
    """The tokens inside of functions and of macros with parameters, but for defence."""
    depth, in_function, last, quiet, macro_end = 0, False, "", None, -1
    for m in TOKEN.finditer(text):
        kind, t = m.lastgroup, m.group()
        if kind == "define":
            macro_end = m.end()
            while text[text.find("\n", macro_end) - 1] == "\\":
                macro_end = text.find("\n", macro_end) + 1
            macro_end = text.find("\n", macro_end)
        if kind in ("skip", "define", "directive"):
            continue
        in_macro = m.start() < macro_end
        if quiet is not None:
            quiet += (t == "(") - (t == ")")
            quiet = None if quiet == 0 and t == ")" else quiet
        elif t in DEFENCE:
            quiet = 0
        elif in_macro or in_function and depth > 0:
            yield Token(kind, t, m.start())
        if not in_macro:
            if t == "{":
                in_function = in_function if depth else last == ")"
                depth += 1
            depth -= t == "}"
            last = t


def sizes(tokens):
    """The numbers in calls that allocate of which a larger one asks for more: no operator before it in its argument
    turns that round."""
    found, depth, name = set(), 0, ""
    for t in tokens:
        if depth == 0 and name in ALLOCATES and t.text == "(":
            depth, grows = 1, True
        elif depth > 0:
            depth += (t.text == "(") - (t.text == ")")
            grows = depth == 1 and t.text == "," or grows and t.text not in SHRINK
            if t.kind == "number" and grows:
                found.add(t)
        name = t.text
    return found


def changes(text):
    """Every change as (from, to, new text)."""
    tokens = list(tokens_of_bodies(text))
    larger = sizes(tokens)
    for i, t in enumerate(tokens):
        end = t.at + len(t.text)
        if t.kind == "op" and t.text in SWAPS:
            spaced = text[t.at - 1] == " " and text[end] in " \n"
            if t.text in UNARY_TOO and not spaced:
                continue
            yield from ((t.at, end, new) for new in SWAPS[t.text])
        elif t.kind == "number" and re.fullmatch(r"\d+", t.text):
            n = int(t.text)
            if t not in larger:
                yield t.at, end, str(n + 1)
            if n > 0:
                yield t.at, end, str(n - 1)
        elif t.text in ("true", "false"):
            yield t.at, end, "false" if t.text == "true" else "true"
        elif t.text in ("if", "while") and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            depth = 0
            for u in tokens[i + 1:]:
                depth += (u.text == "(") - (u.text == ")")
                if depth == 0:
                    yield tokens[i + 1].at, u.at + 1, f"(!{text[tokens[i + 1].at:u.at + 1]})"
                    break
        elif t.text == "return":
            stop = text.find(";", end)
            value = text[end:stop].strip()
            if value and value not in ("true", "false") and "\n" not in value:
                yield end, stop, " 1" if value == "0" else " KV_E_VALUE" if value == "KV_OK" else " 0"
    yield from deleted(text, tokens)


def deleted(text, tokens):
    """Statements that are left out: calls, assignments, and what leaves a block."""
    start, depth, header = None, 0, False
    for i, t in enumerate(tokens):
        if depth == 0 and start is None and t.text not in "{};":
            start, header = t.at, t.text in ("if", "for", "while", "switch", "else", "do", "case", "default")
        depth += (t.text in "([") - (t.text in ")]")
        if depth > 0 or start is None:
            continue
        if t.text == ";":
            statement = text[start:t.at + 1]
            if not any(r.match(statement) for r in (NO_STATEMENT, DECLARATION, PREFETCH)):
                yield start, t.at + 1, ";" + "\n" * statement.count("\n")
            start = None
        elif t.text in "{}" or header and t.text in ("else", "do", ":") or t.text == ")" and header:
            start, header = None, False
            if i + 1 < len(tokens) and t.text == ")":
                continue


def line_at(text, at):
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return " ".join(text[begin:end].rstrip("\\").split())


def mutants(file, text):
    seen = set()
    for begin, end, new in changes(text):
        changed = text[:begin] + new + text[end:]
        m = Mutant(file, text.count("\n", 0, begin) + 1, line_at(text, begin), line_at(changed, begin), changed)
        if m.name not in seen:  # of equal lines the first one
            seen.add(m.name)
            yield m


def drawn(files, seed):
    """The mutants of some files, given as (name, text), in the order of the seed."""
    every = [m for name, text in files for m in mutants(name, text)]
    return sorted(every, key=lambda m: hashlib.sha256(f"{seed}\n{m.name}".encode()).digest())
