"""Servers from a configuration."""
