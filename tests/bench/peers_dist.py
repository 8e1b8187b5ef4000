"""The types of several machines beside MXNet's dist_sync and PyTorch's Gloo, in turns, on this machine.

    peers_dist.py LIBRARY KVCTL [--only sync-W1,sum-4KB] [--runs N] [--quick]

A side is a job: its ranks, and what serves them. Both jobs of a comparison are started once and live
until it is over; the one whose turn it is not, sleeps. Every rank that calls the store has a socket
to this program, which has the ranks fill their values, lets them all go at once, and takes the
slowest rank's time: until all results are there. Then every element must be what the closed form
says, in each turn of each side.

Ours are ranks of Open MPI that call the library through its C interface from Python, as the peers
are called from Python too. MXNet has its scheduler, a server and a worker, Gloo two ranks, both on
the loopback address. Every form of a peer is tried, as in peers.py. No answer is waited for longer
than ANSWER_S seconds, and what a comparison has started ends with it.
"""
import argparse
import ctypes
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import peers
from library import Library, size
from peers import SideFailed

# ---- Cases ----------------------------------------------------------------------------------------


class Case:
    """One row of the table: `calls` calls of this type are timed together, or some series of them."""

    def __init__(self, name, what, store, shapes, calls, peer, bar):
        self.name, self.what, self.store, self.shapes = name, what, store, shapes
        self.calls, self.peer, self.bars = calls, peer, {peer: bar}
        self.workers, self.servers = (1, 1) if store == "dist_sync" else (2, 0)
        self.in_place = self.workers > 1  # a sum takes the place of the values

    def __str__(self):
        return self.what

    def expected(self, x, calls):
        """Of every element after so many calls: rank r gives x (r + 1)."""
        if not self.in_place:
            return x
        return x * sum(r + 1 for r in range(self.workers)) * self.workers ** (calls - 1)


SMALL = [(1024,)]
SERIES = 10
CALLS = 100  # of a series; in place each doubles the values: float32 holds 2^100 times the first sum


def make_cases(quick):
    resnet = peers.shapes_of("W1", quick)
    many = peers.shapes_of("W4", quick)
    whole = [(sum(size(s) for s in resnet),)]
    return [
        Case("sync-W1", "dist_sync, W1, 1 worker and 1 server", "dist_sync", resnet, 1, "MXNet", 4),
        Case("sync-4KB", "dist_sync, 4 KB, one behind the other", "dist_sync", SMALL, CALLS, "MXNet",
             25),
        Case("sync-W4", f"dist_sync, {len(many)} keys of 16 floats", "dist_sync", many, 1, "MXNet",
             50),
        Case("sum-W1", "horovod, W1, 2 ranks", "horovod", resnet, 1, "PyTorch", 3.5),
        Case("sum-flat", "horovod, one array as large as W1", "horovod", whole, 1, "PyTorch", None),
        Case("sum-4KB", "horovod, 4 KB, one behind the other", "horovod", SMALL, CALLS, "PyTorch",
             None),
    ]


# ---- Ranks ----------------------------------------------------------------------------------------
# A rank makes its arrays in its constructor; forms() names the ways to make the call. fill() gives
# all values a number, one of NUMBERS times rank + 1, and check() looks at all results. What a store
# has to bring back differs in each turn from what it brought in the one before; where sums take the
# place of the values, they must be written anew.

NUMBERS = 0.125, 0.25


