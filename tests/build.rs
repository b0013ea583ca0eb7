//! Code generator: keeps the protobuf files with their comments, of which the OpenAPI document is made.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 3] = [
    "leasehold/v1/lock.proto",
    "leasehold/v1/election.proto",
    "leasehold/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../proto");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let descriptors = protox::compile(FILES, ["../proto"])?;
    fs::write(
        out_dir.join("commented_descriptors.bin"),
        descriptors.encode_to_vec(),
    )?;
    Ok(())
}
