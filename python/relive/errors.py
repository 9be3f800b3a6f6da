"""The exceptions of this package.

Every error that a server or the connection to it causes is a ``ReverbError``. Each kind is also the builtin exception
that programs written for dm-reverb catch (``RuntimeError``, ``ValueError``, ``IndexError``, ``NotImplementedError``),
so that old and new ``except`` clauses both work.

| Class | also | When |
|---|---|---|
| ``DeadlineExceededError`` | ``TimeoutError`` | a timeout given by the caller ran out |
| ``InvalidArgumentError`` | ``ValueError`` | an argument that can never work |
| ``NotFoundError`` | ``RuntimeError``, ``ValueError`` | an unknown table; dm-reverb has the one or the other by call |
| ``UnavailableError`` | ``RuntimeError`` | no server answers |
| ``CancelledError`` | ``RuntimeError`` | the server or the table was closed while the call waited |
| ``ClosedError`` | ``RuntimeError`` | the writer, sampler or server was closed before the call |
| ``FailedPreconditionError`` | ``RuntimeError`` | the state does not allow the call |
| ``DataLossError`` | ``RuntimeError`` | stored or received bytes are damaged |
| ``ProtocolError`` | ``RuntimeError`` | the other side broke the protocol |
| ``PermissionDeniedError`` | ``RuntimeError`` | the server refuses the caller |
| ``InternalError`` | ``RuntimeError`` | a fault of the server |
| ``ResourceExhaustedError`` | ``IndexError`` | a limit of the server was reached |
| ``UnimplementedError`` | ``NotImplementedError`` | the server does not know the call |
"""


class ReverbError(Exception):
    """Base class of all errors of this package."""


def _lets_flush(error: BaseException | None) -> bool:
    """Whether a writer that is left because of ``error`` sends what it has.

    A refused argument says nothing of the items before it. What comes from the server or the connection would come again,
    and who interrupts does not want to wait.
    """
    if isinstance(error, ReverbError):
        return isinstance(error, ValueError)
    return error is None or isinstance(error, Exception)


class DeadlineExceededError(ReverbError, TimeoutError):
    """The timeout given by the caller ran out before the call was done."""


class InvalidArgumentError(ReverbError, ValueError):
    """An argument that cannot work, whatever the state of the server."""


class NotFoundError(ReverbError, RuntimeError, ValueError):
    """The table does not exist; or the store, column or trajectory of :mod:`relive.gpu`."""


class UnavailableError(ReverbError, RuntimeError):
    """No server answers at the address, or what :mod:`relive.gpu` needs is taken or not there. Trying again later may work."""


class CancelledError(ReverbError, RuntimeError):
    """The table or the server was closed while the call waited."""


class ClosedError(ReverbError, RuntimeError):
    """The writer, sampler or server has been closed before the call."""


class FailedPreconditionError(ReverbError, RuntimeError):
    """The call is not possible in the present state."""


class DataLossError(ReverbError, RuntimeError):
    """Bytes that were stored or received are damaged."""


class ProtocolError(ReverbError, RuntimeError):
    """The other side sent something that the protocol does not allow."""


class PermissionDeniedError(ReverbError, RuntimeError):
    """The server refuses this caller."""


class InternalError(ReverbError, RuntimeError):
    """A fault inside of the server; or the system refused memory, a file or a thread to :mod:`relive.gpu`."""


class ResourceExhaustedError(ReverbError, IndexError):
    """A limit of the server was reached."""


class UnimplementedError(ReverbError, NotImplementedError):
    """The server does not know this call, as dm-reverb's server does not know Relive's own ones."""
