"""Random programs yield the same items on relive-flow as on ray.util.iter."""

from __future__ import annotations

import json

import on_iterators
import programs


def test_random_programs_match_ray(seed, ray_session, relive_flow):
    from ray.util import iter as ray_iterators
    from relive import flow

    program = programs.program(seed)
    expected = on_iterators.run(program, ray_iterators)
    ours = {**relive_flow[seed], "Python": on_iterators.run(program, flow)}
    for executor, items in ours.items():
        found, wanted = (_comparable(program, items) for items in (items, expected))
        assert found == wanted, f"on {executor}, seed {seed}: {json.dumps(program)}"


def _comparable(program: dict, items: list) -> list:
    """Returns the items, sorted if their order is not determined."""
    if program["is_ordered"]:
        return items
    if "sources" in program["flow"]:
        items = [_sorted(of_source) for of_source in items]
    return _sorted(items)


def _sorted(items: list) -> list:
    return sorted(items, key=json.dumps)
