"""What examples/05_tiny_gpt does, in PyTorch over Gloo on CPU: alone, with DTensor, with FSDP2, or with ZeroRedundancyOptimizer.

Started with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT by bench/against/sharded. Rank 0 prints one line of JSON. Its tokens are
random, for what they say costs no time.
"""
import argparse
import contextlib
import json
import os
import resource
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

WARM_UP_STEPS = 5  # as in the example
VOCABULARY = 63    # characters of the example's text
MAX_GRAD_NORM = 1
LEARNING_RATE = 3e-3


class Block(nn.Module):
    def __init__(self, wide, heads):
        super().__init__()
        self.head_size = wide // heads
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.query, self.key, self.value = nn.Linear(wide, wide), nn.Linear(wide, wide, bias=False), nn.Linear(wide, wide)
        self.output, self.up, self.down = nn.Linear(wide, wide), nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def attend(self, x):
        q, k, v = (layer(x).view(x.size(0), x.size(1), -1, self.head_size).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(seen.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        wide = options.features
        self.embedding, self.positions = nn.Embedding(VOCABULARY, wide), nn.Embedding(options.length, wide)
        self.blocks = nn.ModuleList(Block(wide, options.heads) for _ in range(options.layers))
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, VOCABULARY, bias=False)
        with torch.no_grad():
            self.embedding.weight.mul_(0.02)
            self.positions.weight.mul_(0.02)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def split_layers(model, mesh, options):
    """Splits the layers as the example's plan does. Returns the scope in which the loss of split logits is computed."""
    column, row = ColwiseParallel(), RowwiseParallel()
    for block in model.blocks:
        parallelize_module(block, mesh, {"query": column, "key": column, "value": column, "output": row,
                                         "up": column, "down": row})
    if not options.vocabulary_parallel:
        return contextlib.nullcontext
    parallelize_module(model, mesh, {"embedding": RowwiseParallel(input_layouts=Replicate()),
                                     "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    model.head.weight = model.embedding.weight
    return loss_parallel


def clip(parameters):
    """nn.utils.clip_grad_norm_ for DTensors and tensors side by side, which it refuses: one all_reduce of one number."""
    split, whole = [], []
    for parameter in parameters:
        gradient = parameter.grad
        if isinstance(gradient, DTensor):
            is_split = gradient.placements[0].is_shard()
            (split if is_split else whole).append(gradient.to_local())
        else:
            whole.append(gradient)
    square = nn.utils.get_total_norm(split) ** 2
    dist.all_reduce(square)
    norm = (square + nn.utils.get_total_norm(whole) ** 2).sqrt()
    scale = torch.clamp(MAX_GRAD_NORM / (norm + 1e-6), max=1.0)
    torch._foreach_mul_(split + whole, scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["alone", "dtensor", "fsdp2", "zero1"], required=True)
    parser.add_argument("--features", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="of all ranks together")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--adamw", choices=["plain", "foreach", "fused"], default="fused")
    parser.add_argument("--vocabulary-parallel", action=argparse.BooleanOptionalAction, default=False,
                        help="of dtensor: also split the embedding, the head and the loss")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model, scope, clip_gradients = Model(options), contextlib.nullcontext, None
    if options.mode != "alone":
        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (world,))
    if options.mode == "dtensor":
        scope, clip_gradients = split_layers(model, mesh, options), clip
    if options.mode == "fsdp2":
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if options.mode == "zero1":
        model = nn.parallel.DistributedDataParallel(model)
    how = {"plain": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}[options.adamw]
    if options.mode == "zero1":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=LEARNING_RATE, **how)
    else:
        kinds = [[p for p in model.parameters() if isinstance(p, DTensor) == is_split] for is_split in (False, True)]
        optimizer = torch.optim.AdamW([{"params": kind} for kind in kinds if kind], lr=LEARNING_RATE, **how)  # mixed, they are refused
    parameters = list(model.parameters())
    rows = options.batch_size if options.mode in ("alone", "dtensor") else options.batch_size // world
    generator = torch.Generator().manual_seed(1 if options.mode == "dtensor" else 1 + rank)
    start = time.perf_counter(), time.process_time()
    for step in range(options.steps):
        if step == WARM_UP_STEPS:
            start = time.perf_counter(), time.process_time()
        drawn = torch.randint(VOCABULARY, (rows, options.length + 1), generator=generator)
        optimizer.zero_grad()
        with scope():
            loss = nn.functional.cross_entropy(model(drawn[:, :-1]), drawn[:, 1:].flatten())
            loss.backward()
        loss.item()
        if clip_gradients:
            clip_gradients(parameters)
        else:
            nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
    timed = options.steps - WARM_UP_STEPS
    if rank == 0:
        print(json.dumps({
            "step_seconds": (time.perf_counter() - start[0]) / timed,
            "cpu_seconds": (time.process_time() - start[1]) / timed,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "loss": loss.item(),
        }), flush=True)
    if world > 1:
        dist.barrier()
        os._exit(0)  # destroy_process_group() of Gloo has waited for ever after the other rank had ended


if __name__ == "__main__":
    main()
