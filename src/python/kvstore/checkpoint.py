"""Checkpoints: safetensors of one file or of shards with an index, npz, and GGUF to read.

    model = kvstore.open("m/")                # reads the header alone
    model["layer.0.weight"]                   # one tensor, an array of NumPy
    kvstore.checkpoint.diff("a.safetensors", "b.safetensors", rtol=1e-3)
    kvstore.checkpoint.merge("ties", "a.safetensors", "b.safetensors", base="c.safetensors", out="m.safetensors")

Tensors of bfloat16 are arrays of ml_dtypes.bfloat16 where that package is installed (pip install ml_dtypes), and of float32,
which holds each of their numbers exactly, where it is not. Codes of less than 16 bits and blocks of GGUF are float32.

kvctl does the work, piece by piece, so models may be larger than memory; its pages (kvctl help checkpoints, help merge)
say what every option means. Paths are str or os.PathLike, options have the names of kvctl's with _ for -.
Its warnings, as of numbers that a dtype cannot hold, and notes go to the logger "kvstore".
"""
import json
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any, Union

import numpy

from . import _make, adopt, tool
from .errors import KVError
from .table import Table

Path = Union[str, os.PathLike]

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
           "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
           "C64": "complex64"}


def _dtype(name):
    """NumPy's dtype for one of safetensors. Blocks of GGUF, and narrow floats, are read as float32."""
    if re.match(r"(I|T)?Q\d|MXFP4$|NVFP4$|F[68]_|F4$", name):
        name = "F32"
    if name == "BF16":
        return adopt.numpy_dtype("bfloat16")
    if name in _DTYPES:
        return numpy.dtype(_DTYPES[name])
    raise KVError(f"NumPy has no dtype for {name}", "dtype", "convert(path, out, dtype='f32') makes a file that it has one for")


def _glob(key):
    """The pattern that a key alone fits: one that is no option, NAME=VALUE too, and no path of a checkpoint by its end."""
    return re.sub(r"^-|[*?\[=]|[a-zA-Z/]$", r"[\g<0>]", key.replace("\\", "\\\\"))


class Checkpoint(Mapping):
    """The tensors of a checkpoint by name. A tensor is read when it is asked for."""

    def __init__(self, path: Path):
        self.path = os.path.abspath(os.fspath(path))
        self._entries = {row["key"]: row for row in tool.run("ls", self.path)["entries"]}
        self._quiet = ()  # the options of a later read of codes, whose notes were seen

    def info(self) -> Table:
        """A row for each tensor: key, dtype, shape, bytes."""
        return Table(dict(row, shape=tuple(row["shape"])) for row in self._entries.values())

    def read(self, *keys: str) -> dict[str, numpy.ndarray]:
        """Some tensors at once, all of them without keys. Their memory is their own. Narrow codes are the float32 that they
        mean with their scales, as in the language of kvctl; scales are tensors, too."""
        for key in keys:
            if key not in self._entries:
                raise KVError(f'"{self.path}" has no key "{key}"', "key")
        keys = keys or tuple(self._entries)
        codes = {key: numpy.dtype("float32") for key in keys if self._is_codes(key)}
        types = {key: codes.get(key) or _dtype(self._entries[key]["dtype"]) for key in keys}
        others = [key for key in keys if key not in codes]
        made = {}
        if others:
            made.update(self._part(others, () if len(others) == len(self._entries) else map(_glob, others)))
        if codes:
            made.update(self._part(codes, (*map(_glob, codes), "--dtype", "f32", *self._quiet)))
            self._quiet = ("-q",)
        return {key: adopt.numbers(made[key][0].view(types[key])).reshape(made[key][1]) for key in keys}

    def _is_codes(self, key):
        """Whether a tensor is of a type that NumPy lacks, or of codes with scales beside them."""
        kind = self._entries[key]["dtype"]
        scales = (key + "_scale", key + "_scale_inv", re.sub(r"weight$", "scale_weight", key))
        return bool(re.match(r"F[68]_|F4$", kind)) or (kind == "I8" and any(s != key and s in self._entries for s in scales))

    def _part(self, keys, words):
        """The bytes of tensors, in their shapes, by a file that kvctl makes of them."""
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "part.safetensors")
            tool.run("convert", self.path, out, *words)
            with open_file(out, "rb") as f:
                header = int.from_bytes(f.read(8), "little")
                about = json.loads(f.read(header))
            # the file goes with its folder, its pages when the last array does
            data = numpy.memmap(out, "uint8", "c", 8 + header) if any(self._entries[k]["bytes"] for k in keys) else None
        made = {}
        for key in keys:
            begin, end = about[key]["data_offsets"]
            flat = numpy.asarray(data)[begin:end] if end > begin else numpy.zeros(0, "uint8")
            made[key] = flat, about[key]["shape"]
        return made

    def __getitem__(self, key: str) -> numpy.ndarray:
        if key not in self._entries:
            raise KeyError(key)
        return self.read(key)[key]

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    def __repr__(self):
        return f"<Checkpoint {self.path}: {len(self)} keys>"

    def _repr_html_(self):
        return f"<p><code>{self.path}</code></p>{self.info()._repr_html_()}"


open_file = open


