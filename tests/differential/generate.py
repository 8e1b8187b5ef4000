#!/usr/bin/env python3
"""Writes random programs of the common subset of Python and kvctl, with the output that Python and
NumPy give. By hand, when the language grows:

    { python3 generate.py 10000 3027; python3 generate.py 10000 3028; python3 generate.py 20 4001; } | gzip -9n >programs.gz
    gzip -dc texts.gz | cat - NEW | python3 generate.py | gzip -9n >texts.new.gz

The script `fresh` beside this one compares new programs as they are made, without a file.

A program is built statement by statement while Python runs it, so that each statement can name the
variables that are there, with their true kinds and sizes. A statement that fails ends the program
if it is one of the few that may; otherwise another one is tried.

texts.gz holds short programs that were written by hand. NEW has more of them, each behind a line `===`, or
`=== refused` when it is not in the language; what is recorded already runs again.

A record is a line `=== ok`, `=== error` or `=== refused`, the program, a line `---`, and the output.
Programs of `error` fail behind that output. NumPy's slices share memory and those of kvctl are copies, so
programs copy what they take a slice of; numbers are such that sums are exact in any order.
"""
import ast
import contextlib
import copy
import io
import operator
import random
import re
import signal
import sys
import warnings

import numpy as np

np.seterr(all="ignore")
warnings.simplefilter("error", FutureWarning)       # == of an array and a text
warnings.simplefilter("error", DeprecationWarning)  # the truth of an empty array
F32 = np.float32


def array(x, dtype="float32"):
    return np.array(x, dtype=dtype)


def arange(*bounds, dtype="float32"):
    return np.arange(*bounds, dtype=dtype)


def flat(x):
    return [a for y in x for a in flat(y)] if isinstance(x, (list, tuple)) else [x]


class Store:
    """MXNet's local store: a push sums, then assigns or calls the updater; nothing is shared."""

    def __init__(self):
        self.kept = {}
        self.updater = None

    def pairs(self, key, value):
        return list(zip(key, value)) if isinstance(key, (list, tuple)) else [(key, value)]

    def init(self, key, value):
        for k, v in self.pairs(key, value):
            if k in self.kept:
                raise ValueError(k)
            self.kept[k] = flat(v)[0].copy()

    def push(self, key, value):
        for k, v in self.pairs(key, value):
            total = sum(flat(v)[1:], flat(v)[0].copy())
            if total.shape != self.kept[k].shape:
                raise ValueError(k)
            if self.updater:
                self.updater(k, total, self.kept[k])
            else:
                self.kept[k] = total

    def pull(self, key, out):
        for k, v in self.pairs(key, out):
            for a in flat(v):
                if a.shape != self.kept[k].shape:
                    raise ValueError(k)
                a[...] = self.kept[k]

    def pushpull(self, key, value, out=None):
        self.push(key, value)
        self.pull(key, value if out is None else out)

    def _set_updater(self, updater):
        self.updater = updater


def of_numbers(function):
    """A function of Python that kvctl has for lists of numbers and of texts, not for lists of arrays."""
    def checked(*args, **named):
        if any(isinstance(x, np.ndarray) for a in args if isinstance(a, list) for x in a):
            raise TypeError(function)
        return function(*args, **named)
    return checked


def sqrt(x):
    """That of integers is float32 in kvctl, as in MXNet, and float64 in NumPy."""
    if "int" in str(x.dtype):
        raise TypeError(x)
    return np.sqrt(x)


def copy_array(x):
    """That of a list is a list in kvctl, and an array in NumPy."""
    if not isinstance(x, np.ndarray):
        raise TypeError(x)
    return np.copy(x)


PRELUDE = {
    "sqrt": sqrt,
    "array": array,
    "arange": arange,
    "zeros": lambda shape, dtype="float32": np.zeros(shape, dtype),
    "ones": lambda shape, dtype="float32": np.ones(shape, dtype),
    "full": lambda shape, x: np.full(shape, x, F32),
    "copy": copy_array,
    "any": lambda x: np.any(x) if isinstance(x, np.ndarray) else any(x),
    "all": lambda x: np.all(x) if isinstance(x, np.ndarray) else all(x),
}
PRELUDE.update({f.__name__: of_numbers(f) for f in (sum, min, max, sorted)})
PRELUDE.update({name: getattr(np, name) for name in (
    "concatenate stack where maximum minimum dot take sort argsort cumsum mean var median "
    "nonzero unique outer clip repeat tile floor ceil sign array_equal diff flip").split()})

WORDS = ["ab", "key", "w0", "Abc", "x y", "", "layer", "a,b", "é", "0.5"]
DTYPES = ["float32", "float32", "float32", "int64", "int32", "float64"]
KINDS = {bool: "bool", int: "int", float: "float", str: "text", list: "list", tuple: "tuple",
         dict: "dict", np.ndarray: "array"}


class Rejected(Exception):
    """No expression of the kind is possible here."""


def kind_of(v):
    if isinstance(v, (np.generic,)):
        return "scalar"
    return KINDS.get(type(v), "other")


