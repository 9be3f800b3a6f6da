"""Where dm-reverb keeps what depends on the platform."""
