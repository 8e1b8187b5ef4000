"""mx.np: arrays that are shown as NumPy shows them, and the functions that make them."""
from . import _make
from .array import ndarray

zeros, ones, full, array, arange, zeros_like, ones_like, empty = (
    _make.functions(ndarray)[name] for name in "zeros ones full array arange zeros_like ones_like empty".split())

__all__ = ["ndarray", "zeros", "ones", "full", "array", "arange", "zeros_like", "ones_like", "empty"]


def __getattr__(name):
    raise AttributeError(f"kvstore.np has no {name!r}: it makes arrays ({', '.join(__all__[1:])}); numpy works on them")
