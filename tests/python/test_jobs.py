"""Programs of Python as workers of jobs, and the examples."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_process import INTERRUPT

TOP = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("KVCTL_BUILD", TOP / "build"))


def run(*words, cwd=None, code=0, test=None, **variables):
    """What the words print. python3 is the one of these tests, kvctl that of the build folder."""
    with tempfile.TemporaryDirectory() as path:
        os.symlink(sys.executable, os.path.join(path, "python3"))
        env = {**os.environ, "PATH": f"{path}:{BUILD}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
        done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)
    if test:
        test.assertEqual(done.returncode, code, done.stdout)
    return done.stdout


class Examples(unittest.TestCase):
    def test_train_in_one_process_has_the_loss_of_the_script(self):
        ours = run("python3", "train.py", cwd=TOP / "examples", test=self)
        script = run("kvctl", "-q", "train.kv", cwd=TOP / "examples", test=self)
        self.assertEqual(ours, "loss 5.3803, workers: 1\n")
        self.assertIn("loss 5.3803\n", script)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no torch")
    def test_train_a_model_of_pytorch(self):
        self.assertEqual(run("python3", "train_torch.py", cwd=TOP / "examples", test=self), "loss 5.3803, workers: 1\n")

    def test_federated(self):
        self.assertIn("common model: 5.51;", run("python3", "federated.py", cwd=TOP / "examples", test=self))


@unittest.skipUnless(shutil.which("mpirun") and (BUILD / "kvstore_mpi.so").exists(), "there is no Open MPI")
class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, text):
        path = pathlib.Path(self.folder.name, "job.py")
        path.write_text("import sys, numpy as np, kvstore as mx\n" + text)
        return str(path)

    def job(self, *words, code=0, **more):
        return run("kvctl", "launch", *words, cwd=self.folder.name, code=code, test=self, **more)

    def test_train_as_a_job_has_the_loss_of_the_script(self):
        ours = run("kvctl", "launch", "-n", "2", "-s", "1", "--python", "train.py", cwd=TOP / "examples", test=self)
        script = run("kvctl", "launch", "-n", "2", "-s", "1", "train-dist.kv", cwd=TOP / "examples", test=self)
        self.assertEqual(ours, "[0] loss 5.3803, workers: 2\n")
        self.assertEqual(ours, script)

    def test_train_goes_on_from_a_checkpoint(self):
        for name in ("train.py", "data"):
            os.symlink(TOP / "examples" / name, os.path.join(self.folder.name, name))
        words = ["-n", "2", "--checkpoint", "c.kvs", "--checkpoint-every", "50", "--max-restarts", "1", "--python", "train.py"]
        for _ in range(2):  # the second has no rounds left
            self.assertIn("[0] loss 5.3803, workers: 2\n", self.job(*words))

    def test_federated_as_a_job(self):
        self.assertIn("common model: 5.51;",
                      run("kvctl", "launch", "-n", "5", "--python", "federated.py", cwd=TOP / "examples", test=self))

    def test_mpirun_alone(self):
        # where a machine has no network, Open MPI 5 says so of TCP
        out = run("mpirun", "--oversubscribe", "--mca", "btl", "^tcp", "-n", "2", "python3", "train.py", cwd=TOP / "examples",
                  test=self)
        self.assertEqual(out, "loss 5.3803, workers: 2\n")

    def test_numbers_before_a_store_joins_the_ranks(self):
        path = self.program("""
numbers = mx.kv.rank(), mx.kv.num_workers()
local = mx.kv.create("local")
if len(sys.argv) > 1:
    kv = mx.kv.create("dist_sync")
    assert numbers == (kv.rank, kv.num_workers) == (kv.rank, 2)
elif numbers[0] == 1:
    print(*numbers, local.rank, local.num_workers)
