"""What the interop tests share: servers, raw clients, and the data that they write."""
