"""Data-parallel training of a model of PyTorch: the regression of train.py, with the same losses.

    python3 train_torch.py                                  # one process, whose store is local
    kvctl launch -n 4 -s 2 --python train_torch.py          # four workers, two servers

PyTorch computes the gradients of a worker's part. The store adds up those of all workers, makes one step of gradient
descent, and writes the new weights into the parameters of every model: no tensor is copied on the way.
"""
import os
import sys

import torch

import kvstore as mx

job = "OMPI_COMM_WORLD_SIZE" in os.environ
kv = mx.kv.create("dist_sync" if job else "local")

with open("data/iris.csv") as file:
    iris = torch.tensor([[float(cell) for cell in line.split(",")] for line in file.readlines()[1:]])
n = len(iris)
x = iris[:, 0:3] - iris[:, 0:3].mean(0)
x = x / x.square().mean(0).sqrt()
y = iris[:, 3:4]
mine, truth = x[kv.rank::kv.num_workers], y[kv.rank::kv.num_workers]

model = torch.nn.Linear(3, 1)
for parameter in model.parameters():
    torch.nn.init.zeros_(parameter)
keys, weights = [], []
for key, parameter in enumerate(model.parameters()):
    keys.append(key)
    weights.append(parameter.detach())  # the same memory
kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.3, rescale_grad=1 / n))
kv.init(keys, weights)
kv.pull(keys, out=weights)

for step in range(kv.rounds(), 400):
    model.zero_grad()
    loss = (model(mine) - truth).square().sum() / 2
    loss.backward()
    kv.push(keys, [parameter.grad for parameter in model.parameters()])
    kv.pull(keys, out=weights)

with torch.no_grad():
    loss = float((model(x) - y).square().sum())
if kv.rank == 0:
    print(f"loss {loss:.4f}, workers: {kv.num_workers}")
if loss >= 5.3804:
    sys.exit("training did not reach the least squares")
