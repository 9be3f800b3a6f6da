"""Where dm-reverb keeps its messages."""
