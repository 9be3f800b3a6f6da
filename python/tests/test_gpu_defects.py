"""Each of the 24 known defects of GEAR's released source has a test, which docs/gpu.md names."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest
from relive import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_each_defect_names_existing_tests() -> None:
    section = (ROOT / "docs/gpu.md").read_text().split("## Defects that have tests")[1]
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", section, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 25))
    sources = [*(ROOT / "crates/relive-gpu").rglob("*.rs"), *(ROOT / "python/tests").glob("test_gpu*.py")]
    tests = {name for source in sources for name in re.findall(r"^ *(?:fn|def) (\w+)\(", source.read_text(), re.MULTILINE)}
    for number, row in rows:
        named = re.findall(r"`(\w+)`", row)
        assert named and tests.issuperset(named), f"defect {number}: there is no {set(named) - tests}"


@pytest.mark.parametrize("name", ["GpuStore", "GpuReader", "GpuWriter", "GpuLoader"])
def test_the_extension_has_every_declared_member(name: str) -> None:
    """Defect 12: the type checker sees the declarations, and this test checks that they are complete."""
    declared = ast.parse((ROOT / "python/relive/_native.pyi").read_text())
    (described,) = (node for node in declared.body if isinstance(node, ast.ClassDef) and node.name == name)
    methods = {node.name for node in described.body if isinstance(node, ast.FunctionDef)} - {"__new__", "__len__"}
    assert {method for method in vars(getattr(_native, name)) if not method.startswith("__")} == methods
