"""Arrays in and out: memory that is shared, dtypes, strides, other libraries."""
import array
import ctypes
import gc
import importlib.util
import sys
import threading
import unittest
import warnings
import weakref

import numpy as np

import kvstore as mx
from case import Case
from kvstore import _kvstore, adopt

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


class Arrays(Case):
    def setUp(self):
        self.kv = mx.kv.create()

    def test_every_dtype_goes_in_and_out(self):
        for i, name in enumerate(DTYPES):
            with self.subTest(name):
                value = (np.arange(12).reshape(3, 4) % 2).astype(name)
                self.kv.init(i, value)
                out = np.zeros_like(value)
                self.kv.pull(i, out)
                self.assertTrue((out == value).all())
                self.assertEqual(self.kv[i].asnumpy().dtype, value.dtype)
                self.assertEqual(self.kv[i].dtype, value.dtype.type)

    def test_pull_converts(self):
        self.kv.init(0, np.array([1.9, -1.9, 300], "float32"))
        for name, expected in (("int8", [1, -1, 127]), ("float64", [np.float32(1.9), np.float32(-1.9), 300])):
            out = np.zeros(3, name)
            self.kv.pull(0, out)
            self.assertEqual(out.tolist(), expected)

    def test_dtypes_of_other_names(self):
        for value in (np.ones(2, "longlong"), np.ones(2, "<f4"), np.ones(2, np.dtype("f4", metadata={"a": 1}))):
            kv = mx.kv.create()
            kv.init(0, value)
            kv.push(0, [value] * 2)
            self.assertEqual(kv[0].asnumpy().tolist(), [2, 2])

    def test_dtypes_that_the_store_lacks(self):
        for name in ("uint16", "complex64", "U3", "O", "M8[s]", "f4,i4"):
            with self.subTest(name):
                self.assertIn("float32", self.fails("dtype", self.kv.init, 0, np.zeros(2, name)).hint)
        self.fails("dtype", mx.nd.zeros, 2, dtype="uint16")
        self.fails("dtype", mx.nd.zeros, 2, dtype="quux")

    def test_the_other_byte_order_is_copied(self):
        with self.assertWarns(mx.CopyWarning):
            self.kv.init(0, np.array([1, 2], ">f4"))
        out = np.zeros(2, ">f4")
        with self.assertWarns(mx.CopyWarning):
            self.kv.pull(0, out)
        self.assertEqual(out.tolist(), [1, 2])

    def test_strides(self):
        base = np.arange(24, dtype="float32").reshape(4, 6)
        for view in (base.T, base[::2], base[:, ::3], base[::-1], base[1:3, 2:4], np.broadcast_to(base[0], (3, 6)),
                     np.ones((2, 3), "float32", order="F")):
            kv = mx.kv.create()
            with self.assertWarns(mx.CopyWarning):
                kv.init(0, view)
            self.assertTrue((kv[0].asnumpy() == view).all())
            if view.flags.writeable:
                out = np.zeros((view.shape[0] * 2, view.shape[1]), "float32")[::2]
                with self.assertWarns(mx.CopyWarning):
                    kv.pull(0, out)
                self.assertTrue((out == view).all())
                with self.assertWarns(mx.CopyWarning):
                    self.fails("usage", kv.pull, 0, out, wait=False)

    def test_an_out_whose_elements_share_memory(self):
        self.kv = mx.kv.create()
        self.kv.init(0, np.arange(6, dtype="float32").reshape(2, 3))
        base = np.zeros(8, "float32")
        for strides in ((4, 4), (0, 4), (8, 4), (-4, 4)):
            out = np.lib.stride_tricks.as_strided(base[1:], (2, 3), strides)
            error = self.fails("usage", self.kv.pull, 0, out)
            self.assertIn("out, an array of shape (2, 3), has elements that share memory", str(error))
        out = np.zeros((3, 2), "float32").T
        with self.assertWarns(mx.CopyWarning):
            self.kv.pull(0, out)
        self.assertEqual(out.tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_an_array_of_an_array_is_another_one(self):
        a = mx.nd.ones((2,))
        others = [mx.nd.array(a), mx.np.array(a), a.as_np_ndarray(), mx.nd.array(a, dtype="float64")]
        a[:] = 5
        for other in others:
            self.assertEqual(other.tolist(), [1, 1])
            other[0] = 3
        self.assertEqual(a.tolist(), [5, 5])
        self.assertIs(a.as_nd_ndarray(), a)

    def test_rows_stay_with_their_ids(self):
        for dtype in ("float32", "bfloat16", "float16", "int64"):
            rows = mx.nd.sparse.row_sparse_array((np.array([[3, 3], [1, 1]]), [3, 1]), shape=(4, 2), dtype=dtype)
            self.assertEqual(rows.indices.tolist(), [1, 3])
            self.assertEqual(rows.data.astype("float32").tolist(), [[1, 1], [3, 3]])
            self.assertEqual(mx.nd.array(rows).astype("float32").tolist(), [[0, 0], [1, 1], [0, 0], [3, 3]])

    def test_what_makes_arrays_keeps_integers_and_steps(self):
        self.assertEqual(mx.nd.full((1,), 2**62 + 1, dtype="int64").tolist(), [2**62 + 1])
        self.assertEqual(mx.nd.arange(6, step=2).tolist(), [0, 2, 4])
        self.assertEqual(mx.nd.arange(1, 4).tolist(), [1, 2, 3])
        self.assertEqual(mx.np.array([200, 100], dtype="uint8").sum().tolist(), 300)

    def test_a_copy_by_dlpack_is_one(self):
        a = mx.nd.ones((2,))
        capsules = [a.__dlpack__(copy=True), a.__dlpack__(copy=False)]

        class Producer:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, **how):
                return self.capsule
        copied, same = (np.from_dlpack(Producer(c)) for c in capsules)
        same_memory = memoryview(a)
        np.asarray(same_memory)[:] = 7
        self.assertEqual((copied.tolist(), same.tolist()), ([1, 1], [7, 7]))

    def test_a_pushpull_in_place_reads_what_is_not_dense(self):
        for value in (np.full((64, 128), 3, "float32")[:, ::2], np.full((64, 64), 3, "float32", order="F"),
                      np.full((64, 64), 3, ">f4")):
            kv = mx.kv.create()
            kv.init(0, np.ones((64, 64), "float32"))
            kv.set_updater("{ stored += input }")
            with self.assertWarns(mx.CopyWarning):
                kv.pushpull(0, value)
            self.assertTrue((value == 4).all() and (kv[0].asnumpy() == 4).all())

    def test_a_failed_call_leaves_what_is_not_dense(self):
        self.kv.init(0, np.ones((4, 2), "float32"))
        for call in (lambda out: self.kv.pull(7, out=out), lambda out: self.kv.pull([0, 7], out=[out, out]),
                     lambda out: self.kv.broadcast(0, np.zeros((4, 2), "float32"), out=out)):
            base = np.full((4, 4), 7, "float32")
            with self.assertWarns(mx.CopyWarning), self.assertRaises(mx.KVError):
                call(base[:, ::2])
            self.assertTrue((base == 7).all())

    def test_threads_that_read_do_not_make_an_array_read_only(self):
        a = mx.nd.ones((4,))
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=lambda: [a.asnumpy() for _ in range(3000)]) for _ in range(4)]
        try:
            for t in threads:
                t.start()
        finally:
            for t in threads:
                t.join()
            sys.setswitchinterval(before)
        self.assertFalse(memoryview(a).readonly)
        a[:] = 3
        self.assertEqual(a.asnumpy().tolist(), [3] * 4)

    def test_dense_views_are_not_copied(self):
        base = np.zeros((4, 6), "float32")
        self.kv.init(0, np.ones((2, 6), "float32"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.kv.pull(0, base[1:3])
            self.kv.push(0, base[:2].reshape(6, 2).reshape(2, 6))
            self.kv.init(1, np.ones((3, 1), "float32")[:, :1])
        self.assertEqual(base.sum(), 12)

    def test_shapes_without_axes_and_without_elements(self):
        for shape in ((), (0,), (2, 0, 3), (1,) * 32):
            kv, out = mx.kv.create(), np.zeros(shape, "float32")
            kv.init(0, np.ones(shape, "float32"))
            kv.push(0, [np.ones(shape, "float32")] * 3)
            kv.pull(0, out)
            self.assertTrue((out == 3).all())
            self.assertEqual(kv[0].asnumpy().shape, shape)
        on_gpu = mx.kv.create("device")
        on_gpu.init(0, mx.nd.array(3, mx.gpu(0)))
        self.assertEqual((on_gpu[0].shape, on_gpu[0].item()), ((), 3))
        self.fails("shape", mx.nd.array(3).tostype, "row_sparse")
        self.assertEqual(mx.nd.sparse.row_sparse_array((np.zeros((1, 0)), [1]), (3, 0)).data.shape, (1, 0))

    def test_read_only_arrays_are_values_and_no_outs(self):
        value = np.ones(1000, "float32")
        value.flags.writeable = False
        self.kv.init(0, value)
        self.kv.push(0, value)
        self.fails("usage", self.kv.pull, 0, value)
        self.fails("usage", self.kv.pull, 0, b"\0" * 4000)
        self.assertTrue((value == 1).all())

    def test_subclasses_of_numpys_array(self):
        class Mine(np.ndarray):
            pass
        self.kv.init(0, np.ones((2, 2), "float32").view(Mine))
        out = np.zeros((2, 2), "float32").view(Mine)
        self.kv.pull(0, out)
        self.assertEqual(out.sum(), 4)

    def test_the_buffer_protocol(self):
        self.kv.init(0, array.array("f", [1, 2, 3]))
        out = array.array("f", [0, 0, 0])
        self.kv.pull(0, out)
        self.assertEqual(out.tolist(), [1, 2, 3])
        raw = bytearray(12)
        self.kv.pull(0, memoryview(raw).cast("f"))
        self.assertEqual(memoryview(raw).cast("f").tolist(), [1, 2, 3])
        c = (ctypes.c_float * 3)()
        self.kv.pull(0, c)
        self.assertEqual(list(c), [1, 2, 3])

    def test_scalars_of_numpy(self):
        self.kv.init(0, np.float32(3))
        self.kv.push(0, [np.float32(3), np.float32(4)])
        self.assertEqual(self.kv[0].item(), 7)

    def test_large_values_are_shared_until_the_call_is_over(self):
        value = np.ones(1 << 18, "float32")
        count = sys.getrefcount(value)
        self.kv.init(0, value)
        for _ in range(5):
            self.kv.push(0, [value, value])
        self.assertEqual(sys.getrefcount(value), count)
        self.assertEqual(self.kv[0].asnumpy()[-1], 2)

    def test_without_waiting(self):
        values, outs = [np.full(1 << 18, i, "float32") for i in range(20)], [np.zeros(1 << 18, "float32") for _ in range(20)]
        self.kv.init(0, values[0])
        for v, o in zip(values, outs):
            self.kv.push(0, v, wait=False)
            self.kv.pull(0, o, wait=False)
        alive = [weakref.ref(x) for x in values]
        del values, v
        self.kv.wait()
        self.assertEqual([o[7] for o in outs], list(range(20)))
        while _kvstore.open_calls():
            pass
        gc.collect()
        self.assertEqual([r() for r in alive], [None] * 20)

    def test_out_is_written_where_it_lies(self):
        out = np.zeros(1 << 16, "float32")
        before = out.ctypes.data
        self.kv.init(0, np.ones(1 << 16, "float32"))
        self.kv.pull(0, out)
        self.assertEqual((out.ctypes.data, out[5]), (before, 1))


class Ours(unittest.TestCase):
    def test_numpy_sees_the_elements_without_a_copy(self):
        a = mx.nd.zeros((2, 3))
        view = np.asarray(a)
        view[1, 2] = 5
        self.assertEqual(a[1, 2].item(), 5)
        self.assertTrue(np.shares_memory(view, np.asarray(a)))
        self.assertFalse(np.shares_memory(view, a.asnumpy()))
        self.assertEqual(memoryview(a).format, "f")
        self.assertEqual(np.from_dlpack(a)[1, 2], 5)

    def test_a_view_keeps_the_array(self):
        views = [np.asarray(mx.nd.ones(1000)), np.from_dlpack(mx.nd.ones(1000))]
        gc.collect()
        for v in views:
            self.assertEqual(v.sum(), 1000)

    def test_a_capsule_that_nobody_takes(self):
        a = mx.nd.ones(10)
        for _ in range(100):
            a.__dlpack__()
        self.assertEqual(sys.getrefcount(a), 2)

    def test_arithmetic(self):
        a, b = mx.nd.array([[1, 2], [3, 4]]), np.array([[1, 1], [2, 2]], "float32")
        for got, expected in ((a + b, [[2, 3], [5, 6]]), (b + a, [[2, 3], [5, 6]]), (2 - a, [[1, 0], [-1, -2]]),
                              (a * 2, [[2, 4], [6, 8]]), (a / 2, [[0.5, 1], [1.5, 2]]), (a ** 2, [[1, 4], [9, 16]]),
                              (-a, [[-1, -2], [-3, -4]]), (a @ a, [[7, 10], [15, 22]]), (a == 2, [[0, 1], [0, 0]]),
                              (a[0], [1, 2]), (a.T, [[1, 3], [2, 4]]), (a.sum(axis=0), [4, 6]), (a.reshape(4), [1, 2, 3, 4])):
            self.assertIsInstance(got, mx.NDArray)
            self.assertEqual(got.asnumpy().tolist(), expected)
        a += 1
        a *= b
        a[0] = 7
        a[1, 1] = 0
        self.assertEqual(a.asnumpy().tolist(), [[7, 7], [8, 0]])
        self.assertEqual((float(a[0, 0]), len(a), a.size, a.ndim, a.nbytes), (7.0, 2, 4, 2, 16))
        with self.assertRaises(TypeError):
            a + "x"

    def test_what_makes_arrays(self):
        self.assertEqual(mx.nd.array([1, 2]).dtype, np.float32)
        self.assertEqual(mx.nd.array(np.array([1, 2], "int64"), dtype="int64").dtype, np.int64)
        self.assertEqual(mx.nd.full((2,), 3, dtype="int32").asnumpy().tolist(), [3, 3])
        self.assertEqual(mx.nd.arange(2, 8, 2).asnumpy().tolist(), [2, 4, 6])
        a = mx.nd.ones((2, 2), mx.cpu(1), dtype="float16")
        self.assertEqual((a.context, mx.nd.zeros_like(a).dtype, a.astype("int8").dtype), (mx.cpu(1), np.float16, np.int8))
        self.assertEqual(a.as_in_context(mx.cpu(2)).context, mx.cpu(2))
        b = mx.nd.zeros((2, 2))
        a.copyto(b)
        self.assertEqual(b.asnumpy().sum(), 4)
        self.assertEqual(mx.np.linspace(0, 1, 3).tolist(), [0, 0.5, 1])
        for module, name, hint in ((mx.np, "zerox", "kvstore.np has no zerox: did you mean zeros?"), (mx.nd, "expp", "kvstore.nd has no expp: did you mean exp?"),
                                   (mx, "metric", "kvstore is the store of MXNet; metric is not here: the accuracy is (pred.argmax(axis=1) == label).mean()"),
                                   (mx, "optimiser", "kvstore has no optimiser: did you mean optimizer?")):
            with self.assertRaises(AttributeError) as c:
                getattr(module, name)
            self.assertEqual(str(c.exception), hint)
        with self.assertRaises(mx.KVError):
            mx.nd.zeros((2, -1))

    def test_copies_into_rows(self):
        dense = mx.nd.array([[1, 2], [0, 0]])
        a, b = (mx.nd.zeros((2, 2)).tostype("row_sparse") for _ in range(2))
        self.assertIs(dense.copyto(a), a)
        self.assertIs(a.copyto(b), b)
        for x in a, b:
            self.assertEqual(x.asnumpy().tolist(), [[1, 2], [0, 0]])
        self.assertRaises((mx.KVError, ValueError), mx.nd.ones(3).copyto, a)
        for narrow in (lambda: mx.nd.ones(3).copyto(mx.nd.zeros((2, 3))), lambda: mx.nd.add(mx.nd.ones(3), 1, out=mx.nd.zeros((2, 3))),
                       lambda: mx.nd.sum(mx.nd.ones(3), out=mx.nd.zeros(3)), lambda: mx.nd.random.shuffle(mx.nd.ones(3), out=mx.nd.zeros((2, 3)))):
            with self.assertRaisesRegex(mx.KVError, "do not fill"):
                narrow()
        self.assertEqual(mx.nd.sum(mx.nd.ones(3), out=mx.nd.zeros(1)).tolist(), [3])

    def test_how_they_are_shown(self):
        self.assertEqual(repr(mx.nd.ones((1, 3), mx.cpu(1))), "\n[[1. 1. 1.]]\n<NDArray 1x3 @cpu(1)>")
        self.assertEqual(str(mx.nd.ones(2)), "\n[1. 1.]\n<NDArray 2 @cpu(0)>")
        self.assertEqual(repr(mx.np.ones((1, 2))), "array([[1., 1.]])")
        self.assertEqual(repr(mx.np.ones(2, dtype="float64")), "array([1., 1.], dtype=float64)")
        self.assertEqual(repr(mx.np.ones(2, dtype="int8")), "array([1, 1], dtype=int8)")

    def test_row_sparse(self):
        a = mx.nd.sparse.row_sparse_array(([[3, 4], [1, 2]], [2, 0]), shape=(4, 2))
        self.assertEqual(a.asnumpy().tolist(), [[1, 2], [0, 0], [3, 4], [0, 0]])
        self.assertEqual((a.indices.asnumpy().tolist(), a.data.asnumpy().tolist(), a.stype), ([0, 2], [[1, 2], [3, 4]], "row_sparse"))
        self.assertEqual(a.tostype("default").tostype("row_sparse").indices.asnumpy().tolist(), [0, 2])
        with self.assertRaises(mx.KVError):
            a[0] = 1
        with self.assertRaises(mx.KVError):
            mx.nd.sparse.row_sparse_array(([[1.0]], [5]), shape=(2, 1))
        with self.assertRaisesRegex(mx.KVError, r"have shape \(1, 2, 3\), not \(1, 3, 2\)"):
            mx.nd.sparse.row_sparse_array((np.ones((1, 3, 2)), [0]), shape=(4, 2, 3))
        self.assertEqual(mx.nd.sparse.row_sparse_array(([], []), shape=(4, 2)).asnumpy().tolist(), [[0, 0]] * 4)
        with self.assertRaises(mx.KVError):
            mx.nd.sparse.zeros("csr", (2, 2))

    def test_parts_of_mxnet_that_are_not_here(self):
        names = "gluon autograd sym mod module metric io image model callback init initializer rnn viz amp profiler test_utils"
        for name in names.split():
            text = f"kvstore is the store of MXNet; {name} is not here: "
            self.assertFalse(hasattr(mx, name))
            for kind, statement in ((AttributeError, f"mx.{name}"), (ImportError, f"from kvstore import {name}"),
                                    (ImportError, f"import kvstore.{name}.part")):
                with self.assertRaises(kind) as c:
                    exec(statement, {"mx": mx})
                self.assertTrue(str(c.exception).startswith(text) and len(str(c.exception)) > len(text) + 20)
        pred, label = mx.nd.array([[0.2, 0.8], [0.9, 0.1]]), mx.nd.array([1, 1])
        self.assertEqual((pred.argmax(axis=1) == label).mean().asscalar(), 0.5)  # what the error of metric says
        self.assertEqual(mx.nd.random.uniform(-0.07, 0.07, shape=(2, 3)).shape, (2, 3))
        self.assertEqual(mx.nd.random.normal(0, 0.01, shape=(2, 3)).shape, (2, 3))
        with self.assertRaises(ModuleNotFoundError):
            import kvstore.other  # noqa: F401

    def test_bfloat16(self):
        a = mx.nd.array([1, 2.5, -3], dtype="bfloat16")
        self.assertEqual(a.astype("float32").asnumpy().tolist(), [1, 2.5, -3])
        kv = mx.kv.create()
        kv.init(0, a)
        kv.push(0, [a, a])
        self.assertEqual(kv[0].astype("float32").asnumpy().tolist(), [2, 5, -6])
        kv.push(0, a.asnumpy())
        self.assertEqual(kv.info()[0]["dtype"], "bfloat16")
        made = mx.nd.one_hot(mx.nd.array([1]), 2, dtype="bfloat16")
        self.assertEqual((made._dtype, made.tolist()), ("bfloat16", [[0, 1]]))
        self.assertEqual(mx.nd.array([2, 1]).argsort(dtype="bfloat16").tolist(), [1, 0])

    def test_numbers_of_bfloat16_are_rounded_once(self):
        number = 1 + 2**-8 + 2**-40  # float32 has 1 + 2**-8, half way between 1 and 1 + 2**-7
        a = mx.nd.zeros(4, dtype="bfloat16")
        a[0] = number
        a[1:3] = np.array([number, number])
        a[3:] = [number]
        for made in (a, mx.nd.array([number], dtype="bfloat16"), mx.nd.array(np.array([number]), dtype="bfloat16"),
                     mx.nd.sparse.row_sparse_array(([number], [0]), shape=(1,), dtype="bfloat16")):
            self.assertEqual(set(made.asnumpy().tolist()), {1 + 2**-7})

    def test_numbers_of_bfloat16_are_never_its_bits(self):
        kind = adopt.bfloat16 or "float32"
        a = mx.nd.array([1, 2.5, -3], dtype="bfloat16")
        kv = mx.kv.create()
        kv.init("b", a)
        out = mx.nd.zeros(3, dtype="bfloat16")
        kv.pull("b", out)
        sparse = mx.nd.sparse.row_sparse_array(a.reshape(3, 1), dtype="bfloat16")
        kv.init("s", sparse)
        for got in (a.asnumpy(), out.asnumpy(), kv["b"], np.asarray(kv["b"]), np.asarray(sparse)[:, 0], np.asarray(kv["s"])[:, 0],
                    kv["s"].data[:, 0], sparse.data.asnumpy()[:, 0]):
            self.assertEqual((got.dtype, got.tolist()), (kind, [1, 2.5, -3]))
        self.assertEqual(a.tolist() + [float(a[1]), a[1].item(), a[2].asscalar(), f"{a[2].item():.1f}"], [1, 2.5, -3, 2.5, 2.5, -3, "-3.0"])
        self.assertIn("2.5", str(a))
        self.assertIn("2.5", repr(kv["b"]))
        self.assertRegex(repr(a.as_np_ndarray()), r"array\(\[.*2\.5.*dtype=bfloat16")
        self.assertIn("2.5", str(a.as_np_ndarray()))
        self.assertEqual((out._dtype, out[1:].copy()._dtype), ("bfloat16", "bfloat16"))

        def step(key, gradient, stored):
            stored[:] = stored.astype("float32") - gradient.astype("float32") / 2
        kv.set_updater(step)
        kv.push("b", a)
        self.assertEqual(kv["b"].tolist(), [0.5, 1.25, -1.5])

    def test_contexts(self):
        self.assertEqual(repr([mx.gpu(1), mx.cpu()]), "[gpu(1), cpu(0)]")
        self.assertEqual(len({mx.cpu(0), mx.cpu(), mx.cpu(1)}), 2)
        with self.assertRaises(mx.KVError):
            mx.nd.zeros(2, mx.cpu(1 << 20))


class Tensors(Case):
    """Libraries that may not be here."""

    def needs(self, name):
        if importlib.util.find_spec(name) is None:
            self.skipTest(f"there is no {name}")
        return importlib.import_module(name)

    def test_a_producer_of_dlpack(self):
        class Tensor:
            """As much of a tensor as DLPack asks for."""

            def __init__(self, a):
                self.a = a

            def __dlpack__(self, stream=None):
                return self.a.__dlpack__()

            def __dlpack_device__(self):
                return self.a.__dlpack_device__()

        value, out, kv = np.ones((300, 4), "float64"), np.zeros((300, 4), "float64"), mx.kv.create()
        kv.init(0, Tensor(value))
        kv.push(0, [Tensor(value), Tensor(value)])
        kv.pull(0, Tensor(out))
        self.assertEqual(out.sum(), 2400)
        self.assertEqual(sys.getrefcount(value), 2)
        with self.assertRaises(mx.KVError):
            kv.push(0, Tensor(np.ones((4, 300), "float64").T))
        with self.assertRaises(mx.KVError):
            kv.push(0, Tensor(np.ones((300, 4), "complex64")))

    def test_an_axis_of_one_has_any_stride(self):
        capsule, strides = np.ones((1, 4), "float32").__dlpack__(), (ctypes.c_int64 * 2)(7, 1)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # behind the address, the device, the number of axes, the dtype and the shape
        ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 32).value = ctypes.addressof(strides)

        class Tensor:
            def __dlpack__(self, stream=None):
                return capsule

            def __dlpack_device__(self):
                return 1, 0
        kv = mx.kv.create()
        kv.init(0, np.zeros((1, 4), "float32"))
        kv.push(0, Tensor())
        self.assertEqual(kv[0].asnumpy().tolist(), [[1, 1, 1, 1]])

    def test_a_tensor_of_a_gpu_where_gpus_are_virtual(self):
        class Tensor:
            def __dlpack__(self, stream=None):
                raise AssertionError("its memory is none of the CPU")

            def __dlpack_device__(self):
                return 2, 0
        kv = mx.kv.create()
        kv.init(0, np.ones(2))
        mx.set_virtual_gpus(2)
        self.addCleanup(mx.set_virtual_gpus, 8)
        self.fails("unsupported", kv.push, 0, Tensor())

    def test_pytorch(self):
        torch = self.needs("torch")
        kv, w = mx.kv.create(), torch.zeros(300, 4, requires_grad=True)
        kv.init(0, w)
        kv.push(0, [torch.ones(300, 4), torch.ones(300, 4).bfloat16()])
        kv.pull(0, out=w)
        self.assertEqual(w.sum().item(), 2400)
        with self.assertWarns(mx.CopyWarning):
            kv.push(0, torch.ones(4, 300).T)
        self.assertEqual(torch.from_dlpack(kv[0]).sum().item(), 1200)
        with self.assertWarns(mx.CopyWarning):
            kv.push(0, torch._neg_view(torch.ones(300, 4)))
        self.assertEqual(torch.from_dlpack(kv[0]).sum().item(), -1200)

    def test_jax(self):
        jax = self.needs("jax")
        kv = mx.kv.create()
        kv.init(0, jax.numpy.ones((300, 4)))
        kv.push(0, [jax.numpy.ones((300, 4))] * 2)
        self.assertEqual(jax.numpy.asarray(kv[0]).sum(), 2400)
        with self.assertRaises(mx.KVError):
            kv.pull(0, out=jax.numpy.ones((300, 4)))


class Parts(Case):
    """Rows, slices and shapes of an NDArray share its memory, as in MXNet."""

    def test_a_pull_into_a_part_fills_the_array(self):
        for nd, kind in ((mx.nd, "local"), (mx.np, "device")):
            for ctx in (mx.cpu(), mx.cpu(1)):
                kv = mx.kv.create(kind)
                kv.init([3, 4], [np.full((2, 3), 4.0, "float32"), np.full((3,), 5.0, "float32")])
                for shape, part in (((4, 3), lambda a: a[0:2]), ((4, 3), lambda a: a[-2:]), ((2, 3), lambda a: a[:]),
                                    ((2, 3), lambda a: a[...]), ((5, 2, 3), lambda a: a[1]), ((6,), lambda a: a.reshape((2, 3))),
                                    ((3, 2, 3), lambda a: a[1:][1]), ((2, 6), lambda a: a[1].reshape(2, 3)),
                                    ((1, 2, 3), lambda a: a.reshape(-1).reshape((2, 3))), ((2, 3), lambda a: a[None][0])):
                    a = nd.zeros(shape, ctx)
                    out = part(a)
                    self.assertEqual([type(out), out.context, out.shape], [type(a), ctx, (2, 3)])
                    kv.pull(3, out=part(a))
                    self.assertEqual((a.asnumpy() == 4).sum(), 6, shape)
                    kv.pushpull(3, part(a) * 2, out=out)
                    self.assertEqual([(a.asnumpy() == 8).sum(), (out.asnumpy() == 8).sum()], [6, 6])
                    kv.push(3, np.full((2, 3), 4.0))
                a = nd.zeros((3, 3))
                kv.pull(4, out=[a[0], a[2]])
                self.assertEqual(a.asnumpy().tolist(), [[5] * 3, [0] * 3, [5] * 3])
                kv.pushpull(4, a[1], out=None)
                self.assertEqual(a.asnumpy().tolist(), [[5] * 3, [0] * 3, [5] * 3])

    def test_writing_goes_both_ways(self):
        a = mx.nd.array([[1, 2], [3, 4]])
        row, flat, one = a[0], a.reshape(4), a[1, 1]
        row[:] = 7
        self.assertEqual(a.asnumpy().tolist(), [[7, 7], [3, 4]])
        row += 1
        a[1] *= 2
        flat[2] = 0
        self.assertEqual(a.asnumpy().tolist(), [[8, 8], [0, 8]])
        a[:] = 5
        self.assertEqual([row.asnumpy().tolist(), flat.asnumpy().tolist(), one.item()], [[5, 5], [5] * 4, 5])
        np.asarray(row)[0] = 6
        mx.nd.array([1, 2]).copyto(a[1])
        self.assertEqual(a.asnumpy().tolist(), [[6, 5], [1, 2]])
        for row in a:
            row[:] = 3
        self.assertEqual(a.asnumpy().tolist(), [[3, 3], [3, 3]])
        copy = row.copy()
        del a, flat, one
        row[:] = 2
        self.assertEqual([row.asnumpy().tolist(), copy.asnumpy().tolist()], [[2, 2], [3, 3]])

    def test_a_pull_into_a_part_that_is_not_dense_fills_it(self):
        """In MXNet such a part is a copy, and what is pulled into it is lost."""
        a, kv = mx.nd.zeros((4, 4)), mx.kv.create()
        kv.init(0, np.ones(4, "float32"))
        with self.assertWarns(mx.CopyWarning):
            kv.pull(0, out=a[:, 1])
        with self.assertWarns(mx.CopyWarning):
            kv.pull(0, out=[a[0], a[:, 3]])
        self.assertEqual(a.tolist(), [[1, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1]])
        a[::2, 0] = 7
        self.assertEqual(a[:, 0].tolist(), [7, 0, 7, 0])
        taken = a[[0, 1]]
        taken[:] = 9
        self.assertEqual(a[1].tolist(), [0, 1, 0, 1])

    def test_rows_that_are_not_held_are_not_written(self):
        s = mx.nd.sparse.row_sparse_array(([[1, 2]], [2]), shape=(4, 2))
        self.assertEqual(s[2].tolist(), [1, 2])
        self.fails("usage", mx.kv.create("teststore").broadcast, 0, mx.nd.ones(2), out=s[2])
        self.assertRaises(ValueError, s[2].__setitem__, 0, 1)
        full = mx.nd.ones((2, 2)).tostype("row_sparse")
        full[0] = 5
        full += 1
        self.assertEqual([full.asnumpy().tolist(), full[0].tolist()], [[[6, 6], [2, 2]], [6, 6]])

    def test_an_array_that_is_given_twice_is_one(self):
        """All of a pushpull is read before its results are written."""
        for n in (6, 60000):
            for a in (np.ones(n, "float32"), mx.nd.ones(n), np.ones(2 * n, "float32")[:n]):
                kv, keys = mx.kv.create(), list(range(20))
                kv.init(keys, [a] * 20)
                kv.pushpull(keys, [[a] * 4] * 20)
                self.assertEqual([a[0], a[-1]], [4, 4])
                kv.pushpull(keys, [[a[:n]] * 2] * 20, out=[[a[:n]] * 2] * 20)
                self.assertEqual([a[0], a[-1]], [8, 8])

    def test_the_functions_behind_them_count_their_arguments(self):
        for call in (mx._kvstore.sparse, mx._kvstore.zeros, mx._kvstore.dup, mx._kvstore.dlpack):
            self.assertRaises(TypeError, call)

    def test_values_are_read_before_the_array_changes(self):
        kv, a = mx.kv.create(), mx.nd.ones((2, 1 << 20))
        kv.init(0, a[0])
        for i in range(1, 20):
            a[:] = i
            kv.push(0, [a[0], a[1]])
            a[:] = -1
            self.assertTrue((kv[0].asnumpy() == 2 * i).all())
            kv.pull(0, out=a[1], wait=False)
            a[1].wait_to_read()
            kv.wait()
            self.assertEqual([a.asnumpy()[0].max(), a.asnumpy()[1].min()], [-1, 2 * i])

    def test_within_an_updater(self):
        kept, kv = [], mx.kv.create()
        kv.init(0, np.zeros((3, 2), "float32"))

        def update(key, input, stored):
            stored[0] += input[1]
            stored.reshape(-1)[5] = 8
            self.assertRaises((mx.KVError, ValueError, BufferError), input[0].__setitem__, 0, 1)
            kept.append(stored[0])
        kv._set_updater(update)
        for _ in range(3):
            kv.push(0, np.full((3, 2), 2, "float32"))
        self.assertEqual(kv[0].asnumpy().tolist(), [[6, 6], [0, 0], [0, 8]])
        self.assertEqual([k.asnumpy().tolist() for k in kept], [[2, 2], [4, 4], [6, 6]])

    def test_memory_stays_as_long_as_a_part(self):
        rows = [mx.nd.full((1000,), i).reshape((10, 100))[5][10:20] for i in range(100)]
        gc.collect()
        self.assertEqual([r.asnumpy().tolist() for r in rows], [[i] * 10 for i in range(100)])


class OfNumPy(Case):
    """NDArrays where arrays of NumPy are expected."""

    def test_numpys_functions(self):
        a = mx.nd.array([[1, 2], [3, 4]], mx.cpu(1))
        b = np.asarray(a)
        for f in (np.exp, np.mean, np.linalg.inv, np.sort, np.median, np.cumsum, np.trace,
                  lambda x: np.concatenate([x, x]), lambda x: np.where(x > 2, x, 0), lambda x: np.split(x, 2)[1], np.std, np.any,
                  lambda x: np.add.accumulate(x), lambda x: np.multiply.outer(x, x), lambda x: np.divmod(x, 2)[1], np.max):
            got = f(a)
            self.assertTrue(np.array_equal(np.asarray(got), np.asarray(f(b))))
            if isinstance(got, np.ndarray):
                self.assertEqual([type(got), got.context], [mx.nd.NDArray, mx.cpu(1)])
        n = b.copy()
        n += a
        self.assertEqual([type(n), type(b + a), type(a @ b), np.isnan(a).dtype], [np.ndarray, mx.nd.NDArray, mx.nd.NDArray, bool])
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(mx.nd.array([np.nan, 1]), [np.nan, 1 + 1e-9])
        self.assertRaises(AssertionError, np.testing.assert_array_equal, a, a + 1)

    def test_a_number_never_widens(self):
        for name, number in (("float16", 0.1), ("float16", 1000000), ("float32", np.float64(2)), ("uint8", 3), ("int8", np.int64(4))):
            for f in (lambda x: x + number, lambda x: number * x, lambda x: np.maximum(x, number)):
                with np.errstate(over="ignore"):
                    self.assertEqual(f(mx.nd.ones(2, dtype=name)).dtype, name)
        self.assertRaises(OverflowError, lambda: mx.nd.ones(2, dtype="uint8") + 300)
        if adopt.bfloat16 is not None:
            self.assertEqual((mx.nd.ones(2, dtype="bfloat16") * 0.1)._dtype, "bfloat16")

    def test_updaters_with_numpy_in_them(self):
        kv = mx.kv.create()
        kv.init("w", mx.nd.zeros(3))
        kv._set_updater(lambda k, g, w: w.__setitem__(slice(None), w - 0.5 * np.sign(g)))
        kv.push("w", mx.nd.array([1, -2, 0]))
        self.assertEqual(kv["w"].tolist(), [-0.5, 0.5, 0])

    def test_arrays_of_one_element_are_numbers(self):
        one, three = mx.nd.array([[2.5]]), mx.nd.ones(3)
        self.assertEqual([float(one), int(one), one.asscalar(), "%.2f" % one, f"{one:.1f}"], [2.5, 2, 2.5, "2.50", "2.5"])
        for wrong in (three.item, three.asscalar, lambda: float(three)):
            with self.assertRaisesRegex(ValueError, "^this array has 3 elements, not one$"):
                wrong()

    def test_mx_np_is_numpys(self):
        m = mx.np.array([[1, 2], [3, 4]])
        for got, shape, dtype in ((m.sum(), (), "float32"), (m[0, 1], (), "float32"), (m > 1, (2, 2), "bool"), ((m > 1).sum(), (), "int64"),
                                  (np.exp(m[0, 0]), (), "float32"), (mx.np.array(3), (), "float32"), (mx.np.random.normal(), (), "float32"),
                                  (mx.np.random.uniform(2, 3, (2, 1)), (2, 1), "float32"), (m.reshape(4), (4,), "float32")):
            self.assertEqual([type(got), got.shape, got.dtype], [mx.np.ndarray, shape, np.dtype(dtype)])

    def test_seeds(self):
        drawn = []
        for seed in (7, 7, 8):
            mx.random.seed(seed)
            drawn.append([f(shape=(3,)).tolist() for f in (mx.nd.random.uniform, mx.nd.random.normal, mx.nd.random.exponential,
                                                            mx.nd.random.poisson, mx.nd.random.gamma)])
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        u = mx.nd.random.uniform(1, np.float32(1 + 2 ** -22), shape=(1000,))  # two numbers of float32 lie between
        self.assertTrue((u < np.float32(1 + 2 ** -22)).all())
        self.assertEqual(mx.nd.random.normal(mx.nd.array([0, 100]), mx.nd.array([1, 1]), shape=(3,)).shape, (2, 3))

    def test_the_context_of_with(self):
        with mx.cpu(2):
            with mx.Context("cpu", 1):
                self.assertEqual(mx.nd.ones(1).context, mx.cpu(1))
            self.assertEqual([mx.nd.random.uniform().context, mx.current_context()], [mx.cpu(2), mx.cpu(2)])
            self.assertEqual(mx.nd.zeros(2, mx.cpu(3))[:1].copy().context, mx.cpu(3))
        self.assertEqual(mx.np.ones(1).context, mx.cpu())

    def test_names_of_mx_nd(self):
        nd, a = mx.nd, mx.nd.array([[3, 1, 2], [4, 6, 5]])
        for got, expected in ((a.topk(k=2), [[0, 2], [1, 2]]), (nd.topk(a, k=1, ret_typ="value"), [[3], [6]]),
                              (nd.topk(a, k=1, ret_typ="mask"), [[1, 0, 0], [0, 1, 0]]), (a.sort(is_ascend=False), [[3, 2, 1], [6, 5, 4]]),
                              (a.argsort(is_ascend=False), [[0, 2, 1], [1, 2, 0]]), (nd.argsort(nd.array([1, 1, 0]), is_ascend=False), [0, 1, 2]),
                              (a.sum(axis=0, exclude=True), [6, 15]), (a.argmax(axis=1), [0, 1]), (nd.round(nd.array([0.5, -2.5])), [1, -3]),
                              (a.take(nd.array([5]), axis=1), [[2], [5]]), (a.pick(nd.array([0, 1])), [3, 6]), (a.slice((0, 1), (2, 3)), [[1, 2], [6, 5]]),
                              (nd.where(nd.array([1, 0]), a, -a), [[3, 1, 2], [-4, -6, -5]]), (nd.add_n(a, a, a), (a * 3).tolist()),
                              (nd.broadcast_lesser(a, nd.array([[2], [6]])), [[0, 1, 0], [1, 0, 1]]), (nd.one_hot(nd.array([1]), 2), [[0, 1]]),
                              (a.reshape((-4, 1, -1, 0)), [a.tolist()]), (nd.sparse.retain(a.tostype("row_sparse"), nd.array([1])), [[0, 0, 0], [4, 6, 5]]),
                              (nd.sum(a, axis=(0, 1), keepdims=True), [[21]]), (a.norm(ord=1, axis=0), [7, 7, 7]), (a.astype("int32").mean(), [3])):
            self.assertEqual(got.tolist(), expected)
        for values, dtype, mean, norm in (([100, 100], "int8", 100, 141.4), ([200, 100], "uint8", 150, 223.6), ([60000, 60000], "float16", 60000, None),
                                          ([300, 300], "float16", 300, 424.2), ([1e30, 1e30], "float32", 1e30, 2**0.5 * 1e30)):
            of = nd.array(values, dtype=dtype)
            self.assertEqual((of.mean().tolist(), of.mean().dtype), ([np.dtype(dtype).type(mean)], dtype))
            if norm:
                np.testing.assert_allclose(of.norm().asnumpy(), norm, rtol=1e-3)
        self.assertEqual([nd.array(-3).norm().tolist(), nd.array([-128, 100], dtype="int8").norm(ord=1).tolist()], [[3], [228]])
        for dtype in ("uint8", "int8", "bool", "int64"):
            of, as_float = nd.array([1, 0], dtype=dtype), nd.array([1, 0])
            self.assertEqual([of.softmax().tolist(), of.log_softmax().tolist()], [as_float.softmax().tolist(), as_float.log_softmax().tolist()])
        out = nd.zeros(2)
        self.assertIs(nd.max(a, axis=1, out=out), out)
        self.assertEqual([out.tolist(), a.astype("int32").sum().dtype, (a > 1).astype("bool").sum().dtype], [[3, 6], np.int32, np.int64])
        self.assertEqual([p.shape for p in nd.split(a, 3, squeeze_axis=True)], [(2,)] * 3)
        for code, wrong in (("shape", lambda: a.reshape((4, 2))), ("shape", lambda: nd.dot(a, a)), ("shape", lambda: nd.split(a, 2)),
                            ("value", lambda: a.norm(ord=3)), ("value", lambda: nd.topk(a, ret_typ="x")), ("value", lambda: nd.arange(0, 4, 1, mx.cpu()))):
            self.fails(code, wrong)


class Masked(Case):
    def test_an_array_of_numpy_ma_is_refused_wherever_one_is_given(self):
        masked = np.ma.MaskedArray(np.ones(3, "float32"), [0, 1, 0])
        plain, kv = mx.nd.ones((3,)), mx.kv.create()
        kv.init(0, plain)
        rows = mx.nd.sparse.zeros("row_sparse", (3, 1))
        kv.init(1, rows)
        for call in (lambda: kv.init(2, masked), lambda: kv.push(0, masked), lambda: kv.push(0, [plain, masked]),
                     lambda: kv.pull(0, masked), lambda: kv.pull(0, [np.ones(3), masked]), lambda: kv.pushpull(0, masked),
                     lambda: kv.pushpull(0, plain, masked), lambda: kv.broadcast(3, plain, masked),
                     lambda: kv.row_sparse_pull(1, rows, row_ids=masked), lambda: mx.nd.array(masked),
                     lambda: mx.np.array(masked), lambda: plain.__setitem__(slice(None), masked), lambda: plain + masked,
                     lambda: kv.push(0, np.ma.ones(3)),  # nothing is masked: it would be if it were
                     lambda: mx.nd.sparse.row_sparse_array((masked.reshape(3, 1), [0, 1, 2]), (3, 1)),
                     lambda: mx.nd.sparse.row_sparse_array((np.ones((3, 1)), masked), (3, 1))):
            e = self.fails("usage", call)
            self.assertEqual(e.hint, "filled(0) gives an array")
        self.assertEqual((masked + plain).tolist(), [2, None, 2])  # NumPy's, with its mask
        kv.push(0, masked.filled(0))
        self.assertEqual(kv[0].asnumpy().tolist(), [1, 0, 1])

    def test_plain_subclasses_stay(self):
        kv = mx.kv.create()
        kv.init(0, np.asmatrix([[1.0, 2.0]]))
        out = np.asmatrix(np.zeros((1, 2)))
        kv.pull(0, out)
        self.assertEqual(out.tolist(), [[1, 2]])


class OneElement(Case):
    def test_whatever_the_axes(self):
        for name in ("local", "device"):
            kv = mx.kv.create(name)
            kv.init("b", np.zeros((1,), "float32"))
            for value in (mx.nd.array([1, 2]).sum(), np.float32(3), np.full((1, 1), 3.0), [np.full((), 1.5), mx.nd.full((1,), 1.5)]):
                kv.push("b", value)
                for shape in ((), (1,), (1, 1, 1)):
                    out, nd = np.zeros(shape), mx.nd.zeros(shape)
                    kv.pull("b", [out, nd])
                    self.assertEqual([out.item(), nd.item(), out.shape], [3, 3, shape])
            out = np.zeros((1, 1))
            kv.pushpull("b", np.array(2.0), out)
            self.assertEqual(out.tolist(), [[2]])
            self.assertEqual(kv["b"].shape, (1,))
        kv.init("w", np.zeros(3))
        self.assertEqual(self.fails("shape", kv.push, "w", np.array(1.0)).hint, "full((3,), x) is an array in which each element is x")
        self.fails("shape", kv.push, "b", np.zeros(0))
