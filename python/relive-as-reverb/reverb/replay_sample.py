"""What a sample is."""

from relive.replay_sample import ReplaySample as ReplaySample
from relive.replay_sample import SampleInfo as SampleInfo
