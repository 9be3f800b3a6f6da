"""`TFClient`, which needs TensorFlow."""

from typing import Any

from relive import tf_client as _relive

from reverb import _borrowed, _texts
from reverb.client import Client


class TFClient(_relive.TFClient):
    __doc__ = _relive.TFClient.__doc__

    def __init__(self, server_address: str | bytes, shared_name: str | None = None, name: str = "reverb") -> None:
        super().__init__(_texts.name(server_address), shared_name, name)
        # A client with dm-reverb's error texts.
        self._client = Client(server_address)

    @_texts.tells(_texts.UNKNOWN_TABLE)
    def _sample(self, table: str, dtypes: list[Any]) -> list[Any]:
        return super()._sample(table, dtypes)


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Optional Sequence",
    gen_reverb_ops="reverb.cc.ops.gen_reverb_ops",
    replay_sample="reverb.replay_sample",
    tf="tensorflow.compat.v1",
    tree="tree",
)
