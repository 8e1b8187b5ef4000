"""Pages about MXNet's KVStore, whose code blocks are in tests/cli/data/pasted, packed: they run with one import changed,
`mxnet` to `kvstore`, and print what the pages show.

`print x` of Python 2 is a call of print here, and older pages are compared with the older way in which NumPy prints;
how many blanks stand together does not count. What cannot agree stands in LEFT_OUT, with the reason.
"""
import codeop
import contextlib
import doctest
import gzip
import io
import os
import pathlib
import re
import tempfile
import unittest
import warnings

import numpy

import kvstore

PASTED = pathlib.Path(__file__).parents[1] / "cli" / "data" / "pasted"

LEFT_OUT = {
    "notes": {
        "<mxnet.kvstore.KVStore object at 0x7f73cb52c710>": "<KVStore local>",  # another address each time
        ">>> [gpu(0), gpu(1), gpu(2), gpu(3)]": None,  # an output behind a prompt: gpu is no name of the page
        # repr(b[0]) was shorter in that year: now it is str(b[0]), with the elements.
        ">>> b": ">>> '[' + ', '.join(str(x).splitlines()[-1] for x in b) + ']'",
        "[<NDArray 2x3 @gpu(0)>, <NDArray 2x3 @gpu(1)>, <NDArray 2x3 @gpu(2)>, <NDArray 2x3 @gpu(3)>]":
            "'[<NDArray 2x3 @gpu(0)>, <NDArray 2x3 @gpu(1)>, <NDArray 2x3 @gpu(2)>, <NDArray 2x3 @gpu(3)>]'",
    },
    "docstrings": {
        # push has no argument `out`, in MXNet neither.
        ">>> kv.push(keys, [mx.nd.ones(shape)]*len(keys), out=b)": ">>> kv.pushpull(keys, [mx.nd.ones(shape)]*len(keys), out=b)",
    },
    "notebook": {
        "from d2l import mxnet as d2l": None,  # the book's package
        "help(kv)": None,  # prints the texts of MXNet's own classes
    },
}


def python3(code):
    """`print x` as a call."""
    return re.sub(r"^(\s*)print (?!\()(.*?)(\s*#.*)?$", r"\1print(\2)", code, flags=re.M)


class Session:
    """Runs entries as a prompt does, and collects what they print."""

    def __init__(self, names=None):
        self.names = {"__name__": "__main__", **(names or {})}
        self.out = io.StringIO()

    def run(self, code):
        compiled = codeop.compile_command(python3(code), symbol="single")
        if compiled is None:
            raise SyntaxError("not complete: " + code)
        with contextlib.redirect_stdout(self.out), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that GPUs are virtual
            exec(compiled, self.names)


def entries(lines):
    """The entries of a page with prompts: (code, what it printed)."""
    code, printed = [], []
    for line in lines:
        line = line.strip()
        if line.startswith("... ") or line == "..." or (line.startswith(">>>     ") and code):
            code.append(line[4:])
        elif line.startswith(">>>"):
            if code:
                yield "\n".join(code), printed
            code, printed = [line[4:]], []
        elif line and not line.startswith("#"):
            printed.append(line)
    if code:
        yield "\n".join(code), printed


def normalised(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


class Readme(unittest.TestCase):
    def test_the_block_of_the_readme(self):
        text = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
        blocks, names = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S), {}
        self.assertEqual(len(blocks), 1)
        exec(blocks[0], names)
        numpy.testing.assert_allclose(names["weight"], -0.4)


class HelpPython(unittest.TestCase):
    def test_what_help_python_shows_runs(self):
        text = (pathlib.Path(__file__).parents[2] / "cli" / "python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
        test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "python.md", None, 0)
        said, here = io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                doctest.DocTestRunner(verbose=False).run(test, out=said.write)
            finally:
                os.chdir(here)
        self.assertEqual(said.getvalue(), "")
        self.assertGreater(len(test.examples), 15)


class Pages(unittest.TestCase):
    def page(self, name):
        changes, lines = LEFT_OUT.get(name, {}), []
        for line in gzip.decompress((PASTED / f"{name}.txt.gz").read_bytes()).decode().splitlines():
            line = changes.get(line.strip(), line)
            if line is not None:
                lines.append(line)
        return [re.sub(r"^(>>> )?(import|from) mxnet\b", r"\1\2 kvstore", line) for line in lines]

    def prompts(self, name):
        session, expected, count = Session({"mx": kvstore}), [], 0
        for code, printed in entries(self.page(name)):
            if "\n" in code:
                code += "\n"
            with numpy.printoptions(legacy="1.13"):
                session.run(code)
            expected += printed
            count += 1
        self.assertEqual(normalised(session.out.getvalue()), normalised("\n".join(expected)))
        return count

    def test_tutorial(self):
        self.assertGreater(self.prompts("tutorial"), 25)

    def test_notes(self):
        self.assertGreater(self.prompts("notes"), 20)

    def test_docstrings(self):
        self.assertGreater(self.prompts("docstrings"), 60)

    def test_base(self):
        self.addCleanup(kvstore.KVStoreBase.kv_registry.clear)
        self.assertEqual(self.prompts("base"), 3)

    def test_notebook(self):
        out, names, expected, code, into = io.StringIO(), {}, [], [], None
        for line in self.page("notebook"):
            if line in ("# cell", "# output"):
                into = code if line == "# cell" else expected
            else:
                into.append(line)
        with contextlib.redirect_stdout(out):
            for cell in "\n".join(code).split("\nnp.ones((2,3))\n"):
                exec(cell, names)
                if "kv" in names and "a" not in names:
                    print(repr(names["np"].ones((2, 3))))  # a cell shows its last value
        self.assertEqual(normalised(out.getvalue()), normalised("\n".join(expected)))
