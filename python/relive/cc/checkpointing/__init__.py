"""The message classes of checkpoints."""
