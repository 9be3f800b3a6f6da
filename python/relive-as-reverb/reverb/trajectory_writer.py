"""The writer of items that refer to any cells of the newest steps."""

from relive.trajectory_writer import TrajectoryColumn as TrajectoryColumn
from relive.trajectory_writer import TrajectoryWriter as TrajectoryWriter
from relive.trajectory_writer import _ColumnHistory as _ColumnHistory
