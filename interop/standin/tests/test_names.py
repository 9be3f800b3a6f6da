"""Every public name of dm-reverb, as returned by `dir()` and listed in `dm_reverb_names.txt`.

Each line lists a module and its names, or a class and its members. `record` below rewrites the file, and must run on
dm-reverb.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import pkgutil

import pytest
import reverb

_FILE = pathlib.Path(__file__).parent.parent / "dm_reverb_names.txt"

# Names that the stand-in lacks. `docs/migrating-from-reverb.md` lists them, with the reasons.
_MISSING = {
    # Parts of the generator of dm-reverb's operations.
    "reverb.cc.ops.gen_reverb_ops": {
        "k",
        "reverb_client_eager_fallback",
        "reverb_client_insert_eager_fallback",
        "reverb_client_sample_eager_fallback",
        "reverb_client_update_priorities_eager_fallback",
        "reverb_pattern_dataset_eager_fallback",
        "reverb_timestep_dataset_eager_fallback",
        "reverb_trajectory_dataset_eager_fallback",
        # This operation takes a compiled TensorFlow function, without the structure of steps.
        "reverb_pattern_dataset",
        "ReverbPatternDataset",
    },
}

# Modules without a file, which TensorFlow creates when a library is loaded.
_NOT_MODULES = {"reverb.cc.ops.libgen_reverb_ops_gen_op"}


def _recorded():
    lines = (line.split(":") for line in _FILE.read_text().splitlines() if line)
    return {place: set(names.split()) for place, names in lines}


def _modules():
    names = ["reverb"]
    packages = [reverb]
    while packages:
        package = packages.pop()
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            try:
                imported = importlib.import_module(module.name)
            except ImportError:
                # Libraries that are not Python modules.
                continue
            if module.name in _NOT_MODULES or module.name.rpartition(".")[2].startswith("_"):
                continue
            names.append(module.name)
            if module.ispkg:
                packages.append(imported)
    return sorted(names)


def _public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def _is_ours(thing):
    """Returns whether ``thing`` is a class of dm-reverb, except for protobuf messages, which have a separate test."""
    return inspect.isclass(thing) and thing.__module__.startswith("reverb.") and not hasattr(thing, "DESCRIPTOR")


def record():
    places = {}
    for name in _modules():
        module = importlib.import_module(name)
        places[name] = _public(module)
        for attribute in sorted(_public(module)):
            thing = getattr(module, attribute)
            if _is_ours(thing):
                places[f"{name} {attribute}"] = _public(thing)
    return {place: names for place, names in sorted(places.items())}


def test_the_record_is_complete(is_standin):
    if is_standin:
        pytest.skip("the record is of dm-reverb")
    # Other tests import more of TensorFlow, which adds members to its datasets.
    assert {place: sorted(names) for place, names in record().items()} == {
        place: sorted(names) for place, names in _recorded().items()
    }


@pytest.fixture(scope="module", autouse=True)
def _all_modules():
    """Imports every module: a package has the names of those of its modules that were imported."""
    _modules()


@pytest.mark.parametrize("place", _recorded())
def test_names(place):
    module, _, attribute = place.partition(" ")
    found = importlib.import_module(module)
    if attribute:
        found = getattr(found, attribute)
    wanted = _recorded()[place] - _missing(place)
    assert wanted - _public(found) == set()
    assert [name for name in wanted if not hasattr(found, name)] == []


def test_excused_names_are_really_missing(is_standin):
    if not is_standin:
        pytest.skip("dm-reverb has all of them")
    for place, names in _MISSING.items():
        assert names & _public(importlib.import_module(place)) == set()


def _missing(place):
    is_standin = "relive-as-reverb" in str(reverb.__file__)
    return _MISSING.get(place, set()) if is_standin else set()
