//! `cargo xtask ptx`: compiles the kernels of `relive-gpu` with NVRTC, which is available as a wheel and needs no GPU.
//! A test of the crate fails while the PTX is older than the sources.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{process, python};

const KERNELS: &str = "crates/relive-gpu/kernels";

pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = root.join(KERNELS);
    let compiler = folder.join("compile.py");
    process::run(Command::new(python::NVRTC.python(root)?).arg(compiler).arg(folder))
}
