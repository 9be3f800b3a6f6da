"""dm-reverb's package of platform-dependent code; here it refers to ``relive.checkpointers``."""