""")
        self.assertEqual(self.job("-n", "2", "-s", "1", "--python", path, "joins"), "")
        said = self.job("-n", "2", "--python", path).splitlines()
        note = "[0] note: 2 ranks ran alone: create('dist_sync') joins them"
        self.assertIn("[1] 1 2 0 1", said)
        self.assertLessEqual(set(said), {"[1] 1 2 0 1", note})

    def test_an_optimizer_that_changes_under_way(self):
        path = self.program("""
kv = mx.kv.create("dist_sync")
kv.init(0, np.zeros(1))
o = mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0))
kv.set_optimizer(o)
got = []
def step():
    kv.push(0, np.ones(1))
    kv.barrier()
    got.append(kv[0].item())
    kv.barrier()
step()
o.rescale_grad = 0.25
step()
o.lr_scheduler.base_lr = 4
o.set_lr_mult({0: 0.5})
step()
o.wd = 0
step()
print(got, o.num_update, o.learning_rate)
class Own(mx.lr_scheduler.LRScheduler):
    def __call__(self, n):
        return 1
try:
    kv.set_optimizer(mx.optimizer.SGD(lr_scheduler=Own()))
except mx.KVError as e:
    print(e.code)
kv.barrier()
""")
        out = self.job("-n", "2", "-s", "2", "--python", path)
        self.assertEqual(out.count("[-2.0, -2.25, -2.75, -3.0] 4 1.0"), 2, out)
        self.assertEqual(out.count("unsupported"), 2, out)

    def test_waits_for_other_ranks_end_on_ctrl_c(self):
        """Rank 1 comes when rank 0 was interrupted; then both go on."""
        path = self.program(INTERRUPT + """
kv = mx.kv.create("dist_sync")
kv.init([0, 1], [np.zeros(4), np.zeros(1 << 20)])
kv.barrier()
n = 0
def meet(call, other):
    global n
    n += 1
    if kv.rank == 0:
        soon(call)
        open(f"go-{n}", "w").close()
    else:
        while not os.path.exists(f"go-{n}"):
            time.sleep(0.01)
        other()
ones, many = np.ones(4), np.ones(1 << 20)
meet(kv.barrier, kv.barrier)
if kv.rank == 0:
    kv.push(0, ones)
meet(lambda: kv.pull(0, np.empty(4)), lambda: kv.push(0, ones))
gc.collect()
if kv.rank == 0:
    kv.push(0, ones)
meet(lambda: kv[0], lambda: kv.push(0, ones))
for key, a in ((0, ones), (1, many)):
    meet(lambda: kv.pushpull(key, a.copy(), np.empty_like(a)), lambda: kv.pushpull(key, a, np.empty_like(a)))
meet(lambda: kv.push(1, many.copy()), lambda: kv.push(1, many))
if kv.rank == 0:
    kv.push(0, ones)
    kv.pull(0, np.empty(4), wait=False)
meet(kv.wait, lambda: kv.push(0, ones))
kv.barrier()
kv.push([0, 1], [ones, many])
print(kv[0].asnumpy().tolist(), (kv[1].asnumpy() == 2).all())
""")
        out = self.job("-n", "2", "--python", path)
        self.assertEqual(out.count("[2.0, 2.0, 2.0, 2.0] True"), 2, out)

    def test_attach_says_that_python_has_no_prompt(self):
        path = self.program("""
import subprocess
said = "not begun"
while "not begun" in said:
    said = subprocess.run(["kvctl", "attach", "pj", "-c", "rounds"], capture_output=True, text=True).stderr
print(said)
""")
        out = self.job("-n", "1", "--name", "pj", "--python", path, KVCTL_JOBS=self.folder.name + "/jobs")
        self.assertIn('worker 0 runs Python, which has no prompt: kv.describe("rounds") in the program says', out)

    def test_create_ends_on_ctrl_c(self):
        path = self.program(INTERRUPT + """
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    soon(lambda: mx.kv.create("dist_sync"))
    open("go", "w").close()
