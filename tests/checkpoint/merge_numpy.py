"""Merges of kvctl beside the rules written plainly in NumPy, on random models.

    python3 merge_numpy.py KVCTL [ROUNDS [SEED]]

Needs numpy and ml_dtypes, which set-up does not install: it is run by hand. A round draws a rule, its
parameters, models of 1 to 16 files and keys of all kinds of shapes and types. Numbers are computed in
float32, or in float64 for keys of F64, one operation after the other as the rule has them, and are
rounded once to the type of the output. Sums of whole tensors are made in the order that lib/vm/plan.h
tells: blocks of 4096 elements, then the blocks.

Every bit must agree (a NaN is a NaN), but for rules that call sines or multiply matrices: those must
lie within the bound that stands with them. Of the random rules each element must be one of the two
numbers that it can be, and the shares must lie within 6 standard deviations of the binomial
distribution, 2 in 10^9 each.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

KVCTL = os.path.abspath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 300
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 7
BLOCK = 4096
SIGMAS = 6

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
          "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
          "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
          "F8_E8M0": ml_dtypes.float8_e8m0fnu, "F6_E2M3": ml_dtypes.float6_e2m3fn,
          "F6_E3M2": ml_dtypes.float6_e3m2fn, "F4": ml_dtypes.float4_e2m1fn}
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
INTEGERS = {"I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
NO_NAN = {"F6_E2M3", "F6_E3M2", "F4"}
counts = {}


# ---- Files ----------------------------------------------------------------------------------------


def packed(kind, x):
    """The bytes of an array; types of less than 8 bits lie one after the other, lowest bit first."""
    bits = BITS.get(kind, 8)
    if bits >= 8:
        return x.tobytes()
    codes = np.ascontiguousarray(x).view(np.uint8).ravel()
    flat = (codes[:, None] >> np.arange(bits, dtype=np.uint8) & 1).ravel()
    return np.packbits(flat, bitorder="little").tobytes()


def unpacked(kind, shape, data):
    dtype = FLOATS.get(kind) or INTEGERS[kind]
    bits = BITS.get(kind, 8)
    if bits >= 8:
        return np.frombuffer(data, dtype).reshape(shape)
    n = math.prod(shape)
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:n * bits]
    codes = (flat.reshape(n, bits) << np.arange(bits, dtype=np.uint8)).sum(1).astype(np.uint8)
    return codes.view(dtype).reshape(shape)


def write(path, arrays):
    header, parts, at = {}, [], 0
    for name, (kind, x) in arrays.items():
        data = packed(kind, x)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read(path):
    with open(path, "rb") as f:
        whole = f.read()
    n = int.from_bytes(whole[:8], "little")
    out = {}
    for name, about in json.loads(whole[8:8 + n]).items():
        if name != "__metadata__":
            a, b = about["data_offsets"]
            out[name] = about["dtype"], unpacked(about["dtype"], about["shape"],
                                                 whole[8 + n + a:8 + n + b])
    return out


def kvctl(*words):
    done = subprocess.run([KVCTL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kvctl {' '.join(words)}: {done.stderr}")


# ---- Rules ----------------------------------------------------------------------------------------
#
# T is float32 or float64. m: the models' arrays, b: the base's, w: a weight each, all of type T. A rule
# gives its result, or (result, bound) where the bits are not settled by the formula.


def added(items):
    """A sum in the order given."""
    total = items[0]
    for x in items[1:]:
        total = total + x
    return total


def whole_sum(T, x):
    """The sum of a tensor, by blocks."""
    x = x.ravel()
    if x.size == 0:
        return T(0)
    blocks = np.zeros((-(-x.size // BLOCK), BLOCK), T)
    blocks.ravel()[:x.size] = x
    lengths = np.full(len(blocks), BLOCK)
    lengths[-1] = x.size - (len(blocks) - 1) * BLOCK
    each = np.cumsum(blocks, axis=1, dtype=T)[np.arange(len(blocks)), lengths - 1]
    return np.cumsum(each, dtype=T)[-1]


def largest(x, n):
    """A mask of the n largest; of equal ones the first in the order of rows."""
    keep = np.zeros(x.size, bool)
    keep[np.argsort(-x.ravel(), kind="stable")[:n]] = True
    return keep.reshape(x.shape)


def linear(T, m, b, w, p):
    return added([wi * x for wi, x in zip(w, m)]) / added(w)


def average(T, m, b, w, p):
    return linear(T, m, b, w, p)


def divided(T, x, w, p):
    return x / added(w) if p["normalize"] else x


def task_arithmetic(T, m, b, w, p):
    total = added([wi * (x - b) for wi, x in zip(w, m)])
    return b + T(p["scale"]) * divided(T, total, w, p)


def elected(T, c, w, b, p):
    """base + what agrees with the sign of the sum; c: the changes, times their weights."""
    sign = np.where(added(c) >= 0, T(1), T(-1))
    agree = [~(x * sign <= 0) for x in c]
    total = added([np.where(a, x, T(0)) for a, x in zip(agree, c)])
    if p["normalize"]:
        shares = added([np.where(a, wi, T(0)) for a, wi in zip(agree, w)])
        total = total / np.where(shares == 0, T(1), shares)
    return b + T(p["scale"]) * total


def share(density, n):
    """How many of n elements are kept: at least one."""
    return max(math.floor(density * n), density > 0)


def ties(T, m, b, w, p):
    d = [x - b for x in m]
    keep = [largest(np.abs(x), share(p["density"], x.size)) for x in d]
    return elected(T, [wi * np.where(k, x, T(0)) for wi, k, x in zip(w, keep, d)], w, b, p)


def breadcrumbs(T, m, b, w, p):
    d = []
    for x in m:
        x = x - b
        n = x.size
        kept = share(p["density"], n)
        dropped = min(math.floor(p["gamma"] * n), n - kept)
        size = np.abs(x)
        d.append(np.where(largest(size, dropped + kept) & ~largest(size, dropped), x, T(0)))
    return b + T(p["scale"]) * divided(T, added([wi * x for wi, x in zip(w, d)]), w, p)


def in_order(m):
    """The models' numbers in order; NaN everywhere where one of them is NaN, as in np.median."""
    s = np.sort(np.stack(m), axis=0)
    return np.where(np.isnan(s[-1]), s[-1], s)


