"""mx.np: arrays that are NumPy's in everything, and the functions that make them; NumPy's functions work on them."""
from . import _make
from .array import ndarray
from .random import np as random  # noqa: F401

globals().update(_make.functions(ndarray))

__all__ = ["ndarray", "random", *_make.functions(ndarray)]


def __getattr__(name):
    raise _make.missing("kvstore.np", name, __all__, f"it makes arrays ({', '.join(__all__[2:])}), on which NumPy's functions work")


def __dir__():
    return __all__
