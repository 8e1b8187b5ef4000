"""The calls of a store, its updaters and its errors."""
import gc
import os
import pickle
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref

import numpy as np

import kvstore as mx
from kvstore import adopt
from case import Case

SHAPE = (2, 3)


def ones(x=1, shape=SHAPE, dtype="float32"):
    return np.full(shape, x, dtype)


class StoreCase(Case):
    def setUp(self):
        self.kv = mx.kv.create("local")
        self.kv.init(3, ones(2))

    def value(self, key=3):
        return self.kv[key].asnumpy()


class Arrays(Case):
    def test_operators_in_place(self):
        a = mx.nd.ones(SHAPE) * 7
        same = a
        a %= 4
        a **= 2
        a //= 2
        self.assertIs(a, same)
        self.assertEqual(a.asnumpy()[0, 0], 4)

    def test_how_many_are_equal(self):
        self.assertEqual((mx.nd.ones(SHAPE) == 1).sum().asscalar(), 6)

    def test_bits_are_no_numbers(self):
        a = mx.nd.array([1, 2], dtype="bfloat16")
        self.assertEqual(a.astype("float32").asnumpy().tolist(), [1, 2])
        if adopt.BITS is not None:
            b = a.as_np_ndarray()
            for wrong in (lambda: a / 2, lambda: a + a, a.sum, lambda: np.add(a, 1), lambda: np.sum(a), lambda: a == 1, b.sort, b.argsort,
                          lambda: bool(a[0]), lambda: b.searchsorted(1), lambda: mx.nd.dot(a, a),
                          lambda: mx.nd.random.uniform(0, 1, 2, "bfloat16")):
                self.fails("unsupported", wrong)
            for wrong in (lambda: np.asarray(a) + 1, lambda: np.asarray(a).astype("float32"), lambda: np.asarray(a).sum()):
                self.assertRaises((TypeError, ValueError), wrong)
            self.assertEqual((a.dtype.itemsize, np.asarray(a).tobytes().hex()), (2, "803f0040"))
        self.assertEqual([a[1:].dtype, a.copy().dtype, a.reshape(2, 1)[1].astype("float32").item()], [a.dtype, a.dtype, 2])
        a[0] = 5
        b = mx.nd.zeros(2)
        b[:] = a
        a.copyto(c := mx.nd.zeros(2, dtype="float64"))
        self.assertEqual([b.tolist(), c.tolist()], [[5, 2], [5, 2]])
        self.assertEqual(pickle.loads(pickle.dumps(a)).astype("int8").tolist(), [5, 2])

    def test_ids_are_those_of_their_key(self):
        kv = mx.kv.create()
        a, b, c = (mx.nd.sparse.zeros("row_sparse", (5, 2)) for _ in range(3))
        for key in "r", "s":
            kv.init(key, mx.nd.sparse.row_sparse_array((np.ones((5, 2), "float32"), range(5)), shape=(5, 2)))
        one, two, three = (mx.nd.array([i], dtype="int64") for i in range(3))
        kv.row_sparse_pull(["r", "s"], out=[[a, b], c], row_ids=[[one, two], three])
        self.assertEqual([x.indices.asnumpy()[0] for x in (a, b, c)], [0, 1, 2])
        self.fails("usage", kv.row_sparse_pull, ["r", "s"], out=[[a, b], c], row_ids=[one, [two, three]])

    def test_rows_that_have_no_id(self):
        rows = np.arange(6.0).reshape(2, 3)
        make = mx.nd.sparse.row_sparse_array
        self.fails("shape", make, (rows, [3]), shape=(5, 3))
        self.fails("shape", make, (rows, [1, 2, 3]), shape=(5, 3))
        self.fails("value", make, (rows, [1.5, 2]), shape=(5, 3))


