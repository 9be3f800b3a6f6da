"""dm-reverb's message classes, under the names of its C++ sources."""
