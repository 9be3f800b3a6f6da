"""Where dm-reverb keeps what makes its package; empty, as there."""