else:
    while not os.path.exists("go"):
        time.sleep(0.01)
os._exit(0)
""")
        self.job("-n", "2", "--python", path)

    def test_a_job_that_hangs_says_so_while_it_hangs(self):
        path = self.program("""
import os, threading, time
def end():  # 7 s after the store is there, whatever the others do
    time.sleep(7)
    print("the end", flush=True)
    os._exit(0)
kv = mx.kv.create(sys.argv[1])
threading.Thread(target=end, daemon=True).start()
if sys.argv[2] == "barrier" and kv.rank == 0:
    kv.barrier()
elif sys.argv[2] == "keys":
    kv.pushpull("ab"[kv.rank], np.ones(4), np.zeros(4))
time.sleep(9)
""")
        for name, what, text in (("dist_sync", "barrier", "a barrier has ranks 0 and lacks 1; 5 s so far"),
                                 ("horovod", "keys", 'round 1 of key "[ab]" has ranks [01] and lacks [01]; 5 s so far')):
            out = self.job("-n", "2", "--python", path, name, what)
            self.assertRegex(out.partition("the end")[0], text)

    def test_a_deadlock_is_ended_with_the_place_of_each_rank(self):
        path = self.program("""
kv = mx.kv.create("dist_sync")
kv.init("w", np.ones(2, "float32"))
def meet():
    kv.barrier()  # place 0
if kv.rank == 0:
    meet()
kv.push("w", np.ones(2, "float32"))
kv.pull("w", np.zeros(2, "float32"))  # place 1
""")
        lines = pathlib.Path(path).read_text().split("\n")
        at = [next(i for i, line in enumerate(lines, 1) if f"# place {r}" in line) for r in range(2)]
        name = os.path.basename(path)
        self.assertIn(f"kvctl: deadlock: all ranks wait for each other; rank 0: barrier, {name}:{at[0]}; "
                      f"rank 1: pull w, round 1 lacks rank 0, {name}:{at[1]}\n",
                      self.job("-n", "2", "--python", path, code=6))

    def test_local_ranks_dead_nodes_and_classes(self):
        path = self.program("""
for name in sys.argv[1:]:
    kv = mx.kv.create(name)
    print(type(kv).__name__, kv.local_rank, kv.get_num_dead_node(6), kv.get_num_dead_node(4, -2), kv.get_num_dead_node(2, -2),
          kv.get_num_dead_node(1, -2), type(kv).is_capable("optimizer"))
    try:
        kv.set_optimizer(mx.optimizer.SGD())
    except NotImplementedError as e:
        print(e.code, type(kv).__name__)
    kv.barrier()
""")
        out = self.job("-n", "3", "--python", path, "Horovod", "byteps", "dist_sync")
        for cls, can in (("Horovod", False), ("BytePS", False), ("KVStore", True)):
            for r in range(3):
                self.assertRegex(out, f"{cls} {r} 0 3 {3 if can else '[0-3]'} 0 {can}")
            self.assertEqual(out.count(f"unsupported {cls}"), 0 if can else 3, out)
        out = self.job("-n", "2", "-s", "1", "--python", path, "dist_sync")
        self.assertRegex(out, "KVStore 1 0 [12] 1 0 True")

    def test_sums_of_workers_and_arguments(self):
        path = self.program("""
kv = mx.kv.create("dist_sync")
kv.init(["a", "b"], [np.zeros(3, "float32"), np.zeros((1200, 1200), "float32")])
outs = [np.zeros(3, "float32"), np.zeros((1200, 1200), "float32")]
for i in range(3):
    kv.push(["a", "b"], [np.full(3, kv.rank + 1, "float32"), np.full((1200, 1200), kv.rank + 1, "float32")])
    kv.pull(["a", "b"], outs)
