"""Tables from a configuration."""

from relive.server_executable.server_from_proto import rate_limiter_from_proto as rate_limiter_from_proto
from relive.server_executable.server_from_proto import selector_from_proto as selector_from_proto
from relive.server_executable.server_from_proto import tables_from_proto as tables_from_proto
