"""The measured cases, and the contenders."""

from __future__ import annotations

from dataclasses import dataclass

SIZES = (400, 4_000, 40_000, 400_000)
CLIENTS = (1, 2, 4, 16, 64, 200)
TRANSPORTS = ("tcp", "unix", "shm")

LOCAL_BYTES = 1_000_000_000
LOCAL_ITEMS = 1_000_000
# dm-reverb takes twenty seconds for this many items.
REVERB_LOCAL_ITEMS = 100_000


@dataclass(frozen=True)
class Contender:
    """A contender: a buffer in one process, or a server with one kind of client."""

    name: str
    server: str | None = None
    """`reverb` or `relive`; `None` for a buffer of that name in one process."""
    client: str | None = None
    """The package `reverb` or `relive`, or `rust`: `relive bench`."""
    transport: str = "tcp"


@dataclass(frozen=True)
class Case:
    """A case. `clients` is 0 for buffers in one process."""

    operation: str
    sampler: str
    nbytes: int
    clients: int = 0

    @property
    def name(self) -> str:
        where = f"{self.clients} client{'s' * (self.clients > 1)}" if self.clients else "in process"
        return f"{self.operation}, {self.sampler}, {size(self.nbytes)}, {where}"

    @property
    def items(self) -> int:
        """The number of items of a full table in one process: a million, or as many as fit in a gigabyte."""
        return min(LOCAL_ITEMS, LOCAL_BYTES // self.nbytes)


def size(nbytes: int) -> str:
    return f"{nbytes // 1000} kB" if nbytes >= 1000 else f"{nbytes} B"


LOCAL = tuple(Contender(name) for name in (
    "relive", "relive, out=", "numpy", "cpprb", "torchrl", "torchrl, memory-mapped", "flashbax", "dm-reverb"))

REVERB = Contender("dm-reverb", "reverb", "reverb")
RELIVE = tuple(Contender(f"relive, {transport}", "relive", "relive", transport) for transport in TRANSPORTS)
RELIVE_TO_REVERB_CLIENTS = Contender("relive, dm-reverb's client", "relive", "reverb")
RUST = tuple(Contender(f"relive, {transport}, Rust client", "relive", "rust", transport) for transport in TRANSPORTS)
RUST_TO_REVERB = Contender("dm-reverb, Rust client", "reverb", "rust")

Plan = list[tuple[Case, tuple[Contender, ...]]]


def quick() -> Plan:
    """Returns the cases for the table of targets."""
    local = [Case("sample", "uniform", 400), Case("sample", "uniform", 40_000), Case("update", "prioritized", 400),
             Case("add", "uniform", 400)]
    grid = [Case(operation, "uniform", nbytes, 2) for nbytes in SIZES for operation in ("insert", "sample")]
    curve = [Case(operation, "uniform", 400, clients) for operation in ("insert", "sample") for clients in (1, 2, 16, 200)]
    large = [Case("insert", "uniform", 400_000, clients) for clients in (1, 2)]
    return [
        *((case, LOCAL) for case in local),
        *((case, (REVERB, *RELIVE)) for case in grid),
        *((case, RUST) for case in curve + large),
    ]


def full() -> Plan:
    """Returns all cases, those for the targets first, so that a run that ends early includes them."""
    local = [Case(operation, "uniform", nbytes) for operation in ("sample", "add", "add-many") for nbytes in SIZES]
    local += [Case("update", "prioritized", nbytes) for nbytes in (400, 40_000)]
    local += [Case("mixed", "uniform", nbytes) for nbytes in (400, 40_000)]
    curve = [Case(operation, "uniform", nbytes, clients)
             for nbytes in SIZES for operation in ("insert", "sample") for clients in CLIENTS]
    served = [Case(operation, sampler, nbytes, 2) for nbytes in (400, 40_000)
              for operation, sampler in (("update", "prioritized"), ("sample", "prioritized"), ("mixed", "uniform"))]
    served += [Case(operation, "uniform", 400, 1) for operation in ("insert-one", "sample-one")]
    same_client = [case for case in curve if case.clients == 2]
    rust = [case for case in curve if case.nbytes in (400, 400_000)]
    everything = [
        *((case, LOCAL) for case in local),
        *((case, (REVERB, *RELIVE)) for case in curve + served),
        *((case, (RUST_TO_REVERB, *RUST)) for case in rust),
        *((case, (RELIVE_TO_REVERB_CLIENTS,)) for case in same_client),
    ]
    needed = {case: number for number, (case, _) in enumerate(reversed(quick()), 1)}
    return sorted(everything, key=lambda row: -needed.get(row[0], 0))
