"""TF-Agents' own tests of its replay buffer and of its observers."""

from tf_agents.replay_buffers.reverb_replay_buffer_test import ReverbReplayBufferTest  # noqa: F401
from tf_agents.replay_buffers.reverb_utils_test import ReverbObserverTest, ReverbTableTests  # noqa: F401
