"""The one platform there is."""