class Store(StoreCase):
    def test_push_sums_and_pull_fills(self):
        self.kv.push(3, [ones(1), ones(2), ones(4)])
        out = [ones(0), ones(0, dtype="float64")]
        self.kv.pull(3, out=out)
        for o in out:
            self.assertTrue((o == 7).all())

    def test_lists_of_keys(self):
        self.kv.init((5, 7, 9), [ones()] * 3)
        self.kv.push([5, 7, 9], [[ones(), ones()], ones(4), (ones(1), ones(2))])
        out = [ones(0) for _ in range(3)]
        self.kv.pull([5, 7, 9], out)
        self.assertEqual([o[0, 0] for o in out], [2, 4, 3])
        self.kv.push([], [])
        self.assertEqual(self.kv.keys(), [3, 5, 7, 9])

    def test_pushpull_with_outs_and_in_place(self):
        a, b, out = ones(1), ones(2), ones(0)
        self.kv.pushpull(3, [a, b], out=out)
        self.assertTrue((out == 3).all() and (a == 1).all())
        self.kv.pushpull(3, [a, b])
        self.assertTrue((a == 3).all() and (b == 3).all())

    def test_keys_that_others_delete_while_they_are_listed(self):
        kv, end, wrong = mx.kv.create("local"), threading.Event(), []

        def make(name):
            while not end.is_set():
                kv.init(name, ones())
                kv.delete(name)

        threads = [threading.Thread(target=make, args=(c * 300,)) for c in "ab"]
        for t in threads:
            t.start()
        for _ in range(300):
            wrong += [k for k in kv.keys() if k not in ("a" * 300, "b" * 300)]
        end.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_a_question_while_an_updater_runs(self):
        begun = threading.Event()

        def slow(key, pushed, stored):
            begun.set()
            end = threading.Event()
            end.wait(0.1)

        self.kv.set_updater(slow)
        t = threading.Thread(target=self.kv.push, args=(3, ones()))
        t.start()
        begun.wait()
        self.assertFalse(self.kv.in_transaction)
        t.join()

    def test_lists_that_change_or_hold_themselves(self):
        values = [ones() for _ in range(40)]

        class Key:
            def __init__(self, i):
                self.i = i

            def __index__(self):
                del values[5:]
                return self.i

        with self.assertRaises(IndexError):
            self.kv.init([Key(100 + i) for i in range(40)], values)
        keys = []
        keys.append(keys)
        with self.assertRaises(RecursionError):
            self.kv.init(keys, keys)
        self.assertEqual(self.kv.keys(), [3])

    def test_flags_and_texts_are_looked_at_first(self):
        for name in "wait", "priority":
            with self.assertRaises((ValueError, TypeError)):
                self.kv.push(3, ones(5), **{name: np.array([1, 2])})
        with self.assertRaises(ValueError):
            self.kv.pull(3, out=ones(), ignore_sparse=np.array([1, 2]))
        self.assertEqual(self.value()[0, 0], 2)
        self.fails("value", mx.kv.create, "local\0zz")
        self.fails("value", self.kv.save, "x\0y")
        self.fails("value", self.kv.set_updater, "stored += input\0")

    def test_what_is_no_updater_no_optimizer_no_compression(self):
        class Own(mx.optimizer.Optimizer):
            pass

        self.fails("usage", self.kv.set_updater, 3)
        self.fails("unsupported", self.kv.set_optimizer, Own())
        for updater in ("{ stored += input }", "stored += input", lambda key, input, stored: None):
            self.assertIn("set_updater takes", self.fails("usage", self.kv.set_optimizer, updater).hint)
        self.assertIn("SGD(learning_rate", self.fails("usage", self.kv.set_optimizer, mx.optimizer.SGD).hint)
        self.fails("usage", self.kv.set_gradient_compression, "2bit")
        self.fails("usage", mx.optimizer.SGD, lr_scheduler=lambda n: 0.1)
        self.fails("usage", mx.nd.zeros, SHAPE, ctx="cpu")
        self.fails("usage", self.kv.init, 9, 1)

    def test_a_list_of_keys_takes_a_list_of_values(self):
        wrong = self.fails("usage", self.kv.push, ["w"], ones(1))
        self.assertEqual(wrong.text, "a list of 1 key and one array")
        wrong = self.fails("usage", self.kv.push, [1, 2], [ones(1)])
        self.assertEqual(wrong.text, "a list of 2 keys and a list of 1")

    def test_broadcast(self):
        out = [ones(0), ones(0)]
        self.kv.broadcast(8, ones(5), out=out)
        self.assertTrue((out[0] == 5).all() and (out[1] == 5).all())
        self.fails("key", self.kv.broadcast, 8, ones(5), out=out)

    def test_row_sparse(self):
        self.kv.init(4, mx.nd.ones(SHAPE).tostype("row_sparse"))
        out = [mx.nd.sparse.zeros("row_sparse", SHAPE) for _ in range(2)]
        self.kv.row_sparse_pull(4, out=out, row_ids=np.array([1, 1]))
        for o in out:
            self.assertEqual(o.indices.tolist(), [1])
            self.assertEqual(o.asnumpy().tolist(), [[0, 0, 0], [1, 1, 1]])
        self.kv.row_sparse_pull(4, out=out, row_ids=[np.array([0], "int64"), mx.nd.array([0, 1])])
        self.assertEqual([o.indices.tolist() for o in out], [[0], [0, 1]])
        self.fails("index", self.kv.row_sparse_pull, 4, out=out[0], row_ids=np.array([2]))
        self.fails("usage", self.kv.row_sparse_pull, 4, out=out[0])
        self.fails("value", self.kv.row_sparse_pull, 3, out=out[0], row_ids=np.array([0]))

    def test_a_rule_may_begin_and_end_in_a_comment(self):
        kv = mx.kv.create()
        kv.init("c", np.ones(2, "float32"))
        for rule in ("stored += input  # add", "# add\n{ stored += input }", "# add\nstored += input"):
            kv.set_updater(rule)
            kv.push("c", np.ones(2, "float32"))
        self.assertEqual(kv["c"].tolist(), [4, 4])

    def test_ids_of_rows_are_of_their_key_alone(self):
        kv = mx.kv.create()
        for key in ("r", "s"):
            kv.init(key, mx.nd.sparse.row_sparse_array((np.ones((2, 2), "float32"), [0, 2]), shape=(4, 2)))
        outs = [[mx.nd.sparse.zeros("row_sparse", (4, 2))] for _ in range(2)]
        self.fails("usage", kv.row_sparse_pull, ["r", "s"], out=outs, row_ids=[[], [np.array([2])]])

    def test_errors_have_their_fields(self):
        e = self.fails("shape", self.kv.push, 3, ones(shape=(2, 2)))
        self.assertEqual((e.key, e.rank, e.place), (3, None, None))
        self.assertIn("this value has shape (2, 2)", str(e))
        e = self.fails("syntax", self.kv.set_updater, "stored += ")
        self.assertEqual(e.place[:3], ("rule", 1, 13))
        e = self.fails("usage", mx.kv.create("local").is_capable, "optimiser")
        self.assertIn("hint: ", str(e))
        self.assertEqual(pickle.loads(pickle.dumps(e)).hint, e.hint)
        self.assertIs(mx.MXNetError, mx.KVError)

    def test_hints_have_the_names_of_python(self):
        e = self.fails("key", self.kv.init, "w", ones(1))
        self.assertIn("create() makes another store", e.hint)
        e = self.fails("value", self.kv.update_optimizer, learning_rate=0.1)
        self.assertEqual(e.hint, "set_optimizer sets one")
        self.kv.set_updater(lambda key, input, stored: None)
        e = self.fails("unsupported", self.kv.save, "x.kvs")
        self.assertEqual(e.text, "a file cannot hold an updater that is a function of the program")
        self.assertEqual(e.hint, "save before set_updater, or set a rule, whose text goes into the file")
        mx.set_virtual_gpus(2)
        self.addCleanup(mx.set_virtual_gpus, 0)
        e = self.fails("unsupported", mx.nd.ones, (2,), ctx=mx.gpu(2))
        self.assertIn("kvstore.set_virtual_gpus(3) make more", e.hint)

    def test_a_failed_call_changes_nothing(self):
        for call in (lambda: self.kv.push([3, 4], [ones(9), ones(9, (2,))[:, None] * 1j]),
                     lambda: self.kv.push([3, "x"], [ones(9), ones(9)]),
                     lambda: self.kv.push([3, 3], [ones(9), ones(9, (1,))]),
                     lambda: self.kv.pushpull(3, ones(9), out=ones(9, (1,)))):
            with self.assertRaises(mx.KVError):
                call()
            self.assertTrue((self.value() == 2).all())

    def test_keys_that_are_none(self):
        for key, code in ((2 ** 63, "key"), (1.5, "usage"), (None, "usage"), (b"x", "usage"), ("a\0b", "key"),
                          ("\ud800", "key"), ({}, "usage")):
            self.fails(code, mx.kv.create().init, key, ones())
        self.kv.push(np.int32(3), ones(4))
        self.assertTrue((self.value() == 4).all())

    def test_arguments(self):
        for call in (lambda: self.kv.push(3), lambda: self.kv.push(3, ones(), 0, True, 1), lambda: self.kv.pull(),
                     lambda: self.kv.push(3, ones(), prio=1), lambda: self.kv.push(3, value=ones(), key=3)):
            self.assertRaises(TypeError, call)
        self.fails("usage", self.kv.pull, 3)
        self.fails("usage", self.kv.push, [3, 4], [ones()])
        self.fails("usage", self.kv.push, [3, 4], ones())
        self.fails("usage", self.kv.push, 3, 5.0)
        self.kv.push(key=3, value=ones(3), priority=-(2 ** 40))

    def test_unlike_mxnet_an_unknown_type_is_refused(self):
        self.fails("unsupported", mx.kv.create, "locale")
        self.assertRaises(TypeError, mx.kv.create, 3)
        self.fails("usage", mx.kv.create, "local", color="red")

    def test_a_store_of_no_name_is_local(self):
        kv = mx.kv.create()
        self.assertEqual((kv.type, kv.rank, kv.num_workers, repr(kv)), ("local", 0, 1, "<KVStore local>"))
        self.assertEqual(mx.kv.create("Local_Allreduce_CPU").type, "local_allreduce_cpu")
        kv.barrier()
        kv._barrier()
        kv._send_command_to_servers(1, "x")
        self.assertTrue(kv.is_capable("optimizer"))
        self.assertRaises(TypeError, kv.is_capable, 3)

    def test_closed(self):
        with mx.kv.create() as kv:
            kv.init("a", ones())
        self.assertTrue(kv.closed)
        self.fails("usage", kv.push, "a", ones())
        self.fails("usage", lambda: kv.type)
        self.fails("usage", kv.is_capable, "optimizer")
        kv.close()
        self.assertEqual(repr(kv), "<KVStore, closed>")

    def test_what_there_is(self):
        self.kv.push(3, ones())
        self.kv.push(3, ones())
        row = self.kv.info()[0]
        self.assertEqual((row["key"], row["dtype"], row["shape"], row["ctx"], row["bytes"], row["stype"]),
                         (3, "float32", SHAPE, "cpu(0)", 24, "default"))
        self.assertEqual((len(self.kv), list(self.kv), 3 in self.kv, 4 in self.kv), (1, [3], True, False))
        self.assertIn("<td>(2, 3)</td>", self.kv._repr_html_())
        self.assertTrue(repr(self.kv.info()).startswith("key  dtype"))
        self.fails("key", self.kv.__getitem__, 4)
        self.assertEqual(self.kv.describe("store")[0]["type"], "local")
        self.assertIn("local", [row["name"] for row in mx.describe("types")])
        self.fails("usage", self.kv.describe, "weather")

    def test_delete_and_rename(self):
        self.kv.init([5, 6], [ones(5), ones(6)])
        self.kv.delete([3, 5])
        self.kv.rename(6, 7)
        self.assertEqual(self.kv.keys(), [7])
        self.fails("key", self.kv.delete, 3)
        self.fails("key", self.kv.rename, 3, 4)

    def test_transactions(self):
        self.kv.begin()
        self.assertTrue(self.kv.in_transaction)
        self.kv.push(3, ones(9))
        self.kv.rollback()
        self.assertTrue((self.value() == 2).all())
        self.fails("value", self.kv.commit)


