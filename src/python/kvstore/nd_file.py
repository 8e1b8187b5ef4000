"""mx.nd.save and mx.nd.load: MXNet's files of arrays, which lib/checkpoint/params.h describes. They are read and written
here, since a wheel has no kvctl; `kvstore.open` reads them by kvctl, key by key."""
import math
import os
import struct

import numpy

from .array import NDArray, RowSparseNDArray
from .errors import KVError

_TYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool", 12: "bfloat16"}
_FLAGS = {kind: flag for flag, kind in _TYPES.items()}
_MAGIC, _V1, _V2, _V3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA


# ---- Writing ----

def _shape(sizes):
    return struct.pack(f"<i{len(sizes)}q", len(sizes), *sizes)


def _record(name, a):
    """The parts of an array's record."""
    if not isinstance(a, (NDArray, RowSparseNDArray)):
        raise KVError(f'save: "{name}" is a {type(a).__name__}, not an NDArray', "usage", "mx.nd.array(values) makes one")
    kind = a._dtype
    if kind not in _FLAGS:
        raise KVError(f'save: "{name}" is {kind}, which MXNet\'s files do not hold', "dtype", 'astype("float32")')
    if len(a.shape) == 0:
        raise KVError(f'save: "{name}" has no axes, and MXNet\'s files hold no array without axes', "value", "reshape((1,))")
    sparse = a.stype == "row_sparse"
    values = (a.data if sparse else a).asnumpy()
    about = _shape(a.shape) + struct.pack("<3i", 1, 0, _FLAGS[kind])
    if not sparse:
        return struct.pack("<Ii", _V2, 0) + about, values.tobytes()
    rows = a.indices.asnumpy().astype("int64")
    head = struct.pack("<Ii", _V2, 1) + _shape(values.shape) + about + struct.pack("<i", 6) + _shape(rows.shape)
    return head, values.tobytes(), rows.tobytes()


def save(fname, data):
    """Writes an array, a list of arrays or a dict of arrays by name to a file, as MXNet does. It is complete or not there."""
    arrays = data if isinstance(data, (list, tuple, dict)) else [data]
    names = list(map(str, arrays)) if isinstance(data, dict) else []
    records = [_record(str(k), a) for k, a in (arrays.items() if isinstance(data, dict) else enumerate(arrays))]
    path = os.fspath(fname)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "wb") as f:
            f.write(struct.pack("<3Q", _MAGIC, 0, len(records)))
            for record in records:
                f.writelines(record)
            f.write(struct.pack("<Q", len(names)))
            for name in map(str.encode, names):
                f.write(struct.pack("<Q", len(name)) + name)
        os.replace(beside, path)
    except OSError as why:
        if os.path.exists(beside):
            os.remove(beside)
        raise KVError(f'cannot write "{path}": {why.strerror}', "io") from None


# ---- Reading ----

class _Reader:
    def __init__(self, path):
        self.path, self.at = path, 0
        try:
            with open(path, "rb") as f:
                self.data = f.read()
        except OSError as why:
            raise KVError(f'cannot read "{path}": {why.strerror}', "io") from None

    def wrong(self, what):
        return KVError(f"{self.path}: {what}", "format", "kvctl check FILE says more")

    def bytes(self, n):
        if n > len(self.data) - self.at:
            raise self.wrong("the file is cut")
        self.at += n
        return self.data[self.at - n:self.at]

    def numbers(self, form):
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))

    def shape(self, n=None, letter="q"):
        n = self.numbers("i")[0] if n is None else n
        if not 0 <= n <= 32:
            raise self.wrong(f"an array of {n} axes")
        sizes = self.numbers(f"{n}{letter}")
        if min(sizes, default=0) < 0:
            raise self.wrong(f"an array of shape {sizes}")
        return sizes

    def type(self):
        flag, = self.numbers("I")
        if flag not in _TYPES:
            raise KVError(f"{self.path}: it holds an array of type {flag}, which a store does not have", "dtype",
                          "kvstore.open(path) reads the others")
        return _TYPES[flag]

    def values(self, kind, shape):
        """Numbers of NumPy; those of bfloat16 as float32."""
        dtype = numpy.dtype("uint16" if kind == "bfloat16" else kind)
        bits = numpy.frombuffer(self.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
        return (bits.astype("uint32") << 16).view("float32") if kind == "bfloat16" else bits

    def array(self):
        from . import nd
        version, = self.numbers("I")
        storage = self.numbers("i")[0] if version in (_V2, _V3) else 0
        if storage not in (0, 1, 2):
            raise self.wrong(f"an array of storage {storage}")
        room = self.shape() if storage else ()
        shape = self.shape() if version in (_V1, _V2, _V3) else self.shape(version, "I")
        if not shape and version != _V3:
            raise self.wrong("it holds an array without a shape")
        self.numbers("2i")  # of the device
        kind = self.type()
        if not storage:
            return nd.array(self.values(kind, shape), dtype=kind)
        about = [(self.type(), self.shape()) for _ in range(storage)]
        n = about[-1][1]  # there are as many values as indices
        if any(x != "int64" or len(m) != 1 for x, m in about) or room[1:] != (shape[1:] if storage == 1 else ()):
            raise self.wrong("a sparse array of another form")
        values = self.values(kind, n + room[1:])
        *starts, indices = (self.values("int64", m) for _, m in about)
        if storage == 1:
            return nd.row_sparse_array((values, indices), shape=shape, dtype=kind)
        return nd.array(self.dense(shape, values, *starts, indices), dtype=kind)

    def dense(self, shape, values, starts, columns):
        """What csr means: a store does not have it."""
        made = numpy.zeros(shape, values.dtype)
        counts = numpy.diff(starts)
        if len(values) == 0:
            return made
        if (len(shape) != 2 or len(starts) != shape[0] + 1 or starts[0] or starts[-1] != len(values) or counts.min() < 0
                or columns.min() < 0 or columns.max() >= shape[1]):
            raise self.wrong("a csr array of wrong indices")
        made[numpy.repeat(numpy.arange(shape[0]), counts), columns] = values
        return made


def load(fname):
    """The arrays of a file that MXNet or save wrote: a dict by name, or a list where they have no names."""
    r = _Reader(os.fspath(fname))
    magic, _, n = r.numbers("3Q") if len(r.data) >= 24 else (0, 0, 0)
    if magic != _MAGIC:
        raise KVError(f"{r.path}: MXNet's nd.save did not write it", "format", "kvstore.open(path) reads other checkpoints")
    arrays = []
    for _ in range(n):
        arrays.append(r.array())
    m, = r.numbers("Q")
    if m not in (0, n):
        raise r.wrong(f"{n} arrays have {m} names")
    try:
        names = [r.bytes(r.numbers("Q")[0]).decode() for _ in range(m)]
    except UnicodeDecodeError:
        raise r.wrong("a name that is not UTF-8") from None
    return dict(zip(names, arrays)) if names else arrays