def in_bounds(v, depth=0):
    """Small enough to print, and exact in float32."""
    if isinstance(v, bool) or v is None or callable(v):
        return True
    if isinstance(v, (int, float)):
        return abs(v) < 1e6 or v != v
    if isinstance(v, str):
        return len(v) < 60
    if isinstance(v, (list, tuple)):
        return len(v) < 30 and depth < 4 and all(in_bounds(x, depth + 1) for x in v)
    if isinstance(v, dict):
        return len(v) < 12 and all(in_bounds(x, depth + 1) for x in v.values())
    if isinstance(v, np.ndarray):
        return v.size <= 60 and v.ndim <= 3 and (v.size == 0 or bool(np.all(np.abs(v) < 1e5)))
    if isinstance(v, np.generic):
        return bool(abs(v) < 1e6)
    return False


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.env = {}     # names of the program to their values now
        self.inner = []   # scopes of blocks that are being written: loop variables, parameters
        self.made = 0
        self.kept = {}    # of the store

    # ---- Choices ----

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        items = list(items)
        if not items:
            raise Rejected
        return items[int(self.rng.random() * len(items))]

    def names(self, test):
        seen = dict(self.env)
        for scope in self.inner:
            seen.update(scope)
        return [n for n, v in seen.items() if test(v)]

    def value(self, name):
        for scope in reversed(self.inner):
            if name in scope:
                return scope[name]
        return self.env[name]

    def fresh(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    # ---- Expressions ----

    def name_of(self, kind):
        return self.pick(self.names(lambda v: kind_of(v) == kind))

    def one_of(self, makers):
        """Any one that is possible."""
        makers = list(makers)
        while makers:
            try:
                return makers.pop(int(self.rng.random() * len(makers)))()
            except Rejected:
                pass
        raise Rejected

    def int_(self, d=2):
        literal = lambda: str(self.rng.choice([0, 1, 2, 3, 4, 5, 7, 10, -1, -2, -3]))
        makers = [literal, lambda: self.name_of("int")]
        if d > 0:
            makers += [
                lambda: f"{self.int_(d - 1)} {self.pick('+-*')} {self.int_(0)}",
                lambda: f"({self.int_(d - 1)} {self.pick('+-*')} {self.int_(d - 1)})",
                lambda: f"({self.int_(d - 1)}) {self.pick(['//', '%'])} {self.pick([2, 3, -2, 5])}",
                lambda: f"-({self.int_(d - 1)})",
                lambda: f"abs({self.int_(d - 1)})",
                lambda: f"{self.pick(['max', 'min'])}({self.int_(d - 1)}, {self.int_(d - 1)})",
                lambda: f"len({self.name_of(self.pick(['list', 'text', 'dict', 'tuple']))})",
                lambda: f"{self.name_of('array')}.{self.pick(['size', 'ndim'])}",
                lambda: f"({self.int_(d - 1)} if {self.bool_(d - 1)} else {self.int_(d - 1)})",
                lambda: f"int({self.float_(d - 1)})",
                lambda: self.item(lambda v: type(v) is int),
                lambda: f"{self.pick(['sum', 'max', 'min'])}({self.list_of(int)})",
                lambda: f"{self.list_of(int)}.count({self.int_(0)})",
                lambda: f"{self.name_of('text')}.find({self.text(0)})",
                lambda: f"{self.pick([2, 3, -2])} ** {self.pick([0, 1, 2, 3])}",
            ]
        return self.one_of(makers)

    def float_(self, d=2):
        literal = lambda: str(self.rng.choice([0.5, 1.5, 0.25, 2.0, -1.0, 0.1, 3.75, 1e-3, -0.5]))
        makers = [literal, lambda: self.name_of("float")]
        if d > 0:
            makers += [
                lambda: f"{self.float_(d - 1)} {self.pick('+-*')} {self.float_(0)}",
                lambda: f"({self.float_(d - 1)} {self.pick('+-')} {self.int_(d - 1)})",
                lambda: f"({self.int_(d - 1)}) / {self.pick([2, 3, 4, 8, -2])}",
                lambda: f"({self.float_(d - 1)}) {self.pick(['//', '%'])} {self.pick([2, 0.5, 3])}",
                lambda: f"float({self.int_(d - 1)})",
                lambda: f"round({self.float_(d - 1)}, {self.pick([0, 1, 2])})",
                lambda: f"abs({self.float_(d - 1)})",
                lambda: f"({self.float_(d - 1)} if {self.bool_(d - 1)} else {self.float_(d - 1)})",
                lambda: f"float({self.scalar(d - 1)})",
                lambda: self.item(lambda v: type(v) is float),
            ]
        return self.one_of(makers)

    def number(self, d=2):
        return self.int_(d) if self.chance(0.5) else self.float_(d)

    def bool_(self, d=2):
        compare = lambda: self.pick(["<", ">", "<=", ">=", "==", "!="])
        makers = [lambda: self.pick(["True", "False"]), lambda: self.name_of("bool")]
        if d > 0:
            makers += [
                lambda: f"{self.int_(d - 1)} {compare()} {self.int_(d - 1)}",
                lambda: f"{self.number(d - 1)} {compare()} {self.number(d - 1)}",
                lambda: f"(not {self.bool_(d - 1)})",
                lambda: f"({self.bool_(d - 1)} {self.pick(['and', 'or'])} {self.bool_(d - 1)})",
                lambda: f"{self.int_(0)} {self.pick(['in', 'not in'])} {self.list_of(int)}",
                lambda: f"{self.text(0)} {self.pick(['in', 'not in', '==', '!=', '<'])} {self.text(d - 1)}",
                lambda: f"{self.text(0)} in {self.name_of('dict')}",
                lambda: f"{self.list_of(int)} == {self.list_of(int)}",
                lambda: f"{self.name_of('text')}.{self.pick(['startswith', 'endswith'])}({self.text(0)})",
                lambda: f"({self.int_(0)} < {self.int_(0)} <= {self.int_(0)})",
                lambda: f"bool({self.pick([self.int_, self.float_, self.text])(d - 1)})",
            ]
        return self.one_of(makers)

    def text(self, d=2):
        makers = [lambda: repr(self.pick(WORDS)), lambda: self.name_of("text")]
        if d > 0:
            makers += [
                lambda: f"{self.text(d - 1)} + {self.text(0)}",
                lambda: f"str({self.number(d - 1)})",
                lambda: f"{self.name_of('text')}{self.slice(5)}",
                lambda: f"{self.name_of('text')}.{self.pick(['upper', 'lower', 'strip'])}()",
                lambda: f"{self.name_of('text')}.replace({self.text(0)}, {self.text(0)})",
                lambda: f"{self.pick(WORDS[:4])!r} * {self.pick([0, 2, 3])}",
                lambda: "f'" + self.pick(["", "n=", "<"]) + "{" + self.number(0) + self.spec() + "}'",
                lambda: f"{self.pick([', ', '-'])!r}.join({self.list_of(str)})",
                lambda: "'%d of %d' % (" + self.int_(0) + ", " + self.int_(0) + ")",
                lambda: self.item(lambda v: type(v) is str),
            ]
        return self.one_of(makers)

    def spec(self):
        return self.pick(["", ":.2f", ":8.3f", ":>6", ":<7", ":g", ":.3e", ":+.1f", ":^9"])

    def slice(self, n):
        bound = lambda: self.pick(["", "", str(self.rng.randint(-n, n))])
        step = self.pick(["", "", "", ":2", ":-1"])
        return f"[{bound()}:{bound()}{step}]"

    def index(self, n):
        if n == 0:
            raise Rejected
        return self.rng.randint(-n, n - 1)

    def item(self, test):
        """An item of a list, tuple or dict."""
        name = self.pick(self.names(lambda v: isinstance(v, (list, tuple, dict)) and len(v) > 0))
        v = self.value(name)
        if isinstance(v, dict):
            key = self.pick([k for k, x in v.items() if test(x)])
            return f"{name}[{key!r}]"
        i = self.pick([i for i, x in enumerate(v) if test(x)])
        return f"{name}[{i if self.chance(0.7) else i - len(v)}]"

    def list_of(self, kind):
        """A list of numbers or texts that is there, or a display."""
        one = {int: self.int_, float: self.float_, str: self.text}[kind]
        is_such = lambda v: isinstance(v, list) and v and all(type(x) is kind for x in v)
        makers = [lambda: self.pick(self.names(is_such)),
                  lambda: "[" + ", ".join(one(0) for _ in range(self.rng.randint(1, 4))) + "]"]
        if kind is int:
            makers.append(lambda: f"list(range({self.rng.randint(1, 5)}))")
        return self.one_of(makers)

    def list_(self, d=2):
        name = lambda: self.name_of("list")
        kind = self.pick([int, int, float, str])
        makers = [lambda: self.list_of(kind), name]
        if d > 0:
            makers += [
                lambda: f"[{self.list_(d - 1)}, {self.list_(d - 1)}]",
                lambda: f"{self.list_(d - 1)} + {self.list_(0)}",
                lambda: f"{self.list_(0)} * {self.pick([0, 2, 3])}",
                lambda: f"{name()}{self.slice(4)}",
                lambda: f"sorted({self.list_of(kind)})",
                lambda: f"list(reversed({self.list_of(kind)}))",
                lambda: self.comprehension(d),
                lambda: self.item(lambda v: isinstance(v, list)),
                lambda: f"list({self.name_of('dict')}.{self.pick(['keys()', 'values()'])})",
                lambda: f"{self.text(0)}.split({self.pick([',', ' ', 'b'])!r})",
                lambda: f"[{self.array(0)}, {self.array(0)}]",
                lambda: f"[{self.number(d - 1)}, {self.text(0)}, {self.bool_(0)}]",
            ]
        return self.one_of(makers)

    def comprehension(self, d):
        x = self.fresh("c")
        source, sample = self.one_of([
            lambda: (f"range({self.rng.randint(1, 5)})", 1), lambda: (self.list_of(int), 1),
            lambda: (self.list_of(float), 0.5), lambda: (self.list_of(str), "ab")])
        self.inner.append({x: sample})
        try:
            body = self.pick([self.int_, self.float_, self.text, self.bool_])(d - 1)
            test = f" if {self.bool_(1)}" if self.chance(0.4) else ""
        finally:
            self.inner.pop()
        return f"[{body} for {x} in {source}{test}]"

    # ---- Arrays ----

    def shape(self):
        return self.pick([(2,), (3,), (4,), (2, 3), (3, 2), (1, 3), (2, 2), (2, 1), (0,), (2, 2, 2)])

    def number_text(self, dtype):
        return str(self.pick([0, 1, 2, 3, -1, -2, 5]) if "int" in dtype
                   else self.pick([0, 1, 2, 0.5, -1.5, 3, 0.25]))

    def display(self, shape, dtype):
        if not shape:
            return self.number_text(dtype)
        return "[" + ", ".join(self.display(shape[1:], dtype) for _ in range(shape[0])) + "]"

    def new_array(self, shape=None, dtype=None):
        shape = shape or self.shape()
        dtype = dtype or self.pick(DTYPES)
        named = "" if dtype == "float32" else f", dtype='{dtype}'"
        makers = [lambda: f"array({self.display(shape, dtype)}{named})",
                  lambda: f"{self.pick(['zeros', 'ones'])}({shape if len(shape) > 1 else shape[0]}{named})"]
        if shape != (0,):
            n = int(np.prod(shape))
            makers.append(lambda: f"arange({n}{named}).reshape({', '.join(map(str, shape))})")
        return self.pick(makers)()

    def like(self, name, d):
        """An array that fits the named one by broadcasting."""
        v = self.value(name)
        same = lambda w: isinstance(w, np.ndarray) and w.dtype == v.dtype and w.shape == v.shape
        makers = [lambda: self.number_text(str(v.dtype)), lambda: self.pick(self.names(same)),
                  lambda: self.new_array(v.shape, str(v.dtype))]
        if v.ndim == 2 and v.size:
            makers += [lambda: self.new_array((v.shape[1],), str(v.dtype)),
                       lambda: self.new_array((v.shape[0], 1), str(v.dtype))]
        return self.one_of(makers)

    def known(self, test=lambda v: True):
        numbers = lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.dtype != bool and test(v)
        return self.pick(self.names(numbers))

    def gather(self, n):
        ids = [self.index(n) for _ in range(self.rng.randint(1, 4))]
        return self.pick([str(ids), f"array({ids}, dtype='int64')"])

    def part(self, v):
        """What stands in the brackets of a part of v."""
        n = v.shape[0]
        makers = [lambda: str(self.index(n)) if v.ndim > 1 else self.slice(n)[1:-1],
                  lambda: self.slice(n)[1:-1], lambda: self.gather(n)]
        if v.ndim == 2:
            makers += [lambda: f":, {self.index(v.shape[1])}", lambda: f"{self.index(n)}, :",
                       lambda: f"{self.slice(n)[1:-1]}, {self.slice(v.shape[1])[1:-1]}",
                       lambda: f"..., {self.index(v.shape[1])}"]
        return self.one_of(makers)

    def array(self, d=2):
        makers = [self.new_array, self.known]
        if d > 0:
            a = lambda: self.known()
            binary = lambda: self.binary(d)
            makers += [
                binary, binary, binary,
                lambda: f"-{a()}", lambda: f"abs({a()})", lambda: f"copy({a()})",
                lambda: self.ordered(), lambda: self.ordered(), lambda: self.reshaped(),
                lambda: self.taken(), lambda: self.taken(), lambda: self.reduced(),
                lambda: self.compared(d), lambda: self.joined(), lambda: self.chosen(d),
                lambda: f"{a()}.astype({self.pick(['float32', 'int64', 'float64'])!r})",
                lambda: f"({self.array(d - 1)} if {self.bool_(d - 1)} else {self.array(d - 1)})",
                lambda: self.item(lambda v: isinstance(v, np.ndarray)),
                lambda: f"sqrt(abs({self.known(lambda v: v.dtype == F32)}))",
            ]
        return self.one_of(makers)

    def binary(self, d):
        name = self.known()
        op = self.pick(["+", "-", "*", "+", "-", "*", "/", "**", "//", "%"])
        if op in ("**",):
            return f"{name} ** 2"
        if op in ("/", "//", "%"):
            if "int" in str(self.value(name).dtype):
                raise Rejected
            return f"{name} {op} {self.pick([2, 4, 0.5])}"
        right = self.like(name, d)
        text = f"{name} {op} {right}" if self.chance(0.7) else f"{right} {op} {name}"
        return f"({text}) {self.pick('+-*')} {self.like(name, 0)}" if self.chance(0.3) else text

    def ordered(self):
        name = self.known(lambda v: v.ndim == 1 and v.size > 0)
        return self.pick([f"sort({name})", f"copy(flip({name}))", f"cumsum({name})", f"unique({name})",
                          f"diff({name})", f"clip({name}, 0, 2)", f"repeat({name}, 2)"])

    def reshaped(self):
        name = self.known()
        v = self.value(name)
        return self.pick([f"{name}.T.copy()", f"{name}.reshape(-1)" + ".copy()",
                          f"{name}.reshape({v.size}, 1).copy()"])

    def taken(self):
        name = self.known(lambda v: v.shape[0] > 0)
        v = self.value(name)
        if self.chance(0.25):
            return f"{name}[{name} {self.pick(['>', '<', '=='])} {self.number_text(str(v.dtype))}]"
        if self.chance(0.15):
            return f"take({name}, {self.gather(v.shape[0])}, axis=0)"
        return f"copy({name}[{self.part(v)}])"

    def reduced(self):
        name = self.known(lambda v: v.ndim == 2 and v.size > 0)
        keep = self.pick(["", "", ", keepdims=True"])
        return f"{name}.{self.pick(['sum', 'max', 'min'])}(axis={self.pick([0, 1, -1])}{keep})"

    def compared(self, d):
        name = self.known()
        return f"({name} {self.pick(['<', '>', '<=', '>=', '==', '!='])} {self.like(name, 0)})"

    def joined(self):
        name = self.known(lambda v: v.ndim < 3)
        v = self.value(name)
        other = self.new_array(v.shape, str(v.dtype))
        return self.pick([f"stack([{name}, {other}])", f"concatenate([{name}, {other}])"])

    def chosen(self, d):
        name = self.known()
        other = self.new_array(self.value(name).shape, str(self.value(name).dtype))
        if self.chance(0.5):
            return f"{self.pick(['maximum', 'minimum'])}({name}, {other})"
        return f"where({name} > {self.number_text('int')}, {name}, {other})"

    def scalar(self, d=1):
        name = self.known(lambda v: v.size > 0)
        v = self.value(name)
        return self.pick([
            f"{name}.{self.pick(['sum', 'max', 'min'])}()",
            f"{name}[{', '.join(str(self.index(n)) for n in v.shape)}]"])

    def any_(self, d=2):
        return self.pick([self.int_, self.float_, self.bool_, self.text, self.list_, self.list_,
                          self.array, self.array, self.array, self.dict_])(d)

    def dict_(self, d=1):
        keys = self.rng.sample(["a", "b", "w0", "lr", "x y"], self.rng.randint(1, 3))
        one = self.pick([self.int_, self.float_, self.text, self.list_, self.array])
        return "{" + ", ".join(f"{k!r}: {one(d - 1)}" for k in keys) + "}"

    # ---- Statements: lists of lines ----

    def assign(self):
        return [f"{self.fresh('v')} = {self.any_()}"]

    def rebind(self):
        name = self.pick([n for n in self.names(lambda v: kind_of(v) in ("int", "float", "text", "bool"))
                          if n[0] != "n"])  # those count loops down
        if name == "lr" or name[0] == "r":
            return [f"{name} = {self.pick([0.25, 2, -1])}"]  # a rule reads numbers only
        make = {"int": self.int_, "float": self.float_, "text": self.text, "bool": self.bool_}
        new = make[kind_of(self.value(name))](2)
        bound = kind_of(self.value(name)) == "int" and self.inner  # in a loop it may be raised again and again
        return [f"{name} = ({new}) % 1000" if bound else f"{name} = {new}"]

    def alias(self):
        name = self.pick(self.names(lambda v: isinstance(v, (list, dict, np.ndarray))))
        return [f"{self.fresh('v')} = {name}"]

    def swap(self):
        free = [n for n in self.names(lambda v: True) if n != "lr" and n[0] != "r"]  # a rule reads numbers only
        a, b = self.pick(free), self.pick(free)
        return [f"{a}, {b} = {b}, {a}"]

    def unpack(self):
        x, y = self.fresh("v"), self.fresh("v")
        return self.pick([
            lambda: [f"{x}, {y} = {self.any_(1)}, {self.any_(1)}"],
            lambda: [f"{x}, {y} = {self.pick(self.names(lambda v: isinstance(v, (list, tuple)) and len(v) == 2))}"],
            lambda: [f"{x}, ({y}, {self.fresh('v')}) = {self.int_(0)}, ({self.text(0)}, {self.float_(0)})"],
        ])()

    def array_in_place(self):
        name = self.known()
        v = self.value(name)
        op = self.pick(["+=", "-=", "*="])
        part = lambda: self.part(v)
        makers = [lambda: [f"{name} {op} {self.like(name, 1)}"],
                  lambda: [f"{name} {op} {name}"],
                  lambda: [f"{name}[{part()}] = {self.number_text(str(v.dtype))}"],
                  lambda: [f"{name}[{part()}] {op} {self.number_text(str(v.dtype))}"],
                  lambda: [f"{name}[:] = {self.like(name, 1)}"]]
        if "float" in str(v.dtype):
            makers.append(lambda: [f"{name} /= {self.pick([2, 4, 0.5])}"])
            makers.append(lambda: [f"{name}[{name} > 1] = {self.pick([0, -1, 0.5])}"])
        return self.one_of(makers)

    def list_in_place(self):
        name = self.name_of("list")
        v = self.value(name)
        makers = [lambda: [f"{name}.append({self.any_(1)})"],
                  lambda: [f"{name} += {self.list_(1)}"],
                  lambda: [f"{name}.extend({self.list_(0)})"],
                  lambda: [f"{name}.insert({self.pick([0, 1, -1])}, {self.int_(0)})"]]
        if v:
            makers += [lambda: [f"{name}[{self.index(len(v))}] = {self.any_(1)}"],
                       lambda: [f"{self.fresh('v')} = {name}.pop()"], lambda: [f"{name}.reverse()"],
                       lambda: [f"{self.fresh('v')} = {name}.pop(0)"]]
        at = [i for i, x in enumerate(v) if isinstance(x, np.ndarray) and x.dtype != bool and x.ndim]
        if at:
            i = self.pick(at)
            makers += 4 * [lambda: [f"{name}[{i}] {self.pick(['+=', '*='])} {self.pick([1, 2, 3])}"]]
            if v[i].shape[0]:
                makers += 3 * [lambda: [f"{name}[{i}][{self.index(v[i].shape[0])}] = {self.pick([1, 7])}"]]
        at = [i for i, x in enumerate(v) if isinstance(x, list)]
        if at:
            makers += 2 * [lambda: [f"{name}[{self.pick(at)}].append({self.int_(0)})"]]
        lines = self.one_of(makers)
        if len(re.findall(rf"\b{name}\b", lines[0])) > 1:
            raise Rejected  # a list that may hold itself
        return lines

    def dict_in_place(self):
        name = self.name_of("dict")
        v = self.value(name)
        makers = [lambda: [f"{name}[{self.pick(['a', 'b', 'c', 'lr'])!r}] = {self.any_(1)}"]]
        keys = [k for k, x in v.items() if kind_of(x) in ("int", "float", "list", "array")
                and not (isinstance(x, np.ndarray) and x.dtype == bool)]
        if keys:
            k = self.pick(keys)
            right = "[1]" if isinstance(v[k], list) else "1"
            makers += 3 * [lambda: [f"{name}[{k!r}] += {right}"]]
        makers += [lambda: [f"{self.fresh('v')} = {name}.get({self.pick(['a', 'zz'])!r}, {self.int_(0)})"]]
        return self.one_of(makers)

    def block(self, scope, depth, n=None):
        self.inner.append(scope)
        try:
            lines = []
            for _ in range(n or self.rng.randint(1, 3)):
                lines += self.simple(depth)
        finally:
            self.inner.pop()
        return ["    " + line for line in lines]

    def simple(self, depth):
        makers = [self.array_in_place, self.array_in_place, self.list_in_place, self.rebind,
                  self.print_one, self.print_one, self.dict_in_place]
        if depth > 0:
            makers += [lambda: self.if_(depth - 1), lambda: self.for_(depth - 1)]
        return self.one_of(makers)

    def if_(self, depth=1):
        lines = [f"if {self.bool_()}:"] + self.block({}, depth)
        if self.chance(0.3):
            lines += [f"elif {self.bool_()}:"] + self.block({}, depth)
        if self.chance(0.5):
            lines += ["else:"] + self.block({}, depth)
        return lines

    def loop_head(self):
        x, y = self.fresh("i"), self.fresh("i")
        plain = lambda v: isinstance(v, list) and v and len({kind_of(x) for x in v}) == 1

        def over_list():
            name = self.pick(self.names(plain))
            return f"for {x} in {name}:", {x: self.value(name)[0]}

        def over_pairs():
            name = self.pick(self.names(plain))
            return f"for {x}, {y} in enumerate({name}):", {x: 0, y: self.value(name)[0]}

        def over_two():
            a, b = self.pick(self.names(plain)), self.pick(self.names(plain))
            return f"for {x}, {y} in zip({a}, {b}):", {x: self.value(a)[0], y: self.value(b)[0]}

        def over_dict():
            name = self.pick(self.names(lambda v: isinstance(v, dict) and v))
            if self.chance(0.5):
                return f"for {x} in {name}:", {x: "a"}
            return f"for {x}, {y} in {name}.items():", {x: "a", y: next(iter(self.value(name).values()))}

        def over_rows():
            name = self.known(lambda v: v.ndim == 2 and v.shape[0] > 0)
            return f"for {x} in {name}.copy():", {}

        bounds = self.pick(["3", "4", "1, 4", "0, 6, 2", "3, 0, -1"])
        return self.one_of([lambda: (f"for {x} in range({bounds}):", {x: 1}), over_list, over_list,
                            over_pairs, over_two, over_dict, over_rows])

    def for_(self, depth=1):
        head, scope = self.loop_head()
        lines = [head] + self.block(scope, depth)
        if self.chance(0.2):
            lines += [f"    if {self.bool_(1)}:", f"        {self.pick(['break', 'continue'])}"]
            lines += self.block({}, 0, 1)
        return lines

    def while_(self, depth=1):
        n = self.fresh("n")
        self.env[n] = 1
        body = self.block({}, depth)
        return [f"{n} = {self.rng.randint(1, 4)}", f"while {n} > 0:", f"    {n} -= 1"] + body

    def def_(self):
        f = self.fresh("f")
        params = [self.fresh("p") for _ in range(self.rng.randint(1, 3))]
        values = [self.any_(0) for _ in params]
        samples = {p: eval(v, dict(PRELUDE), dict(self.env)) for p, v in zip(params, values)}
        defaults = type(samples[params[-1]]) in (int, float) and self.chance(0.6)
        shown = params[:-1] + [f"{params[-1]}={self.number(0)}" if defaults else params[-1]]
        outer, self.env = self.env, {n: v for n, v in self.env.items() if self.chance(0.3) and
                                     not isinstance(v, (int, float, str, bool))}
        self.inner.append(samples)
        try:
            body = []
            for _ in range(self.rng.randint(1, 3)):
                body += ["    " + line for line in self.simple(1)]
            returns = self.chance(0.7)
            if returns:
                body += [f"    return {self.any_(1)}"]
        finally:
            self.inner.pop()
            self.env = outer
        lines = [f"def {f}({', '.join(shown)}):"] + body
        for _ in range(self.rng.randint(1, 2)):
            given = values[:-1] if defaults and self.chance(0.5) else values[:-1] + [
                f"{params[-1]}={values[-1]}" if self.chance(0.2) else values[-1]]
            call = f"{f}({', '.join(given)})"
            # kvctl shows the value of a statement, as the prompt of Python does
            alone = [] if returns else [call]
            lines += [self.pick([f"{self.fresh('v')} = {call}", f"print({call})"] + alone)]
        return lines

    # ---- The store ----

    def fits(self, key):
        v = self.kept[key]
        return self.pick(self.names(lambda w: isinstance(w, np.ndarray) and w.dtype == F32
                                    and w.shape == v.shape))

    def pushed(self, key):
        """One value of a key, or one of each of several devices."""
        one = lambda: self.fits(key) if self.chance(0.6) else self.new_array(self.kept[key].shape, "float32")
        return one() if self.chance(0.5) else f"[{', '.join(one() for _ in range(self.rng.randint(1, 3)))}]"

    def init(self):
        key = self.fresh("")
        return [f"kv.init({key}, {self.known(lambda v: v.dtype == F32 and v.size > 0)})"]

    def outs(self, key):
        is_out = lambda w: isinstance(w, np.ndarray) and w.dtype == F32 and w.shape == self.kept[key].shape

        def inside():
            name = self.pick(self.names(lambda v: isinstance(v, (list, dict))))
            v = self.value(name)
            items = v.items() if isinstance(v, dict) else enumerate(v)
            return f"{name}[{self.pick([k for k, x in items if is_out(x)])!r}]"

        return self.one_of([lambda: self.fits(key), inside, inside,
                            lambda: f"[{self.fits(key)}, {self.fits(key)}]",
                            lambda: self.pick(self.names(lambda v: isinstance(v, list) and v and
                                                         all(is_out(x) for x in v)))])

    def call_store(self):
        if not self.kept or self.chance(0.2):
            return self.init()
        key = self.pick(self.kept)
        if len(self.kept) > 1 and self.chance(0.3):
            both = self.rng.sample(sorted(self.kept), 2)
            return [f"kv.pull({both}, out=[{self.outs(both[0])}, {self.outs(both[1])}])"]
        return self.one_of([
            lambda: [f"kv.push({key}, {self.pushed(key)})"],
            lambda: [f"kv.pull({key}, out={self.outs(key)})"],
            lambda: [f"kv.pull({key}, out={self.outs(key)})"],
            lambda: [f"kv.pushpull({key}, {self.pushed(key)}, out={self.outs(key)})"],
            lambda: [f"kv.pushpull({key}, {self.fits(key)})"]])

    def set_updater(self):
        f = self.fresh("f")
        rate = self.pick(["0.5", "2", "lr", "r0"])
        before = [f"{rate} = {self.pick([0.25, 2, -1])}"] if rate in ("lr", "r0") else []
        change = self.pick([f"w -= {rate} * g", f"w += g * {rate}", f"w[:] = w + {rate} * g",
                            f"w += {rate}"])
        return before + [f"def {f}(key, g, w):", f"    {change}", f"kv._set_updater({f})"]

    def shown(self, name):
        """The lines that print a variable: lists that hold arrays are printed item by item."""
        v = self.value(name)
        holds = lambda w: isinstance(w, (np.ndarray, np.generic)) or (
            isinstance(w, (list, tuple)) and any(holds(x) for x in w)) or (
            isinstance(w, dict) and any(holds(x) for x in w.values()))
        if isinstance(v, (list, tuple)) and any(holds(x) for x in v):
            if any(isinstance(x, (list, tuple, dict)) and holds(x) for x in v):
                return [f"print(len({name}))"]
            x = self.fresh("i")
            return [f"for {x} in {name}:", f"    print({x})"]
        if isinstance(v, dict) and holds(v):
            x = self.fresh("i")
            if any(isinstance(w, (list, tuple, dict)) and holds(w) for w in v.values()):
                return [f"print(len({name}))"]
            return [f"for {x} in {name}:", f"    print({x}, {name}[{x}])"]
        return [f"print({name})"]

    def print_one(self):
        return self.one_of([
            lambda: [f"print({self.number()}, {self.bool_()})"],
            lambda: [f"print({self.text()})"],
            lambda: [f"print({self.scalar()})"],
            lambda: [f"print({self.list_of(self.pick([int, float, str]))})"],
            lambda: [f"print({self.array()})"],
            lambda: self.shown(self.pick(self.names(lambda v: True)))])

    def mistake(self):
        """A statement that Python refuses."""
        array_name = lambda: self.known(lambda v: v.size > 1)
        list_name = lambda: self.name_of("list")
        return self.one_of([
            lambda: [f"print({list_name()}[{self.pick([40, -40])}])"],
            lambda: [f"print({array_name()}[{self.pick([70, -70])}])"],
            lambda: [f"print(missing{self.made})"],
            lambda: [f"print({self.name_of('dict')}['nowhere'])"],
            lambda: [f"print({list_name()} + {self.pick([1, 0.5])})"],
            lambda: [f"print({self.name_of('text')} + 1)"],
            lambda: [f"print({array_name()} + zeros(17))"],
            lambda: [f"if {array_name()} > 0:", "    print('yes')"],
            lambda: [f"print({self.int_(0)} / 0)"],
            lambda: [f"print({self.int_(0)} // 0)"],
            lambda: [f"assert {self.int_(0)} == 99"],
            lambda: [f"x, y = {self.int_(0)}, 2, 3"],
            lambda: [f"print(int('x1'))"],
            lambda: [f"print([] < {self.int_(0)})"],
            lambda: [f"{array_name()}.append(1)"],
            lambda: [f"print(len({self.int_(0)}))"],
            lambda: [f"{array_name()}[0] = 'x'"],
            lambda: [f"{array_name()} += zeros((5, 19))"],
        ])

    def statement(self):
        return self.pick([self.assign] * 6 + [self.alias] * 3 + [self.array_in_place] * 3 +
                         [self.list_in_place] * 3 + [self.dict_in_place] * 2 +
                         [self.if_, self.for_, self.for_, self.while_, self.def_, self.def_,
                          self.print_one, self.print_one, self.swap, self.unpack, self.rebind] +
                         [self.call_store] * 7 + [self.set_updater])()


class Endless(Exception):
    """A loop that grows what it goes through, say."""


class Printed(io.StringIO):
    """What a program prints, as long as it is short."""

    def write(self, text):
        if self.tell() + len(text) > 3000:
            raise Endless
        return super().write(text)


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
             ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow}


