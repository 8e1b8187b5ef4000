#!/usr/bin/env python3
"""Makes merge/: a few models, and what mergekit's own functions give for them.

    python3 tests/checkpoint/make_merges.py            writes merge/
    python3 tests/checkpoint/make_merges.py KVCTL      the random rules: mergekit's statistics beside ours

Needs numpy, ml_dtypes, torch, safetensors, pydantic and mergekit 0.1.5 (installed with --no-deps: only
its functions are called). tests/cli/merge-oracle.bats runs `kvctl merge` on the same models, and
compares as the lines of merge/cases.txt say: NAME RTOL ATOL WORDS, which stand for

    kvctl merge WORDS --out OUT, then kvctl diff OUT merge/NAME.safetensors --rtol RTOL --atol ATOL

mergekit gets the models' numbers as float64, so that its own rounding is far below that of float32,
and what is kept is its result rounded to float32. ATOL bounds the float32 arithmetic of a merge that
follows the formula, to first order: u = 2^-24 for each operation, times the largest sum of absolute
values that the operation works on. RTOL is the rounding of the output's type: 2^-24, or 2^-8 for
BF16. So an output must be the nearest BF16 number, but where float32 arithmetic itself cannot tell.

Where mergekit and this project differ on purpose:
- mergekit has no default weights; here they are 1 each. It can leave the division by their sum out of
  linear, which divides always here. In the other rules both have a parameter for it.
- ties: mergekit divides the weighted sum of the agreeing differences by the sum of their weights. With
  equal weights that is the mean of those that agree.
- ties: mergekit keeps at least one element of a tensor, here floor(density * n) may be none.
- of equal magnitudes mergekit keeps those that its sort, which need not be stable, leaves there; here
  the first in the order of rows are kept. The models have no ties where the line is drawn.
- dare and della rescale in mergekit so that the sum of magnitudes is that of the whole tensor; in the
  papers, and here, an element is divided by its own probability. The statistics below are of masks.
"""
import math
import os
import shutil
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import torch
from mergekit.merge_methods import merge_tensors
from mergekit.sparsify import bernoulli, della_magprune
from safetensors.numpy import load_file, save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "merge")
U = 2.0 ** -24
MODELS = ["m1", "m2", "m3", "m4"]


# ---- Models ---------------------------------------------------------------------------------------


