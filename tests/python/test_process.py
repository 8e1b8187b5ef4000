"""What a module must not do to its process: references, memory, threads, forks, signals, and the end.
N=1000000 tests/python/run Leaks: longer."""
import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import numpy as np

import kvstore as mx
from kvstore import _kvstore
from case import Case


def program(text, code=0, timeout=60, **variables):
    """Runs a program of its own and gives what it printed."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, env={**os.environ, **variables})
    if done.returncode != code:
        raise AssertionError(f"exit status {done.returncode} instead of {code}: {done.stdout}")
    return done.stdout


class References(unittest.TestCase):
    def test_no_call_keeps_or_loses_a_reference(self):
        kv = mx.kv.create()
        small, large, key = np.ones(4, "float32"), np.ones(5000, "float32"), "a text key that is no constant" + str(os.getpid())
        ours, strided = mx.nd.ones(4), np.ones((4, 2), "float32")[:, 0]
        kv.init([key, "large"], [small, large])

        def update(k, input, stored):
            stored += input
        watched = [small, large, key, ours, strided, update]

        def everything():
            kv.push(key, small)
            kv.push([key, "large"], [[small, ours], large])
            kv.pull([key, "large"], out=[small, large])
            kv.pushpull("large", [large, large])
            for wrong in (np.ones(3), "x", 5.0, [small, None], object()):
                try:
                    kv.push(key, wrong)
                except mx.KVError:
                    pass
            kv._set_updater(update)
            kv.push(key, [small, ours])
            kv.set_updater(None)
            kv[key], kv.info(), kv.describe("store"), np.asarray(ours), np.from_dlpack(ours), ours + 1
        everything()
        gc.collect()
        before = [sys.getrefcount(x) for x in watched]
        for _ in range(50):
            everything()
        gc.collect()
        self.assertEqual([sys.getrefcount(x) for x in watched], before)


def rss():
    """KB that this process has in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def is_sanitized():
    """The address sanitizer keeps what was freed."""
    with open("/proc/self/maps") as f:
        return "libasan" in f.read()


@unittest.skipIf(is_sanitized(), "the sanitizer keeps memory that was freed")
class Leaks(unittest.TestCase):
    def flat(self, call):
        """The memory after the first fifth of the calls is about that at the end."""
        n = int(os.environ.get("N", 20000))
        for i in range(n):
            if i == n // 5:
                gc.collect()
                before = rss()
            call(i)
        gc.collect()
        self.assertLess(rss() - before, 2000)

    def test_push_and_pull(self):
        kv, small, large = mx.kv.create(), np.ones(4, "float32"), np.ones(2000, "float32")
        kv.init([1, 2], [small, large])
        self.flat(lambda i: (kv.push([1, 2], [[small, small], large]), kv.pull([1, 2], [small, large])))

    def test_updaters_and_errors(self):
        kv, small = mx.kv.create(), np.ones(4, "float32")
        kv.init(1, small)

        def update(key, input, stored):
            if key and small[0] == 7:
                raise ValueError
            stored[:] = input

        def call(i):
            kv._set_updater(update)
            small[0] = i % 8
            try:
                kv.push(1, small)
                kv.push(2, small)
            except (ValueError, mx.KVError):
                pass
        self.flat(call)

    def test_stores_and_arrays(self):
        def call(i):
            if i % 10 == 0:
                kv = mx.kv.create()
                kv.init("k", mx.nd.ones((3, 3)).tostype("row_sparse"))
                kv.set_optimizer("sgd")
                kv.push("k", np.ones((3, 3), "float32"), wait=False)
                np.asarray(kv["k"].tostype("default")).sum()
            np.from_dlpack(mx.nd.ones(10)) + mx.nd.zeros(10)
        self.flat(call)