assert all((o == 6).all() for o in outs), outs
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
kv.push("a", np.ones(3, "float32"))
kv.pull("a", outs[0])
assert (outs[0] == 4.5).all(), outs[0]
kv.barrier()
print(kv.type, kv.num_workers, sys.argv[1:], sorted(row["rank"] for row in kv.describe("cluster")))
""")
        out = self.job("-n", "3", "-s", "1", "--python", path, "x", "--y")
        self.assertEqual(sorted(out.splitlines()), [f"[{i}] dist_sync 3 ['x', '--y'] [0, 1, 2, 3]" for i in range(3)])

    def test_rows_a_broadcast_no_updater_and_a_child(self):
        path = self.program("""
import os
kv = mx.kv.create("dist_sync")
out = np.zeros(4, "float32")
kv.broadcast("w", np.full(4, 7 + kv.rank, "float32"), out=out)
assert (out == 7).all(), out
kv.init("e", mx.nd.ones((6, 2)).tostype("row_sparse"))
kv.push("e", mx.nd.sparse.row_sparse_array(([[1, 1]], [kv.rank]), shape=(6, 2)))
rows = mx.nd.sparse.zeros("row_sparse", (6, 2))
kv.row_sparse_pull("e", out=rows, row_ids=np.array([0, 1, 5]))
print(rows.asnumpy()[:, 0].tolist())
try:
    kv._set_updater(lambda key, input, stored: None)
except mx.KVError as e:
    print(e.code)
pid = os.fork()
if pid == 0:
    try:
        kv.push("w", out)
    except mx.KVError as e:
        text = "this store of several machines belongs to the process that forked this one"
        os._exit(7 if (e.code, e.text) == ("unsupported", text) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
kv.push("w", np.ones(4, "float32"))
print(kv["w"].asnumpy())
""")
        out = self.job("-n", "2", "--python", path)
        for line in "[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]", "unsupported", "[2. 2. 2. 2.]":
            self.assertEqual(out.count(line), 2, out)

    def test_a_worker_that_raises_ends_the_job(self):
        path = self.program("""
kv = mx.kv.create("dist_sync")
kv.init("w", np.zeros(4, "float32"))
if kv.rank == 1:
    raise ValueError("one")
kv.push("w", np.zeros(4, "float32"))
kv.pull("w", np.zeros(4, "float32"))
""")
        out = self.job("-n", "2", "-s", "1", "--python", path, code=1)
        self.assertRegex(out, r"kvctl: (rank 1 \(worker\)|2 ranks) ended with exit code 1\n")
        self.assertIn("[1] ValueError: one\n", out)
        self.assertIn("[0] kvstore.errors.KVError: rank 1 (worker) ended with exit code 1\n", out)

    def test_a_worker_that_is_killed_ends_the_job(self):
        path = self.program("""
import os, signal
kv = mx.kv.create("dist_sync")
kv.init("w", np.zeros(4, "float32"))
if kv.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
kv.push("w", np.zeros(4, "float32"))
kv.barrier()
""")
        self.assertIn("rank 1 (worker) was killed by signal 9", self.job("-n", "2", "--python", path, code=6))

    def test_what_launch_refuses(self):
        self.assertIn("kvctl: error[unsupported]: /no/python cannot be started: No such file or directory",
                      self.job("-n", "1", "--python", self.program(""), code=4, KVCTL_PYTHON="/no/python"))
        self.assertEqual(self.job("-n", "2", "--python", "none.py", code=5), 'kvctl: error[io]: cannot read "none.py": No such file or directory\n')
        self.assertIn("launch: --python needs a FILE, not \"-c\"\n", self.job("-n", "2", "--python", "-c", "x", code=2))
        self.assertIn("--python is for the launchers local, mpi and ssh, and this is slurm\n",
                      self.job("-n", "2", "--launcher", "slurm", "--python", "x.py", code=2))
        self.assertIn("kvctl launch-rank --python job.py a\n",
                      self.job("-n", "2", "--dry-run", "--python", os.path.basename(self.program("")), "a"))
