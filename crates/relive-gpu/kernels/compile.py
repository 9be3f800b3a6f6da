"""Compiles the kernels to PTX with NVRTC, which needs no GPU: `compile.py FOLDER`, in an environment with NVRTC's
wheel.

`cargo xtask ptx` creates such an environment and runs this program.
"""

from __future__ import annotations

import ctypes
import sys
from importlib import util
from pathlib import Path

# In the order in which src/cuda/image.rs concatenates them.
SOURCES = ("common.cuh", "philox.cuh", "math.cuh", "select.cu", "collect.cu")
ARCHITECTURES = (80, 90)


def fingerprint(text: bytes) -> int:
    """FNV-1a in 64 bits, as in src/cuda/image.rs."""
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


class Compiler:
    """NVRTC, loaded from its wheel."""

    def __init__(self) -> None:
        nvidia = util.find_spec("nvidia")
        if nvidia is None or nvidia.submodule_search_locations is None:
            raise SystemExit("NVRTC's wheel (nvidia-cuda-nvrtc) is not installed in this environment")
        places = [Path(place) for place in nvidia.submodule_search_locations]
        # NVRTC opens its builtins by name, which succeeds if they are already loaded.
        builtins = [path for place in places for path in place.rglob("libnvrtc-builtins.so.*")]
        self._builtins = ctypes.CDLL(str(builtins[0]), mode=ctypes.RTLD_GLOBAL)
        found = [path for place in places for path in place.rglob("libnvrtc.so.*")]
        self._library = ctypes.CDLL(str(found[0]))

    def compile(self, source: bytes, architecture: int) -> bytes:
        """PTX for GPUs of an architecture and of later architectures."""
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source, b"relive.cu", 0, None, None)
        options = [f"--gpu-architecture=compute_{architecture}".encode(), b"--fmad=false", b"--std=c++17"]
        array = (ctypes.c_char_p * len(options))(*options)
        try:
            self._call("nvrtcCompileProgram", program, len(options), array)
        except SystemExit as error:
            raise SystemExit(f"{error}\n{self._text(program, 'ProgramLog').decode()}") from None
        return self._text(program, "PTX").rstrip(b"\0")

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, text)
        return text.raw

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name} failed with code {code}")


def main() -> None:
    folder = Path(sys.argv[1])
    source = b"".join((folder / name).read_bytes() for name in SOURCES)
    compiler = Compiler()
    for architecture in ARCHITECTURES:
        ptx = compiler.compile(source, architecture)
        path = folder / f"relive_{architecture}.ptx"
        path.write_bytes(f"// sources {fingerprint(source):016x}\n".encode() + ptx)
        print(f"{path}: {len(ptx):,} bytes")


if __name__ == "__main__":
    main()
