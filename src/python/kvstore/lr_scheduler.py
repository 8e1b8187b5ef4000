"""mx.lr_scheduler: learning rates that follow the number of updates, as MXNet 1.9.1 works them out.

A schedule remembers: what decayed does not go back. A store has a copy of it, which the library follows; a change of
an attribute reaches the store with the next push.
"""
import math
import weakref

from . import _kvstore
from .errors import no_attribute


def plain(value):
    """A number or a list of NumPy's as Python has it."""
    return value.tolist() if hasattr(value, "tolist") else value


def _whole(name, value, least):
    """The value of a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < least:
        raise ValueError(f"{name} is a whole number, at least {least}")
    return int(value)


class LRScheduler:
    """A schedule. Call it with a number of updates: it gives the learning rate. A class of your own defines __call__; a
    store of one process calls it once a push."""

    name = None  # in the library
    _fields = ("base_lr", "warmup_steps", "warmup_begin_lr", "warmup_final_lr", "warmup_mode")

    def __init__(self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        self._make(base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr, warmup_mode=warmup_mode)

    def _make(self, base_lr, **fields):
        base_lr = plain(base_lr)
        vars(self).update(_version=0, _users=weakref.WeakSet(), _base_lr=base_lr, warmup_final_lr=base_lr,
                          **{k: plain(v) for k, v in fields.items()})
        self._check()

    @property
    def _is_of_library(self):
        return bool(self.name) and type(self).__call__ is LRScheduler.__call__

    def _check(self):
        vars(self)["warmup_steps"] = _whole("warmup_steps", self.warmup_steps, 0)
        if not self.warmup_begin_lr <= self.warmup_final_lr:
            raise ValueError("warmup_begin_lr is at most base_lr")
        if self.warmup_mode not in ("linear", "constant"):
            raise ValueError('warmup_mode is "linear" or "constant"')

    # ---- The rate ----

    @property
    def base_lr(self):
        """The rate as far as it has come; set it, and the schedule goes on from there."""
        self._catch_up()
        return self._base_lr

    @base_lr.setter
    def base_lr(self, rate):
        self._base_lr = rate

    def _catch_up(self):
        """Comes to where the stores are that use this schedule."""
        for optimizer in list(self._users):
            if self._is_of_library:
                self(optimizer.num_update)

    def get_warmup_lr(self, num_update):
        """The rate before warmup_steps."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        return self.warmup_begin_lr + (self.warmup_final_lr - self.warmup_begin_lr) * float(num_update) / self.warmup_steps

    def __call__(self, num_update):
        if not self.name:
            raise NotImplementedError("a schedule of your own defines __call__(self, num_update)")
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        self._decay(num_update)
        return self._base_lr

    def _hand_over(self, rate):
        """The learning rate of an optimizer becomes the base. Returns false if the schedule keeps its own."""
        vars(self)["_base_lr"] = rate
        return True

    # ---- Attributes ----

    def __setattr__(self, name, value):
        if not self.name or name not in self._fields:
            if type(self).__module__ == __name__:
                raise no_attribute(self, name, self._fields)
            return object.__setattr__(self, name, value)  # a class of the user
        self._catch_up()
        before, value = dict(vars(self)), plain(value)
        vars(self)["_base_lr" if name == "base_lr" else name] = value
        try:
            self._settle(name)
            self._check()
        except (TypeError, ValueError):
            vars(self).update(before)
            raise
        vars(self)["_version"] += 1
        _kvstore.changed()

    def _settle(self, name):
        """Makes what follows from an attribute that was set."""

    def __getattr__(self, name):
        raise no_attribute(self, name, self._fields)

    def __getstate__(self):
        self._catch_up()
        return {k: v for k, v in vars(self).items() if k != "_users"}

    def __setstate__(self, state):
        vars(self).update(state, _users=weakref.WeakSet())

    # ---- For the library ----

    def text(self):
        """The schedule as kvctl and the library write it, with what it has reached: factor(step=2, factor=0.5, ...)."""
        def word(value):
            return f'"{value}"' if isinstance(value, str) else repr(list(value) if isinstance(value, tuple) else value)
        self._catch_up()
        params = dict(self._params(), warmup_steps=self.warmup_steps, warmup_begin_lr=self.warmup_begin_lr,
                      warmup_mode=self.warmup_mode)
        if self.warmup_final_lr != params["base_lr"]:
            params["warmup_final_lr"] = self.warmup_final_lr
        return f"{self.name}(" + ", ".join(f"{k}={word(v)}" for k, v in params.items()) + ")"

    def __repr__(self):
        return self.text() if self.name else object.__repr__(self)


class _Decaying(LRScheduler):
    """What factor and multifactor share: how far the decays have come."""

    @property
    def count(self):
        """The update behind which the latest decay came."""
        self._catch_up()
        return self._count


