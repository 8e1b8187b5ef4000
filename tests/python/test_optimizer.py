"""Optimizers and schedules as objects: their attributes act, before and after set_optimizer, or are an AttributeError."""
import copy
import os
import pickle
import re
import tempfile
import warnings

import numpy as np

import kvstore as mx
from case import Case

opt, sched = mx.optimizer, mx.lr_scheduler


def one(*, value=0.0, keys=(0,), dtype="float64"):
    """A store whose keys hold one number each."""
    kv = mx.kv.create()
    kv.init(list(keys), [np.array([value], dtype) for _ in keys])
    return kv


def step(kv, key=0, by=1.0):
    """What a push adds to a key."""
    before = kv[key].item()
    kv.push(key, np.array([by]))
    return round(kv[key].item() - before, 12)


class Constructors(Case):
    def test_states_of_an_updater_as_bytes(self):
        for dump in (False, True):
            one = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.5))
            v, w, g = mx.nd.ones(2), mx.nd.ones(2), mx.nd.array([1, 2])
            one(0, g, w)
            other = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.125 if dump else 0.5))
            other.set_states(one.get_states(dump))
            self.assertEqual([s.tolist() for s in other.states[0]], [s.tolist() for s in one.states[0]])
            self.assertEqual(other.optimizer.lr, 0.5)
            v[:] = w
            one(0, g, w)
            if dump:  # the number of updates is the optimizer's
                other(0, g, v)
                self.assertEqual(v.tolist(), w.tolist())

    def test_mxnets_parameters_in_its_order(self):
        self.assertEqual(opt.Adam(0.1, 0.8).beta1, 0.8)
        self.assertEqual(opt.Ftrl(0.5).lamda1, 0.5)
        self.assertEqual([opt.LBSGD(0.9, True).multi_precision, opt.LAMB(0.5, 0.9, 0.99, 1e-3, 1, 2, False).upper_bound],
                         [True, 2])
        self.assertEqual(opt.Optimizer(0.5, {0: "w"}, 0.1).wd, 0.1)
        self.assertRaises(TypeError, opt.SGLD, 1)
        self.assertRaises(TypeError, opt.SGD, 0.9, True, 1)
        self.assertRaises(TypeError, opt.SGD, 0.9, momentum=1)

    def test_defaults_are_those_of_the_rules(self):
        for name in opt._OWN:
            with self.subTest(name):
                o, kv = getattr(opt, name)(), one()
                written = dict(re.findall(r'(\w+) = "?([\w.-]+)', opt.RULES[o.name].partition("{")[0]))
                written.pop("decay_names", None)
                text = opt.options({k: v for k, v in o._own.items() if k != "multi_precision"})
                numbers = [{k: float(v) if v[0].isdigit() else v for k, v in d.items()} for d in (text, written)]
                self.assertEqual(*numbers)
                kv.set_optimizer(o)
                self.assertEqual(float(kv.describe("optimizer")[0]["learning_rate"]), o.learning_rate)

    def test_an_unknown_parameter(self):
        for call, near in (("lr", "did you mean learning_rate?"), ("weight_decay", "did you mean wd?"),
                           ("momentun", "did you mean momentum?"), ("q", "it takes rescale_grad, ")):
            with self.assertRaises(TypeError) as c:
                opt.SGD(**{call: 1})
            self.assertIn(near, str(c.exception))

    def test_test_has_no_rate(self):
        for call in (lambda: opt.create("test", learning_rate=1), lambda: one().set_optimizer("Test", learning_rate=1)):
            self.assertIn("has no rate", str(self.fails("usage", call)))

    def test_names(self):
        self.assertIsInstance(opt.Optimizer.create_optimizer("ADAM"), opt.Adam)
        self.assertRaises(ValueError, opt.create, "nosuch")
        self.fails("usage", opt.create, "nosuch")

    def test_copies(self):
        o = opt.SGD(learning_rate=0.5, lr_scheduler=sched.FactorScheduler(1, 0.5), param_idx2name={0: "b"})
        kv = one()
        kv.set_optimizer(o)
        step(kv)
        step(kv)
        for again in (copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
            self.assertEqual([again.num_update, again.learning_rate, again.wd_mult], [2, 0.25, {"b": 0}])
            again.lr_mult[0] = 4
            self.assertEqual(o.lr_mult, {})


class Attributes(Case):
    def test_before_and_after(self):
        """Every attribute gives the same numbers before set_optimizer, after it, and in the constructor."""
        cases = {"SGD": dict(lr=0.5, wd=0.25, rescale_grad=2, clip_gradient=0.5, momentum=0.5),
                 "Adam": dict(lr=0.5, beta1=0.5, beta2=0.75, epsilon=0.5, wd=0.5),
                 "AdaGrad": dict(float_stable_eps=0.5), "LARS": dict(eta=0.5, momentum=0.5),
                 "RMSProp": dict(gamma1=0.5, clip_weights=0.25), "Nadam": dict(schedule_decay=0.5)}
        for name, attributes in cases.items():
            cls, got = getattr(opt, name), []
            for how in ("constructor", "before", "after", "between"):
                with self.subTest(name, how=how):
                    made = {cls._attributes()[k]: v for k, v in attributes.items()}
                    o, kv = cls(**(made if how == "constructor" else {})), one(value=1)
                    changes = attributes if how != "constructor" else {}
                    if how != "before":
                        kv.set_optimizer(o)
                    for k, v in changes.items():
                        setattr(o, k, v)
                    kv.set_optimizer(o) if how == "before" else None
                    got.append([step(kv), step(kv, by=-2)])
                    self.assertEqual([getattr(o, k) for k in attributes], list(attributes.values()))
            self.assertEqual(got, [got[0]] * 4, name)
            kv = one(value=1)
            kv.set_optimizer(cls())
            self.assertNotEqual([step(kv), step(kv, by=-2)], got[0], name)

    def test_between_two_pushes_and_in_several_stores(self):
        o, one_, two = opt.SGD(learning_rate=1), one(), one()
        for kv in (one_, two):
            kv.set_optimizer(o)
        got = [step(one_)]
        o.set_learning_rate(0.5)
        got += [step(one_), step(two)]
        o.lr = 0.25
        one_.pushpull(0, np.array([1.0]), np.zeros(1))
        got += [one_[0].item(), step(two)]
        self.assertEqual(got, [-1, -0.5, -0.5, -1.75, -0.25])
        self.assertEqual(o.num_update, 3)

    def test_multipliers_and_names(self):
        o, kv = opt.SGD(learning_rate=1.0, wd=1.0), one(value=1, keys=(3, 4))
        kv.set_optimizer(o)
        o.set_lr_mult({3: 0.5})
        o.set_wd_mult({3: 2})
        self.assertEqual([step(kv, 3, 0), step(kv, 4, 0)], [-1, -1])
        o.lr_mult[3] = 4
        o.wd_mult.clear()
        kv.push(3, np.array([0.25]))
        self.assertEqual(kv[3].item(), -1)
        o.idx2name = {4: "a_bias"}
        o.set_wd_mult({})
        self.assertEqual([step(kv, 4, 0), o.wd_mult], [0, {"a_bias": 0}])
        o.set_lr_mult({"a_bias": 8})
        self.assertEqual(step(kv, 4, 1), -8)

    def test_update_optimizer_changes_the_object(self):
        o, kv = opt.SGD(learning_rate=1.0), one()
        kv.set_optimizer(o)
        kv.update_optimizer(learning_rate=0.5, wd=0.25, lr_mult={0: 2})
        self.assertEqual([o.lr, o.learning_rate, o.wd, o.lr_mult, step(kv)], [0.5, 0.5, 0.25, {0: 2}, -1])

    def test_what_there_is_not(self):
        for o, name in ((opt.SGD(), "beta1"), (opt.AdaGrad(), "eps"), (opt.Adam(), "momentum"), (sched.FactorScheduler(1), "pwr"),
                        (sched.PolyScheduler(1), "step")):
            with self.assertRaisesRegex(AttributeError, f"{type(o).__name__} has no {name}: its parameters are "):
                getattr(o, name)
            with self.assertRaisesRegex(AttributeError, f"{type(o).__name__} has no {name}: its parameters are "):
                setattr(o, name, 1)
        for name in ("learning_rate", "num_update"):
            self.assertRaises(AttributeError, setattr, opt.SGD(), name, 1)
        for kv in (mx.kv.create(), mx.kv.create("teststore")):
            self.assertRaises(AttributeError, setattr, kv, "foo", 1)
            self.assertRaises(AttributeError, getattr, kv, "foo")

    def test_a_wrong_value_is_refused_by_each_push_until_it_is_mended(self):
        o, kv = opt.Adam(), one()
        kv.set_optimizer(o)
        o.beta1 = "x"
        for _ in range(2):
            self.assertRaises(mx.KVError, kv.push, 0, np.ones(1))
        o.beta1 = 0.9
        self.assertEqual(round(step(kv), 6), -0.001)

    def test_rollback(self):
        schedule = sched.FactorScheduler(1, 0.5, base_lr=1.0)
        o, kv = opt.SGD(lr_scheduler=schedule), one()
        kv.set_optimizer(o)
        step(kv)
        kv.begin()
        schedule.base_lr, o.wd = 8, 2
        step(kv)
        self.assertEqual(o.num_update, 2)
        kv.rollback()
        self.assertEqual([o.num_update, o.wd, schedule.base_lr, step(kv)], [1, 0, 1, -0.5])
        kv.begin()
        kv.set_optimizer(opt.SGD(learning_rate=4))
        kv.rollback()
        o.rescale_grad = 2
        self.assertEqual(step(kv), -0.5)

    def test_states_that_are_loaded(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            path, o, kv = os.path.join(folder, "s"), opt.SGD(learning_rate=1), one()
            kv.set_optimizer(o)
            o.lr = 0.5
            kv.save_optimizer_states(path, dump_optimizer=True)
            kv.load_optimizer_states(path)  # the same one
            o.lr = 0.25
            self.assertEqual(step(kv), -0.25)
            with self.assertWarnsRegex(UserWarning, r"SGD\(learning_rate=0.25\) is no longer in use"):
                kv.load_optimizer_states(path)
            o.lr = 4
            self.assertEqual(step(kv), -0.5)


class Schedules(Case):
    def test_every_schedule_beside_the_library(self):
        """The numbers of the object are those of the steps, whatever is asked or changed on the way."""
        makers = [lambda **k: sched.FactorScheduler(2, 0.5, base_lr=1.0, **k),
                  lambda **k: sched.FactorScheduler(1, 0.25, stop_factor_lr=0.01, base_lr=1.0, **k),
                  lambda **k: sched.MultiFactorScheduler([2, 5, 9], 0.5, base_lr=1.0, **k),
                  lambda **k: sched.PolyScheduler(8, base_lr=1.0, pwr=2, final_lr=0.125, **k),
                  lambda **k: sched.CosineScheduler(8, base_lr=1.0, final_lr=0.125, **k)]
        changes = {3: ("base_lr", 2.0), 6: ("warmup_steps", 1), 7: ("final_lr", 0.5), 9: ("factor", 0.125), 10: ("base_lr", 3.0)}
        for make in makers:
            for warmup in ({}, dict(warmup_steps=3, warmup_begin_lr=0.25), dict(warmup_steps=2, warmup_mode="constant")):
                for asks in (False, True):
                    s, kv = make(**warmup), one()
                    o = opt.SGD(lr_scheduler=s)
                    alone = make(**warmup)
                    kv.set_optimizer(o)
                    for n in range(1, 13):
                        if n in changes and changes[n][0] in s._fields:
                            setattr(s, *changes[n])
                            setattr(alone, *changes[n])
                        expected = alone(n)
                        with self.subTest(s, n=n, warmup=warmup, asks=asks):
                            self.assertEqual(step(kv), -round(expected, 12))
                            if asks:
                                self.assertEqual(o.learning_rate, expected)
                                self.assertEqual(s.base_lr, alone.base_lr)

    def test_it_remembers(self):
        s = sched.FactorScheduler(3, 0.5, base_lr=1)
        self.assertEqual([s(100), s(1)], [1e-8, 1e-8])
        s = sched.PolyScheduler(10, base_lr=0.1, pwr=2, final_lr=0.01)
        self.assertEqual([round(s(n), 12) for n in (50, 5, 50)], [0.1, 0.0325, 0.0325])
        self.assertRaises(NotImplementedError, sched.LRScheduler(), 1)

    def test_wrong_ones(self):
        for call in (lambda: sched.FactorScheduler(0), lambda: sched.FactorScheduler(1, 1.5),
                     lambda: sched.MultiFactorScheduler([]), lambda: sched.MultiFactorScheduler([2, 2]),
                     lambda: sched.MultiFactorScheduler([0, 1]), lambda: sched.PolyScheduler(0), lambda: sched.CosineScheduler(0),
                     lambda: sched.CosineScheduler(3, warmup_steps=3), lambda: sched.FactorScheduler(1, warmup_mode="x"),
                     lambda: sched.FactorScheduler(1, warmup_begin_lr=1), lambda: sched.FactorScheduler(1, warmup_steps=-1),
                     lambda: setattr(sched.FactorScheduler(1), "factor", 2)):
            self.assertRaises(ValueError, call)

    def test_a_new_schedule_in_place_of_one(self):
        o, kv = opt.SGD(learning_rate=1.0), one()
        kv.set_optimizer(o)
        got = [step(kv)]
        o.lr_scheduler = sched.FactorScheduler(100, 0.5, base_lr=0.25)
        got.append(step(kv))
        self.assertRaises(UserWarning, o.set_learning_rate, 1)
        with self.assertWarnsRegex(UserWarning, "lr is not used"):
            o.lr = 0.5
        got.append(step(kv))
        o.lr_scheduler = None
        got.append(step(kv))
        self.assertEqual(got, [-1, -0.25, -0.25, -0.5])

    def test_a_rate_beside_a_schedule(self):
        with self.assertWarnsRegex(UserWarning, r"poly keeps its base_lr 0.01: learning_rate 1 is not used"):
            o = opt.SGD(learning_rate=1, lr_scheduler=sched.PolyScheduler(10, pwr=1))
        kv = one()
        kv.set_optimizer(o)
        self.assertEqual([o.learning_rate, step(kv)], [0.01, -0.009])
        for schedule in (sched.CosineScheduler(10, base_lr=0.5), "cosine(10, base_lr=0.5)"):
            with self.assertWarnsRegex(UserWarning, r"cosine keeps its base_lr 0.5: learning_rate 1 is not used"):
                kv.set_optimizer("sgd", learning_rate=1, lr_scheduler=schedule)
        kv.set_optimizer(opt.SGD(lr_scheduler=sched.CosineScheduler(10, base_lr=0.5)))
        with self.assertWarnsRegex(UserWarning, r"cosine keeps its base_lr 0.5: learning_rate 2 is not used"):
            kv.update_optimizer(learning_rate=2)
        with self.assertWarnsRegex(UserWarning, r"the learning_rate 0.001 of Adam takes the place of the base_lr 0.5"):
            o = opt.Adam(lr_scheduler=sched.FactorScheduler(1, base_lr=0.5))
        self.assertEqual(o.learning_rate, 0.001)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(opt.Adam(learning_rate=None, lr_scheduler=sched.FactorScheduler(1, base_lr=0.5)).learning_rate, 0.5)
            self.assertEqual(opt.SGD(learning_rate=2, lr_scheduler=sched.FactorScheduler(1)).learning_rate, 2)
            kv.set_optimizer("sgd", learning_rate=0.5, lr_scheduler="poly(4, base_lr=0.5)")

    def test_one_of_the_user(self):
        asked = []

        class Halves(sched.LRScheduler):
            def __call__(self, num_update):
                asked.append(num_update)
                return 0.5 ** num_update
        o, kv = opt.SGD(lr_scheduler=Halves()), one(keys=("a", "b"))
        kv.push("a", np.array([4.0]))  # no optimizer yet: this one does not count
        kv.set_optimizer(o)
        self.assertEqual([step(kv, "a"), step(kv, "b"), step(kv, "a"), step(kv, "b"), step(kv, "b")],
                         [-0.5, -0.5, -0.25, -0.25, -0.125])
        kv.push(["a", "b"], [np.ones(1)] * 2)
        self.assertEqual(asked, [1, 1, 2, 2, 3, 4])
        self.assertEqual([o.learning_rate, o.num_update], [0.0625, 4])

    def test_one_of_the_user_that_decays_otherwise(self):
        class Twice(sched.FactorScheduler):
            def __call__(self, num_update):
                return 2 * super().__call__(num_update)
        s, kv = Twice(1, 0.5, base_lr=1.0), one()
        s.note = "x"
        kv.set_optimizer(opt.SGD(lr_scheduler=s))
        self.assertEqual([step(kv), step(kv)], [-2, -1])
        s.base_lr = 8
        self.assertEqual(step(kv), -8)

    def test_an_optimizer_of_the_user_keeps_its_attributes(self):
        class Own(opt.Optimizer):
            def __init__(self):
                super().__init__(learning_rate=0.5)
                self.momentum = 0.25
        o = Own()
        self.assertEqual([o.momentum, o.lr], [0.25, 0.5])


class Own(Case):
    """Optimizers that are classes of the caller's: a store takes none of which it would make another step."""

    def test_a_changed_step_is_not_passed_over(self):
        @opt.register
        class Times(opt.SGD):
            def update(self, index, weight, grad, state):
                weight[:] = weight - 100 * grad

        class Plain(opt.SGD):
            pass

        kv = one()
        error = self.fails("unsupported", kv.set_optimizer, opt.create("times", learning_rate=0.1))
        self.assertIn("get_updater", error.hint)
        kv.set_updater(opt.get_updater(Times()))
        self.assertEqual(step(kv), -100)
        kv.set_optimizer(Plain(learning_rate=0.5))
        self.assertEqual(step(kv), -0.5)


class Steps(Case):
    """create_state, update and get_updater: the steps that a store makes, on arrays outside of one."""

    def arrays(self, seed, dtype="float32"):
        return mx.nd.array(np.random.default_rng(seed).normal(size=(3, 2)), dtype=dtype)

    def test_they_are_those_of_a_store(self):
        def schedule():
            return sched.FactorScheduler(2, 0.5, base_lr=0.1)
        for name, own in opt._OWN.items():
            given = [{}, {"lr_scheduler": schedule, "learning_rate": None}, {"multi_precision": True}, {"begin_num_update": 7}]
            given += [{k: v} for k, v in (("momentum", 0.9), ("centered", True)) if k in own]
            for params in given if name != "SGLD" else []:  # whose steps are random
                with self.subTest(name, **params):
                    dtype = "float16" if "multi_precision" in params else "float32"
                    mine, its = (getattr(opt, name)(**{k: v() if callable(v) else v for k, v in params.items()}) for _ in "12")
                    kv, update = mx.kv.create(), opt.get_updater(mine)
                    weights = [self.arrays(0, dtype), self.arrays(1, dtype)]
                    kv.init([0, 1], weights)
                    kv.set_optimizer(its)
                    for i in range(8):
                        key, grad = (i // 2) % 2, self.arrays(i, dtype)
                        kv.push(key, grad)
                        update(key, grad, weights[key])
                        np.testing.assert_array_equal(weights[key].asnumpy(), kv[key].asnumpy())
                    self.assertEqual(mine.num_update, its.num_update)

    def test_they_are_made_of_arrays_without_axes_and_of_bfloat16(self):
        for shape, dtype in (((), "float32"), ((), "float64"), ((2,), "bfloat16")):
            with self.subTest(dtype, shape=shape):
                kv, update = mx.kv.create(), opt.get_updater(opt.Adam())
                weight, grad = mx.nd.array(np.ones(shape), dtype=dtype), mx.nd.array(np.full(shape, 0.5), dtype=dtype)
                kv.init("w", weight)
                kv.set_optimizer(opt.Adam())
                for _ in range(3):
                    kv.push("w", grad)
                    update("w", grad, weight)
                np.testing.assert_array_equal(weight.asnumpy(), kv["w"].asnumpy())

    def test_states_are_mxnets(self):
        w = mx.nd.ones((2, 2))
        forms = {"SGD": None, "Adam": 2, "RMSProp": 1, "FTML": 3, "AdaDelta": 2}
        for name, n in forms.items():
            state = getattr(opt, name)().create_state(0, w)
            self.assertEqual(None if state is None else len(state), n)
        self.assertEqual(opt.SGD(momentum=0.9).create_state("a", w).asnumpy().tolist(), [[0, 0], [0, 0]])
        none, before = opt.DCASGD().create_state(0, w)
        self.assertEqual((none, before.asnumpy().tolist()), (None, [[1, 1], [1, 1]]))
        master, mom = opt.SGD(momentum=0.9, multi_precision=True).create_state(0, w.astype("float16"))
        self.assertEqual((str(master.dtype), master.asnumpy().sum(), mom.shape), (str(w.dtype), 4, (2, 2)))

    def test_the_state_of_the_caller_counts(self):
        o, w, g = opt.SGD(learning_rate=1, momentum=0.5), mx.nd.zeros(2), mx.nd.ones(2)
        mom = mx.nd.array([-4, 0])
        o.update("w", w, g, mom)
        self.assertEqual((w.asnumpy().tolist(), mom.asnumpy().tolist()), ([-3, -1], [-3, -1]))
        mom[:] = 0
        w[:] = 0
        o.lr = 2
        o.update("w", w, g, mom)
        self.assertEqual((w.asnumpy().tolist(), o.num_update), ([-2, -2], 2))
        other = pickle.loads(pickle.dumps(o))
        other.update("w", w, g, mom)
        self.assertEqual((other.num_update, o.num_update), (3, 2))
        rows = mx.nd.sparse.row_sparse_array(([[1.0]], [1]), shape=(2, 1))
        w, mom = mx.nd.zeros((2, 1)), mx.nd.ones((2, 1))
        o.update("rows", w, rows, mom)
        self.assertEqual((w.asnumpy().tolist(), mom.asnumpy().tolist()), ([[0], [-1.5]], [[1], [-1.5]]))
        for state in (None, (mom,), mx.nd.ones(3), 1):
            self.assertIn("this is not a state of SGD", self.fails("value", o.update, "rows", w, rows, state).text)
        self.fails("unsupported", opt.Optimizer().update, 0, w, w, None)

    def test_several_at_once_and_schedules_of_python(self):
        class Rising(sched.LRScheduler):
            def __call__(self, num_update):
                return num_update
        w = [mx.nd.zeros(1), mx.nd.zeros(2)]
        update = opt.get_updater(opt.SGD(lr_scheduler=Rising()))
        for _ in range(2):
            update([0, 1], [mx.nd.ones(1), mx.nd.ones(2)], w)
        self.assertEqual([a.asnumpy().tolist() for a in w], [[-3], [-3, -3]])
        self.assertEqual(update.states, {0: None, 1: None})
