"""Shared code of the interop tests: servers, raw clients, and the data that they write."""
