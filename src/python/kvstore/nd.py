"""mx.nd: arrays, and the functions that make them. Arithmetic beyond operators is NumPy's: numpy.exp(a.asnumpy())."""
from . import _make, nd_sparse as sparse
from ._make import waitall
from .array import NDArray, RowSparseNDArray
from .nd_file import load, save
from .nd_sparse import row_sparse_array

zeros, ones, full, array, arange, zeros_like, ones_like, empty = (
    _make.functions(NDArray)[name] for name in "zeros ones full array arange zeros_like ones_like empty".split())

__all__ = ["NDArray", "RowSparseNDArray", "zeros", "ones", "full", "array", "arange", "zeros_like", "ones_like", "empty",
           "row_sparse_array", "sparse", "waitall", "load", "save"]
