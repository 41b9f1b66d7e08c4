"""An ordinary training script: nothing in it knows about onegraph.

A small sequence model learns to sum its inputs. It has what such scripts have: a guard against exploding activations,
a loss that is rescaled by a Python number, a check of the inputs, a log line and a print in the forward pass.
"""

import logging

import torch
from torch import nn

log = logging.getLogger("train")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.norm(x + torch.relu(self.mix(x)))
        # half precision overflows here now and then
        if not torch.isfinite(h).all():
            limit = torch.finfo(h.dtype).max - 1000
            h = torch.clamp(h, min=-limit, max=limit)
        return h


class Summer(nn.Module):
    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x, mask):
        if (mask.sum(dim=1) == 0).any():
            raise ValueError(f"a row of the batch is empty: lengths {mask.sum(dim=1)}")
        h = self.embed(x.unsqueeze(-1))
        for block in self.blocks:
            h = block(h)
        h = h * mask.unsqueeze(-1)
        scale = h.abs().max().item()
        log.debug("largest activation %.2f", h.abs().max())
        pooled = (h / (scale + 1e-6)).sum(dim=1) * scale
        return self.head(pooled).squeeze(-1)


def batch(size: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.rand(size, length)
    mask = (torch.arange(length) < torch.randint(1, length + 1, (size, 1))).float()
    return x, mask, (x * mask).sum(dim=1)


def main() -> None:
    torch.manual_seed(0)
    model = Summer()
    compiled = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(6):
        x, mask, target = batch(8, 12)
        loss = nn.functional.mse_loss(compiled(x, mask), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
