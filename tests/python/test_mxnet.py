"""What MXNet 1.9.1's own unit tests of its stores assert, as facts about this one. Where its front end accepts
and crashes or says nothing, ours raises; the last class lists these. In tests/cli stand its tests in other languages
(other-languages.kv), of groups of devices (group-types.kv), of compression (compression-2bit.kv, compression-1bit.kv)
and of sparse sums (row-sparse-sums.kv); gpu_topology_test.cc has no place here, where sums need no trees."""
import os
import struct
import tempfile
import unittest
import warnings

import numpy as np

import kvstore as mx
from case import Case

SHAPE = (4, 4)
KINDS = ((3, [5, 7, 11]), ("a", ["b", "c", "d"]))


def with_keys(name="local", stype="default", key=3, keys=(5, 7, 11)):
    kv = mx.kv.create(name)
    kv.init(key, mx.nd.zeros(SHAPE).tostype(stype))
    kv.init(list(keys), [mx.nd.zeros(SHAPE).tostype(stype)] * len(keys))
    return kv


class StoreFacts(Case):
    def test_is_capable_of_classes_and_stores(self):
        self.assertFalse(mx.kvstore.TestStore.is_capable("optimizer"))
        self.assertFalse(type(mx.kv.create("teststore")).is_capable("optimizer"))
        self.assertTrue(mx.kvstore.Horovod.is_capable("pushpull") and mx.kvstore.BytePS.is_capable("broadcast"))
        self.assertTrue(mx.kvstore.KVStore.is_capable("optimizer") and mx.kv.create().is_capable("optimizer"))
        self.fails("usage", mx.kvstore.TestStore.is_capable, "optimiser")
        for cls in (mx.kvstore.TestStore, mx.kvstore.Horovod, mx.kvstore.BytePS):
            self.assertTrue(issubclass(cls, mx.kvstore.KVStore) and issubclass(cls, mx.kvstore.KVStoreBase))
        self.assertIs(type(mx.kv.create("TestStore")), mx.kvstore.TestStore)
        self.assertIs(type(mx.kvstore.TestStore()), mx.kvstore.TestStore)

    def test_what_a_type_cannot_is_not_implemented(self):
        kv = mx.kv.create("teststore")
        for call in (lambda: kv.set_optimizer(mx.optimizer.SGD()), lambda: kv.set_optimizer("sgd"),
                     lambda: kv.save_optimizer_states("f"), lambda: kv.save_optimizer_states("f", True),
                     lambda: kv.load_optimizer_states("f")):
            self.assertRaises(NotImplementedError, call)
            self.assertIn('stores of type "teststore" have no ', self.fails("unsupported", call).text)
        self.assertNotIsInstance(self.fails("usage", mx.kv.create().set_optimizer, "sdg"), NotImplementedError)

    def test_one_process_has_no_other_ranks(self):
        for name in ("local", "teststore"):
            kv = mx.kv.create(name)
            self.assertEqual([kv.local_rank, kv.get_num_dead_node(), kv.get_num_dead_node(7, timeout=0)], [0, 0, 0])


