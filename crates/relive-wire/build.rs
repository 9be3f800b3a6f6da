//! Compiles the protocol files with protox, so that no protoc binary is needed.

use std::error::Error;

const ROOTS: [&str; 5] = [
    "relive/v1/relive.proto",
    "relive/v1/bulk.proto",
    "reverb/cc/reverb_service.proto",
    "reverb/cc/patterns.proto",
    "reverb/server_executable/reverb_config.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(ROOTS, ["proto"])?;
    let path = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(path, prost_types_encode(&descriptors))?;
    let mut config = tonic_prost_build::Config::new();
    config.bytes(["."]).enable_type_names();
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}

fn prost_types_encode(descriptors: &impl prost::Message) -> Vec<u8> {
    descriptors.encode_to_vec()
}