class Threads(unittest.TestCase):
    def test_many_threads_share_a_store(self):
        kv, errors = mx.kv.create(), []
        kv.set_updater("stored += input")
        kv.init(list(range(8)), [np.zeros(n, "float32") for n in (1, 10, 100, 1000, 10000, 100000, 3, 7)])

        def work(seed):
            try:
                for i in range(100):
                    key = (seed + i) % 8
                    size = kv._find(key)["shape"]
                    kv.push(key, [np.ones(size, "float32"), np.ones(size, "float32")])
                    kv.pull(key, np.empty(size, "float32"))
            except BaseException as e:
                errors.append(e)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(sum(int(kv[k].asnumpy().ravel()[0]) for k in range(8)), 1600)

    def test_threads_with_updaters_in_python(self):
        kv, errors = mx.kv.create(), []
        kv.init([0, 1], [np.zeros(100000, "float32")] * 2)

        def update(key, input, stored):
            view = np.asarray(stored)
            view += np.asarray(input)
        kv._set_updater(update)

        def work():
            try:
                for _ in range(20):
                    kv.push([0, 1], [np.ones(100000, "float32")] * 2)
            except BaseException as e:
                errors.append(e)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((errors, kv[0].asnumpy()[-1]), ([], 80))

    def test_the_gil_is_free_while_the_store_works(self):
        kv, big = mx.kv.create(), np.ones(1 << 22, "float32")
        kv.init(0, big)
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0)
        t = threading.Thread(target=tick)
        t.start()
        inside = False
        for _ in range(200):  # another thread runs Python in the middle of a push
            begin = time.perf_counter()
            kv.push(0, [big] * 8)
            middle = (begin + time.perf_counter()) / 2
            width = (time.perf_counter() - begin) / 4
            inside = inside or any(abs(x - middle) < width for x in ticks)
            ticks.clear()
            if inside:
                break
        stop.set()
        t.join()
        self.assertTrue(inside)

    def test_close_while_another_thread_is_in_a_call(self):
        kv, inside, go = mx.kv.create(), threading.Event(), threading.Event()
        kv.init(0, np.zeros(1, "float32"))

        def update(key, input, stored):
            inside.set()
            go.wait(10)
        kv._set_updater(update)
        t = threading.Thread(target=lambda: kv.push(0, np.zeros(1, "float32")))
        t.start()
        inside.wait(10)
        with self.assertRaises(mx.KVError) as c:
            kv.close()
        go.set()
        t.join()
        self.assertEqual(c.exception.code, "busy")
        kv.close()


