"""The client and the writer of whole steps."""

from relive import client as _relive
from relive.writer import Writer as Writer


class Client(_relive.Client):
    """A client that does as dm-reverb's where that of :mod:`relive` does otherwise."""

    _as_reverb = True
