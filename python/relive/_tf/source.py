"""The part of a dataset's iteration that runs in Python: a sampler, read in groups."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from relive import client as clients
from relive import errors
from relive._datasets import SamplerOptions
from relive._tf import checks, groups, shutdown, specs
from relive._tf.specs import Column

_log = logging.getLogger("relive")

# A tf.data iterator can be abandoned only between two calls to its source, so no call may take longer than this time.
_IDLE_SECONDS = 0.05

# The time that the creation of an iterator waits for the table's signature before it continues without a signature.
SIGNATURE_TIMEOUT_SECONDS = 30

Check = Callable[[Sequence[np.ndarray]], None]


class Request(NamedTuple):
    """A dataset's request to a server."""

    client: clients.Client
    table: str
    columns: Sequence[Column]
    timesteps: bool
    sampler_options: SamplerOptions


def read(request: Request) -> Iterator[groups.Group]:
    """Yields groups of samples, and an empty group whenever no sample has arrived for a while.

    Ends when the sampler ends or, if the timeout of the table's rate limiter is finite, when that timeout expires; and
    at the end of the program.
    """
    check = _check_of_items(request)
    nothing = _no_samples(request.columns)
    options = request.sampler_options
    most = options.max_in_flight_samples_per_worker * max(1, options.num_workers)
    sampler = request.client._sampler(request.table, keep_rows=request.timesteps, **options._asdict())
    with contextlib.closing(sampler):
        while not shutdown.calls.are_ending:
            try:
                samples = sampler.next_many(most, timeout=_IDLE_SECONDS)
            except StopIteration:
                return
            except errors.DeadlineExceededError:
                if options.rate_limiter_timeout_ms < 0:
                    raise
                return
            if not samples:
                yield nothing
            elif request.timesteps:
                yield from groups.of_timesteps(request.table, samples, check)
            else:
                yield from groups.of_trajectories(samples, check)


def _check_of_items(request: Request) -> Check:
    signature = _signature(request.client, request.table)
    if signature is not None:
        checks.requested_columns(request.table, request.columns, signature)

    def check(arrays: Sequence[np.ndarray]) -> None:
        if signature is not None:
            checks.received_columns(request.table, arrays, signature, signed=True)
        checks.received_columns(request.table, arrays, request.columns, signed=False)

    return check


def _signature(client: clients.Client, table: str) -> list[Column] | None:
    try:
        info = client.server_info(timeout=SIGNATURE_TIMEOUT_SECONDS).get(table)
    except errors.DeadlineExceededError:
        _log.warning("no signature of table %r arrived in time; items are not checked against it", table)
        return None
    # For an unknown table, the server reports the error when samples are requested.
    return None if info is None or info.signature is None else specs.columns_of(info.signature)


def _no_samples(columns: Sequence[Column]) -> groups.Group:
    data = [_no_rows(column) for column in columns]
    return groups.Group([np.empty(0, spec.dtype.as_numpy_dtype) for spec in specs.info_spec()], data)


def _no_rows(column: Column) -> np.ndarray:
    dims = [] if column.shape.rank is None else column.shape.as_list()
    return np.empty([0, *(size or 0 for size in dims)], column.dtype.as_numpy_dtype)
