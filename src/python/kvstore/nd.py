"""mx.nd: arrays, what makes them, and the functions of MXNet on them. Functions of NumPy work on them as well."""
from . import _make, nd_sparse as sparse, ops, random
from ._make import waitall
from .array import NDArray, RowSparseNDArray
from .nd_file import load, save
from .nd_sparse import row_sparse_array

globals().update({**ops.FUNCTIONS, **_make.functions(NDArray)})
random_uniform, random_normal = random.uniform, random.normal

__all__ = ["NDArray", "RowSparseNDArray", "row_sparse_array", "sparse", "waitall", "random", "load", "save",
           *ops.FUNCTIONS, *_make.functions(NDArray)]


def __getattr__(name):
    raise _make.missing("kvstore.nd", name, __all__, "NumPy's functions work on its arrays, too")


def __dir__():
    return __all__