def of_one_kind(x, y):
    """y, unless it is a float and x an array of integers or the other way round: their sum and so on is an
    array of integers in kvctl."""
    for a, b in ((x, y), (y, x)):
        if isinstance(a, np.ndarray) and "int" in str(a.dtype) and isinstance(b, (float, np.floating)):
            raise Rejected
    return y


def applied(name, x, y):
    return OPERATORS[getattr(ast, name)](x, of_one_kind(x, y))


HIDDEN = {"__of_one_kind": of_one_kind, "__applied": applied}  # the names behind the operators


class OfOneKind(ast.NodeTransformer):
    """Looks at the values before each operator."""

    def call(self, node, function, *arguments):
        at = lambda made: ast.copy_location(made, node)
        return at(ast.Call(at(ast.Name(function, ast.Load())), list(arguments), []))

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if type(node.op) not in OPERATORS:
            return node
        name = ast.copy_location(ast.Constant(type(node.op).__name__), node)
        return self.call(node, "__applied", name, node.left, node.right)

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if type(node.op) in OPERATORS:
            target = copy.deepcopy(node.target)
            target.ctx = ast.Load()
            node.value = self.call(node, "__of_one_kind", target, node.value)
        return self.kept_whole(node, node.target)

    def visit_Assign(self, node):
        self.generic_visit(node)
        return self.kept_whole(node, node.targets[0])

    def kept_whole(self, node, target):
        if isinstance(target, ast.Subscript):
            container = copy.deepcopy(target.value)
            node.value = self.call(node, "__of_one_kind", container, node.value)
        return node