class Facts(unittest.TestCase):
    def every(self, a, x):
        self.assertTrue((a.asnumpy() == x).all(), a)

    def kinds(self, *names):
        for name in names or ("local",):
            for stype in ("default", "row_sparse"):
                for key, keys in KINDS:
                    with self.subTest(name=name, stype=stype, key=key):
                        yield with_keys(name, key=key, keys=keys), stype, key, keys

    def test_single_pair(self):
        for kv, stype, key, keys in self.kinds():
            kv.push(key, mx.nd.ones(SHAPE).tostype(stype))
            val = mx.nd.empty(SHAPE)
            kv.pull(key, out=val)
            self.every(val, 1)

    def test_init(self):
        for key, _ in KINDS:
            kv, a = mx.kv.create(), mx.nd.zeros(SHAPE)
            kv.init(key, mx.nd.ones(SHAPE) * 4)
            kv.pull(key, out=a)
            self.every(a, 4)

    def test_pull(self):
        for name in ("device", "local"):
            kv, a = mx.kv.create(name), mx.nd.ones(SHAPE)
            out = mx.nd.empty(SHAPE)
            kv.init("1", mx.nd.zeros(SHAPE))
            kv.push("1", [a, a, a, a])
            kv.pull("1", out)
            self.every(out, 4)
            kv.init("2", mx.nd.zeros(SHAPE))
            kv.pull("2", out)
            self.every(out, 0)

    def test_list_of_pairs(self):
        for kv, stype, key, keys in self.kinds():
            kv.push(keys, [mx.nd.ones(SHAPE).tostype(stype) * 4 if stype == "default" else (mx.nd.ones(SHAPE) * 4).tostype(stype)]
                    * len(keys))
            val = [mx.nd.empty(SHAPE)] * len(keys)
            kv.pull(keys, out=val)
            for v in val:
                self.every(v, 4)

    def test_aggregator(self):
        devices = [mx.cpu(i) for i in range(4)]
        for kv, stype, key, keys in self.kinds("local", "device"):
            kv.push(key, [mx.nd.ones(SHAPE, d).tostype(stype) for d in devices])
            outs = [mx.nd.empty(SHAPE, d) for d in devices]
            kv.pull(key, out=outs)
            for o in outs:
                self.every(o, 4)
            kv.push(keys, [[(mx.nd.ones(SHAPE, d) * 2).tostype(stype) for d in devices]] * len(keys))
            outs = [[mx.nd.empty(SHAPE, d) for d in devices]] * len(keys)
            kv.pull(keys, out=outs)
            for o in outs[0]:
                self.every(o, 8)

    def test_sparse_aggregator(self):
        random = np.random.default_rng(1)
        for key, keys in KINDS:
            kv = with_keys(stype="row_sparse", key=key, keys=keys)
            values = [mx.nd.array(random.random(SHAPE) * (random.random((4, 1)) < 0.5)) for _ in range(4)]
            kv.push(key, [v.tostype("row_sparse") for v in values])
            expected = sum(v.asnumpy() for v in values)
            outs = [mx.nd.sparse.zeros("row_sparse", SHAPE) for _ in range(4)]
            kv.pull(key, out=outs, ignore_sparse=False)
            for o in outs:
                np.testing.assert_allclose(o.asnumpy(), expected, 1e-6)
            kv.row_sparse_pull(key, out=outs, row_ids=[mx.nd.arange(4)] * 4)
            for o in outs:
                np.testing.assert_allclose(o.asnumpy(), expected, 1e-6)

    def test_row_sparse_pull(self):
        random = np.random.default_rng(2)
        kv = mx.kv.create()
        kv.init("e", mx.nd.ones(SHAPE).tostype("row_sparse"))
        for count in (1, 4):
            ids = [random.integers(0, 4, (2, 2)) for _ in range(count)]
            outs = [mx.nd.sparse.zeros("row_sparse", SHAPE) for _ in range(count)]
            kv.row_sparse_pull("e", out=outs if count > 1 else outs[0],
                               row_ids=[mx.nd.array(i, dtype="float32") for i in ids] if count > 1 else mx.nd.array(ids[0]))
            for i, o in zip(ids, outs):
                rows = o.asnumpy()
                self.assertTrue(all((rows[r] == (1 if r in i else 0)).all() for r in range(4)))

    def test_updater(self):
        devices = [mx.cpu(i) for i in range(4)]
        for kv, stype, key, keys in self.kinds("local", "device"):
            def update(k, received, stored):
                self.assertIs(type(k), type(key))
                stored += received
            kv._set_updater(update)
            kv.push(key, [mx.nd.ones(SHAPE, d).tostype(stype) for d in devices])
            out = mx.nd.empty(SHAPE)
            kv.pull(key, out)
            self.every(out, 4)
            for _ in range(4):
                kv.push(keys, [[mx.nd.ones(SHAPE, d).tostype(stype) for d in devices]] * len(keys))
            outs = [mx.nd.empty(SHAPE) for _ in keys]
            kv.pull(keys, out=outs)
            for o in outs:
                self.every(o, 16)

    def test_type(self):
        self.assertEqual(mx.kv.create("local_allreduce_cpu").type, "local_allreduce_cpu")
        self.assertEqual(mx.kv.create("teststore").type, "teststore")

    def test_invalid_pull(self):
        for (key, keys), (other, others) in (KINDS, KINDS[::-1]):
            kv = with_keys(stype="row_sparse", key=key, keys=keys)
            held = (mx.nd.ones(SHAPE) * 2).tostype("row_sparse")
            with self.assertLogs("kvstore") as told:
                kv.pull(key, out=held)
                kv.pull(keys, out=[held] * len(keys))
                kv.info()
            self.assertEqual(len(told.output), 1)
            self.every(held, 2)
            ids, dense, v = mx.nd.array([0, 1]), mx.nd.ones(SHAPE), mx.nd.ones(SHAPE)
            for call in (lambda: kv.row_sparse_pull(key, out=dense, row_ids=ids),
                         lambda: kv.row_sparse_pull(keys, out=[dense] * 3, row_ids=[ids] * 3),
                         lambda: kv.init(other, v), lambda: kv.push(other, v), lambda: kv.pull(other, out=dense),
                         lambda: kv.row_sparse_pull(other, out=held, row_ids=ids),
                         lambda: kv.init(others, [v] * 3), lambda: kv.push(others, [v] * 3),
                         lambda: kv.pull(others, out=[dense] * 3)):
                self.assertRaises(mx.MXNetError, call)

    # test_kvstore_custom.py

    def test_broadcast(self):
        for name in ("device", "teststore"):
            for key, keys in KINDS:
                kv, outs = mx.kv.create(name), [mx.nd.empty(SHAPE) for _ in range(3)]
                kv.broadcast(key, mx.nd.ones(SHAPE), out=outs[0])
                kv.broadcast(key + key, mx.nd.ones(SHAPE), out=outs[1:])
                for o in outs:
                    self.every(o, 1)
        for key, keys in KINDS:
            kv, outs = mx.kv.create("device"), [[mx.nd.empty(SHAPE) for _ in range(2)] for _ in range(3)]
            kv.broadcast(keys, [mx.nd.ones(SHAPE)] * 3, out=outs)
            for o in outs:
                self.every(o[1], 1)

    def test_pushpull(self):
        for name in ("device", "teststore"):
            for key, keys in KINDS:
                kv, out = mx.kv.create(name), mx.nd.empty(SHAPE)
                kv.broadcast(key, mx.nd.zeros(SHAPE), out=out)
                values = [mx.nd.ones(SHAPE, mx.cpu(i)) for i in range(4)]
                outs = [mx.nd.empty(SHAPE, mx.cpu(i)) for i in range(4)]
                kv.pushpull(key, values, out=outs)
                for v, o in zip(values, outs):
                    self.every(v, 1)
                    self.every(o, 4)
                kv.pushpull(key, values)
                for v in values:
                    self.every(v, 4)

    def test_teststore(self):
        kv, a = mx.kv.create("teststore"), mx.nd.ones((1,))
        kv.broadcast(1, mx.nd.ones((1,)), out=a)
        self.assertEqual(a.asnumpy()[0], 1)
        self.assertFalse(kv.is_capable("optimizer"))
        outs = [mx.nd.empty((1,)), mx.nd.empty((1,))]
        kv.pushpull(1, [mx.nd.ones((1,))] * 2, out=outs)
        self.assertEqual([o.item() for o in outs], [2, 2])
        for call in (lambda: kv.set_optimizer(mx.optimizer.SGD()), lambda: kv.save_optimizer_states("f"),
                     lambda: kv.load_optimizer_states("f")):
            self.assertRaises(mx.KVError, call)

    # tests/nightly/test_kvstore.py, 17.4 of its numbers

    def test_compression_2bit(self):
        kv = mx.kv.create("device")
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        kv.init(9, mx.nd.ones(SHAPE))
        self.every(kv[9], 1)
        kv.init(11, mx.nd.zeros(SHAPE))
        kv.set_updater("stored += 2 * input")
        for push, expected in [(0, 0)] * 10 + [(0.4, 0), (0.2, 4), (0.2, 4), (0.2, 8)] + [(-0.5, 8 - 4 * (i + 1)) for i in range(10)]:
            kv.push(11, [mx.nd.ones(SHAPE, mx.cpu(i)) * push for i in range(4)])
            self.every(kv[11], expected)


