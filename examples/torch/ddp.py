# SPDX-License-Identifier: Apache-2.0
"""A transformer that torch trains over Weft: gradients by DistributedDataParallel or fully_shard.

    weft run -n 2 python3 examples/torch/ddp.py
    weft run -n 1 python3 examples/torch/ddp.py --batches 2     # the same losses

A step has --batches batches, one for each rank if not said otherwise. N ranks with a batch each
print the same losses, to the last digit, as one rank with N batches: Weft adds gradients in the
order of the ranks.
"""

import argparse

import torch
import torch.distributed as dist
from text_model import VOCABULARY, Transformer, batch_of, device_of, own_batches, text_of

import weft.torch  # noqa: F401


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("text", nargs="?", default=__file__, help="what is learnt; this program")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--batches", type=int, help="of a step, over all ranks")
    options.add_argument("--fsdp", action="store_true", help="fully_shard, with torch 2.6 or newer")
    options.add_argument("--save", metavar="FILE", help="where rank 0 writes the parameters")
    given = options.parse_args()
    if given.fsdp and given.save:
        options.error("--save with --fsdp: each rank has a part of the parameters; leave one out")

    torch.set_num_threads(1)
    dist.init_process_group("weft", init_method="weft://")
    rank, size = dist.get_rank(), dist.get_world_size()
    batches = given.batches or size
    own, device = own_batches(batches, rank, size), device_of(rank)

    torch.manual_seed(1)
    model = parallel = Transformer().to(device)
    if given.fsdp:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device.split(":")[0], (size,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, foreach=False)
    text = text_of(given.text)
    for step in range(given.steps):
        optimizer.zero_grad()
        losses = torch.zeros(len(own), device=device)
        for i, number in enumerate(own):
            source, target = (part.to(device) for part in batch_of(text, step * batches + number))
            logits = parallel(source).view(-1, VOCABULARY)
            loss = torch.nn.functional.cross_entropy(logits, target.reshape(-1))
            (loss / len(own)).backward()
            losses[i] = loss.detach()
        optimizer.step()
        every = [torch.empty_like(losses) for _ in range(size)]
        dist.all_gather(every, losses)
        if rank == 0 and (step + 1) % max(given.steps // 5, 1) == 0:
            print(f"step {step + 1}: loss {torch.cat(every).double().mean().item():.17g}")
    if given.save and rank == 0:
        torch.save(model.state_dict(), given.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
