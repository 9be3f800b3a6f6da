"""What a server tells of its tables."""

from relive.reverb_types import *  # noqa: F403
from relive.reverb_types import TableInfo as TableInfo
