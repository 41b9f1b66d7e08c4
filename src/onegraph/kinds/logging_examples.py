"""Examples and near misses of `logging_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="lazy arguments; a level check around a costly message",
        before="""\
import logging

import torch

log = logging.getLogger("model.norm")


def program(x):
    rms = x.pow(2).mean().sqrt()
    log.debug("rms=%.4f max=%s", rms, x.max())
    if log.isEnabledFor(logging.DEBUG):
        values = ", ".join(f"{v:.1f}" for v in x.flatten().tolist())
        log.debug("all: %s", values)
    return x / rms



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import logging

import torch


"""
        + HELPER
        + """\


log = logging.getLogger("model.norm")


@_ordered_op
def _log_rms_max(rms: torch.Tensor, x_max: torch.Tensor) -> None:
    log.debug("rms=%.4f max=%s", rms, x_max)


@_ordered_op
def _log_all(x: torch.Tensor) -> None:
    if log.isEnabledFor(logging.DEBUG):
        values = ", ".join(f"{v:.1f}" for v in x.flatten().tolist())
        log.debug("all: %s", values)


def program(x):
    rms = x.pow(2).mean().sqrt()
    _log_rms_max(rms, x.max())
    _log_all(x)
    return x / rms



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="self.logger",
        before="""\
import logging

import torch


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.logger = logging.getLogger("model.norm")

    def forward(self, x):
        self.logger.warning("input of %s, mean %s", tuple(x.shape), x.mean())
        return x * 2


program = Norm()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import logging

import torch


"""
        + HELPER
        + """\


@_ordered_op
def _log_input_mean(x_shape: list[int], x_mean: torch.Tensor) -> None:
    logging.getLogger("model.norm").warning("input of %s, mean %s", tuple(x_shape), x_mean)


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.logger = logging.getLogger("model.norm")

    def forward(self, x):
        _log_input_mean(x.shape, x.mean())
        return x * 2


program = Norm()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="a warn-once helper behind a cache: its call moves",
        before="""\
import functools
import logging

import torch

log = logging.getLogger("model.cache")


@functools.lru_cache(None)
def warn_once(message):
    log.warning(message)


def program(x, use_cache=True):
    if use_cache:
        warn_once("the cache is ignored in this mode")
    return x * 3



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import functools
import logging

import torch


"""
        + HELPER
        + """\


log = logging.getLogger("model.cache")


@functools.lru_cache(None)
def warn_once(message):
    log.warning(message)


@_ordered_op
def _log_cache_ignored_mode() -> None:
    warn_once("the cache is ignored in this mode")


def program(x, use_cache=True):
    if use_cache:
        _log_cache_ignored_mode()
    return x * 3



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="a logger made in the function",
        before="""\
import logging

import torch


def program(x):
    logger = logging.getLogger("model.local")
    logger.info("sum %s", x.sum())
    return x * 3



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import logging

import torch


"""
        + HELPER
        + """\


@_ordered_op
def _log_sum(x_sum: torch.Tensor) -> None:
    logging.getLogger("model.local").info("sum %s", x_sum)


_logger = logging.getLogger("model.local")


def program(x):
    logger = _logger
    _log_sum(x.sum())
    return x * 3



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a logger that only the caller knows",
        """\
import logging

import torch


def program(x, log=logging.getLogger("model.given")):
    log.info("sum %s", x.sum())
    return x * 3



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "`log` is a logging.Logger",
    ),
)
