"""What tests/programs/fashion_mnist does, in PyTorch: DistributedDataParallel with Gloo or NCCL, or a plain loop with one process.

Started with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT by bench/against/ddp. Rank 0 prints one line of JSON.
"""
import argparse
import gzip
import json
import os
import resource
import struct
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

WARM_UP_STEPS = 5  # as in the example


def read_idx(path):
    data = gzip.open(path, "rb").read()
    dimensions = struct.unpack(">" + "I" * data[3], data[4:4 + 4 * data[3]])
    return torch.frombuffer(bytearray(data[4 + 4 * data[3]:]), dtype=torch.uint8).reshape(dimensions)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = (nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
                         if stride != 1 or inputs != outputs else nn.Identity())

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18():
    channels, layers = 64, [nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for outputs in (64, 128, 256, 512):
        layers += [Block(channels, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def compress(model, how):
    if how == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if how == "power_sgd":  # compresses from its second step on, which is the earliest that it allows with warm start
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def device_named(name):
    """As paceline::device_of: the devices of a host go to its ranks in turn."""
    if name == "auto":
        devices = torch.cuda.device_count()
        name = f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % devices}" if devices else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["mlp", "resnet18"], required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="of all ranks together")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--compression", choices=["none", "fp16", "power_sgd"], default="none")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:N, or auto")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    images = read_idx(os.path.join(options.data, "train-images-idx3-ubyte.gz")).float().div_(255).unsqueeze(1)
    labels = read_idx(os.path.join(options.data, "train-labels-idx1-ubyte.gz")).long()
    device = device_named(options.device)
    model = {"mlp": mlp, "resnet18": resnet18}[options.model]().to(device)
    if world > 1:
        dist.init_process_group(options.backend)
        if options.compression == "power_sgd":  # its hook's all_reduces of two small buckets overtake each other over Gloo
            dist._DEFAULT_FIRST_BUCKET_BYTES = 25 << 20
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        compress(model, options.compression)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    start, own = time.perf_counter(), options.batch_size // world
    for step in range(options.steps):
        if step == WARM_UP_STEPS:
            start = time.perf_counter()
        first = step * options.batch_size % (len(images) - options.batch_size)
        batch = order[first + rank:first + options.batch_size:world]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch].to(device)), labels[batch].to(device))
        loss.backward()
        loss.item()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps({
            "train_samples_per_second": own * world * (options.steps - WARM_UP_STEPS) / seconds,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }), flush=True)
    if world > 1:
        dist.barrier()
        os._exit(0)  # destroy_process_group() of Gloo has waited for ever after the other rank had ended


if __name__ == "__main__":
    main()