class Updaters(StoreCase):
    def test_a_function(self):
        seen = []

        def update(key, input, stored):
            seen.append(key)
            stored += input * 2
        self.kv._set_updater(update)
        self.kv.init([9, 5], [ones(), ones()])
        self.kv.push([9, 3, 5], [ones(), ones(), [ones(), ones()]])
        self.assertEqual(seen, [3, 5, 9])
        self.assertEqual([self.value(k)[0, 0] for k in (3, 5, 9)], [4, 5, 3])

    def test_text_keys_come_as_text(self):
        kv, seen = mx.kv.create(), []
        kv.init("w", ones())
        kv._set_updater(lambda key, input, stored: seen.append((key, type(input), stored.shape)))
        kv.push("w", ones())
        self.assertEqual(seen, [("w", mx.NDArray, SHAPE)])

    def test_an_exception_that_takes_no_note(self):
        class Refuses(Exception):
            def add_note(self, note):
                raise TypeError

        def update(key, input, stored):
            stored[:] = 99
            if key == 3:
                raise Refuses
        self.kv.init(4, ones())
        self.kv._set_updater(update)
        with self.assertRaises(Refuses):
            self.kv.push([3, 4], [ones(), ones()])
        self.assertEqual([self.value(k)[0, 0] for k in (3, 4)], [2, 99])

    def test_large_values_run_elsewhere_and_are_waited_for(self):
        big, threads = np.ones(1 << 20, "float32"), set()

        def update(key, input, stored):
            threads.add(threading.get_ident())
            np.asarray(stored)[:] += np.asarray(input)
        self.kv.init(4, big)
        self.kv._set_updater(update)
        for _ in range(3):
            self.kv.push(4, [big, big])
        self.assertTrue((self.value(4) == 7).all())

    def test_an_exception_is_raised_by_the_push_and_keeps_the_value(self):
        def update(key, input, stored):
            stored[:] = 99
            if key == 3:
                raise ZeroDivisionError("three")
        self.kv.init(4, ones())
        self.kv._set_updater(update)
        with self.assertRaises(ZeroDivisionError) as c:
            self.kv.push([3, 4], [ones(), ones()])
        self.assertIn("key 3", c.exception.__notes__[0])
        self.assertEqual([self.value(k)[0, 0] for k in (3, 4)], [2, 99])
        self.kv._set_updater(None)
        self.kv.push(3, ones(5))
        self.assertTrue((self.value() == 5).all())

    def test_an_exception_comes_once_also_at_the_end(self):
        def fails(key, value, stored):
            time.sleep(0.2)
            raise ZeroDivisionError("of the updater")

        def store():
            kv = mx.kv.create()
            kv.init(1, np.zeros(300000, "float32"))
            kv.set_updater(fails)
            kv.push(1, np.ones(300000, "float32"), wait=False)
            return kv
        with self.assertRaises(ZeroDivisionError):
            store().close()
        kv = store()
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(ZeroDivisionError):
            kv.save(os.path.join(folder, "w.kvs"))
            kv.wait()
        kv.wait()

    def test_the_input_is_only_read(self):
        def write(key, input, stored):
            input *= 2
        self.kv._set_updater(write)
        self.assertRaises(ValueError, self.kv.push, 3, ones())
        self.kv._set_updater(lambda key, input, stored: self.kv.pull(3, out=input))
        self.fails("usage", self.kv.push, 3, ones())
        self.assertTrue((self.value() == 2).all())

    def test_what_an_updater_keeps_stays_what_it_was(self):
        kept = []

        def update(key, input, stored):
            stored += input
            kept.append((input, stored, np.asarray(stored), stored.copy()))
        self.kv._set_updater(update)
        for _ in range(4):
            self.kv.push(3, ones())
        self.assertEqual([[x.asnumpy()[0, 0] if isinstance(x, mx.NDArray) else x[0, 0] for x in row] for row in kept],
                         [[1, n, n, n] for n in (3, 4, 5, 6)])
        self.assertTrue((self.value() == 6).all())

    def test_an_updater_may_not_call_its_store(self):
        self.kv._set_updater(lambda key, input, stored: self.kv.push(3, ones()))
        self.fails("usage", self.kv.push, 3, ones())

    def test_the_function_is_released(self):
        class Update:
            def __call__(self, key, input, stored):
                pass
        update = Update()
        alive = weakref.ref(update)
        self.kv._set_updater(update)
        self.kv.push(3, ones())
        del update
        self.assertIsNotNone(alive())
        self.kv.set_updater("stored += input")
        gc.collect()
        self.assertIsNone(alive())

    def test_a_store_and_a_function_that_knows_it_are_collected(self):
        class Trainer:
            def __init__(self):
                self.kv = mx.kv.create()
                self.kv.init(0, ones())
                self.kv._set_updater(self.update)

            def update(self, key, input, stored):
                stored += input
        trainer = Trainer()
        trainer.kv.push(0, ones())
        alive = weakref.ref(trainer), weakref.ref(trainer.kv)
        del trainer
        gc.collect()
        self.assertEqual([a() for a in alive], [None, None])

    def test_a_rollback_brings_a_function_back(self):
        self.kv._set_updater(lambda key, input, stored: 1 / 0)
        self.kv.begin()
        self.kv.set_optimizer("sgd")
        self.kv.push(3, ones())
        self.kv.rollback()
        big = np.ones(1 << 18, "float32")
        self.kv.init(4, big)
        self.assertRaises(ZeroDivisionError, self.kv.push, 4, big)

    def test_not_a_function(self):
        self.fails("usage", self.kv._set_updater, 3)
        self.fails("usage", self.kv.set_optimizer, 3)

    def test_rules(self):
        self.kv.set_updater("stored += input * rate", rate=0.5)
        self.kv.push(3, ones())
        self.assertTrue((self.value() == 2.5).all())
        self.kv.update_optimizer(rate=2)
        self.kv.push(3, ones())
        self.assertTrue((self.value() == 4.5).all())
        self.kv.set_updater("updater slow(f = 0.25) { stored += f * input }", f=1)
        self.kv.push(3, ones())
        self.assertTrue((self.value() == 5.5).all())
        self.fails("usage", self.kv.set_updater, "stored += input * rate")

    def test_what_a_rule_prints_is_printed(self):
        import contextlib
        import io
        out = io.StringIO()
        self.kv.set_updater('{ print "key %d" % key; stored += input }')
        with contextlib.redirect_stdout(out):
            self.kv.push(3, ones())
        self.assertEqual(out.getvalue(), "key 3\n")


