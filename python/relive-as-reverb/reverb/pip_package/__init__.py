"""dm-reverb's package of build scripts; empty, as in dm-reverb."""