class Forks(unittest.TestCase):
    def test_a_child_has_a_store_of_its_own(self):
        kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
        kv.init(0, big)
        kv.set_updater("stored += input")
        for _ in range(5):
            kv.push(0, big, wait=False)
        pid = os.fork()
        if pid == 0:
            try:
                kv.push(0, [big, big])
                ok = kv[0].asnumpy()[-1] == 8
                other = mx.kv.create()
                other.init("x", big)
                other.push("x", [big, big])
                os._exit(0 if ok and other["x"].asnumpy()[0] == 2 else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        kv.push(0, big)
        self.assertEqual(kv[0].asnumpy()[-1], 7)

    def test_multiprocessing(self):
        out = program("""
            import multiprocessing, numpy as np, kvstore as mx
            kv = mx.kv.create()
            kv.init(0, np.ones(100000, "float32"))
            def work(i):
                kv.push(0, [np.full(100000, i, "float32")] * 2)
                return float(kv[0].asnumpy()[-1])
            if __name__ == "__main__":
                with multiprocessing.get_context("fork").Pool(3) as pool:
                    print(pool.map(work, range(6)))
        """)
        self.assertEqual(out, "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]\n")


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_a_wait_and_nothing_is_lost(self):
        kv, big = mx.kv.create(), np.ones(1 << 22, "float32")
        kv.init(0, big)
        kv.set_updater("stored += input * sqrt(abs(sin(exp(cos(input)))))")

        def handler(number, frame):
            raise KeyboardInterrupt
        old = signal.signal(signal.SIGALRM, handler)
        try:
            with self.assertRaises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                for _ in range(2000):
                    kv.push(0, [big] * 4)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        kv.wait()
        self.assertTrue(np.isfinite(kv[0].asnumpy()).all())
        while _kvstore.open_calls():
            time.sleep(0.01)

    def test_ctrl_c_ends_a_wait_for_calls_that_nobody_waited_for(self):
        kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
        kv.init(0, big)
        kv.set_updater("stored += input * sqrt(abs(sin(exp(cos(input)))))")

        def handler(number, frame):
            raise KeyboardInterrupt
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        for _ in range(100):
            kv.push(0, big, wait=False)
        pushed = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            kv.wait()
        interrupted = time.monotonic()
        kv.wait()
        self.assertGreater(time.monotonic() - interrupted, interrupted - pushed)
        self.assertTrue(np.isfinite(kv[0].asnumpy()).all())

    def test_ctrl_c_in_an_updater_is_raised_by_the_push(self):
        kv = mx.kv.create()
        kv.init(0, np.zeros(1, "float32"))

        def update(key, input, stored):
            signal.raise_signal(signal.SIGINT)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        kv._set_updater(update)
        with self.assertRaises(KeyboardInterrupt):
            kv.push(0, np.zeros(1, "float32"))


# Sends this process SIGINT while a call is made. Gives how long it took until KeyboardInterrupt.
INTERRUPT = """
import gc, os, signal, sys, tempfile, threading, time, numpy as np, kvstore as mx
def interrupted(call, after=0.3):
    def shoot():
        time.sleep(after)
        interrupted.at = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=shoot, daemon=True).start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - interrupted.at
    raise AssertionError("nothing interrupted it")
def soon(call, **how):
    took = interrupted(call, **how)
    assert took < 5, took  # by itself no such call ends within 20 s
"""


class Orders(Case):
    """Updaters that call other stores: by an order, so that no two can wait for each other."""

    def stores(self, n):
        stores = [mx.kv.create() for _ in range(n)]
        for kv in stores:
            kv.init([0, 1], [np.ones(1 << 18, "float32"), np.ones(2, "float32")])
        return stores

    def test_two_stores_whose_updaters_pull_from_each_other(self):
        for key in (0, 1):
            one, two = self.stores(2)
            out, failed = np.zeros_like(one[key].asnumpy()), []
            one._set_updater(lambda k, i, s: two.pull(key, out.copy()))
            two._set_updater(lambda k, i, s: one.pull(key, out.copy()))

            def push(kv):
                for _ in range(20):
                    try:
                        kv.push(key, out)
                    except mx.KVError as e:
                        failed.append(e)
            threads = [threading.Thread(target=push, args=(kv,)) for kv in (one, two)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(30)
            self.assertFalse(any(t.is_alive() for t in threads))
            for kv in (one, two):  # the errors of several pushes may be one
                try:
                    kv.wait()
                except mx.KVError as e:
                    failed.append(e)
            self.assertEqual({e.code for e in failed}, {"usage"})
            refused = 0
            for kv in (one, two):
                try:
                    kv.push(key, out)
                    kv.wait()
                except mx.KVError:
                    refused += 1
            self.assertEqual(refused, 1)
            self.assertIn("an updater calls a store whose updater calls the store of this one: each could wait for the other",
                          failed[0].text)

    def test_the_order_is_that_of_the_first_calls(self):
        a, b, c = self.stores(3)
        a._set_updater(lambda k, i, s: b.push(1, i))
        b._set_updater(lambda k, i, s: (c[1], s.__iadd__(i)) and None)
        a.push(1, np.ones(2))
        a.push(1, np.ones(2))
        self.assertEqual(b[1].asnumpy().tolist(), [3, 3])
        c._set_updater(lambda k, i, s: a.keys())
        self.fails("usage", c.push, 1, np.ones(2))
        c._set_updater(lambda k, i, s: (a.rank, a.type, s.__iadd__(i)) and None)  # which wait for nothing
        c.push(1, np.ones(2))
        a._set_updater(lambda k, i, s: None)  # what it called before is forgotten
        b._set_updater(None)
        c._set_updater(lambda k, i, s: a.pull(1, np.zeros(2)))
        c.push(1, np.ones(2))


class Interrupts(unittest.TestCase):
    def test_calls_that_wait_for_an_updater(self):
        program(INTERRUPT + textwrap.dedent("""
            kv, big, go = mx.kv.create(), np.ones(1 << 18, "float32"), threading.Event()
            kv.init(0, big)
            kv._set_updater(lambda k, i, s: go.wait(60) and s.__iadd__(i))
            with tempfile.TemporaryDirectory() as folder:
                soon(lambda: kv.push(0, np.ones(1 << 18, "float32")))  # the array goes at once
                gc.collect()
                outs = [np.empty(1 << 18, "float32") for _ in range(3)]
                soon(lambda: kv.pull(0, outs[0]))
                soon(lambda: kv.pull(0, mx.nd.zeros((1 << 18,))))
                soon(lambda: kv[0])
                soon(lambda: kv.pushpull(0, big, outs[1]))
                soon(kv.wait)
                soon(lambda: kv.save(os.path.join(folder, "s")))
                soon(lambda: kv.set_updater("stored += input"))
                soon(lambda: kv.begin())
            go.set()
        """))

    def test_elements_that_a_pull_still_fills(self):
        program(INTERRUPT + textwrap.dedent("""
            kv, n, go = mx.kv.create(), 1 << 18, threading.Event()
            kv.init([0, 1], [np.ones(n, "float32"), np.ones(n, "float32")])
            kv._set_updater(lambda k, i, s: go.wait() and s.__iadd__(i))
            kv.push(0, np.ones(n, "float32"), wait=False)
            a = mx.nd.zeros((n,))
            kv.pull(0, a, wait=False)
            for read in (a.wait_to_read, a[1:].wait_to_read, a.reshape(2, -1).wait_to_read, lambda: kv.push(1, a),
                         lambda: kv.pull(1, a), lambda: kv.push(1, a.reshape(2, -1)[0], wait=False)):
                assert interrupted(read) >= 0
            mx.nd.ones((n,)).wait_to_read()
            threading.Timer(0.3, go.set).start()
            a.wait_to_read()
            assert (a == 2).all()
            assert a.shape == (n,) and a.context == mx.cpu()  # which nobody fills
            go.set()
            assert (a.asnumpy() == 2).all()
        """))

    def test_a_file_that_is_waited_for(self):
        program(INTERRUPT + textwrap.dedent("""
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "fifo")
                os.mkfifo(path)
                soon(lambda: mx.kvstore.load(path))
        """))

    def test_the_store_stays_usable_and_keeps_what_an_interrupted_call_uses(self):
        program(INTERRUPT + textwrap.dedent("""
            kv, n, go = mx.kv.create(), 1 << 18, threading.Event()
            kv.init(0, np.zeros(n, "float32"))
            kv._set_updater(lambda k, i, s: go.wait(60) and s.__iadd__(i))
            out = np.empty(2 * n, "float32")[::2]
            soon(lambda: kv.push(0, np.full(n, 3, "float32")))
            soon(lambda: kv.pull(0, np.empty(n, "float32")))
            soon(lambda: kv.pull(0, out))
            gc.collect()
            trash = [np.full(n, 7, "float32") for _ in range(8)]  # where the freed arrays would be
            go.set()
            kv.push(0, np.ones(n, "float32"))
            assert (kv[0].asnumpy() == 4).all() and all((t == 7).all() for t in trash) and (out == 3).all()
        """))

    def test_an_updater_of_this_thread_gets_it_itself(self):
        program(INTERRUPT + textwrap.dedent("""
            kv = mx.kv.create()
            kv.init(0, np.ones(2, "float32"))
            kv._set_updater(lambda k, i, s: time.sleep(20))
            soon(lambda: kv.push(0, np.ones(2, "float32")))
            kv.set_updater("stored += input")
            kv.push(0, np.ones(2, "float32"))
            assert kv[0].asnumpy().tolist() == [2, 2]
        """))


class Ends(unittest.TestCase):
    def test_with_work_that_is_pending(self):
        for updater in ("kv.set_updater('stored += input')", "kv._set_updater(lambda k, i, s: s.copyto(s))", ""):
            program(f"""
                import numpy as np, kvstore as mx
                kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
                kv.init(0, big)
                {updater}
                for _ in range(20):
                    kv.push(0, [big, big], wait=False)
                    kv.pull(0, np.empty_like(big), wait=False)
            """)

    def test_with_a_daemon_thread_in_a_call(self):
        program("""
            import threading, time, numpy as np, kvstore as mx
            kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
            kv.init(0, big)
            kv._set_updater(lambda k, i, s: time.sleep(0.01))
            def work():
                while True:
                    kv.push(0, big)
            threading.Thread(target=work, daemon=True).start()
            time.sleep(0.1)
        """)

    def test_with_exceptions_and_cycles(self):
        out = program("""
            import numpy as np, kvstore as mx
            kv = mx.kv.create()
            kv.init(0, np.ones(4, "float32"))
            def update(key, input, stored):
                update.kv = kv
                raise ValueError("x")
            kv._set_updater(update)
            kept = np.asarray(kv[0])
            kv.push(0, np.ones(4, "float32"))
        """, code=1)
        self.assertTrue(out.endswith("ValueError: x\nthe updater of key 0 raised this; the key keeps its value\n"))

    def test_an_error_that_nobody_asked_for(self):
        program("""
            import numpy as np, kvstore as mx
            kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
            kv.init(0, big)
            kv._set_updater(lambda k, i, s: 1 / 0)
            try:
                kv.push(0, big, wait=False)
            except ZeroDivisionError:
                pass  # it has come by then
        """)

    def test_a_late_error_comes_from_wait(self):
        kv, big = mx.kv.create(), np.ones(1 << 20, "float32")
        kv.init(0, big)
        kv._set_updater(lambda k, i, s: 1 / 0)
        for _ in range(50):  # by push, if it has come by then, or by wait; once
            with self.assertRaises(ZeroDivisionError):
                kv.push(0, big, wait=False)
                kv.wait()
            kv.wait()
