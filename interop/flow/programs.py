"""Random programs with the operators that ray.util.iter and relive-flow have in common.

A program is a tree of operators as JSON: {"name of the operator": {"of": its source, ...}}. An item is a whole number
or a list of items; `depth` is the number of lists around the numbers. `is_ordered` states whether the order of the
items is the same in every run. If an operator does not determine the order, later operators do not depend on the order,
and the items are compared without regard to their order. Programs with operators in `PYTHON_ONLY` run only in Python, on
ray.util.iter and on the package's `relive.flow`.
"""

from __future__ import annotations

import dataclasses
import random

MAX_SHARDS = 3
PYTHON_ONLY = {"repeated", "generators", "transform", "for_each_in_threads", "shard"}


@dataclasses.dataclass
class Part:
    """A part of a program, and the properties of its items."""

    tree: dict
    depth: int = 0
    is_ordered: bool = True
    shards: int = 0
    # Whether the shards are still numbered from 0, so that shards can be selected by number.
    is_numbered: bool = True

    def then(self, operator: str, depth: int | None = None, is_ordered: bool | None = None, **arguments) -> Part:
        tree = {operator: {"of": self.tree, **arguments}}
        depth = self.depth if depth is None else depth
        is_ordered = self.is_ordered if is_ordered is None else self.is_ordered and is_ordered
        return dataclasses.replace(self, tree=tree, depth=depth, is_ordered=is_ordered)


def program(seed: int) -> dict:
    """Returns the program of a seed: its operators, the number of items to take, whether their order is compared, and
    whether it runs only in Python."""
    rng = random.Random(seed)
    choice, take = rng.random(), None
    if choice < 0.1:
        part = _shards(rng).then("sources", is_ordered=False)
    elif choice < 0.18:
        shards = _shards(rng)
        part = shards.then("shard", number=rng.randrange(shards.shards), ahead=rng.randint(1, 3))
    elif choice < 0.3:
        part, take = _endless(rng), rng.randint(1, 12)
    else:
        part = _joined(rng) if rng.random() < 0.5 else _flow(rng)
        # `take(0)` of ray.util.iter returns one item.
        take = rng.randint(1, 12) if part.is_ordered and rng.random() < 0.3 else None
    is_python_only = bool(_names(part.tree) & PYTHON_ONLY)
    return {"flow": part.tree, "take": take, "is_ordered": part.is_ordered, "is_python_only": is_python_only}


def _names(tree) -> set[str]:
    """Returns the names of all operators and arguments in a tree."""
    if isinstance(tree, dict):
        return {*tree, *(name for part in tree.values() for name in _names(part))}
    return {name for part in tree for name in _names(part)} if isinstance(tree, list) else set()


def _endless(rng: random.Random) -> Part:
    """Returns a flow of repeated items, with operators that keep items coming."""
    shards = rng.randint(1, MAX_SHARDS)
    if rng.random() < 0.5:
        part = Part({"repeated": {"items": [rng.randrange(50) for _ in range(rng.randint(shards, 6))], "shards": shards}})
    else:
        items = [[rng.randrange(50) for _ in range(rng.randint(1, 3))] for _ in range(shards)]
        part = Part({"generators": {"items": items, "repeat": True}})
    part = _lengthened(rng, dataclasses.replace(part, shards=shards))
    choice = rng.choice(["gather_sync", "batch_across_shards", "shard"])
    if choice == "shard":
        part = part.then("shard", number=rng.randrange(shards), ahead=rng.randint(1, 3))
    else:
        part = part.then(choice, depth=part.depth + (choice == "batch_across_shards"))
    return _lengthened(rng, part)


def _lengthened(rng: random.Random, part: Part) -> Part:
    if rng.random() < 0.5:
        part = part.then("transform")
    if rng.random() < 0.5:
        part = part.then("batch", depth=part.depth + 1, size=rng.randint(1, 3))
    return part.then("flatten", depth=part.depth - 1) if part.depth > 0 and rng.random() < 0.5 else part


def _shards(rng: random.Random) -> Part:
    shards = rng.randint(1, MAX_SHARDS)
    if rng.random() < 0.5:
        items = [rng.randrange(50) for _ in range(rng.randrange(25))]
        part = Part({"items": {"items": items, "shards": shards}}, shards=shards)
    elif rng.random() < 0.15:
        items = [[rng.randrange(50) for _ in range(rng.randrange(9))] for _ in range(shards)]
        part = Part({"generators": {"items": items, "repeat": False}}, shards=shards)
    else:
        part = Part({"range": {"count": rng.randrange(25), "shards": shards}}, shards=shards)
    for _ in range(rng.randrange(4)):
        part = _operator(rng, part)
        if rng.random() < 0.35:
            part = _of_shards(rng, part)
    return part


