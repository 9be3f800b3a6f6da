"""The only platform."""

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    checkpointers="reverb.platform.default.checkpointers",
    ensure_tf_install="reverb.platform.default.ensure_tf_install",
    load_op_library="reverb.platform.default.load_op_library",
    server_main_command_line_args="reverb.platform.default.server_main_command_line_args",
)
