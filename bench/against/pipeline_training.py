"""The stages of examples/05_tiny_gpt in PyTorch: torch.distributed.pipelining over Gloo on CPU, or the same model alone.

Started with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT by bench/against/pipelines. Rank 0 prints one line of JSON. Its tokens are
random, for what they say costs no time. Stages have as many layers as the others, to one, as Paceline cuts them; the head has a
weight of its own; gradients are clipped to the norm of the whole model.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import gpt_training
from gpt_training import LEARNING_RATE, MAX_GRAD_NORM, VOCABULARY, WARM_UP_STEPS

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}


class Positions(nn.Embedding):
    def forward(self, x):
        return x + super().forward(torch.arange(x.size(1)))


def narrowed(layer):
    with torch.no_grad():
        layer.weight.mul_(0.02)
    return layer


def layers_of(options):
    wide = options.features
    blocks = [gpt_training.Block(wide, options.heads) for _ in range(options.layers)]
    return [narrowed(nn.Embedding(VOCABULARY, wide)), narrowed(Positions(options.length, wide)), *blocks, nn.LayerNorm(wide),
            nn.Linear(wide, VOCABULARY, bias=False)]


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def clip(parameters, world):
    gradients = [parameter.grad for parameter in parameters]
    square = nn.utils.get_total_norm(gradients) ** 2
    if world > 1:
        dist.all_reduce(square)
    scale = torch.clamp(MAX_GRAD_NORM / (square.sqrt() + 1e-6), max=1.0)
    torch._foreach_mul_(gradients, scale)


def pass_of(model, rank, world, options):
    """A function that makes one forward and backward pass of the batch, and gives the mean loss on the last rank, None before it."""
    if world == 1:
        def alone(tokens, targets):
            loss = loss_of(model(tokens), targets)
            loss.backward()
            return loss
        return alone
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    schedule = SCHEDULES[options.schedule](stage, n_microbatches=options.micro_batches, loss_fn=loss_of)

    def staged(tokens, targets):
        if rank + 1 < world:
            schedule.step(*((tokens,) if rank == 0 else ()), return_outputs=False)
            return None
        losses = []
        schedule.step(target=targets, losses=losses, return_outputs=False)
        return torch.stack(losses).mean()
    return staged


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedule", choices=["none", *SCHEDULES], required=True)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--features", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    layers = layers_of(options)
    model = nn.Sequential(*layers[len(layers) * rank // world:len(layers) * (rank + 1) // world])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    parameters, run_pass = list(model.parameters()), pass_of(model, rank, world, options)
    generator = torch.Generator().manual_seed(1)
    start = time.perf_counter()
    for step in range(options.steps):
        if step == WARM_UP_STEPS:
            start = time.perf_counter()
        drawn = torch.randint(VOCABULARY, (options.batch_size, options.length + 1), generator=generator)
        optimizer.zero_grad()
        loss = run_pass(drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous())
        if loss is not None:
            loss.item()
        clip(parameters, world)
        optimizer.step()
    if rank == 0:
        print(json.dumps({"step_seconds": (time.perf_counter() - start) / (options.steps - WARM_UP_STEPS)}), flush=True)
    if world > 1:
        dist.barrier()
        os._exit(0)  # destroy_process_group() of Gloo has waited for ever after the other rank had ended


if __name__ == "__main__":
    main()