class Instead(Case):
    """Where MXNet aborts, hangs, or goes on with a mistake."""

    def setUp(self):
        self.kv = with_keys()

    def test_a_store_type_that_nobody_knows(self):
        self.fails("unsupported", mx.kv.create, "foo")

    def test_init_of_a_key_twice_poisons_nothing(self):
        self.fails("key", self.kv.init, 3, mx.nd.ones(SHAPE))
        self.fails("key", self.kv.init, [20, 20], [mx.nd.ones(SHAPE)] * 2)
        self.kv.init(20, mx.nd.ones(SHAPE))
        self.fails("key", self.kv.pull, 21, out=mx.nd.ones(SHAPE))
        self.kv.init(21, mx.nd.ones(SHAPE))

    def test_more_values_than_at_the_first_push(self):
        for n in (1, 2, 8):
            self.kv.push(3, [mx.nd.ones(SHAPE)] * n)
            self.assertEqual(self.kv[3].asnumpy()[0, 0], n)

    def test_a_value_of_another_shape(self):
        self.fails("shape", self.kv.push, 3, mx.nd.ones((4, 5)))
        self.fails("shape", self.kv.push, 3, [mx.nd.ones(SHAPE), mx.nd.ones((5, 4))])

    def test_row_ids_out_of_range(self):
        self.kv.init(30, mx.nd.ones(SHAPE).tostype("row_sparse"))
        out = mx.nd.sparse.zeros("row_sparse", SHAPE)
        for ids in ([10 ** 6], [-1]):
            self.fails("index", self.kv.row_sparse_pull, 30, out=out, row_ids=mx.nd.array(ids, dtype="int64"))

    def test_an_updater_that_raises(self):
        self.kv._set_updater(lambda key, input, stored: 1 / 0)
        self.assertRaises(ZeroDivisionError, self.kv.push, 3, mx.nd.ones(SHAPE))

    def test_an_updater_that_returns_the_new_value(self):
        self.kv._set_updater(lambda key, input, stored: stored + input)
        with self.assertWarnsRegex(RuntimeWarning, "the updater returned a value, which is not used: it changes "
                                                   "stored in place, as in stored \\+= input"):
            self.kv.push(3, mx.nd.ones(SHAPE))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.kv._set_updater(lambda key, input, stored: stored + input)
            self.assertRaises(RuntimeWarning, self.kv.push, 3, mx.nd.ones(SHAPE))
            self.kv._set_updater(lambda key, input, stored: stored.__iadd__(input))
            self.kv.push(3, mx.nd.ones(SHAPE))
        self.assertEqual(self.kv[3].asnumpy()[0, 0], 1)

    def test_no_keys_at_all(self):
        self.kv.push(3, mx.nd.ones(SHAPE))
        for call in (self.kv.init, self.kv.push, self.kv.pull, self.kv.pushpull):
            self.assertIsNone(call([], []))
        out = mx.nd.empty(SHAPE)
        self.kv.pull(3, out=out)
        self.assertTrue((out.asnumpy() == 1).all(), out)

    def test_compression_on_local(self):
        self.fails("unsupported", self.kv.set_gradient_compression, {"type": "2bit"})
        kv = mx.kv.create("device")
        self.fails("usage", kv.set_gradient_compression, {})
        self.fails("usage", kv.set_gradient_compression, {"type": "2bit", "treshold": 1})


