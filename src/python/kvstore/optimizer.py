"""mx.optimizer: the optimizers of the library, under the names that MXNet's classes have.

An object is a name and parameters, which are its attributes; the library makes the steps. A store that has the object
takes what was changed before its next push: each object and each schedule counts its changes. The doc of a class is
its rule.
"""
import difflib
import json
import os
import pickle
import re
import tempfile
import warnings
import weakref

import numpy

from . import _kvstore
from .errors import KVError, NoSuchNameError, no_attribute
from .lr_scheduler import LRScheduler, plain

# What each class takes by position, with its defaults, as MXNet 1.9.1 does; behind it what all take by name.
_OWN = {
    "SGD": dict(momentum=0.0, lazy_update=True),
    "NAG": dict(momentum=0.0),
    "Adam": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_update=True),
    "AdaGrad": dict(eps=1e-7),
    "AdaDelta": dict(rho=0.9, epsilon=1e-5),
    "RMSProp": dict(learning_rate=0.001, gamma1=0.9, gamma2=0.9, epsilon=1e-8, centered=False, clip_weights=None),
    "Ftrl": dict(lamda1=0.01, learning_rate=0.1, beta=1),
    "FTML": dict(beta1=0.6, beta2=0.999, epsilon=1e-8),
    "Adamax": dict(learning_rate=0.002, beta1=0.9, beta2=0.999),
    "Nadam": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004),
    "Signum": dict(learning_rate=0.01, momentum=0.9, wd_lh=0.0),
    "SGLD": {},
    "DCASGD": dict(momentum=0.0, lamda=0.04),
    "LBSGD": dict(momentum=0.0, multi_precision=False, warmup_strategy="linear", warmup_epochs=5, batch_scale=1,
                  updates_per_epoch=32, begin_epoch=0, num_epochs=60),
    "LARS": dict(momentum=0.0, lazy_update=True, eta=0.001, eps=0, momentum_correction=True),
    "LAMB": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None,
                 bias_correction=True),
    "GroupAdaGrad": dict(eps=1e-5),
    "Test": {},
    "AdamW": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True),
    "AdaBelief": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True),
    "LANS": dict(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None),
}
_COMMON = dict(rescale_grad=1.0, param_idx2name=None, wd=0.0, clip_gradient=None, learning_rate=None, lr_scheduler=None,
               sym=None, begin_num_update=0, multi_precision=False, param_dict=None)
_MORE = dict(lr_mult=None, wd_mult=None, clip_global_norm=None, seed=None, decay_names=None)  # of the library
_TABLES = ("lr_mult", "wd_mult", "param_idx2name")
_RENAMED = {"learning_rate": "lr", "param_idx2name": "idx2name"}  # parameters whose attributes have other names
_OTHER_NAMES = {"lr": "learning_rate", "weight_decay": "wd", "betas": "beta1 and beta2", "alpha": "gamma1",
                "eps": "epsilon", "epsilon": "eps", "lambda1": "lamda1", "lambda": "lamda", "scheduler": "lr_scheduler"}


