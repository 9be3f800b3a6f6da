"""Where dm-reverb keeps what depends on the platform; here it is ``relive.checkpointers``."""
