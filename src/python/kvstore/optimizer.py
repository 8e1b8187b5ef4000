"""mx.optimizer: the optimizers of the library, under the names that MXNet's classes have.

An object is a name and parameters; the library makes the steps. The doc of a class is its rule.
"""
from . import _kvstore
from .errors import KVError
from .lr_scheduler import LRScheduler

_CLASSES = ("SGD NAG Adam AdaGrad AdaDelta RMSProp Ftrl FTML Adamax Nadam Signum SGLD DCASGD LBSGD LARS LAMB "
            "GroupAdaGrad Test AdamW AdaBelief LANS").split()


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


class Optimizer:
    """An optimizer: what KVStore.set_optimizer takes.

    Parameters of all of them: learning_rate, wd, rescale_grad, clip_gradient, clip_global_norm, lr_scheduler,
    lr_mult and wd_mult ({key or name: factor}), param_idx2name ({key: name}), begin_num_update, multi_precision, seed.
    """

    name = None

    def __init__(self, **params):
        self.params = {("names" if k == "param_idx2name" else k): v for k, v in params.items() if k != "param_dict" or v}
        if "param_dict" in self.params:
            raise KVError("the store has no param_dict", "unsupported", "lr_mult and wd_mult take {key: factor}")
        scheduler = params.get("lr_scheduler")
        if not isinstance(scheduler, (LRScheduler, str, type(None))):
            raise KVError(f"{scheduler!r} is no schedule", "usage", "mx.lr_scheduler.FactorScheduler(...), or its text")

    def set_lr_mult(self, args):
        """Multipliers of the learning rate, {key or name: factor}."""
        self.params["lr_mult"] = dict(args)

    def set_wd_mult(self, args):
        """Multipliers of the weight decay, {key or name: factor}."""
        self.params["wd_mult"] = dict(args)

    def set_learning_rate(self, lr):
        """The learning rate of set_optimizer; KVStore.update_optimizer changes that of one in use."""
        self.params["learning_rate"] = lr

    @property
    def learning_rate(self):
        """The learning rate that was given, or None."""
        return self.params.get("learning_rate")

    lr = learning_rate

    def options(self):
        """{name: text}, as the library takes them."""
        return options(self.params)

    def __repr__(self):
        return f"{type(self).__name__}(" + ", ".join(f"{k}={v!r}" for k, v in self.params.items()) + ")"


def _rules():
    """{name: text} of the optimizers of the library."""
    rules, i = {}, 0
    while (rule := _kvstore.optimizer(i)) is not None:
        rules[rule[0]] = rule[1]
        i += 1
    return rules


RULES = _rules()
for _name in _CLASSES:
    globals()[_name] = type(_name, (Optimizer,), {"name": _name.lower(), "__module__": __name__,
                                                  "__doc__": RULES[_name.lower()] + "\n" + Optimizer.__doc__})
ccSGD = SGD  # noqa: F821  an older name of MXNet


def create(name, **params):
    """An optimizer by its name, in any case: create('sgd', learning_rate=0.1)."""
    for cls in _CLASSES:
        if cls.lower() == name.lower():
            return globals()[cls](**params)
    if name.lower() == "ccsgd":
        return ccSGD(**params)
    raise KVError(f'there is no optimizer "{name}"', "usage", "there are " + ", ".join(sorted(RULES)))


__all__ = ["Optimizer", "create", "ccSGD", *_CLASSES]
