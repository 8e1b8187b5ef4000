"""Data-parallel training in Python: the regression of train-dist.kv, with the same losses.

    python3 train.py                                 # one process, whose store is local
    kvctl launch -n 4 -s 2 --python train.py         # four workers, two servers
    mpirun -n 4 python3 train.py                     # without launch; the workers keep the keys, too
    kvctl launch -n 4 --checkpoint c.kvs --checkpoint-every 50 --max-restarts 3 --python train.py

Each worker holds the flowers whose number, divided by the number of workers, leaves its rank as remainder. It pushes the
gradient of its part; the store adds up those of all workers and makes one step of gradient descent; a pull writes the
same new weights into the arrays of every worker. Nothing is copied on the way: gradients and weights are arrays of NumPy.
"""
import os
import sys

import numpy as np

import kvstore as mx

job = "OMPI_COMM_WORLD_SIZE" in os.environ
kv = mx.kv.create("dist_sync" if job else "local")

iris = np.loadtxt("data/iris.csv", delimiter=",", skiprows=1, dtype="float32")
n = len(iris)
x = iris[:, 0:3] - iris[:, 0:3].mean(axis=0)
x = x / np.sqrt((x * x).mean(axis=0))  # columns of mean 0 and spread 1 make one step size fit all of them
y = iris[:, 3:4]
mine, truth = x[kv.rank::kv.num_workers], y[kv.rank::kv.num_workers]

weight, bias = np.zeros((3, 1), "float32"), np.zeros((1, 1), "float32")
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.3, rescale_grad=1 / n))
kv.init([0, 1], [weight, bias])
kv.pull([0, 1], out=[weight, bias])  # of a job that begins again, those of its checkpoint

for step in range(kv.rounds(), 400):
    error = mine @ weight + bias - truth
    kv.push([0, 1], [mine.T @ error, error.sum(keepdims=True)])
    kv.pull([0, 1], out=[weight, bias])

loss = float(((x @ weight + bias - y) ** 2).sum())
if kv.rank == 0:
    print(f"loss {loss:.4f}, workers: {kv.num_workers}")
if loss >= 5.3804:
    sys.exit("training did not reach the least squares")
