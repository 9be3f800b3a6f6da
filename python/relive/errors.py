"""The exceptions of this package.

Every error that a server or the connection to it causes is a ``ReverbError``. Each class also derives from the builtin
exception that programs written for dm-reverb catch (``RuntimeError``, ``ValueError``, ``IndexError``,
``NotImplementedError``). Old and new ``except`` clauses therefore both work.

| Class | also | When |
|---|---|---|
| ``DeadlineExceededError`` | ``TimeoutError`` | a timeout given by the caller expired |
| ``InvalidArgumentError`` | ``ValueError`` | an argument that is always invalid |
| ``NotFoundError`` | ``RuntimeError``, ``ValueError`` | an unknown table; dm-reverb's choice depends on the call |
| ``UnavailableError`` | ``RuntimeError`` | no server responds |
| ``CancelledError`` | ``RuntimeError`` | the server or the table was closed while the call waited |
| ``ClosedError`` | ``RuntimeError`` | the writer, sampler or server was closed before the call |
| ``FailedPreconditionError`` | ``RuntimeError`` | the state does not allow the call |
| ``DataLossError`` | ``RuntimeError`` | stored or received bytes are damaged |
| ``ProtocolError`` | ``RuntimeError`` | the other side violated the protocol |
| ``PermissionDeniedError`` | ``RuntimeError`` | the server rejects the caller |
| ``InternalError`` | ``RuntimeError`` | a fault of the server |
| ``ResourceExhaustedError`` | ``IndexError`` | a limit of the server was reached |
| ``UnimplementedError`` | ``NotImplementedError`` | the server does not support the call |
"""


# Copies would share one compiled writer, which each of them would close.
_NOT_COPIED = "a writer cannot be copied or pickled; create another one with the client"


class ReverbError(Exception):
    """Base class of all errors of this package."""


def _allows_flush(error: BaseException | None) -> bool:
    """Returns whether a writer still sends its remaining items if its ``with`` block ends with ``error``.

    A rejected argument does not affect earlier items. An error of the server or the connection would occur again, and
    a program that Ctrl-C interrupts should not wait.
    """
    if isinstance(error, ReverbError):
        return isinstance(error, ValueError)
    return not isinstance(error, KeyboardInterrupt)


class DeadlineExceededError(ReverbError, TimeoutError):
    """The timeout given by the caller expired before the call completed."""


class InvalidArgumentError(ReverbError, ValueError):
    """An argument that is invalid regardless of the server's state."""


class NotFoundError(ReverbError, RuntimeError, ValueError):
    """The table does not exist or, in :mod:`relive.gpu`, the store, column or trajectory does not exist."""


class UnavailableError(ReverbError, RuntimeError):
    """No server responds at the address, or a resource of :mod:`relive.gpu` is in use or missing. A retry may
    succeed."""


class CancelledError(ReverbError, RuntimeError):
    """The table or the server was closed during the call."""


class ClosedError(ReverbError, RuntimeError):
    """The writer, sampler or server was closed before the call."""


class FailedPreconditionError(ReverbError, RuntimeError):
    """The current state does not allow the call."""


class DataLossError(ReverbError, RuntimeError):
    """Stored or received bytes are damaged."""


class ProtocolError(ReverbError, RuntimeError):
    """The peer violated the protocol."""


class PermissionDeniedError(ReverbError, RuntimeError):
    """The server rejects this caller."""


class InternalError(ReverbError, RuntimeError):
    """An internal error of the server, or the operating system refused to give :mod:`relive.gpu` memory, a file or a
    thread."""


class ResourceExhaustedError(ReverbError, IndexError):
    """A limit of the server was reached."""


class UnimplementedError(ReverbError, NotImplementedError):
    """The server does not support this call; dm-reverb's server does not support Relive's own calls."""
