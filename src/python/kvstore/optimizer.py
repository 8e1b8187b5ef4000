"""mx.optimizer: the optimizers of the library, under the names that MXNet's classes have.

An object is a name and parameters, which are its attributes; the library makes the steps. A store that has the object
takes what was changed before its next push: each object and each schedule counts its changes. The doc of a class is
its rule.
"""
import difflib
import re
import warnings
import weakref

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
            raise KVError(f"{scheduler!r} is no schedule", "usage", "mx.lr_scheduler.FactorScheduler(...), or its text")
        values = {**known, **params}
        vars(self).update(_version=0, _stores=weakref.WeakSet(), _values=values, _given=set(params),
                          _num_update=values["begin_num_update"])
        for name in ("lr_mult", "wd_mult", "param_idx2name"):
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
    def _parameter(cls, attribute):
        """The parameter that an attribute is, or None."""
        if attribute == "float_stable_eps" and cls.name in ("adagrad", "groupadagrad"):
            return "eps"
        known = {_RENAMED.get(p, p): p for p in (*_COMMON, *_MORE, *cls._own) if p not in ("sym", "param_dict")}
        if cls.name in ("adagrad", "groupadagrad"):
            known.pop("eps")
        return known.get(attribute)

    @classmethod
    def _attributes(cls):
        names = [_RENAMED.get(p, p) for p in (*cls._own, *_COMMON, *_MORE) if p not in ("sym", "param_dict")]
        if cls.name in ("adagrad", "groupadagrad"):
            names[names.index("eps")] = "float_stable_eps"
        return list(dict.fromkeys(names))

    def __getattr__(self, name):
        parameter = self._parameter(name)
        if parameter is None or "_values" not in vars(self):
            raise no_attribute(self, name, self._attributes())
        return self._values[parameter]

    def __setattr__(self, name, value):
        parameter = self._parameter(name)
        if parameter is None or "_values" not in vars(self):
            if type(self).__module__ == __name__:
                if name in ("learning_rate", "num_update"):
                    raise AttributeError(f"{name} is only read" + (": lr is set" if name == "learning_rate" else ""))
                raise no_attribute(self, name, self._attributes())
            return object.__setattr__(self, name, value)  # a class of the user
        if parameter == "lr_scheduler":
            if not isinstance(value, (LRScheduler, str, type(None))):
                raise KVError(f"{value!r} is no schedule", "usage", "mx.lr_scheduler.FactorScheduler(...), or its text")
            if isinstance(self.lr_scheduler, LRScheduler):
                self.lr_scheduler._users.discard(self)
            if isinstance(value, LRScheduler):
                self._adopt(value)
        elif parameter == "learning_rate" and self.lr_scheduler is not None:
            warnings.warn("the schedule gives the learning rate: lr is not used beside it", UserWarning, stacklevel=2)
        elif parameter in ("lr_mult", "wd_mult", "param_idx2name"):
            value = _Table(self, value or {})
        self._values[parameter] = value
        self._given.add(parameter)
        self._changed()

    def _table_changed(self, table):
        for name in ("lr_mult", "wd_mult", "param_idx2name"):
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

    # ---- For the store ----

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
            if name in ("lr_mult", "wd_mult", "param_idx2name"):
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
        tables = ("lr_mult", "wd_mult", "param_idx2name")
        return (dict(self._values, **{name: dict(self._values[name]) for name in tables}), set(self._given),
                dict(vars(scheduler)) if isinstance(scheduler, LRScheduler) else {})

    def _back(self, mark):
        values, given, schedule = mark
        self._values.update(values, **{k: _Table(self, values[k]) for k in ("lr_mult", "wd_mult", "param_idx2name")})
        vars(self)["_given"] = set(given)
        if schedule:
            vars(self.lr_scheduler).update(schedule)
        self._changed()

    def __getstate__(self):
        state = {k: v for k, v in vars(self).items() if k != "_stores"}
        if "_values" in state:
            state.update(_num_update=self.num_update, _values={k: dict(v) if isinstance(v, _Table) else v
                                                               for k, v in self._values.items()})
        return state

    def __setstate__(self, state):
        vars(self).update(state, _stores=weakref.WeakSet())
        for name in ("lr_mult", "wd_mult", "param_idx2name"):
            if name in self._values:
                self._values[name] = _Table(self, self._values[name])
        if isinstance(self.lr_scheduler, LRScheduler):
            self._adopt(self.lr_scheduler)

    def __repr__(self):
        names = [n for n in self._attributes() if self._parameter(n) in self._given]
        return f"{type(self).__name__}(" + ", ".join(f"{self._parameter(n)}={getattr(self, n)!r}" for n in names) + ")"

    @staticmethod
    def create_optimizer(name, **params):
        """An optimizer by its name, in any case."""
        return create(name, **params)


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
for _name, _params in _OWN.items():
    _call = f"{_name}({', '.join([*(f'{k}={v!r}' for k, v in _params.items()), '**common'])})\n\n"
    globals()[_name] = type(_name, (Optimizer,), {"name": _name.lower(), "_own": _params, "__module__": __name__,
                                                  "__doc__": _call + RULES[_name.lower()] + "\n" + Optimizer.__doc__})
ccSGD = SGD  # noqa: F821  an older name of MXNet


def create(name, **params):
    """An optimizer by its name, in any case: create('sgd', learning_rate=0.1)."""
    for cls in _OWN:
        if cls.lower() == name.lower():
            return globals()[cls](**params)
    if name.lower() == "ccsgd":
        return ccSGD(**params)
    raise NoSuchNameError(f'there is no optimizer "{name}"', "usage", "there are " + ", ".join(sorted(RULES)))


__all__ = ["Optimizer", "create", "ccSGD", *_OWN]
