"""Where dm-reverb keeps the messages of checkpoints."""