def open(path: Path) -> Checkpoint:  # noqa: A001  kvstore.open reads as it should
    """The tensors of a checkpoint, by name; only the header is read. A tensor is an array of NumPy: of bfloat16 one of
    ml_dtypes.bfloat16, or, where ml_dtypes is not installed, of float32 with the same numbers."""
    return Checkpoint(path)


def _rows(record):
    return Table(record.get("entries", []))


def _paths(paths):
    """Words for paths, some of which may stand in lists."""
    return [word for p in paths for word in (_paths(p) if isinstance(p, (list, tuple)) else [tool.word(p)])]


def _one(path):
    if isinstance(path, (list, tuple)):
        raise KVError(f"one checkpoint, not a list of {len(path)}", "usage", "[mx.checkpoint.stat(path) for path in paths]")
    return tool.word(path)


def ls(path: Path) -> Table:
    """A row for each tensor, of the header alone: key, dtype, shape, bytes."""
    return Checkpoint(_one(path)).info()


def diff(a: Path, b: Path, *globs: str, **options: Any) -> Table:
    """The keys in which two checkpoints differ, the worst first; no rows: they agree. rtol, atol, ulps: how far numbers
    may differ."""
    return _rows(tool.run("diff", _one(a), _one(b), *globs, *tool.options(options), answers=True))


def hash(path: Path) -> dict[str, str]:  # noqa: A001
    """The hash of each key, of its dtype, shape and bytes: equal in every format."""
    return {row["key"]: row["hash"] for row in tool.run("hash", _one(path))["entries"]}


def stat(path: Path) -> Table:
    """Least, largest, mean, deviation, zeros, nan and inf of each key."""
    return _rows(tool.run("stat", _one(path)))


def check(path: Path, **options: Any) -> Table:
    """What is wrong with a checkpoint, a row a finding; no rows: nothing. like: another whose names and shapes it has."""
    return _rows(tool.run("check", _one(path), *tool.options(options), answers=True))


def convert(*paths: Union[Path, list[Path]], globs: tuple[str, ...] = (), **options: Any) -> None:
    """Writes one checkpoint, the last path, of others, which may stand in a list: some keys, another dtype or form. force:
    also over a folder."""
    tool.run("convert", *_paths(paths), *globs, *tool.options(options))


def merge(rule: str, *models: Union[Path, list[Path]], out: Path, **options: Any) -> Checkpoint:
    """Writes one checkpoint of several, also in a list, by a rule: "average", "slerp", "ties", ... or one of your own in braces. weights,
    base, ctx ("gpu(0)": the rule runs there) and the parameters of the rule are options. Gives the result."""
    tool.run("merge", rule, *_paths(models), "--out", _one(out), *tool.options(options))
    return Checkpoint(out)


def patch(*paths: Union[Path, list[Path]], out: Path, chain: bool = False) -> dict[str, int]:
    """Writes a small file that turns the first of two checkpoints into the second; chain: the paths are patches, and it does
    the work of all. Gives how many keys are changed, new, gone and the same, how many elements differ, and the bytes."""
    return dict(_rows(tool.run("patch", *_paths(paths), "--out", _one(out), *tool.options({"chain": chain})))[0])


def apply(*paths: Union[Path, list[Path]], out: Union[Path, None] = None, **options: Any) -> Checkpoint:
    """Patches, one or several, over the checkpoint that they were made from, the last path. Writes the result to out, or
    over the checkpoint where in_place is True, and gives it. A checkpoint that they were not made from is a KVError whose
    code is assert."""
    words = _paths(paths)
    tool.run("apply", *words, *tool.options({"out": out and _one(out), **options}))
    return Checkpoint(words[-1] if out is None else out)


class Svg(str):
    """A picture; notebooks show it."""

    def _repr_svg_(self):
        return str(self)

    def save(self, path: Path) -> None:
        """Writes the picture to a file."""
        with open_file(path, "w") as f:
            f.write(self)


def plot(*values: Any, kind: str = "line") -> Svg:
    """A picture of arrays: kind "line", "heat" or "hist". gnuplot draws."""
    if kind not in ("line", "heat", "hist"):
        raise KVError(f'"{kind}" is not a kind of picture', "value", "line, heat, hist")
    with tempfile.TemporaryDirectory() as folder:
        names = [f"a{i}" for i in range(len(values))]
        for name, value in zip(names, values):
            array = adopt.numbers(numpy.asarray(value))
            numpy.save(os.path.join(folder, name + ".npy"), array.astype("float32") if array.dtype.kind not in "fiub" else array)
        read = "".join(f"{name} = @{name}.npy; " for name in names)
        flag = "" if kind == "line" else f" --{kind}"
        tool.run("-c", f"{read}plot {' '.join(names)}{flag} > picture.svg", cwd=folder)
        with open_file(os.path.join(folder, "picture.svg")) as f:
            return Svg(f.read())


__all__ = ["open", "ls", "diff", "hash", "stat", "check", "convert", "merge", "patch", "apply", "plot", "Checkpoint", "Svg"]


def __getattr__(name):
    raise _make.missing("kvstore.checkpoint", name, __all__, f"it has {', '.join(__all__)}; kvctl has more commands: kvctl help checkpoints")


def __dir__():
    return __all__
