"""The texts of errors that the module itself raises, each once; those of the library stand in the tests of the library."""
import ctypes
import threading

import numpy as np

import kvstore as mx
from case import Case

SHAPE = (4, 2)


class Foreign:
    """Somebody else's tensor."""

    def __init__(self, a, device=None):
        self.a, self.device = a, device or a.__dlpack_device__()

    def __dlpack__(self, **_):
        return self.a.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class Texts(Case):
    def setUp(self):
        self.kv = mx.kv.create("local")
        self.kv.init(3, mx.nd.ones(SHAPE))
        self.kv.init(5, mx.nd.zeros(SHAPE).tostype("row_sparse"))

    def says(self, code, text, call, *args, **kw):
        self.assertEqual(self.fails(code, call, *args, **kw).text, text)

    def test_keys_and_values(self):
        init, one = self.kv.init, mx.nd.ones(SHAPE)
        self.says("key", f"the key {2 ** 70} is not an integer of 64 bits", init, 2 ** 70, one)
        self.says("key", "the key '\\ud800' has no UTF-8 form", init, "\ud800", one)
        self.says("key", "the key 'a\\x00b' has a NUL in it", init, "a\0b", one)
        self.says("usage", "1.5 is not a key", init, 1.5, one)
        self.says("usage", "a list of 2 keys and one array", init, [1, 2], one)
        self.says("usage", "a list of 2 keys and a list of 1", init, [1, 2], [one])
        self.says("usage", "rename() takes two keys", self.kv.rename, 3)
        self.says("usage", "_send_command_to_servers() takes a number and a text", self.kv._send_command_to_servers, 3)

    def test_outs(self):
        pull, rows = self.kv.pull, self.kv.row_sparse_pull
        sparse = mx.nd.sparse.zeros("row_sparse", SHAPE)
        self.says("usage", "pull() needs an array to write into: out=", pull, 3)
        self.says("usage", "an out that is not dense is written at the end of the call, which wait=False does not wait for",
                  pull, 3, out=np.zeros((4, 4), "float32")[:, ::2], wait=False)
        self.says("usage", "row_sparse_pull() needs out= and row_ids=", rows, 5)
        ids = mx.nd.array([0], dtype="int64")
        self.says("usage", "2 outs and 3 arrays of row ids do not fit key by key", rows, 5, out=[sparse] * 2, row_ids=[ids] * 3)

    def test_arrays(self):
        rows = mx.nd.zeros(SHAPE).tostype("row_sparse")
        self.says("unsupported", "a row_sparse array does not hold all its elements", memoryview, rows)
        self.says("value", "contexts are numbered from 0 to 65535, not 1000000", mx.nd.ones, SHAPE, ctx=mx.gpu(10 ** 6))
        self.says("value", "a text holds a NUL, which no name and no path can", mx.kv.create, "a\0b")
        self.says("shape", "1 rows of this shape have 8 bytes, not 3", mx._kvstore.sparse, mx.nd.RowSparseNDArray, SHAPE, "float32",
                  ("cpu", 0), bytes(8), bytes(3))
        self.says("usage", "<class 'int'> does not inherit from <class 'kvstore._kvstore.Store'>", mx._kvstore.load, int, "x")

    def test_tensors_of_others(self):
        push = self.kv.push
        self.says("value", "the elements of this tensor do not lie one behind the other", push, 3,
                  Foreign(np.zeros((4, 4), "float32")[:, ::2]))
        for kind in "complex64", "int16", "uint32":
            self.says("dtype", f"the store has no dtype {kind}", push, 3, Foreign(np.zeros(SHAPE, kind)))
        for error in BufferError, ValueError, NotImplementedError:
            class Other(Foreign):
                def __dlpack__(self, **_):
                    raise error("it is quantised")
            self.says("unsupported", "test_texts does not hand out this tensor: it is quantised", push, 3, Other(np.zeros(SHAPE)))
        sparse = type("Tensor", (Foreign,), {"__module__": "torch", "is_nested": False, "layout": "torch.sparse_coo"})
        self.says("unsupported", "a tensor of PyTorch that is torch.sparse_coo is not dense", push, 3, sparse(None, (1, 0)))
        negative = type("Tensor", (Foreign,), {"__module__": "torch", "is_nested": False, "layout": "torch.strided", "shape": SHAPE,
                                               "is_neg": lambda self: True,
                                               "resolve_neg": lambda self: Foreign(np.full(SHAPE, -1, "float32"))})
        with self.assertWarns(mx.CopyWarning):
            push(3, negative(np.ones(SHAPE, "float32")))
        self.assertEqual(self.kv[3].asnumpy().max(), -1)
        self.says("unsupported", "a tensor of PyTorch whose memory has its numbers with the other sign is never written",
                  self.kv.pull, 3, out=negative(np.ones(SHAPE, "float32")))
        for value, kind in (([[1, 2], [3, 4]], "list"), ([(1, 2)], "tuple"), (3, "int"), ([1, 2], "int"), ("a", "str")):
            error = self.fails("usage", push, 3, value)
            self.assertEqual(error.text, f"an object of type {kind} is not an array")
            self.assertIn("whose sum counts" if kind in ("list", "tuple") else "makes one of numbers", error.hint)
        elsewhere = Foreign(np.zeros(SHAPE, "float32")).__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        ctypes.c_int32.from_address(pointer(elsewhere, b"dltensor") + 8).value = 10  # ROCm, behind the address of the elements
        tensor = Foreign(None, (1, 0))
        Foreign.__dlpack__, whole = lambda *_, **__: elsewhere, Foreign.__dlpack__
        self.addCleanup(setattr, Foreign, "__dlpack__", whole)
        self.says("unsupported", "the store reads no memory of DLPack's device 10", push, 3, tensor)

    def test_updaters(self):
        self.says("usage", "3 is not a function(key, input, stored)", self.kv._set_updater, 3)
        held = []
        self.kv.set_updater(lambda key, given, stored: held.append(given))
        self.kv.push(3, mx.nd.ones(SHAPE))
        self.kv.set_updater(None)
        self.says("usage", "out, an array of shape (4, 2), is read-only", self.kv.pull, 3, out=held[0])
        self.kv.init(7, mx.nd.ones(SHAPE).tostype("row_sparse"))
        self.kv.set_updater(lambda key, given, stored: held.append(given))
        self.kv.push(7, mx.nd.ones(SHAPE).tostype("row_sparse"))
        self.says("usage", "the input of an updater is not written", self.kv.pull, 7, out=held[1], ignore_sparse=False)

    def test_stores_that_are_closed_or_busy(self):
        entered, leave = threading.Event(), threading.Event()

        def wait(key, given, stored):
            entered.set()
            leave.wait(20)

        self.kv.set_updater(wait)
        thread = threading.Thread(target=self.kv.push, args=(3, mx.nd.ones(SHAPE)))
        thread.start()
        entered.wait(20)
        self.says("busy", "another thread is in a call of this store", self.kv.close)
        leave.set()
        thread.join()
        self.kv.close()
        self.says("usage", "this store is closed", self.kv.push, 3, mx.nd.ones(SHAPE))
        self.says("usage", "this store is closed", lambda: self.kv.type)
