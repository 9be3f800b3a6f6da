"""The only platform there is."""
