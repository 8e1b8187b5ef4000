"""Federated averaging: clients train on their own data, and only weights leave them.

    python3 federated.py                             # five clients in one process
    kvctl launch -n 5 --python federated.py          # a process each

In each round every client makes some steps of its own from the common model, and the store adds up the models, weighted
by how many examples each client has (McMahan and others, Communication-efficient learning of deep networks from
decentralized data, arXiv:1602.05629). The data are the irises of examples/data, sorted by kind, so that no client
sees all kinds; what each would reach alone is printed beside the common model.
"""
import os
import sys

import numpy as np

import kvstore as mx

CLIENTS, ROUNDS, STEPS = 5, 60, 5

job = "OMPI_COMM_WORLD_SIZE" in os.environ
kv = mx.kv.create("dist_sync" if job else "local")
if job and kv.num_workers != CLIENTS:
    sys.exit(f"this example has {CLIENTS} clients: kvctl launch -n {CLIENTS} --python federated.py")

iris = np.loadtxt("data/iris.csv", delimiter=",", skiprows=1, dtype="float32")
iris = iris[np.argsort(iris[:, 2], kind="stable")]  # the length of a petal tells the kinds apart
features = (iris[:, 0:3] - iris[:, 0:3].mean(axis=0)) / iris[:, 0:3].std(axis=0)
x = np.hstack([features, np.ones((len(iris), 1), "float32")]).astype("float32")
y = iris[:, 3:4]
edges = [0, 15, 45, 80, 110, 150]  # unequal shares
here = [kv.rank] if job else range(CLIENTS)


def train(weight, client, steps):
    """The weights of a client after some steps of gradient descent on its own data."""
    part = slice(edges[client], edges[client + 1])
    for _ in range(steps):
        weight = weight - 0.1 * x[part].T @ (x[part] @ weight - y[part]) / (edges[client + 1] - edges[client])
    return weight


def loss(weight):
    """The sum of squares over the data of all clients."""
    return float(((x @ weight - y) ** 2).sum())


common = np.zeros((4, 1), "float32")
kv.init("model", common)
for _ in range(ROUNDS):
    share = [np.float32((edges[c + 1] - edges[c]) / len(x)) for c in here]
    kv.push("model", [w * train(common, c, STEPS) for w, c in zip(share, here)])
    kv.pull("model", out=common)

if kv.rank == 0:
    alone = [loss(train(np.zeros((4, 1), "float32"), c, ROUNDS * STEPS)) for c in range(CLIENTS)]
    print(f"common model: {loss(common):.2f}; clients alone: " + ", ".join(f"{x:.2f}" for x in alone))
    if loss(common) >= min(alone):
        sys.exit("the common model is no better than the best client")