def option_text(value):
    """The text by which the library takes a value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, LRScheduler):
        return value.text()
    if isinstance(value, dict):
        return ",".join(f"{key}={option_text(v)}" for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(option_text, value))
    return value if isinstance(value, str) else repr(value.item() if hasattr(value, "item") else value)


def options(params):
    """{name: text} of parameters."""
    return {name: option_text(value) for name, value in params.items()}


class _Table(dict):
    """lr_mult, wd_mult or idx2name of an optimizer, which counts a change in place as one of its own."""

    def __init__(self, optimizer, values):
        super().__init__(values)
        self._optimizer = weakref.ref(optimizer)

    def __reduce__(self):
        return dict, (dict(self),)


def _counted(name):
    def method(self, *args, **kw):
        result = getattr(dict, name)(self, *args, **kw)
        if optimizer := self._optimizer():
            optimizer._table_changed(self)
        return result
    return method


for _name in "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update".split():
    setattr(_Table, _name, _counted(_name))


class Optimizer:
    """An optimizer: what KVStore.set_optimizer takes. Its parameters are attributes, and setting one counts from the next
    push on of each store that has the object.

    Parameters of all of them, by name: learning_rate, wd, rescale_grad, clip_gradient, lr_scheduler, param_idx2name ({key:
    name}), begin_num_update, multi_precision; and lr_mult and wd_mult ({key or name: factor}), clip_global_norm, seed.
    """

    name = None
    _own = {}

    def __init__(self, *args, **params):
        order = list(self._own if self.name else _COMMON)
        if len(args) > len(order):
            raise TypeError(f"{type(self).__name__}() takes {len(order)} parameters by position: {', '.join(order) or 'none'}")
        for name, value in zip(order, args):
            if name in params:
                raise TypeError(f"{type(self).__name__}() got {name} twice")
            params[name] = value
        known = {**_COMMON, **_MORE, **self._own}
        for name in params:
            if name not in known:
                raise TypeError(_unknown(type(self).__name__, name, known))
        look_at_rate(self.name, params.get("learning_rate"), None)
        for name in ("sym", "param_dict"):
            if params.pop(name, None):
                raise KVError(f"the store has no {name}", "unsupported", "lr_mult and wd_mult take {key: factor}")
            known.pop(name)
        scheduler = params.get("lr_scheduler")
        if not isinstance(scheduler, (LRScheduler, str, type(None))):
            raise KVError(f"{scheduler!r} is not a schedule", "usage", "mx.lr_scheduler.FactorScheduler(...), or its text")
        values = {**known, **params}
        vars(self).update(_version=0, _stores=weakref.WeakSet(), _values=values, _given=set(params),
                          _num_update=values["begin_num_update"])
        for name in _TABLES:
            values[name] = _Table(self, values[name] or {})
        if values["param_idx2name"]:
            values["wd_mult"] = _Table(self, self._wd_mult(values["wd_mult"]))
        rate = values["learning_rate"]
        if isinstance(scheduler, LRScheduler):
            self._adopt(scheduler)
            if rate is not None:
                self._rate_and_schedule(rate, "learning_rate" in params)
        values["learning_rate"] = 0.01 if rate is None else rate

    def _adopt(self, scheduler):
        vars(scheduler).setdefault("_users", weakref.WeakSet()).add(self)

    def _wd_mult(self, given):
        """The multipliers of the weight decay, with those of names that do not decay."""
        endings = tuple((self.decay_names or ("_weight" if self.name == "lars" else "_weight _gamma")).split())
        return {**{name: 0.0 for name in self.idx2name.values() if not name.endswith(endings)}, **given}

    def _rate_and_schedule(self, rate, given):
        """A learning rate beside a schedule, as MXNet has it: it is the base of one that decays by factors."""
        scheduler = self._values["lr_scheduler"]
        if not scheduler._is_of_library:
            return
        before = scheduler.base_lr
        if not scheduler._hand_over(plain(rate)):
            not_used(scheduler.name, scheduler.base_lr_orig, rate, 4)
        elif not given and before != rate:
            warnings.warn(f"the learning_rate {rate} of {type(self).__name__} takes the place of the base_lr {before} of "
                          f"{scheduler.name}: learning_rate=None keeps it", UserWarning, stacklevel=4)

    # ---- Attributes ----

    @classmethod
    def _attributes(cls):
        """{attribute: the parameter that it is}"""
        known = {_RENAMED.get(p, p): p for p in (*cls._own, *_COMMON, *_MORE) if p not in ("sym", "param_dict")}
        if cls.name in ("adagrad", "groupadagrad"):
            known = {"float_stable_eps" if name == "eps" else name: p for name, p in known.items()}
        return known

    def __getattr__(self, name):
        parameter = self._attributes().get(name)
        if parameter is None or "_values" not in vars(self):
            raise no_attribute(self, name, self._attributes())
        return self._values[parameter]

    def __setattr__(self, name, value):
        parameter = self._attributes().get(name)
        if parameter is None or "_values" not in vars(self):
            if type(self).__module__ == __name__:
                if name in ("learning_rate", "num_update"):
                    raise AttributeError(f"{name} is only read" + (": lr is set" if name == "learning_rate" else ""))
                raise no_attribute(self, name, self._attributes())
            return object.__setattr__(self, name, value)  # a class of the user
        if parameter == "lr_scheduler":
            if not isinstance(value, (LRScheduler, str, type(None))):
                raise KVError(f"{value!r} is not a schedule", "usage", "mx.lr_scheduler.FactorScheduler(...), or its text")
            if isinstance(self.lr_scheduler, LRScheduler):
                self.lr_scheduler._users.discard(self)
            if isinstance(value, LRScheduler):
                self._adopt(value)
        elif parameter == "learning_rate" and self.lr_scheduler is not None:
            warnings.warn("the schedule gives the learning rate: lr is not used beside it", UserWarning, stacklevel=2)
        elif parameter in _TABLES:
            value = _Table(self, value or {})
        self._values[parameter] = value
        self._given.add(parameter)
        self._changed()

    def _table_changed(self, table):
        for name in _TABLES:
            if self._values[name] is table:
                self._given.add(name)
                self._changed()

    def _changed(self):
        vars(self)["_version"] += 1
        _kvstore.changed()

    @property
    def num_update(self):
        """The largest number of updates of any key, of all stores that have this object."""
        return max([self._num_update, *(store._num_update(self) for store in list(self._stores))])

    @property
    def learning_rate(self):
        """The rate in use: the schedule's at num_update, else lr."""
        scheduler = self.lr_scheduler
        if isinstance(scheduler, LRScheduler):
            return scheduler(self.num_update)
        if scheduler is not None:
            raise KVError("the rate of a schedule that is a text is not known here", "unsupported", "mx.lr_scheduler has classes")
        return self.lr

    def set_learning_rate(self, lr):
        """The learning rate from the next push on; with a schedule, which gives the rate, UserWarning is raised."""
        if self.lr_scheduler is not None:
            raise UserWarning("LRScheduler of the optimizer has already been defined: set its base_lr")
        self.lr = lr

    def set_lr_mult(self, args_lr_mult):
        """Multipliers of the learning rate, {key or name: factor}, in the place of those before."""
        self.lr_mult = dict(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        """Multipliers of the weight decay, {key or name: factor}, in the place of those before. Names that end neither in
        _weight nor in _gamma have 0, unless it is said here."""
        self.wd_mult = self._wd_mult(args_wd_mult)

    # ---- Steps without a store of the caller ----

    def create_state(self, index, weight):
        """What update keeps for a weight, as MXNet has it: None, an array, or a tuple of arrays."""
        return self._shaped(self._first_states(index, weight))

    create_state_multi_precision = create_state

    def update(self, index, weight, grad, state):
        """One step of the rule: changes weight and state, and counts the step of this index."""
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update(*one)
            return
        steps = vars(self).setdefault("_steps", {})
        at = self.begin_num_update
        count, numbers = steps.get(index, (at, {}))
        now = max(self.num_update, count + 1)
        form = index, weight.shape, weight._dtype, self._version
        if vars(self).get("_form", (None,))[0] != form:
            vars(self)["_form"] = form, self._first_states(index, weight)
        kept = self._unshaped(self._form[1], state)
        head = {**numbers, **vars(self).get("_shared", {}), f"kvstore.key.{index}": f"{count} {weight._dtype} {_shape(weight)}",
                "kvstore.num_update": str(self.num_update)}
        before = (head, kept) if kept or count != at or self.num_update != at else None
        head, after = self._one_step(index, weight, grad, before, now)
        for name, array in kept.items():
            array[...] = after[name]
        vars(self)["_shared"] = {k: v for k, v in head.items() if k.startswith("kvstore.shared.")}
        steps[index] = count + 1, {k: v for k, v in head.items() if k.startswith((f"kvstore.number.{index}/",
                                                                                f"kvstore.states.{index}"))}
        vars(self)["_num_update"] = now

    update_multi_precision = update

    def _one_step(self, index, weight, grad, before, number):
        """The metadata and the states, {name: elements}, that a store has when it made one step, the `number`-th; before:
        the same that it begins with. The weight is changed if there is a gradient; else the step is one of zeros."""
        from . import nd
        from .kv import create as create_store
        if self.name is None:
            raise KVError(f"{type(self).__name__} is not an optimizer of the library", "unsupported", "mx.optimizer has those")
        given = self.options()
        if self._calls:
            given["learning_rate"] = option_text(float(self._calls(number)))
        store = create_store("local")
        store.init(index, weight)
        store._set("optimizer", self.name, given)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            if before:
                store._file("save_states", path)
                _write_states(path, index, *before)
                store._file("load_states", path)
            store.push(index, nd.zeros(weight.shape, weight.context, weight._dtype) if grad is None else grad)
            if grad is not None:
                store.pull(index, weight, ignore_sparse=False)
            store._file("save_states", path)
            return _read_states(path, index)

    def _first_states(self, index, weight):
        """{name: array} of the states before the first step: zeros, or what begins as the weight."""
        from . import nd
        states = self._one_step(index, weight, None, None, self.num_update + 1)[1]
        begin = weight.astype("float64").asnumpy() if weight.stype == "default" else weight.tostype("default").asnumpy()
        return {name: nd.array(begin if name in ("prev", _MASTER) else numpy.zeros_like(a), dtype=a.dtype)
                for name, a in states.items()}

    def _shaped(self, states):
        """The states as MXNet's update takes them."""
        states = dict(states)
        master = states.pop(_MASTER, None)
        if self.name == "dcasgd":
            shaped = states.get("mom"), states["prev"]
        else:
            shaped = tuple(states.values())
            if len(shaped) < 2 and self.name != "rmsprop":
                shaped = shaped[0] if shaped else None
        return shaped if master is None else (master, shaped)

    def _unshaped(self, like, state):
        """{name: array} of a state of the caller."""
        names = {id(array): name for name, array in like.items()}
        pairs = _pairs(self._shaped(like), state)
        if pairs is None or any(a.shape != b.shape for a, b in pairs):
            raise KVError(f"this is not a state of {type(self).__name__} for this weight", "value", "create_state makes one")
        return {names[id(a)]: b for a, b in pairs}

    # ---- For the store ----

    def _is_changed(self):
        """Whether a class of the caller's makes the step, which a store would make without it."""
        return any(getattr(type(self), name, None) is not getattr(Optimizer, name, None)
                   for name in ("create_state", "create_state_multi_precision", "update", "update_multi_precision", "step",
                                "fused_step"))

    @staticmethod
    def register(cls):
        """Lets create() find a class of the caller's by its name."""
        _registered[cls.__name__.lower()] = cls
        return cls

    def options(self):
        """{name: text}, as the library takes them."""
        given = {name: self._values[name] for name in _MORE | _COMMON | self._own if name in self._given}
        if "param_idx2name" in given:
            given["names"] = given.pop("param_idx2name")
        for name in ("seed", "decay_names"):
            if name in given and given[name] is None:
                del given[name]
        if self.lr_scheduler is not None and not isinstance(self.lr_scheduler, str):
            given["learning_rate"] = None  # the schedule has it
            if not self.lr_scheduler._is_of_library:
                del given["lr_scheduler"]
        return options(given)

    @property
    def _calls(self):
        """The schedule that is a class of the user, which each push calls; or None."""
        scheduler = self.lr_scheduler
        return scheduler if isinstance(scheduler, LRScheduler) and not scheduler._is_of_library else None

    def _sent(self):
        """What a store has of this object, when it has taken it."""
        scheduler = self.lr_scheduler
        version = vars(scheduler).get("_version", 0) if isinstance(scheduler, LRScheduler) else 0
        return {"options": self.options(), "schedule": (id(scheduler), version), "calls": self._calls}

    def _follow(self, params):
        """Takes the parameters that a store's update_optimizer has changed."""
        for name, value in params.items():
            name = "param_idx2name" if name == "names" else name
            if name in _TABLES:
                value = _Table(self, value if isinstance(value, dict) else dict(p.split("=") for p in value.split(",") if p))
            if name == "learning_rate" and isinstance(self.lr_scheduler, LRScheduler):
                self.lr_scheduler._hand_over(plain(value))
                vars(self.lr_scheduler)["_version"] += 1
            elif name in self._values:
                self._values[name] = value
                self._given.add(name)
        self._changed()

    def _mark(self):
        """All that a rollback puts back."""
        scheduler = self.lr_scheduler
        return (dict(self._values, **{name: dict(self._values[name]) for name in _TABLES}), set(self._given),
                dict(vars(scheduler)) if isinstance(scheduler, LRScheduler) else {})

    def _back(self, mark):
        values, given, schedule = mark
        self._values.update(values, **{k: _Table(self, values[k]) for k in _TABLES})
        vars(self)["_given"] = set(given)
        if schedule:
            vars(self.lr_scheduler).update(schedule)
        self._changed()

    def __getstate__(self):
        state = {k: v for k, v in vars(self).items() if k not in ("_stores", "_form")}
        if "_values" in state:
            state.update(_num_update=self.num_update, _values={k: dict(v) if isinstance(v, _Table) else v
                                                               for k, v in self._values.items()})
        return state

    def __setstate__(self, state):
        vars(self).update(state, _stores=weakref.WeakSet())
        for name in _TABLES:
            if name in self._values:
                self._values[name] = _Table(self, self._values[name])
        if isinstance(self.lr_scheduler, LRScheduler):
            self._adopt(self.lr_scheduler)

    def __repr__(self):
        given = {p: getattr(self, name) for name, p in self._attributes().items() if p in self._given}
        return f"{type(self).__name__}(" + ", ".join(f"{p}={value!r}" for p, value in given.items()) + ")"

    @staticmethod
    def create_optimizer(name, **params):
        """An optimizer by its name, in any case."""
        return create(name, **params)


_MASTER = "stored"  # the weight in float32, of multi_precision
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16"}


def _shape(array):
    return "(" + ", ".join(map(str, array.shape)) + ("," if len(array.shape) == 1 else "") + ")"


def _pairs(like, state):
    """The arrays of two states of one form, in pairs; None: the forms differ."""
    if like is None or state is None:
        return [] if like is state else None
    if not isinstance(like, tuple):
        return [(like, state)] if hasattr(state, "shape") else None
    if not isinstance(state, (tuple, list)) or len(like) != len(state):
        return None
    parts = [_pairs(a, b) for a, b in zip(like, state)]
    return None if None in parts else sum(parts, [])


def _read_file(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        return head, f.read()


def _read_states(path, index):
    """The metadata of a file of states, and {name: elements} of a key, in the order of the rule."""
    head, data = _read_file(path)
    about = head.pop("__metadata__")
    states = {}
    for name in about.get(f"kvstore.states.{index}", "").split():
        entry = head.get(f"{index}/{name}")
        if entry is None:  # a number
            continue
        if entry["dtype"] not in _DTYPES:
            raise KVError(f"a step without a store keeps no state of {entry['dtype']}", "unsupported", "set_optimizer has all")
        begin, end = entry["data_offsets"]
        states[name] = numpy.frombuffer(data[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return about, states


def _write_states(path, index, numbers, states):
    """Puts counts, numbers and states into a file of a store that made no step."""
    head = {"__metadata__": {k: v for k, v in _read_file(path)[0]["__metadata__"].items() if "xxh64" not in k}}
    data, short = b"", {v: k for k, v in _DTYPES.items()}
    for name, array in states.items():
        elements = array.asnumpy()
        head[f"{index}/{name}"] = {"dtype": short[elements.dtype.name], "shape": list(array.shape),
                                   "data_offsets": [len(data), len(data) + elements.nbytes]}
        data += elements.tobytes()
    head["__metadata__"].update({f"kvstore.states.{index}": " ".join(states), **numbers})
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


class Updater:
    """updater(index, grad, weight) makes a step of an optimizer, whose states it keeps, by index."""

    def __init__(self, optimizer):
        self.optimizer, self.states = optimizer, {}

    def __call__(self, index, grad, weight):
        if isinstance(index, (list, tuple)):
            for one in zip(index, grad, weight):
                self(*one)
            return
        if index not in self.states:
            self.states[index] = self.optimizer.create_state(index, weight)
        self.optimizer.update(index, weight, grad, self.states[index])

    def get_states(self, dump_optimizer=False):
        """The states as bytes, a pickle; dump_optimizer: the optimizer, too."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states):
        """Goes on from the bytes of get_states. A pickle is a program: only those of a source that is trusted."""
        loaded = pickle.loads(states)
        if isinstance(loaded, tuple):
            self.states, self.optimizer = loaded
        else:
            self.states = loaded


def get_updater(optimizer):
    """A function(index, grad, weight) that makes steps of an optimizer."""
    return Updater(optimizer)


def not_used(schedule, base_lr, rate, level):
    """Warns that a schedule has its own base rate, the `level`-th caller."""
    warnings.warn(f"{schedule} keeps its base_lr {base_lr}: learning_rate {rate} is not used", UserWarning, level + 1)


def look_at_rate(name, rate, schedule, level=4):
    """The same for an optimizer that is given by name, and a schedule that may be a text."""
    if name == "test" and rate is not None:
        raise KVError("the optimizer test of MXNet 1.9.1 has no rate: it adds rescale_grad times what is pushed", "usage",
                      "rescale_grad=-learning_rate makes the step of MXNet 2.0's")
    kind, _, rest = option_text(schedule).strip().partition("(")
    if rate is not None and kind in ("poly", "cosine"):
        base = re.search(r"\bbase_lr\s*=\s*([^,)\s]+)", rest)
        base = base.group(1) if base else "0.01"
        if float(base) != float(rate):
            not_used(kind, base, rate, level)


def _unknown(kind, name, known):
    """The text about a parameter that an optimizer does not take."""
    usual = _OTHER_NAMES.get(name, "")
    near = [usual] if usual.split(" ")[0] in known else difflib.get_close_matches(name, known, 2)
    return f"{kind}() has no parameter {name}: " + (f"did you mean {' or '.join(near)}?" if near else
                                                    f"it takes {', '.join(n for n in known if n not in ('sym', 'param_dict'))}")


def _rules():
    """{name: text} of the optimizers of the library."""
    rules, i = {}, 0
    while (rule := _kvstore.optimizer(i)) is not None:
        rules[rule[0]] = rule[1]
        i += 1
    return rules


RULES = _rules()
_registered = {}
for _name, _params in _OWN.items():
    _call = f"{_name}({', '.join([*(f'{k}={v!r}' for k, v in _params.items()), '**common'])})\n\n"
    globals()[_name] = type(_name, (Optimizer,), {"name": _name.lower(), "_own": _params, "__module__": __name__,
                                                  "__doc__": _call + RULES[_name.lower()] + "\n" + Optimizer.__doc__})
ccSGD = SGD  # noqa: F821  an older name of MXNet


def create(name, **params):
    """An optimizer by its name, in any case: create('sgd', learning_rate=0.1)."""
    if name.lower() in _registered:
        return _registered[name.lower()](**params)
    for cls in _OWN:
        if cls.lower() == name.lower():
            return globals()[cls](**params)
    if name.lower() == "ccsgd":
        return ccSGD(**params)
    raise NoSuchNameError(f'there is no optimizer "{name}"', "usage", "there are " + ", ".join(sorted(RULES)))


register = Optimizer.register

__all__ = ["Optimizer", "Updater", "register", "create", "get_updater", "ccSGD", *_OWN]


def __dir__():
    return __all__