def make_models(seed):
    """name -> key -> float32. Numbers as of fine-tunings of one model, and some that are made up."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape)

    base = {"embed.weight": normal(12, 16), "layers.0.up.weight": normal(9, 21),
            "layers.0.norm.weight": 1 + 0.05 * normal(33), "head.bias": np.arange(7) - 3.0,
            "mirror": normal(5)}
    models = {"base": base}
    for i, name in enumerate(MODELS):
        of = {}
        far = 0.6 * normal(12, 16)
        far[rng.random((12, 16)) < 0.15] = 0  # elements that a fine-tuning left alone
        of["embed.weight"] = base["embed.weight"] + far
        # Nearly parallel: slerp is linear.
        of["layers.0.up.weight"] = base["layers.0.up.weight"] * (1 + 0.1 * i) + 0.004 * normal(9, 21)
        of["layers.0.norm.weight"] = base["layers.0.norm.weight"] + 0.05 * normal(33)
        # Exact in float32 and BF16: signs that all agree, that cancel to 0, and one against the others.
        d = [[1, 2, 0, .5, -1, 3, -2.5], [-1, 2, 0, .25, -3, 1, 1.5],
             [2, -4, 0, .125, -2, -3.5, 5], [-2, 8, 0, .0625, -4, 7, -5]][i]
        of["head.bias"] = base["head.bias"] + np.array(d)
        of["mirror"] = normal(5) if i != 1 else -models["m1"]["mirror"].astype(np.float64)
        models[name] = {k: x.astype(np.float32) for k, x in of.items()}
    models["base"] = {k: x.astype(np.float32) for k, x in base.items()}
    return models


def narrow(models):
    return {name: {k: x.astype(ml_dtypes.bfloat16) for k, x in of.items()}
            for name, of in models.items()}


# ---- mergekit -------------------------------------------------------------------------------------


def of_mergekit(models, names, method, base, **parameters):
    """What the method gives for every key, in float64, and in float32 to see that both choose alike."""
    out = []
    for dtype in np.float64, np.float32:
        merged = {}
        for key in models[names[0]]:
            tensors = [torch.from_numpy(models[name][key].astype(dtype))
                       for name in ([base] if base else []) + names]
            # Of slerp the first model, where t = 0, is what mergekit calls the base.
            base_index = 0 if base or method == "slerp" else None
            merged[key] = merge_tensors(tensors, method, base_index=base_index,
                                        parameters=parameters).numpy()
        out.append(merged)
    for key, x in out[0].items():
        assert np.abs(x - out[1][key]).max() < 1e-4, (method, key)
    return out[0]


# ---- Bounds ---------------------------------------------------------------------------------------


def wide(models, names, key):
    return np.stack([models[name][key].astype(np.float64) for name in names])


def linear_bound(models, names, weights, key):
    n = len(names)  # n products, n - 1 sums of products and of weights, a division
    m = wide(models, names, key)
    w = np.array(weights, np.float64).reshape((n,) + (1,) * (m.ndim - 1))
    return (2 * n + 1) * U * np.abs(w * m).sum(0) / abs(sum(weights))


def task_bound(models, names, weights, key, scale, divided):
    """Of base + scale * sum w d, whatever was set to 0 in d: differences, products, n - 1 sums, the
    scale, and the last sum; divided: also n - 1 sums of weights and a division by that sum."""
    n = len(names)
    base = models["base"][key].astype(np.float64)
    d = wide(models, names, key) - base
    w = np.array(weights, np.float64).reshape((n,) + (1,) * base.ndim)
    total = abs(scale) * np.abs(w * d).sum(0) / divided
    return (n + 2 + (n if divided != 1 else 0)) * U * total + U * (np.abs(base) + total)


def coefficients(t, cosine):
    theta = np.arccos(cosine)
    return np.sin((1 - t) * theta) / np.sin(theta), np.sin(t * theta) / np.sin(theta)


def slerp_bound(models, names, key, t):
    """The cosine is rounded to float32, arc cosine and sines have 2 units in the last place each."""
    x, y = wide(models, names, key)
    cosine = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    if abs(cosine) > 0.9995:
        return 4 * U * (np.abs((1 - t) * x) + np.abs(t * y))
    a, b = coefficients(t, cosine)
    moved = [coefficients(t, cosine + s * 4 * U) for s in (-1, 1)]
    da = max(abs(m[0] - a) for m in moved) + 12 * U * abs(a)
    db = max(abs(m[1] - b) for m in moved) + 12 * U * abs(b)
    return da * np.abs(x) + db * np.abs(y) + 2 * U * (np.abs(a * x) + np.abs(b * y))


def stock_bound(models, names, key):
    """The cosines have the rounding of a quotient; t follows from their mean with 6 operations more."""
    n = len(names)
    base = models["base"][key].astype(np.float64)
    d = wide(models, names, key) - base
    norms = [np.sqrt((x * x).sum()) for x in d]
    c = np.mean([(d[i] * d[j]).sum() / norms[i] / norms[j] for i in range(n) for j in range(i)])

    def ratio(cosine):
        return n * cosine / (1 + (n - 1) * cosine)

    # A difference m - base is off by u of its size, so a cosine by at most 4 u, and 4 for the rest.
    dt = max(abs(ratio(c + s * 8 * U) - ratio(c)) for s in (-1, 1)) + 6 * U * abs(ratio(c))
    mean = np.abs(d).sum(0) / n + np.abs(base)
    t = abs(ratio(c))
    return dt * (mean + np.abs(base)) + (n + 3) * U * (t * mean + (1 + t) * np.abs(base))


# ---- Cases ----------------------------------------------------------------------------------------


def listed(numbers):
    return ",".join(f"{x:g}" for x in numbers)


def make_cases(models, suffix, unit):
    cases = []

    def case(name, names, method, bound, words, base="base", **parameters):
        got = of_mergekit(models, names, method, base, **parameters)
        # What rounding to the type of the output adds to a difference is in RTOL, but for its own share.
        atol = max(bound(key).max() for key in got) * (1 + 2 * unit)
        out = {k: x.astype(np.float32) for k, x in got.items()}
        out["steps"] = np.array([700], np.int64)
        save_file(out, os.path.join(HERE, f"{name}{suffix}.safetensors"))
        paths = " ".join(f"{n}{suffix}.safetensors" for n in names)
        of_base = f" --base base{suffix}.safetensors" if base else ""
        rule, _, options = words.partition(" ")
        cases.append(f"{name}{suffix} {unit!r} {atol:.4g} {rule} {paths}{of_base} {options}".strip())

    some = [0.7, 0.5, -0.25, 1]
    case("average", MODELS, "linear", lambda k: linear_bound(models, MODELS, [1] * 4, k), "average",
         base=None, weight=1.0)
    case("ties", MODELS, "ties", lambda k: task_bound(models, MODELS, [1] * 4, k, 1, 1),
         "ties --density 0.3", weight=1.0, density=0.3)
    case("slerp", MODELS[:2], "slerp", lambda k: slerp_bound(models, MODELS[:2], k, 0.3),
         "slerp --t 0.3", base=None, t=0.3)
    case("model_stock", MODELS[:3], "model_stock", lambda k: stock_bound(models, MODELS[:3], k),
         "model_stock")
    if suffix:
        return cases
    counts = [120, 40, 300, 7]
    case("linear", MODELS, "linear", lambda k: linear_bound(models, MODELS, counts, k),
         f"linear --weights {listed(counts)}", base=None, weight=[float(w) for w in counts])
    of_model = dict(enumerate(some, 1))  # by place, where the base is 0
    case("task_arithmetic", MODELS, "task_arithmetic",
         lambda k: task_bound(models, MODELS, some, k, 0.8, 1),
         f"task_arithmetic --weights {listed(some)} --scale 0.8", weight=of_model, **{"lambda": 0.8})
    case("task_normalized", MODELS, "task_arithmetic",
         lambda k: task_bound(models, MODELS, some, k, 1, abs(sum(some))),
         f"task_arithmetic --weights {listed(some)} --normalize true", weight=of_model,
         normalize=True)
    case("ties_all", MODELS, "ties", lambda k: task_bound(models, MODELS, [1] * 4, k, 0.7, 1),
         "ties --density 1 --scale 0.7", weight=1.0, density=1.0, **{"lambda": 0.7})
    case("breadcrumbs", MODELS, "breadcrumbs",
         lambda k: task_bound(models, MODELS, [1] * 4, k, 1, 1),
         "breadcrumbs --density 0.5 --gamma 0.1", weight=1.0, density=0.5, gamma=0.1)
    return cases


def cuts_between_ties(models, shares):
    """Whether a cut of ties or breadcrumbs parts elements of one magnitude: then any order would do."""
    for name in MODELS:
        for key, base in models["base"].items():
            base = base.astype(np.float32)
            d = np.sort(np.abs(models[name][key].astype(np.float32) - base).ravel())[::-1]
            for first, second in shares:
                cut = int(first * d.size) + int(second * d.size)
                if 0 < cut < d.size and d[cut - 1] == d[cut] != 0:
                    return True
    return False


def find_models():
    """The models of the first seed whose sorts have one result, also when rounded to BF16."""
    for seed in range(10000):
        models = make_models(seed)
        if not (cuts_between_ties(models, [(0.3, 0), (0.1, 0), (0.1, 0.5)]) or
                cuts_between_ties(narrow(models), [(0.3, 0)])):
            return models
    sys.exit("no models without ties")


def write():
    shutil.rmtree(HERE, ignore_errors=True)
    os.makedirs(HERE)
    models = find_models()
    cases = []
    for suffix, of, unit in ("", models, 2.0 ** -24), ("-bf16", narrow(models), 2.0 ** -8):
        for name, arrays in of.items():
            save_file({**arrays, "steps": np.array([700], np.int64)},
                      os.path.join(HERE, f"{name}{suffix}.safetensors"), {"format": "pt"})
        cases += make_cases(of, suffix, unit)
    with open(os.path.join(HERE, "cases.txt"), "w") as f:
        f.write("".join(line + "\n" for line in cases))


# ---- Random rules ---------------------------------------------------------------------------------


def kept_by_mergekit(d, density, epsilon, seeds):
    """How often each element is kept."""
    kept = np.zeros(d.shape)
    for seed in range(seeds):
        torch.manual_seed(seed)
        x = torch.from_numpy(d)
        y = della_magprune(x, density, epsilon) if epsilon else bernoulli(x, density)
        kept += y.numpy() != 0
    return kept


def kept_by_us(kvctl, d, density, epsilon, seeds):
    """The same; and that what is kept is the difference divided by its probability."""
    kept = np.zeros(d.shape)
    with tempfile.TemporaryDirectory() as folder:
        model, base, out = (os.path.join(folder, f"{x}.safetensors") for x in ("m", "b", "o"))
        save_file({"w": d}, model)
        save_file({"w": np.zeros_like(d)}, base)
        words = ["della" if epsilon else "dare_linear", model, "--base", base, "--density",
                 str(density), *(["--epsilon", str(epsilon)] if epsilon else [])]
        for seed in range(seeds):
            subprocess.run([kvctl, "merge", *words, "--seed", str(seed), "--out", out], check=True)
            y = load_file(out)["w"]
            p = probabilities(d, density, epsilon)
            error = np.abs(y - np.where(y != 0, d / p, 0)) / np.abs(d / p)
            assert error.max() <= 8 * U, f"seed {seed}: {error.max() / U} units"
            kept += y != 0
    return kept


def probabilities(d, density, epsilon):
    """Of keeping each element. della: from density - epsilon for the smallest of a row to density +
    epsilon for the largest."""
    rank = np.abs(d).argsort(axis=1, kind="stable").argsort(axis=1)
    return density - epsilon + 2 * epsilon * rank / (d.shape[1] - 1)


def compare_random(kvctl):
    """Counts of kept elements, of mergekit and of ours, beside their binomial distribution. A count is
    within 6 standard deviations of its mean but twice in 10^9; the sum of squares, by which the
    variance is measured, has the mean and the variance of chi-square."""
    seeds = 400
    d = (np.random.default_rng(4).standard_normal((40, 25)) + 0.01).astype(np.float32)
    for density, epsilon in (0.1, 0), (0.5, 0), (0.9, 0), (0.5, 0.2), (0.3, 0.25):
        p = probabilities(d, density, epsilon)
        for who, kept in (("mergekit", kept_by_mergekit(d, density, epsilon, seeds)),
                          ("kvctl", kept_by_us(kvctl, d, density, epsilon, seeds))):
            z = (kept - seeds * p) / np.sqrt(seeds * p * (1 - p))
            mean = z.sum() / math.sqrt(z.size)
            # The fourth moment of a binomial number: 3 + (1 - 6 p q) / (n p q).
            fourth = 3 + (1 - 6 * p * (1 - p)) / (seeds * p * (1 - p))
            variance = ((z * z).sum() - z.size) / math.sqrt((fourth - 1).sum())
            print(f"density {density}, epsilon {epsilon}, {who}: mean {mean:+.2f}, variance "
                  f"{variance:+.2f}, most of one element {np.abs(z).max():.2f} standard deviations")
            assert max(abs(mean), abs(variance), np.abs(z).max()) < 6


if len(sys.argv) == 1:
    write()
else:
    compare_random(sys.argv[1])
