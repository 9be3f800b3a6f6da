"""The errors."""

from relive.errors import DeadlineExceededError as DeadlineExceededError
from relive.errors import ReverbError as ReverbError
