"""A description of the machine, for reports."""

from __future__ import annotations

import os
import pathlib
import platform


def machine() -> dict:
    return {"cpu": _cpu(), "cores": os.cpu_count(), "memory_gb": round(_memory_bytes() / 1e9, 1),
            "system": platform.platform(), "load": round(os.getloadavg()[0], 1)}


def _cpu() -> str:
    rows = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [row.split(":", 1)[1].strip() for row in rows if row.startswith("model name")]
    return models[0] if models else platform.processor()


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