def _of_shards(rng: random.Random, part: Part) -> Part:
    choice = rng.choice(["shuffle", "repartition", "select", "union"])
    if choice == "shuffle":
        return part.then("local_shuffle", is_ordered=False, buffer=rng.randint(1, 5))
    # The assignment of items to shards would depend on the order.
    if choice == "repartition" and part.is_ordered:
        shards = rng.randint(1, MAX_SHARDS)
        part = part.then("repartition", is_ordered=False, shards=shards)
        return dataclasses.replace(part, shards=shards, is_numbered=True)
    if choice == "select" and part.is_numbered:
        numbers = sorted(rng.sample(range(part.shards), rng.randint(1, part.shards)))
        part = part.then("select", numbers=numbers)
        # ray.util.iter renumbers the remaining shards from 0; relive-flow keeps their numbers.
        return dataclasses.replace(part, shards=len(numbers), is_numbered=False)
    if choice == "union" and part.depth == 0:
        other = Part({"range": {"count": rng.randrange(9), "shards": 1}}, shards=1)
        part = part.then("union", other=other.tree)
        return dataclasses.replace(part, shards=part.shards + 1, is_numbered=False)
    return part


def _flow(rng: random.Random) -> Part:
    shards = _shards(rng)
    choice = rng.choice(["sync", "sync", "async", "across"])
    if choice == "sync":
        part = shards.then("gather_sync")
    elif choice == "async":
        part = shards.then("gather_async", is_ordered=False, ahead=rng.randint(1, 3))
    elif shards.is_ordered:
        part = shards.then("batch_across_shards", depth=shards.depth + 1)
    else:
        # The grouping of items into lists would depend on the order.
        part = shards.then("gather_sync")
    for _ in range(rng.randrange(4)):
        part = _operator(rng, part)
    if rng.random() < 0.1:
        part = part.then("shuffle", is_ordered=False, buffer=rng.randint(1, 5))
    return part


def _joined(rng: random.Random) -> Part:
    choice = rng.choice(["round_robin", "ready", "weighted", "copies"])
    if choice == "copies":
        part = _flow(rng)
        functions = [_function(rng, part.depth)[0] for _ in range(rng.randint(2, 3))]
        joined = part.then("copies", functions=functions, depth=0)
    else:
        flows = [_numbers(_flow(rng)) for _ in range(rng.randint(2, 3))]
        is_ordered = all(flow.is_ordered for flow in flows) and choice != "ready"
        tree: dict = {"of": [flow.tree for flow in flows]}
        if choice == "weighted":
            tree["weights"] = [rng.randint(1, 3) for _ in flows]
            # The weights determine the order in any case.
            tree["deterministic"] = rng.random() < 0.5
            if rng.random() < 0.5:
                tree["weights"][rng.randrange(len(flows))] = rng.choice([None, 0.5, 1.25])
                is_ordered = False
        joined = Part({choice: tree}, is_ordered=is_ordered)
    joined = _numbers(joined)
    for _ in range(rng.randrange(3)):
        joined = _operator(rng, joined)
    return joined


def _numbers(part: Part) -> Part:
    return part.then("for_each", depth=0, function={"sum": None})


def _function(rng: random.Random, depth: int) -> tuple[dict, int]:
    """Returns a function of items, and the depth of its results."""
    choice = rng.choice(["add", "sum", "pair"])
    if choice == "add" and depth == 0:
        return {"add": rng.randrange(9)}, 0
    if choice == "pair" and depth < 2:
        return {"pair": None}, depth + 1
    return {"sum": None}, 0


def _operator(rng: random.Random, part: Part) -> Part:
    """Returns one of the operators that both shards and flows have."""
    if rng.random() < 0.06:
        if part.is_ordered and rng.random() < 0.6:
            return part.then("transform")
        function, depth = _function(rng, part.depth)
        return part.then("for_each_in_threads", depth=depth, is_ordered=False, function=function, threads=rng.choice([0, 2]))
    choice = rng.choice(["for_each", "filter", "batch", "flatten", "combine"])
    if choice == "filter":
        modulus = rng.randint(1, 4)
        return part.then("filter", modulus=modulus, remainder=rng.randrange(modulus))
    if choice == "batch" and part.is_ordered and part.depth < 3:
        return part.then("batch", depth=part.depth + 1, size=rng.randint(1, 4))
    if choice == "flatten" and part.depth > 0:
        return part.then("flatten", depth=part.depth - 1)
    if choice == "combine":
        return part.then("combine", modulus=rng.randint(2, 4))
    function, depth = _function(rng, part.depth)
    return part.then("for_each", depth=depth, function=function)
