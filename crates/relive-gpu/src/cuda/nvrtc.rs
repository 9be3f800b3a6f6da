//! Compiles kernels on this machine, if NVRTC is installed.

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts, sys};

use crate::{Error, ErrorKind, Result};

/// Returns PTX for this compute capability, or `None` if NVRTC is missing.
pub(crate) fn compile(source: &str, architecture: u32) -> Option<Result<String>> {
    // SAFETY: the call only opens and closes the library.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    // Sums and products must not be fused, because the CPU implementation does not fuse them.
    let options = CompileOptions {
        fmad: Some(false),
        options: vec![format!("--gpu-architecture=compute_{architecture}"), "--std=c++17".to_owned()],
        ..CompileOptions::default()
    };
    let compiled = compile_ptx_with_opts(source, options).map(|ptx| ptx.to_src());
    Some(compiled.map_err(|error| {
        let text = format!("cannot compile the kernels for compute capability {architecture}: {error:?}");
        Error::new(ErrorKind::System, text)
    }))
}
