"""libkvstore through ctypes, as much of it as the benchmarks call: a store, and arrays with values."""
import ctypes
import struct


def size(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Library:
    """One store, and arrays of one dtype."""

    class Key(ctypes.Structure):
        _fields_ = [("id", ctypes.c_int64), ("name", ctypes.c_char_p)]

    class Ctx(ctypes.Structure):
        _fields_ = [("device", ctypes.c_int32), ("id", ctypes.c_int32)]

    class Opt(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]

    def __init__(self, path, store, data="float32"):
        self.lib = ctypes.CDLL(path)
        self.err = ctypes.create_string_buffer(4096)  # larger than a kv_err
        self.store = ctypes.c_void_p()
        self.data = data
        self.dtype, self.item = {"float16": (2, 2), "bfloat16": (12, 2)}.get(data, (0, 4))
        self.call("kv_create", store.encode(), None, 0, ctypes.byref(self.store))

    def call(self, name, *args):
        if getattr(self.lib, name)(*args, self.err):
            raise RuntimeError(f"{name}: {self.err.raw[256:768].split(bytes(1))[0].decode()}")

    def options(self, name, *words, **params):
        opts = (self.Opt * (len(params) + 1))(
            *[(k.encode(), v.encode()) for k, v in params.items()])
        self.call(name, self.store, *[w.encode() for w in words], opts, len(params))

    def key_list(self, count, n):
        """Keys 0 to count - 1, each n times."""
        return (self.Key * (count * n))(*[(i, None) for i in range(count) for v in range(n)])

    def scalar(self, x):
        if self.data == "float16":
            return struct.pack("<e", x)
        return struct.pack("<f", x)[4 - self.item:]

    def fill(self, data, n, x):
        """Twice as much each time: from C, and with no array of another library."""
        ctypes.memmove(data.value, self.scalar(x), self.item)
        done, n = self.item, n * self.item
        while done < n:
            some = min(done, n - done)
            ctypes.memmove(data.value + done, data.value, some)
            done += some

    def array(self, shape, x, ids=None):
        """A handle; with ids row_sparse."""
        a, data = ctypes.c_void_p(), ctypes.c_void_p()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        out, ndim = ctypes.byref(a), len(shape)
        if ids:
            rows = (ctypes.c_int64 * len(ids))(*ids)
            self.call("kv_array_new_sparse", out, self.dtype, ndim, dims, ctypes.c_int64(len(ids)),
                      rows, self.Ctx(0, 0))
            self.call("kv_array_write_rows", a, ctypes.byref(data))
            self.fill(data, len(ids) * size(shape[1:]), x)
        else:
            self.call("kv_array_new_raw", out, self.dtype, ndim, dims, self.Ctx(0, 0))
            self.write(a.value, size(shape), x)
        return a.value

    def wrap(self, address, shape, gpu):
        """A handle of an array over memory that stays the caller's; gpu: None or its number."""
        a = ctypes.c_void_p()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        where = self.Ctx(0, 0) if gpu is None else self.Ctx(1, gpu)
        self.call("kv_array_wrap", ctypes.byref(a), ctypes.c_void_p(address), self.dtype,
                  len(shape), dims, where, None, None)
        return a.value

    def release(self, arrays):
        """Gives back the store and these handles; waits for what uses them."""
        self.lib.kv_free(self.store)
        for a in arrays:
            self.lib.kv_array_unref(ctypes.c_void_p(a))

    def write(self, a, n, x):
        """x into all n elements of a default array."""
        data = ctypes.c_void_p()
        self.call("kv_array_write", ctypes.c_void_p(a), ctypes.byref(data))
        self.fill(data, n, x)

    def read(self, a, n):
        """The bytes of the first n elements."""
        data = ctypes.c_void_p()
        self.call("kv_array_read", ctypes.c_void_p(a), ctypes.byref(data))
        return ctypes.string_at(data.value, n * self.item)

    def number(self, item):
        """The number of an element's bytes."""
        if self.data == "float16":
            return struct.unpack("<e", item)[0]
        return struct.unpack("<f", bytes(4 - self.item) + item)[0]