class Session:
    """A program so far: what it printed, and its names, which a statement that fails leaves alone."""

    def __init__(self):
        self.names, self.out = dict(PRELUDE, kv=Store(), **HIDDEN), ""
        self.kept = {"kv": self.names["kv"]}

    def run(self, lines):
        """What the lines fail with, or None."""
        kept, out, failure = copy.deepcopy(self.kept), Printed(), None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        with contextlib.redirect_stdout(out):
            try:
                try:
                    tree = OfOneKind().visit(ast.parse("\n".join(lines)))
                    exec(compile(tree, "program", "exec"), self.names)
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            except Exception as e:  # whatever Python refuses, and the end of the time
                failure = e
        self.printed = out.getvalue()
        self.before, self.kept = kept, {n: v for n, v in self.names.items()
                                        if n not in PRELUDE and not n.startswith("__")}
        return failure

    def undo(self):
        """Back to before the last lines. Functions read their names in this very dict."""
        self.names.clear()
        self.names.update(PRELUDE, **HIDDEN, **self.before)
        self.kept = self.before

    def variables(self):
        return {n: v for n, v in self.kept.items() if n != "kv"}


def program(rng):
    m, s = Maker(rng), Session()
    lines, wanted, tries = [], rng.randint(3, 8), 0
    wrong = rng.random() < 0.1
    while wanted and tries < 60:
        tries += 1
        try:
            more = m.mistake() if wrong and wanted == 1 else m.statement()
        except Rejected:
            continue
        failure = s.run(more)
        if failure and wrong and wanted == 1 and not isinstance(failure, (SyntaxError, Endless)):
            return lines + more, s.out + s.printed, True
        if failure or len(s.out + s.printed) > 1500 or not all(map(in_bounds, s.variables().values())):
            s.undo()
        else:
            lines += more
            s.out += s.printed
            wanted -= 1
        m.kept = s.names["kv"].kept
        m.env = {n: v for n, v in s.variables().items() if not callable(v)}
    for name in sorted(m.env):
        if not name.startswith("i"):
            more = m.shown(name)
            if s.run(more):
                return None
            lines += more
            s.out += s.printed
    return lines, s.out, False


