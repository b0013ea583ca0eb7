//! Code generator: makes Rust from `proto/` with protox, so that no `protoc` needs to be installed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 5] = [
    "leasehold/v1/admin.proto",
    "leasehold/v1/election.proto",
    "leasehold/v1/lock.proto",
    "leasehold/v1/session.proto",
    "leasehold/v1/types.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // Protox keeps comments, which become the documentation of the generated items; reflection has no use for them.
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .compile_fds(descriptors.clone())?;
    let mut plain = descriptors;
    for file in &mut plain.file {
        file.source_code_info = None;
    }
    fs::write(
        out_dir.join("leasehold_descriptors.bin"),
        plain.encode_to_vec(),
    )?;
    Ok(())
}
