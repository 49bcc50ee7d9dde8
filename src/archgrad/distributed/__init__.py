"""Several processes that search together: each has a shard of every batch, and all else is the same in all of them.

Values are *replicated*, identical in all processes, or *sharded*: process r has some rows of the joint batch. Only the
forward pass of the network is sharded. Weights, α, mixtures, gathered logits, losses, gradients and all products of
second derivatives are replicated, so hypergradients, regularizers and optimizers need not know of processes.

``environment``: what torchrun says of this process. ``processes``: how processes join, agree and end. ``collectives``:
sums and gathers of tensors. ``functions``: how values become sharded and replicated, differentiable at any order.
``batch_norm``: statistics of the joint batch. ``pending_norms``: batch norms that share a collective. ``forward``: the
forward pass of a network on shards. ``shard``: the rows of this process, and its part of random draws.
"""