def stop(number, frame):
    raise Endless


def record(kind, lines, out):
    print("=== " + kind, *lines, "---", sep="\n")
    sys.stdout.write(out)


def texts():
    for part in re.split(r"^===", sys.stdin.read(), flags=re.M)[1:]:
        word, text = part.split("\n", 1)
        lines = re.split(r"^---$", text, flags=re.M)[0].rstrip("\n").split("\n")
        s = Session()
        failure = s.run(lines)
        record("refused" if word == " refused" else "error" if failure else "ok", lines, s.printed)


def main():
    signal.signal(signal.SIGVTALRM, stop)
    if len(sys.argv) == 1:
        return texts()
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    seen = set()
    while count:
        made = program(rng)
        if made is None:
            continue
        lines, out, failed = made
        text = "\n".join(lines)
        # NumPy writes its own scalars, views and negative zeros of sums in ways of its own
        beyond = re.search(r"\d{19}", out)  # integers of kvctl have 64 bits
        if "sqrt" in text and re.search("sum|mean|var|dot", text):
            continue  # sums of roots depend on the order
        if beyond or text in seen or "np." in out or "array(" in out or len(text) > 700 or len(out) > 450 or "e+" in out:
            continue
        seen.add(text)
        record("error" if failed else "ok", lines, out)
        count -= 1


main()
