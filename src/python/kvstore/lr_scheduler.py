"""mx.lr_scheduler: learning rates that follow the number of updates. The library works them out."""


class LRScheduler:
    """A schedule: its name in the library and its parameters."""

    name = None

    def __init__(self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear", **params):
        self.base_lr = base_lr
        self.params = dict(params, base_lr=base_lr, warmup_steps=warmup_steps, warmup_begin_lr=warmup_begin_lr,
                           warmup_mode=warmup_mode)

    def text(self):
        """The schedule as kvctl and the library write it: factor(step=2, factor=0.5, ...)."""
        def word(value):
            value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
            return f'"{value}"' if isinstance(value, str) else \
                "[" + ", ".join(map(word, value)) + "]" if isinstance(value, (list, tuple)) else repr(value)
        self.params["base_lr"] = self.base_lr
        return f"{self.name}(" + ", ".join(f"{k}={word(v)}" for k, v in self.params.items()) + ")"

    def __repr__(self):
        return self.text()


class FactorScheduler(LRScheduler):
    """Times `factor` behind every `step` updates, down to stop_factor_lr."""

    name = "factor"

    def __init__(self, step, factor=1, stop_factor_lr=1e-8, **params):
        super().__init__(step=step, factor=factor, stop_factor_lr=stop_factor_lr, **params)


class MultiFactorScheduler(LRScheduler):
    """Times `factor` behind each of the numbers of updates in `step`."""

    name = "multifactor"

    def __init__(self, step, factor=1, **params):
        super().__init__(step=list(step), factor=factor, **params)


class PolyScheduler(LRScheduler):
    """Falls as a power of what is left until `max_update` updates."""

    name = "poly"

    def __init__(self, max_update, base_lr=0.01, pwr=2, final_lr=0, **params):
        super().__init__(base_lr=base_lr, max_update=max_update, pwr=pwr, final_lr=final_lr, **params)


class CosineScheduler(LRScheduler):
    """Falls as a half cosine until `max_update` updates."""

    name = "cosine"

    def __init__(self, max_update, base_lr=0.01, final_lr=0, **params):
        super().__init__(base_lr=base_lr, max_update=max_update, final_lr=final_lr, **params)