class Ours:
    def __init__(self, case, rank):
        self.case, n = case, len(case.shapes)
        self.lib = Library(os.environ["PEERS_LIBRARY"], case.store)
        self.counts = [size(s) for s in case.shapes]
        self.keys, self.n = self.lib.key_list(n, 1), ctypes.c_int64(n)
        self.values = self.outs = self.arrays(0)
        if not case.in_place:
            self.filled = {x: self.arrays(x) for x in NUMBERS}
            self.lib.call("kv_init", self.lib.store, self.keys, self.n, self.outs, None)

    def arrays(self, x):
        made = [self.lib.array(s, x) for s in self.case.shapes]
        return (ctypes.c_void_p * len(made))(*made)

    def fill(self, x):
        if not self.case.in_place:
            self.values = self.filled[x]
            return
        for a, n in zip(self.values, self.counts):
            self.lib.write(a, n, x)

    def run(self):
        self.lib.call("kv_pushpull", self.lib.store, self.keys, self.n, self.values, self.keys,
                      self.n, self.outs, None)
        self.lib.call("kv_wait", self.lib.store)

    def forms(self):
        return [("pushpull", self.run)]

    def check(self, x):
        item = self.lib.scalar(x)
        return all(self.lib.read(a, n) == item * n for a, n in zip(self.outs, self.counts))

    def close(self):
        self.lib.lib.kv_free(self.lib.store)


class MXNet:
    def __init__(self, case, rank):
        import mxnet
        self.mx, nd = mxnet, mxnet.nd
        self.keys = list(range(len(case.shapes)))
        self.kv = mxnet.kv.create(case.store)
        self.filled = {x: [nd.full(s, x) for s in case.shapes] for x in NUMBERS}
        self.values = None
        self.outs = [nd.zeros(s) for s in case.shapes]
        self.kv.init(self.keys, self.outs)

    def fill(self, x):
        self.values = self.filled[x]

    def pushpull(self):
        self.kv.pushpull(self.keys, self.values, out=self.outs)
        self.mx.nd.waitall()

    def push_pull(self):
        self.kv.push(self.keys, self.values)
        self.kv.pull(self.keys, out=self.outs)
        self.mx.nd.waitall()

    def loop(self):
        for key, value in zip(self.keys, self.values):
            self.kv.push(key, value, priority=-key)
        for key, out in zip(self.keys, self.outs):
            self.kv.pull(key, out=out, priority=-key)
        self.mx.nd.waitall()

    def forms(self):
        forms = [("pushpull", self.pushpull), ("push,pull", self.push_pull), ("loop", self.loop)]
        few = 1 < len(self.keys) < 10000  # a call with very many takes seconds in each form
        return forms if few else forms[:1]

    def check(self, x):
        return all((a.asnumpy() == x).all() for a in self.outs)

    def close(self):
        del self.kv


class PyTorch:
    def __init__(self, case, rank):
        import torch
        import torch.distributed
        self.dist, where = torch.distributed, os.environ["PEERS_SOCKET"] + ".gloo"
        self.dist.init_process_group("gloo", init_method=f"file://{where}", rank=rank,
                                     world_size=case.workers)
        self.values = [torch.zeros(s) for s in case.shapes]

    def fill(self, x):
        for a in self.values:
            a.fill_(x)

    def loop(self):
        for a in self.values:
            self.dist.all_reduce(a)

    def together(self):
        for work in [self.dist.all_reduce(a, async_op=True) for a in self.values]:
            work.wait()

    def coalesced(self):
        self.dist.all_reduce_coalesced(self.values)

    def forms(self):
        if len(self.values) == 1:
            return [("all_reduce", self.loop)]
        return [("loop", self.loop), ("async", self.together), ("coalesced", self.coalesced)]

    def check(self, x):
        return all((a == x).all().item() for a in self.values)

    def close(self):
        self.dist.destroy_process_group()


RANKS = {"ours": Ours, "PyTorch": PyTorch, "MXNet": MXNet}


def seconds(run, calls):
    begun = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begun) / calls


def series(side, run, calls, x):
    for _ in range(SERIES):
        side.fill(x)
        run()  # not timed: ranks begin at different times, which is little of one long call only
        yield seconds(run, calls)


def answers(side, case, rank, asked):
    """For each line asked, what to answer."""
    forms = side.forms()
    yield " ".join(name for name, _ in forms)
    for line in asked:
        word, *rest = line.split()
        if word == "fill":
            run, x = forms[int(rest[0])][1], float(rest[1])
            side.fill(x * (rank + 1))
            yield "filled"
        elif word == "go":
            yield seconds(run, 1) if case.calls == 1 else \
                statistics.median(series(side, run, case.calls, x * (rank + 1)))
        elif word == "check":
            good = side.check(case.expected(x, case.calls + (case.calls > 1)))
            yield "right" if good else "wrong"