class Explained(StoreCase):
    def test_a_push(self):
        self.kv.set_updater("stored += input * 2")
        text = self.kv.explain("push", 3, [ones(), mx.nd.ones(SHAPE, mx.cpu(1))])
        self.assertEqual(text, """push 3, following element [0, 0] of (2, 3) float32:
  1. 2 values come in: 1 from cpu(0), 1 from cpu(1)
  2. they are summed from left to right: 1 + 1 = 2
  3. the updater, a rule, runs with input 2 and stored 2:
       { stored += input * 2 }
  4. the key then holds 6
nothing was changed""")
        self.assertIn("what is stored, 2, is copied", self.kv.explain("pull", 3))
        self.assertTrue((self.value() == 2).all())

    def test_what_is_not_explained(self):
        self.fails("usage", self.kv.explain, "init", 3, ones())
        self.fails("usage", self.kv.explain, "push", 3)
        self.fails("shape", self.kv.explain, "push", 3, ones(shape=(3, 3)))
        self.kv._set_updater(lambda key, input, stored: None)
        self.fails("unsupported", self.kv.explain, "push", 3, ones())


class Optimizers(StoreCase):
    def test_an_object_a_name_and_a_schedule(self):
        schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5)
        for how in (lambda kv: kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, lr_scheduler=schedule)),
                    lambda kv: kv.set_optimizer("sgd", learning_rate=0.5, lr_scheduler=schedule),
                    lambda kv: kv.set_optimizer(mx.optimizer.create("SGD", learning_rate=0.5, lr_scheduler=schedule))):
            kv = mx.kv.create()
            kv.init(0, np.zeros(1, "float32"))
            how(kv)
            got = []
            for _ in range(5):
                kv.push(0, np.ones(1, "float32"))
                got.append(float(kv[0][0].item() if kv[0].shape else 0))
            self.assertEqual(got, [-0.5, -1.0, -1.25, -1.5, -1.625])

    def test_the_default_of_sgd(self):
        kv = mx.kv.create()
        kv.init(3, mx.nd.zeros((2, 2)))
        kv.set_optimizer(mx.optimizer.SGD())
        kv.push(3, mx.nd.ones((2, 2)))
        self.assertEqual(kv[3].asnumpy().tolist(), [[np.float32(-0.01)] * 2] * 2)

    def test_multipliers(self):
        kv = mx.kv.create()
        kv.init([0, 1], [np.zeros(1, "float32")] * 2)
        o = mx.optimizer.SGD(learning_rate=1, param_idx2name={0: "a_weight", 1: "b_bias"})
        o.set_lr_mult({"a_weight": 0.5})
        kv.set_optimizer(o)
        kv.push([0, 1], [np.ones(1, "float32")] * 2)
        self.assertEqual([kv[k].item() for k in (0, 1)], [-0.5, -1])

    def test_every_class_can_be_set(self):
        for name in mx.optimizer.__all__[5:]:
            with self.subTest(name):
                kv = mx.kv.create()
                kv.init(0, ones())
                kv.set_optimizer(getattr(mx.optimizer, name)(**({} if name == "Test" else {"learning_rate": 0.1})))
                kv.push(0, ones())
                self.assertTrue(np.isfinite(kv[0].asnumpy()).all())
        self.fails("usage", self.kv.set_optimizer, "sdg")
        self.fails("usage", self.kv.set_optimizer, "sgd", momentun=0.9)

    def test_states_are_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path, one, two = os.path.join(folder, "s"), mx.kv.create(), mx.kv.create()
            for kv in (one, two):
                kv.init(0, ones())
                kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
            one.push(0, ones(3))
            one.save_optimizer_states(path, dump_optimizer=True)
            two.push(0, ones(3))
            two.push(0, ones(-5))
            two.load_optimizer_states(path)
            self.assertEqual([(r["state"], r["t"]) for r in two.describe("states")],
                             [(r["state"], r["t"]) for r in one.describe("states")])
            self.fails("value", mx.kv.create().save_optimizer_states, path)
            self.fails("io", one.load_optimizer_states, path + ".none")

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            self.kv.set_optimizer("sgd", momentum=0.9)
            self.kv.push(3, ones())
            self.kv.save(path)
            again = mx.kvstore.load(path)
            again.set_optimizer("sgd", momentum=0.9)  # the first, and the same: its states stay
            for kv in (self.kv, again):
                kv.push(3, ones())
            self.assertTrue((again[3].asnumpy() == self.value()).all())
            self.kv.save(path, arrays_only=True)
            self.assertEqual(mx.load(path).keys(), ["3"])

    def test_compression(self):
        kv = mx.kv.create("device")
        kv.init(9, np.zeros(4, "float32"))
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        got = []
        for g in (0.4, 0.2, 0.2, 0.2):
            kv.push(9, np.full(4, g, "float32"))
            got.append(kv[9][0].item())
        self.assertEqual(got, [0, 0.5, 0, 0.5])
        self.fails("value", kv.set_gradient_compression, {"type": "3bit"})
        self.fails("unsupported", self.kv.set_gradient_compression, {"type": "2bit"})


class Classes(unittest.TestCase):
    def tearDown(self):
        mx.KVStoreBase.kv_registry.clear()

    def test_register(self):
        @mx.kvstore.KVStoreBase.register
        class MyKVStore(mx.kvstore.KVStoreBase):
            pass
        kv = mx.kv.create("MYkvstore")
        self.assertIs(type(kv), MyKVStore)
        self.assertRaises(NotImplementedError, kv.pushpull, 3, None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mx.register(MyKVStore)
        self.assertEqual(len(caught), 1)
        self.assertRaises(mx.KVError, mx.register, 3)
        self.assertIsInstance(mx.kv.create(), mx.KVStoreBase)
