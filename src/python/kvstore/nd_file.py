"""mx.nd.save and mx.nd.load: MXNet's files of arrays, which lib/checkpoint/params.h describes."""
import os

import numpy

from . import _kvstore
from .array import NDArray, RowSparseNDArray, of
from .context import current
from .errors import KVError


def save(fname, data):
    """Writes an array, a list of arrays or a dict of arrays by name to a file, as MXNet does. It is complete or not there."""
    named = isinstance(data, dict)
    arrays = data if isinstance(data, (list, tuple, dict)) else [data]
    names = list(map(str, arrays)) if named else list(range(len(arrays)))
    arrays = list(arrays.values() if named else arrays)
    for name, a in zip(names, arrays):
        if not isinstance(a, (NDArray, RowSparseNDArray)):
            raise KVError(f'save: "{name}" is a {type(a).__name__}, not an NDArray', "usage", "mx.nd.array(values) makes one")
    _kvstore.save_list(os.fspath(fname), names, arrays)


def load(fname):
    """The arrays of a file that MXNet or save wrote: a dict by name, or a list where they have no names. None stands for
    an array without a shape, int32 for int16 and uint16, int64 for uint32 and uint64, and a csr array is dense."""
    pairs = [(name, of(NDArray, numpy.asarray(a), current(), a._dtype) if a is not None and a.stype == "default" else a)
             for name, a in _kvstore.load_list(os.fspath(fname))]
    return dict(pairs) if pairs and pairs[0][0] is not None else [a for _, a in pairs]