def median(T, m, b, w, p):
    s = in_order(m)
    n = len(m)
    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / T(2)


def trimmed_mean(T, m, b, w, p):
    k = p["k"]
    return added(list(in_order(m)[k:len(m) - k])) / T(len(m) - 2 * k)


def ema(T, m, b, w, p):
    average = m[0]
    for x in m[1:]:
        average = T(p["decay"]) * average + (T(1) - T(p["decay"])) * x
    return average


def slerp(T, m, b, w, p):
    x, y = (a.astype(np.float64) for a in m)
    u, t = np.finfo(T).eps / 2, p["t"]
    xx, yy, xy = (x * x).sum(), (y * y).sum(), (x * y).sum()
    if x.size == 0:
        return m[0]
    cosine = xy / math.sqrt(xx * yy) if xx and yy else 0.0
    terms = min(x.size, BLOCK) + -(-x.size // BLOCK)
    # Sums of so many terms, each a product: gamma of (terms + 1) for the three of them.
    dc = 2 * (terms + 4) * u * (np.abs(x * y).sum() / math.sqrt(xx * yy) if xx and yy else 1)
    if abs(abs(cosine) - 0.9995) < dc:
        return None
    if abs(cosine) > 0.9995:
        return (1 - t) * x + t * y, 4 * u * (np.abs((1 - t) * x) + np.abs(t * y))

    def coefficients(c):
        theta = math.acos(max(-1, min(1, c)))
        return np.array([math.sin((1 - t) * theta), math.sin(t * theta)]) / math.sin(theta)

    c = coefficients(cosine)
    moved = np.max([np.abs(coefficients(cosine + s * dc) - c) for s in (-1, 1)], axis=0)
    moved += 12 * u * np.abs(c)
    return (c[0] * x + c[1] * y, moved[0] * np.abs(x) + moved[1] * np.abs(y) +
            2 * u * (np.abs(c[0] * x) + np.abs(c[1] * y)))


def model_stock(T, m, b, w, p):
    n, u = len(m), np.finfo(T).eps / 2
    exact = b.astype(np.float64)
    if exact.size == 0:
        return b
    d = [(x - b).astype(np.float64) for x in m]
    norms = [math.sqrt((x * x).sum()) for x in d]
    if min(norms) == 0:
        return None
    pairs = [(d[i] * d[j], norms[i] * norms[j]) for i in range(n) for j in range(i)]
    cosine = np.mean([x.sum() / q for x, q in pairs])
    terms = min(exact.size, BLOCK) + -(-exact.size // BLOCK)
    dc = 2 * (terms + 4 + len(pairs)) * u * np.mean([np.abs(x).sum() / q for x, q in pairs])

    def ratio(c):
        return n * c / (1 + (n - 1) * c)

    if 1 + (n - 1) * (cosine - dc) < 0.05:
        return None  # too near the pole for a bound to first order
    t = ratio(cosine)
    dt = max(abs(ratio(cosine + s * dc) - t) for s in (-1, 1)) + 6 * u * abs(t)
    mean = sum(x.astype(np.float64) for x in m) / n
    sizes = sum(np.abs(x.astype(np.float64)) for x in m) / n
    return (t * mean + (1 - t) * exact, dt * (sizes + np.abs(exact)) +
            (n + 4) * u * (abs(t) * sizes + (1 + abs(t)) * np.abs(exact)))


def lora(T, W, A, B, scale):
    """Of one adapter; B A is a sum of r products an element, in any order."""
    u, r = np.finfo(T).eps / 2, A.shape[0]
    W, A, B = (x.astype(np.float64) for x in (W, A, B))
    product, sizes = scale * (B @ A), abs(scale) * (np.abs(B) @ np.abs(A))
    return W + product, (r + 3) * u * sizes + u * (np.abs(W) + sizes)


# Rules with masks: like the others, with a mask for each model and the probabilities of keeping.


def dare_linear(T, m, b, w, p, masks, keep):
    d = [np.where(k, x - b, T(0)) / q for x, k, q in zip(m, masks, keep)]
    return b + T(p["scale"]) * divided(T, added([wi * x for wi, x in zip(w, d)]), w, p)


def dare_ties(T, m, b, w, p, masks, keep):
    c = [wi * np.where(k, x - b, T(0)) / q for x, k, q, wi in zip(m, masks, keep, w)]
    return elected(T, c, w, b, p)


def della(T, m, b, w, p, masks, keep):
    c = [np.where(k, x - b, T(0)) / q * wi for x, k, q, wi in zip(m, masks, keep, w)]
    return elected(T, c, w, b, p)


def same(T, d, p):
    return np.full(d.shape, T(p["density"]))


def ranked(T, d, p):
    row = d.shape[0] if d.ndim == 1 else math.prod(d.shape[1:])
    rows = np.abs(d).reshape(-1, row)
    rank = np.argsort(np.argsort(rows, axis=1, kind="stable"), axis=1, kind="stable").astype(T)
    share = rank / T(row - 1) if row > 1 else np.full(rank.shape, T(0.5))
    low = T(p["density"]) - T(p["epsilon"])
    return (low + T(2) * T(p["epsilon"]) * share).reshape(d.shape)


RANDOM = {"dare_linear": (dare_linear, same), "dare_ties": (dare_ties, same),
          "della": (della, ranked)}


RULES = {
    "average": (average, {}, False), "linear": (linear, {}, False),
    "task_arithmetic": (task_arithmetic, {"scale": (0.1, 2)}, True),
    "ties": (ties, {"density": (0, 1), "scale": (0.1, 2)}, True),
    "breadcrumbs": (breadcrumbs, {"density": (0, 1), "gamma": (0, 0.3), "scale": (0.1, 2)}, True),
    "median": (median, {}, False), "trimmed_mean": (trimmed_mean, {"k": None}, False),
    "ema": (ema, {"decay": (0, 1)}, False), "slerp": (slerp, {"t": (0, 1)}, False),
    "model_stock": (model_stock, {}, True),
}
FINITE = {ties, breadcrumbs, slerp, model_stock}  # where the order of a NaN would count
SORTED = {"median", "trimmed_mean"}  # which of 0 and -0 is the smaller is open
WEIGHTED = {"linear", "task_arithmetic", "ties", "breadcrumbs"}
NORMALIZED = {"task_arithmetic": False, "breadcrumbs": False, "ties": True, "dare_linear": False,
              "dare_ties": False, "della": True}


# ---- Rounds ---------------------------------------------------------------------------------------

SHAPES = [(), (0,), (1,), (2,), (7,), (10,), (3, 5), (2, 0, 3), (4, 3, 2), (64, 65), (300, 257),
          (131072,), (3, 131071)]


def numbers(rng, kind, shape, style, base):
    """Random numbers: of a normal distribution, differences that are often alike, or odd ones."""
    dtype = FLOATS[kind]
    x = rng.standard_normal(shape)
    if kind == "F8_E8M0":
        x = np.exp2(rng.integers(-6, 7, shape).astype(np.float64))
    elif style == "alike" and base is not None:
        x = base.astype(np.float64) + rng.integers(-3, 4, shape)
    elif style == "alike":
        x = rng.integers(-8, 9, shape).astype(np.float64)
    elif style == "wide":
        x = x * np.exp2(rng.integers(-30, 30, shape))
    elif base is not None:
        x = base.astype(np.float64) + 0.3 * x
    with np.errstate(over="ignore"):
        x = np.asarray(x, np.float32 if kind != "F64" else np.float64).astype(dtype)
    if style == "odd" and kind not in NO_NAN and kind != "F8_E8M0" and x.size:
        flat = x.reshape(-1)
        for value in np.nan, np.inf, -np.inf, -0.0:
            where = rng.random(x.size) < 0.02
            with np.errstate(invalid="ignore", over="ignore"):
                flat[where] = np.float32(value).astype(dtype)
    return x


def draw_normalize(rng, rule, p):
    p["normalize"] = NORMALIZED.get(rule, False)
    if rule not in NORMALIZED or rng.random() < 0.6:
        return []
    p["normalize"] = not p["normalize"]
    return ["--normalize", str(p["normalize"]).lower()]


def draw_parameters(rng, rule, n):
    _, ranges, _ = RULES[rule]
    p, words = {}, []
    for name, span in ranges.items():
        if name == "k":
            p[name] = int(rng.integers(0, (n + 1) // 2))
        elif rng.random() < 0.5 and name in ("density", "gamma"):
            p[name] = float(rng.choice([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]))
            if name == "gamma":
                p[name] = min(p[name], 0.3)
        else:
            p[name] = float(f"{rng.uniform(*span):.3g}")
        words += [f"--{name}", f"{p[name]}"]
    return p, words + draw_normalize(rng, rule, p)


def close(kind, got, want, bound):
    """Whether each number got is a rounding of one within the bound of what is wanted."""
    dtype = FLOATS[kind]
    with np.errstate(over="ignore"):
        narrow = np.float32 if kind != "F64" else np.float64
        low, high = ((want + s * bound).astype(narrow).astype(dtype).astype(np.float64)
                     for s in (-1, 1))
    x = got.astype(np.float64)
    # A number that the type has no place for is a NaN in both.
    return (low <= x) & (x <= high) | np.isnan(x) & (np.isnan(low) | np.isnan(high))


def check_key(rule, what, kind, got, result):
    if result is None:
        return counts.__setitem__("left out", counts.get("left out", 0) + 1)
    if isinstance(result, tuple):
        bad = ~close(kind, got, *result)
        want = result[0]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            want = np.asarray(result).astype(FLOATS[kind])
        x, y = (a.astype(np.float64) for a in (got, want))
        alike = x == y
        if rule not in SORTED:
            alike &= np.signbit(x) == np.signbit(y)
        bad = ~(alike | np.isnan(x) & np.isnan(y))
    if bad.any():
        at = np.flatnonzero(bad.ravel())[0]
        raise SystemExit(f"{what}: {np.count_nonzero(bad)} of {bad.size} elements; [{at}] is "
                         f"{got.ravel()[at]!r}, not {np.asarray(want).ravel()[at]!r}")
    counts[rule] = counts.get(rule, 0) + 1


def one_round(rng, folder, number):
    rule = list(RULES)[number % len(RULES)]
    work, _, has_base = RULES[rule]
    n = 2 if rule == "slerp" else int(rng.integers(2 if rule == "model_stock" else 1, 17))
    style = str(rng.choice(["normal", "alike", "wide", "odd"]))
    if work in (slerp, model_stock) and style in ("odd", "wide"):
        style = "normal"
    if work in FINITE and style == "odd":
        style = "alike"
    keys, files = {}, [{} for _ in range(n + 1)]
    for i in rng.choice(len(SHAPES), 4, replace=False):
        kind = str(rng.choice(list(FLOATS)))
        ends_in_a_byte = math.prod(SHAPES[i]) * BITS.get(kind, 8) % 8 == 0
        if style == "odd" and kind in NO_NAN or not ends_in_a_byte:
            kind = "F32"
        keys[f"key.{i}"] = kind
        base = numbers(rng, kind, SHAPES[i], "odd" if style == "odd" else style, None)
        for k, of in enumerate(files):
            x = numbers(rng, kind, SHAPES[i], style, base) if k else base
            of[f"key.{i}"] = kind, x
    kind = str(rng.choice(list(INTEGERS)))
    whole = rng.integers(0, 2, (3, 2)).astype(INTEGERS[kind])
    for of in files:
        of["whole"] = kind, whole
    names = ["base.safetensors"] + [f"m{i}.safetensors" for i in range(n)]
    for name, of in zip(names, files):
        write(os.path.join(folder, name), of)
    p, words = draw_parameters(rng, rule, n)
    weights = [1.0] * n
    if rule in WEIGHTED and rng.random() < 0.6:
        weights = [float(f"{x:.3g}") for x in rng.uniform(0.1, 3, n)]
        words += ["--weights", ",".join(map(str, weights))]
    if has_base:
        words += ["--base", names[0]]
    words = ["merge", rule, *names[1:], *words, "--out", "out.safetensors"]
    os.chdir(folder)
    kvctl(*words)
    out = read("out.safetensors")
    if list(out) != list(files[1]):
        raise SystemExit(f"{' '.join(words)}: the keys {list(out)}")
    if out["whole"][0] != kind or (out["whole"][1] != whole).any():
        raise SystemExit(f"{' '.join(words)}: integers changed")
    for key, kind in keys.items():
        T = np.float64 if kind == "F64" else np.float32
        m = [of[key][1].astype(T) for of in files]
        if work in FINITE and not all(np.isfinite(x).all() for x in m):
            counts["left out"] = counts.get("left out", 0) + 1
            continue
        with np.errstate(all="ignore"):
            result = work(T, m[1:], m[0], [T(w) for w in weights], p)
        if out[key][0] != kind or out[key][1].shape != m[0].shape:
            raise SystemExit(f"{' '.join(words)}: {key} is {out[key][0]} {out[key][1].shape}")
        check_key(rule, f"seed {SEED}, round {number}: {' '.join(words)}: {key} {kind} "
                  f"{m[0].shape}", kind, out[key][1], result)


def random_round(rng, folder, number):
    """Few models, so that every combination of masks can be tried on every element."""
    rule = list(RANDOM)[number % len(RANDOM)]
    work, probability = RANDOM[rule]
    n, shape = int(rng.integers(1, 4)), [(10000,), (61, 64), (5, 4, 300)][number // 3 % 3]
    kind = str(rng.choice(["F64", "F32", "F16", "BF16"]))
    T = np.float64 if kind == "F64" else np.float32
    files = [numbers(rng, kind, shape, "normal", None)]
    files += [numbers(rng, kind, shape, "normal", files[0]) for _ in range(n)]
    names = ["base.safetensors"] + [f"m{i}.safetensors" for i in range(n)]
    for name, x in zip(names, files):
        write(os.path.join(folder, name), {"w": (kind, x)})
    p = {"density": float(f"{rng.uniform(0.3, 0.7):.3g}"), "scale": float(f"{rng.uniform(.5, 2):.3g}")}
    if rule == "della":
        p["epsilon"] = float(f"{rng.uniform(0, 0.25):.3g}")
    weights = [float(f"{x:.3g}") for x in rng.uniform(0.1, 3, n)]
    words = ["merge", rule, *names[1:], "--base", names[0], "--weights", ",".join(map(str, weights)),
             "--seed", str(number), "--out", "out.safetensors"]
    for name, value in p.items():
        words += [f"--{name}", str(value)]
    words += draw_normalize(rng, rule, p)
    os.chdir(folder)
    kvctl(*words)
    got = read("out.safetensors")["w"][1]
    m = [x.astype(T) for x in files]
    keep = [probability(T, x - m[0], p) for x in m[1:]]
    ok, first, others = np.zeros(shape, bool), [], []
    for code in range(1 << n):
        masks = [np.full(shape, bool(code >> i & 1)) for i in range(n)]
        want = work(T, m[1:], m[0], [T(x) for x in weights], p, masks, keep).astype(FLOATS[kind])
        ok |= got == want
        (first if code & 1 else others).append(got == want)
    what = f"seed {SEED}, round {number}: {' '.join(words)}: {kind} {shape}"
    if not ok.all():
        at = np.flatnonzero(~ok.ravel())[0]
        raise SystemExit(f"{what}: {np.count_nonzero(~ok)} of {ok.size} elements are no result of any "
                         f"mask; [{at}] is {got.ravel()[at]!r}")
    # Elements that tell whether the first model's was kept.
    with_first, without = np.any(first, axis=0), np.any(others, axis=0)
    if n == 1:
        told = with_first ^ without
        q = keep[0][told].astype(np.float64)
        z = (np.count_nonzero(with_first & told) - q.sum()) / math.sqrt((q * (1 - q)).sum())
        if abs(z) > SIGMAS:
            raise SystemExit(f"{what}: {z:+.1f} standard deviations from what is kept on average")
    counts[rule] = counts.get(rule, 0) + 1


def lora_round(rng, folder, number):
    kind = str(rng.choice(["F32", "F16", "BF16"]))
    rows, columns, r = (int(rng.integers(1, most)) for most in (400, 300, 70))
    prefix = str(rng.choice(["", "base_model.model."]))
    W, A, B = (numbers(rng, kind, shape, "normal", None)
               for shape in ((rows, columns), (r, columns), (rows, r)))
    other = numbers(rng, kind, (5,), "normal", None)
    write(os.path.join(folder, "base.safetensors"), {"l.weight": (kind, W), "o": (kind, other)})
    write(os.path.join(folder, "a.safetensors"), {f"{prefix}l.lora_A.weight": (kind, A),
                                                  f"{prefix}l.lora_B.weight": (kind, B)})
    scale = float(f"{rng.uniform(0.1, 3):.3g}")
    words = ["merge", "lora", "a.safetensors", "--base", "base.safetensors", "--scale", str(scale),
             "--out", "out.safetensors"]
    os.chdir(folder)
    kvctl(*words)
    out = read("out.safetensors")
    what = f"seed {SEED}, lora {number}: {kind} ({rows}, {r}, {columns})"
    if list(out) != ["l.weight", "o"] or out["o"][1].tobytes() != other.tobytes():
        raise SystemExit(f"{what}: the other keys changed")
    check_key("lora", what, kind, out["l.weight"][1], lora(np.float32, W, A, B, scale))


def main():
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            one_round(rng, folder, number)
            if number % 3 == 0:
                random_round(rng, folder, number // 3)
                lora_round(rng, folder, number // 3)
        os.chdir("/")
    print(f"{ROUNDS * 5 // 3} merges, keys that agree: {counts}")


main()
