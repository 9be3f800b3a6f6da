"""The client and the writer of whole steps."""

from relive import client as _relive
from relive.writer import Writer as Writer


class Client(_relive.Client):
    """A client. As with dm-reverb, closing a writer that was not flushed is no error."""

    _tells_of_loss = False
