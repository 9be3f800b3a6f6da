"""A server from a configuration."""
