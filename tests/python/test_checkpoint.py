"""Checkpoints and pictures, by the tool."""
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import tempfile

import numpy as np

import kvstore as mx
from case import Case
from kvstore import adopt, checkpoint, tool


class Checkpoints(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.a, self.b = (os.path.join(self.folder.name, n) for n in ("a.safetensors", "b.safetensors"))
        self.values = {"w": np.arange(6, dtype="float32").reshape(2, 3), "odd [*] ? name": np.ones(3, "int64"),
                       "number": np.array(4, "float64"), "none": np.zeros((0, 2), "float32")}
        for path, more in ((self.a, 0), (self.b, 1)):
            kv = mx.kv.create()
            kv.init(list(self.values), [v + np.asarray(more, v.dtype) for v in self.values.values()])
            kv.save(path, arrays_only=True)

    def test_keys_that_look_like_paths_or_options(self):
        keys = ["a.safetensors", "a.npz", "a.kvs", "x/", "-x", "w*"]
        kv = mx.kv.create()
        kv.init(keys, [np.full(2, i, "float32") for i in range(len(keys))])
        path = os.path.join(self.folder.name, "keys.safetensors")
        kv.save(path, arrays_only=True)
        model = mx.open(path)
        for i, key in enumerate(keys):
            self.assertEqual(model[key].tolist(), [i, i])
        self.assertEqual(list(model.read()), keys)

    def test_tensors_by_name(self):
        m = mx.open(self.a)
        self.assertEqual(list(m), list(self.values))
        for key, value in self.values.items():
            self.assertTrue(np.array_equal(m[key], value) and m[key].dtype == value.dtype, key)
        self.assertEqual((len(m), "w" in m, "x" in m), (4, True, False))
        with self.assertRaises(KeyError):
            m["x"]
        self.fails("key", m.read, "w", "x")
        every = m.read()
        every["w"][0, 0] = 9  # memory of its own
        self.assertEqual((m["w"][0, 0], every["w"].sum()), (0, 24))
        self.assertEqual(m.info()[0], {"key": "w", "dtype": "F32", "shape": (2, 3), "bytes": 24})
        self.assertIn("<td>(2, 3)</td>", m._repr_html_())
        self.assertIn("4 keys", repr(m))

    def test_names_that_look_like_options_and_patterns(self):
        names = ["-x", "--all", "a\\b", "[-a]", "\\*", "-", "dtype=f16", "rename=s/x/y/"]
        kv = mx.kv.create()
        kv.init(names, [np.full(2, i, "float32") for i in range(len(names))])
        kv.save(self.a, arrays_only=True)
        m = mx.open(self.a)
        self.assertEqual([m[name][0] for name in names], list(range(len(names))))
        self.assertEqual(list(m.read()), names)

    def test_codes_with_scales_are_the_numbers_that_they_mean(self):
        kv = mx.kv.create()
        kv.init(["l.weight", "l.weight_scale", "i.weight", "i.weight_scale", "i", "n"],
                [np.array([1, 2, 448], "float32"), np.array(0.5, "float32"), np.array([[1, -2]], "int8"),
                 np.array([[0.5]], "float32"), np.array([3], "int8"), np.array([1, 2], "float32")])
        kv.save(self.a, arrays_only=True)
        codes = os.path.join(self.folder.name, "codes.safetensors")
        checkpoint.convert(self.a, codes, raw=True, dtype="[ln]*t=f8_e4m3")
        m = mx.open(codes)
        self.assertEqual(m.info()[0]["dtype"], "F8_E4M3")
        every = m.read()
        self.assertEqual(list(every), ["l.weight", "l.weight_scale", "i.weight", "i.weight_scale", "i", "n"])
        self.assertEqual([a.tolist() for a in every.values()], [[0.5, 1, 224], 0.5, [[0.5, -1]], [[0.5]], [3], [1, 2]])
        self.assertEqual([str(a.dtype) for a in every.values()], ["float32"] * 4 + ["int8", "float32"])
        self.assertEqual(m["l.weight"].tolist(), [0.5, 1, 224])
        self.assertEqual(m["l.weight_scale"].tolist(), 0.5)

    def test_what_is_read_goes_into_a_store(self):
        kv = mx.kv.create()
        tensors = mx.open(pathlib.Path(self.a)).read("w", "number")
        kv.init(list(tensors), list(tensors.values()))
        kv.push("w", [tensors["w"]] * 2)
        self.assertEqual(kv["w"].asnumpy().sum(), 30)

    def test_other_forms_and_dtypes(self):
        half, npz = os.path.join(self.folder.name, "half"), os.path.join(self.folder.name, "m.npz")
        os.mkdir(half)
        checkpoint.convert(self.a, half + "/", dtype="bf16", force=True)
        w = mx.open(half)["w"]
        self.assertEqual((w.dtype, w.tolist()), (adopt.bfloat16 or "float32", self.values["w"].tolist()))
        kv = mx.kv.create()
        kv.init("w", w)
        self.assertEqual(kv["w"].tolist(), self.values["w"].tolist())
        checkpoint.convert(self.a, npz, globs=("w",))
        self.assertEqual(list(mx.open(npz)), ["w"])
        self.assertEqual(np.load(npz)["w"].sum(), 15)

    def test_what_a_conversion_loses_is_told(self):
        kv = mx.kv.create()
        kv.init(["w", "v"], [np.array([1, 70000], "float32"), np.array([1], "float32")])
        kv.save(self.a, arrays_only=True)
        out = os.path.join(self.folder.name, "half.safetensors")
        for call in (lambda: checkpoint.convert(self.a, out, dtype="f16", force=True),
                     lambda: checkpoint.merge("average", self.a, self.a, out=out, dtype="f16", force=True)):
            with self.assertLogs("kvstore") as told:
                call()
            self.assertEqual(told.output, ["WARNING:kvstore:1 element of 1 key became inf (w)"])
        self.fails("value", checkpoint.convert, self.a, out, dtype="f16", force=True, strict=True)
        folder = os.path.join(self.folder.name, "m")
        os.mkdir(folder)
        os.rename(self.a, os.path.join(folder, "model.safetensors"))
        with open(os.path.join(folder, "config.json"), "w") as f:
            f.write("{}")
        with self.assertLogs("kvstore", "INFO") as told:
            checkpoint.convert(folder, os.path.join(self.folder.name, "copy") + "/")
        self.assertEqual(told.output, [f"INFO:kvstore:copied 1 file of {folder}/ (config.json)"])

    def test_diff_hash_stat_check_merge(self):
        self.assertEqual(checkpoint.diff(self.a, self.a), [])
        rows = checkpoint.diff(self.a, self.b)
        self.assertEqual({row["key"] for row in rows}, {"w", "odd [*] ? name", "number"})
        self.assertEqual(checkpoint.diff(self.a, self.b, atol=1.5), [])
        one, two = checkpoint.hash(self.a), checkpoint.hash(self.b)
        self.assertEqual((one["none"] == two["none"], one["w"] == two["w"]), (True, False))
        self.assertEqual(checkpoint.stat(self.a)[0]["max"], 5)
        self.assertEqual([row["key"] for row in checkpoint.check(self.a)], [])
        out = os.path.join(self.folder.name, "m.safetensors")
        m = checkpoint.merge("linear", self.a, self.b, out=out, weights=[0.25, 0.75], exclude="odd*")
        self.assertEqual(m["w"].tolist(), (self.values["w"] + 0.75).tolist())

    def test_paths_in_lists(self):
        out = os.path.join(self.folder.name, "m.safetensors")
        for models in ([[self.a, self.b]], [(self.a,), pathlib.Path(self.b)], [self.a, self.b]):
            m = checkpoint.merge("average", *models, out=out, exclude="odd*", force=True)
            self.assertEqual(m["w"].tolist(), (self.values["w"] + 0.5).tolist())
        checkpoint.convert([self.a], out, force=True)
        self.assertEqual(checkpoint.hash(out), checkpoint.hash(self.a))
        for call in (lambda: checkpoint.stat([self.a]), lambda: checkpoint.diff([self.a, self.b], self.b), lambda: checkpoint.ls([self.a]),
                     lambda: checkpoint.check([self.a]), lambda: checkpoint.hash([self.a])):
            self.assertRegex(self.fails("usage", call).text, "^one checkpoint, not a list of [12]$")

    def test_names(self):
        self.assertEqual(checkpoint.ls(self.a), mx.open(self.a).info())
        with self.assertRaisesRegex(AttributeError, "kvstore.checkpoint has no info: it has open, ls, diff.*kvctl help checkpoints"):
            checkpoint.info
        with self.assertRaisesRegex(AttributeError, "did you mean merge?"):
            checkpoint.merg

    def test_patch_and_apply(self):
        first, both, out = (os.path.join(self.folder.name, n) for n in ("1.patch", "all.patch", "out.safetensors"))
        row = checkpoint.patch(self.a, pathlib.Path(self.b), out=first)
        self.assertEqual([row[n] for n in ("changed", "new", "gone", "same", "elements")], [3, 0, 0, 1, 10])
        second = os.path.join(self.folder.name, "2.patch")
        checkpoint.patch([self.b, self.a], out=second)
        checkpoint.patch(first, second, out=both, chain=True)
        self.assertEqual(checkpoint.apply(first, self.a, out=pathlib.Path(out))["w"].tolist(), mx.open(self.b)["w"].tolist())
        self.assertEqual(checkpoint.diff(out, self.b), [])
        checkpoint.apply([both], self.a, out=out, force=True)
        self.assertEqual(checkpoint.diff(out, self.a), [])
        self.assertEqual(checkpoint.apply(first, out, in_place=True)["number"], 5)
        self.assertEqual(checkpoint.diff(out, self.b), [])
        self.assertIn("was made from", self.fails("assert", checkpoint.apply, first, self.b, out=out).text)
        self.fails("usage", checkpoint.apply, first, self.a)

    def test_every_command_on_checkpoints_is_a_function(self):
        page = subprocess.run([tool.path(), "help", "checkpoints"], capture_output=True, text=True).stdout
        commands = re.findall(r"^    (\w+) ", page.partition("## Commands")[2].partition("##")[0], re.M)
        self.assertGreater(len(commands), 8)
        # a store is saved by kv.save
        self.assertEqual(set(commands) - {"save"} - set(checkpoint.__all__), set())

    def test_a_module_shows_what_it_has(self):
        for module in (mx.checkpoint, mx.nd, mx.nd.sparse, mx.random, mx.np, mx.npx, mx.kv, mx.optimizer, mx.lr_scheduler):
            self.assertEqual(dir(module), sorted(module.__all__), module.__name__)
            for name in module.__all__:
                getattr(module, name)
        self.assertEqual([n for n in dir(mx) if n in ("os", "sys", "atexit", "tool")], [])
        for name in dir(mx):
            getattr(mx, name)

    def test_errors(self):
        self.assertIn("No such file", str(self.fails("io", mx.open, os.path.join(self.folder.name, "none"))))
        e = self.fails("usage", checkpoint.merge, "averag", self.a, self.b, out=self.b)
        self.assertEqual(pickle.loads(pickle.dumps(e)).text, e.text)
        self.fails("io", checkpoint.diff, self.a, "-c")
        with open(self.a, "r+b") as f:
            f.truncate(50)
        self.fails("format", mx.open, self.a)

    def test_without_the_tool(self):
        from unittest import mock
        self.addCleanup(tool.path.cache_clear)
        other = os.path.join(os.path.dirname(self.a), "kvctl")
        with open(other, "w") as f:
            f.write("#!/bin/sh\necho kvctl 0.0.9, libkvstore 0.0.9\n")
        os.chmod(other, 0o755)
        for found, text in ((None, "there is no kvctl, which works on checkpoints"),
                            (other, f"{other} is kvctl 0.0.9, and this module is {mx.__version__}")):
            tool.path.cache_clear()
            with mock.patch("os.access", return_value=False), mock.patch("shutil.which", return_value=found):
                self.assertEqual(self.fails("unsupported", mx.open, self.a).text, text)
        self.assertTrue(tool.path().endswith("kvctl"))

    def test_pictures(self):
        if not shutil.which("gnuplot"):
            self.skipTest("there is no gnuplot")
        for kind, values in (("line", [np.arange(9), [3, 2, 1]]), ("heat", [np.ones((3, 4))]), ("hist", [np.ones(50)])):
            self.assertIn("</svg>", mx.plot(*values, kind=kind)._repr_svg_())
        self.assertEqual(*(mx.plot(mx.nd.array([1, 2.5, -3], dtype=kind)) for kind in ("bfloat16", "float32")))
        self.fails("value", mx.plot, [1], kind="pie")