class FactorScheduler(_Decaying):
    """Times `factor` behind every `step` updates, down to stop_factor_lr."""

    name = "factor"
    _fields = LRScheduler._fields + ("step", "factor", "stop_factor_lr")

    def __init__(self, step, factor=1, stop_factor_lr=1e-8, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0,
                 warmup_mode="linear"):
        self._make(base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr, warmup_mode=warmup_mode,
                   step=step, factor=factor, stop_factor_lr=stop_factor_lr, _count=0)

    def _check(self):
        super()._check()
        vars(self)["step"] = _whole("step", self.step, 1)
        if not self.factor <= 1:
            raise ValueError("factor is at most 1")

    def _decay(self, n):
        state = vars(self)
        while n > self._count + self.step:
            state["_count"] += self.step
            rate = max(self._base_lr * self.factor, self.stop_factor_lr)
            if rate == self._base_lr:  # nor will it be another one
                state["_count"] += (n - self._count - 1) // self.step * self.step
            state["_base_lr"] = rate

    def _params(self):
        params = {"step": self.step, "factor": self.factor, "stop_factor_lr": self.stop_factor_lr, "base_lr": self._base_lr}
        return dict(params, count=self._count) if self._count else params


class MultiFactorScheduler(_Decaying):
    """Times `factor` behind each of the numbers of updates in `step`."""

    name = "multifactor"
    _fields = LRScheduler._fields + ("step", "factor")

    def __init__(self, step, factor=1, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        self._make(base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr, warmup_mode=warmup_mode,
                   step=step, factor=factor, _count=0, _at=0)

    @property
    def cur_step_ind(self):
        """How many of `step` are behind."""
        self._catch_up()
        return self._at

    def _check(self):
        super()._check()
        steps = tuple(_whole("each number of step", step, 1) for step in plain(self.step))
        vars(self)["step"] = steps  # a tuple, not to be changed in place
        if not steps:
            raise ValueError("step is a list of at least one number")
        if any(not a < b for a, b in zip(steps, steps[1:])):
            raise ValueError("the numbers of step increase")
        if not self.factor <= 1:
            raise ValueError("factor is at most 1")

    def _settle(self, name):
        if name == "step":  # the decays so far stay
            vars(self)["_at"] = sum(step <= self._count for step in self.step)

    def _decay(self, n):
        state = vars(self)
        while self._at < len(self.step) and n > self.step[self._at]:
            state.update(_count=self.step[self._at], _at=self._at + 1, _base_lr=self._base_lr * self.factor)

    def _params(self):
        params = {"step": self.step, "factor": self.factor, "base_lr": self._base_lr}
        return dict(params, count=self._count) if self._count else params


class _Falling(LRScheduler):
    """What poly and cosine share: a curve from the base rate to final_lr, at max_update updates."""

    _fields = LRScheduler._fields + ("max_update", "final_lr", "base_lr_orig")

    def _check(self):
        super()._check()
        vars(self)["max_update"] = _whole("max_update", self.max_update, 1)
        if self.warmup_steps >= self.max_update:
            raise ValueError("warmup_steps is less than max_update")

    def _settle(self, name):
        if name == "base_lr":  # the curve begins there
            vars(self)["base_lr_orig"] = self._base_lr

    @property
    def max_steps(self):
        """The updates from the end of the warm-up to max_update."""
        return self.max_update - self.warmup_steps

    def _hand_over(self, rate):
        super()._hand_over(rate)
        return rate == self.base_lr_orig

    def _decay(self, n):
        if n <= self.max_update:
            fall = self.base_lr_orig - self.final_lr
            vars(self)["_base_lr"] = self.final_lr + self._curve(fall, float(n - self.warmup_steps))

    def _params(self):
        params = {"max_update": self.max_update, "final_lr": self.final_lr, "base_lr": self.base_lr_orig}
        return params if self._base_lr == self.base_lr_orig else dict(params, last_lr=self._base_lr)


class PolyScheduler(_Falling):
    """Falls as a power of what is left until `max_update` updates. `power` is the pwr of the call."""

    name = "poly"
    _fields = _Falling._fields + ("power",)

    def __init__(self, max_update, base_lr=0.01, pwr=2, final_lr=0, warmup_steps=0, warmup_begin_lr=0,
                 warmup_mode="linear"):
        self._make(base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr, warmup_mode=warmup_mode,
                   max_update=max_update, power=pwr, final_lr=final_lr, base_lr_orig=plain(base_lr))

    def _curve(self, fall, done):
        return fall * pow(1 - done / self.max_steps, self.power)

    def _params(self):
        return dict(super()._params(), pwr=self.power)


class CosineScheduler(_Falling):
    """Falls as a half cosine until `max_update` updates."""

    name = "cosine"

    def __init__(self, max_update, base_lr=0.01, final_lr=0, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        self._make(base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr, warmup_mode=warmup_mode,
                   max_update=max_update, final_lr=final_lr, base_lr_orig=plain(base_lr))

    def _curve(self, fall, done):
        return fall * (1 + math.cos(math.pi * done / self.max_steps)) / 2


__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler", "CosineScheduler"]


def __dir__():
    return __all__
