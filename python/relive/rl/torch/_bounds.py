"""Continuous actions that are scaled to their bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from relive.specs import BoundedArraySpec

# Half the distance between bounds from which on they are too wide to scale actions to them. Such bounds are usually the
# largest float32 numbers, which stand for no bounds.
WIDEST = 1e6


@dataclasses.dataclass(frozen=True, eq=False)
class Bounds:
    """The bounds of an environment's actions, into which drawn actions are mapped.

    Attributes:
      low: the smallest actions.
      high: the largest actions.
      center: the actions that a drawn 0 stands for.
      scale: the change of an action when the drawn number changes by 1.
    """

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    center: npt.NDArray[Any] | None = None
    scale: npt.NDArray[Any] | None = None

    @classmethod
    def of_scaled(cls, actions: BoundedArraySpec) -> Bounds:
        """Returns bounds for drawn actions that are scaled so that the bounds are -1 and 1. Numbers without two bounds
        within about ±10⁶ are not scaled, as by the agents without PyTorch."""
        low, high = actions.minimum.astype(np.float64), actions.maximum.astype(np.float64)
        # Infinite bounds may have no center, and no distance.
        with np.errstate(invalid="ignore"):
            center, half = high / 2 + low / 2, high / 2 - low / 2
        is_scaled, dtype = half < WIDEST, np.result_type(actions.dtype, np.float32)
        center, scale = (np.where(is_scaled, value, other).astype(dtype) for value, other in ((center, 0), (half, 1)))
        return cls(actions.minimum, actions.maximum, center, scale)

    def within(self, drawn: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the actions that drawn ones stand for, clipped to the bounds."""
        if self.center is not None and self.scale is not None:
            drawn = self.center + self.scale * drawn
        actions: npt.NDArray[Any] = np.clip(drawn, self.low, self.high)
        return actions
