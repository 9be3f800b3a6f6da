//! Compiles the protocol files for Python, with protox, so that no protoc binary is needed.
//!
//! Python makes its message classes out of the descriptors at run time; no code is generated.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

const ROOTS: [&str; 3] = [
    "reverb/cc/reverb_service.proto",
    "reverb/cc/patterns.proto",
    "reverb/server_executable/reverb_config.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files(ROOTS)?;
    let path = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(path, compiler.encode_file_descriptor_set())?;
    Ok(())
}