class Files(Case):
    """mx.nd.save and mx.nd.load."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "m.params")

    def test_what_is_saved_is_loaded(self):
        names = {"arg:w": mx.nd.arange(6).reshape((2, 3)), "aux:e": mx.nd.zeros((0, 3)),
                 "b": mx.nd.array([1, -2.5, 3], dtype="bfloat16"),
                 "s": mx.nd.sparse.row_sparse_array((np.ones((2, 3), "float32"), [1, 4]), shape=(5, 3))}
        for kind in "float64 float16 uint8 int32 int8 int64 bool".split():
            names[kind] = mx.nd.array([[1, 0]], dtype=kind)
        mx.nd.save(self.path, names)
        got = mx.nd.load(self.path)
        self.assertEqual(list(got), list(names))
        for k, a in names.items():
            b = got[k]
            self.assertEqual((b.stype, b._dtype, b.shape), (a.stype, a._dtype, a.shape), k)
            self.assertEqual(b.asnumpy().tobytes(), a.asnumpy().tobytes(), k)
        self.assertEqual(got["s"].indices.asnumpy().tolist(), [1, 4])

    def test_without_names_it_is_a_list(self):
        for data in mx.nd.ones((2,)), [mx.nd.ones((2,))]:
            mx.nd.save(self.path, data)
            got = mx.nd.load(self.path)
            self.assertEqual([a.asnumpy().tolist() for a in got], [[1, 1]])
        mx.nd.save(self.path, [])
        self.assertEqual(mx.nd.load(self.path), [])

    def test_the_bytes_are_those_of_mxnet(self):
        mx.nd.save(self.path, {"w": mx.nd.array([1, 2], dtype="int8")})
        with open(self.path, "rb") as f:
            self.assertEqual(f.read().hex(), "12010000000000000000000000000000" "0100000000000000" "c9fa93f9" "00000000"
                             "01000000" "0200000000000000" "010000000000000005000000" "0102" "0100000000000000"
                             "0100000000000000" "77")

    def test_records_of_every_version_and_sparse_ones(self):
        here = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "checkpoint")
        every = mx.nd.load(os.path.join(here, "mxnet.params"))
        narrow = {k[5:]: every[k]._dtype for k in every if k[5:] in ("8", "9", "10", "11")}
        self.assertEqual(narrow, {"8": "int32", "9": "int32", "10": "int64", "11": "int64"})
        self.assertEqual(every["arg:t8"].asnumpy().tolist(), [[3848, 7446, 11044], [14642, 1792, 5390]])
        self.assertEqual((every["np.number"].shape, every["np.empty"].shape), ((), (0, 4)))
        self.assertIsNone(mx.nd.load(os.path.join(here, "sparse.params"))["nothing"])
        with open(os.path.join(here, "sparse.params"), "rb") as f:
            data = f.read()
        # without the first record, which is of no array
        with open(self.path, "wb") as f:
            f.write(struct.pack("<3Q", 0x112, 0, 6) + data[36:data.index(struct.pack("<2Q", 7, 7) + b"nothing")] + bytes(8))
        rows, room, no_rows, csr, no_csr, turned = mx.nd.load(self.path)
        self.assertEqual((rows.stype, room.stype, csr.stype), ("row_sparse", "row_sparse", "default"))
        self.assertEqual(room.asnumpy().tolist(), [[0, 1, 2], [0] * 3, [0] * 3, [3, 4, 5], [0] * 3])
        self.assertEqual(csr.asnumpy().tolist(), [[1, 0, 0, 0, 0, 2], [0] * 6, [0, 3, 4, 0, 5, 0], [0] * 6])
        self.assertEqual((turned.asnumpy().tolist(), no_csr.asnumpy().sum(), no_rows.shape), ([[2, 0, 3, 1]], 0, (4, 2)))
        old = struct.pack("<IIii", 1, 2, 1, 0) + struct.pack("<I2f", 0, 5, 6)
        first = struct.pack("<Iiqiii", 0xF993FAC8, 1, 2, 1, 0, 0) + struct.pack("<2f", 7, 8)
        with open(self.path, "wb") as f:
            f.write(struct.pack("<3Q", 0x112, 0, 2) + old + first + bytes(8))
        self.assertEqual([a.asnumpy().tolist() for a in mx.nd.load(self.path)], [[5, 6], [7, 8]])

    def test_what_cannot_be_saved_leaves_the_file(self):
        mx.nd.save(self.path, mx.nd.ones((2,)))
        self.fails("usage", mx.nd.save, self.path, {"a": np.ones(2)})
        self.fails("io", mx.nd.save, self.path + "/no/folder", mx.nd.ones((2,)))
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["m.params"])
        self.assertEqual(len(mx.nd.load(self.path)), 1)

    def test_every_cut_and_other_files_are_refused(self):
        mx.nd.save(self.path, {"s": mx.nd.sparse.row_sparse_array((np.ones((1, 1), "float32"), [1]), shape=(2, 1))})
        with open(self.path, "rb") as f:
            data = f.read()
        for n in range(len(data)):
            with open(self.path, "wb") as f:
                f.write(data[:n])
            self.fails("format", mx.nd.load, self.path)
        self.fails("io", mx.nd.load, self.path + ".none")
