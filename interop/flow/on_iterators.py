"""Runs programs with ray.util.iter, or with a module that has its names, such as relive.flow."""

from __future__ import annotations

import collections
from types import ModuleType


def run(program: dict, parallel: ModuleType) -> list:
    """Returns a program's items, with the named module in place of ray.util.iter."""
    flow = _Built(parallel).flow(program["flow"])
    return flow.take(program["take"]) if program["take"] is not None else list(flow)


def number(item) -> int:
    """Returns the number that an item represents; for a list, the sum."""
    return sum(map(number, item)) if isinstance(item, list) else item


def _function(function: dict):
    ((name, value),) = function.items()
    return {
        "add": lambda item: item + value,
        "sum": number,
        "pair": lambda item: [item, item],
    }[name]


def _function_of(items: list):
    """Returns a function that creates a generator of these items."""

    def generator():
        yield from items

    return generator


def _every_other(items):
    """Drops every second item. ray.util.iter may pass objects that stand for no item."""
    is_kept = False
    for item in items:
        if type(item).__name__ == "_NextValueNotReady":
            yield item
            continue
        is_kept = not is_kept
        if is_kept:
            yield item


def _common(operator: str, of, arguments: dict):
    """Applies an operator that both shards and flows have."""
    if operator == "for_each":
        return of.for_each(_function(arguments["function"]))
    if operator == "for_each_in_threads":
        return of.for_each(_function(arguments["function"]), max_concurrency=arguments["threads"])
    if operator == "transform":
        return of.transform(_every_other)
    if operator == "filter":
        modulus, remainder = arguments["modulus"], arguments["remainder"]
        return of.filter(lambda item: number(item) % modulus == remainder)
    if operator == "batch":
        return of.batch(arguments["size"])
    if operator == "flatten":
        return of.flatten()
    if operator == "combine":
        modulus = arguments["modulus"]
        return of.combine(lambda item: [item] * (number(item) % modulus))
    raise ValueError(f"there is no operator {operator}")


class _Built:
    def __init__(self, parallel: ModuleType):
        self.parallel = parallel

    def shards(self, tree: dict):
        ((operator, arguments),) = tree.items()
        if operator == "items":
            return self.parallel.from_items(arguments["items"], num_shards=arguments["shards"])
        if operator == "range":
            return self.parallel.from_range(arguments["count"], num_shards=arguments["shards"])
        if operator == "repeated":
            return self.parallel.from_items(arguments["items"], num_shards=arguments["shards"], repeat=True)
        if operator == "generators":
            return self.parallel.from_iterators([_function_of(items) for items in arguments["items"]], repeat=arguments["repeat"])
        of = self.shards(arguments["of"])
        if operator == "local_shuffle":
            return of.local_shuffle(arguments["buffer"], seed=1)
        if operator == "repartition":
            return of.repartition(arguments["shards"])
        if operator == "select":
            return of.select_shards(arguments["numbers"])
        if operator == "union":
            return of.union(self.shards(arguments["other"]))
        return _common(operator, of, arguments)

    def flow(self, tree: dict):
        ((operator, arguments),) = tree.items()
        if operator == "gather_sync":
            return self.shards(arguments["of"]).gather_sync()
        if operator == "batch_across_shards":
            return self.shards(arguments["of"]).batch_across_shards()
        if operator == "gather_async":
            return self.shards(arguments["of"]).gather_async(num_async=arguments["ahead"])
        if operator == "shard":
            return self.shards(arguments["of"]).get_shard(arguments["number"], num_async=arguments["ahead"])
        if operator == "sources":
            return _sources(self.shards(arguments["of"]).gather_async())
        if operator in ("round_robin", "ready", "weighted"):
            return _joined(operator, [self.flow(flow) for flow in arguments["of"]], arguments)
        of = self.flow(arguments["of"])
        if operator == "shuffle":
            return of.shuffle(arguments["buffer"], seed=1)
        if operator == "copies":
            copies = of.duplicate(len(arguments["functions"]))
            copies = [copy.for_each(_function(function)) for copy, function in zip(copies, arguments["functions"])]
            return _joined("round_robin", copies, arguments)
        return _common(operator, of, arguments)


def _joined(operator: str, flows: list, arguments: dict):
    first, *others = flows
    if operator == "weighted":
        weights = ["*" if weight is None else weight for weight in arguments["weights"]]
        return first.union(*others, deterministic=arguments["deterministic"], round_robin_weights=weights)
    return first.union(*others, deterministic=operator == "round_robin")


def _sources(flow) -> list:
    """Returns the items of each source that has items, in no particular order."""
    groups = collections.defaultdict(list)
    for actor, item in flow.zip_with_source_actor():
        groups[actor].append(item)
    return list(groups.values())
