"""The oldest supported version of Gymnasium. Single environments also work with older ones."""

from __future__ import annotations

import re

import gymnasium

_OLDEST = (1, 2, 2)


def expect_supported() -> None:
    """Raises ImportError if Gymnasium is too old."""
    if tuple(map(int, re.findall(r"\d+", gymnasium.__version__)[:3])) < _OLDEST:
        raise ImportError(
            f"Gymnasium {gymnasium.__version__} is installed, but vectors and native environments require {'.'.join(map(str, _OLDEST))} or "
            "newer: pip install --upgrade gymnasium"
        )