def serve(name, case):
    """A rank, until the socket is closed at the other end."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PEERS_RANK", "0")))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(os.environ["PEERS_SOCKET"])
        asked, said = link.makefile("r"), link.makefile("w")
        print(rank, file=said, flush=True)
        try:
            side = RANKS[name](case, rank)
            for answer in answers(side, case, rank, asked):
                print("ok", answer, file=said, flush=True)
            side.close()
        except (RuntimeError, ImportError) as why:
            print("failed", str(why).strip().splitlines()[-1], file=said, flush=True)
            raise


# ---- A job ----------------------------------------------------------------------------------------

ANSWER_S, END_S = 60, 10


def rank_words(name, case, quick):
    words = [sys.executable, os.path.abspath(__file__), "--serve", name, case.name]
    return words + ["--quick"] * quick


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def jobs(name, case, quick):
    """What to start: words, and what the environment has in addition."""
    words = rank_words(name, case, quick)
    if name == "PyTorch":
        return [(words, {"PEERS_RANK": str(r), "GLOO_SOCKET_IFNAME": "lo"})
                for r in range(case.workers)]
    if name == "MXNet":
        net = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()),
               "DMLC_NUM_WORKER": str(case.workers), "DMLC_NUM_SERVER": str(case.servers),
               "DMLC_NODE_HOST": "127.0.0.1"}
        serving = [sys.executable, "-c", "import mxnet"]  # which serves, in these roles
        return [(serving, net | {"DMLC_ROLE": "scheduler"}),
                (serving, net | {"DMLC_ROLE": "server"}), (words, net | {"DMLC_ROLE": "worker"})]
    rank = os.path.join(os.path.dirname(__file__), "..", "dist", "rank")
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(case.workers + case.servers),
              rank, os.environ["PEERS_KVCTL"]] + words
    return [(mpirun, {"KVSTORE_SERVERS": str(case.servers), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})]


class Job:
    """The ranks of one side, and their sockets."""

    def __init__(self, name, case, quick, folder):
        self.name, self.case, self.turn = name, case, 0
        self.processes, self.links = [], []
        self.said = open(os.path.join(folder, f"{name}.log"), "w+", encoding="utf-8")
        try:
            self.start(jobs(name, case, quick), os.path.join(folder, name))
            self.forms = self.answers()[0].split()
        except BaseException:
            self.close()
            raise

    def start(self, job, path):
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(path)
            door.listen(self.case.workers)
            for words, env in job:
                self.processes.append(subprocess.Popen(
                    words, env=os.environ | env | {"PEERS_SOCKET": path}, stdin=subprocess.DEVNULL,
                    stdout=self.said, stderr=self.said, start_new_session=True))
            found = {}
            while len(found) < self.case.workers:
                link = self.accept(door).makefile("rw")
                found[int(link.readline())] = link
            self.links = [found[r] for r in sorted(found)]

    def accept(self, door):
        door.settimeout(1)
        for _ in range(ANSWER_S):
            try:
                link = door.accept()[0]
                link.settimeout(ANSWER_S)
                return link
            except TimeoutError:
                if any(p.poll() for p in self.processes):
                    break
        raise SideFailed(f"{self.name}: {self.last_words('a rank did not start')}")

    def last_words(self, otherwise):
        self.said.seek(0)
        lines = [line.strip() for line in self.said if line.strip()]
        return lines[-1] if lines else otherwise

    def answers(self):
        try:
            lines = [link.readline().strip() for link in self.links]
        except TimeoutError:
            raise SideFailed(f"{self.name}: no answer for {ANSWER_S} seconds") from None
        for line in lines:
            if not line.startswith("ok "):
                why = line.removeprefix("failed ") or self.last_words("a rank ended")
                raise SideFailed(f"{self.name}: {why}")
        return [line[3:] for line in lines]

    def ask(self, text):
        for link in self.links:
            try:
                print(text, file=link, flush=True)
            except BrokenPipeError:
                pass  # the answer says why
        return self.answers()

    def time(self, form):
        self.turn += 1
        self.ask(f"fill {form} {NUMBERS[self.turn % 2]}")
        time.sleep(peers.PAUSE)
        taken = max(float(s) for s in self.ask("go"))
        if set(self.ask("check")) != {"right"}:
            raise SideFailed(f"{self.name} ({self.forms[form]}): a result is wrong")
        return taken

    best_form = peers.Side.best_form

    def close(self):
        """The ranks end when their sockets do, and with them who serves."""
        for link in self.links:
            link.close()
        for how in None, signal.SIGTERM, signal.SIGKILL:
            until = time.monotonic() + END_S
            for process in self.processes:
                if how and process.poll() is None:
                    os.killpg(process.pid, how)
            while any(p.poll() is None for p in self.processes) and time.monotonic() < until:
                time.sleep(0.05)
        self.said.close()


# ---- The program ----------------------------------------------------------------------------------


def compare(case, runs, quick):
    """The pairs, or None where a side failed, which is said."""
    sides = []
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        try:
            for name in case.peer, "ours":
                sides.append(Job(name, case, quick, folder))
            found = peers.take_turns(sides[1], sides[0], runs)
        except SideFailed as why:
            print(f"{case}, {why}", flush=True)
            return None
        finally:
            for side in sides:
                side.close()
    print(f"{case}, {case.peer} ({found.form}): " + " ".join(f"{r:.2f}" for r in found.ratios),
          flush=True)
    return found


class Table(peers.Table):
    def line(self, case, found):
        if not found:
            return f"| {case} | - | - | {case.peer} |"
        reached = self.cell(case, case.peer, found.ratio, "")
        return f"| {case} | {milliseconds(found.ours)} | {milliseconds(found.theirs)} | " \
            f"{case.peer} {found.form} | {reached} |"

    def show(self, rows):
        print("\n| what | ours, ms | theirs, ms | peer | × |\n|---|---:|---:|---|---|")
        for row in rows:
            print(self.line(*row))
        self.verdict()


def milliseconds(s):
    return f"{s * 1e3:.4f}" if s < 1e-3 else f"{s * 1e3:.2f}"


def arguments():
    names = [case.name for case in make_cases(True)]
    parser = argparse.ArgumentParser(prog="scripts/peers --dist")
    parser.add_argument("library", help=argparse.SUPPRESS)
    parser.add_argument("kvctl", help=argparse.SUPPRESS)
    parser.add_argument("--only", default=",".join(names), help=f"with commas: {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=15, help="pairs at most, 15 without it")
    parser.add_argument("--quick", action="store_true", help="small arrays: shows that it runs")
    asked = parser.parse_args()
    asked.only = asked.only.split(",")
    for name in asked.only:
        if name not in names:
            parser.error(f"there is no comparison {name}: {', '.join(names)}")
    if asked.runs < 1:
        parser.error("a comparison needs at least 1 run")
    return asked


def ended(*_):
    raise SystemExit(143)  # the jobs are closed on the way out


def main():
    signal.signal(signal.SIGTERM, ended)
    quick = "--quick" in sys.argv
    cases = {case.name: case for case in make_cases(quick)}
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], cases[sys.argv[3]])
        return 0
    asked = arguments()
    os.environ["PEERS_LIBRARY"] = os.path.abspath(asked.library)
    os.environ["PEERS_KVCTL"] = os.path.abspath(asked.kvctl)
    chosen = [cases[name] for name in asked.only]
    there = peers.available(dict.fromkeys(case.peer for case in chosen))
    rows = [(case, compare(case, 3 if quick else asked.runs, quick) if case.peer in there else None)
            for case in chosen]
    Table(not quick).show(rows)
    return 0 if all(found for _, found in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
