//! Code generator: makes Rust from the conformance suite's protobuf files, which are those of connectrpc.com/conformance v1.0.7.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 3] = [
    "connectrpc/conformance/v1/config.proto",
    "connectrpc/conformance/v1/server_compat.proto",
    "connectrpc/conformance/v1/service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut descriptors = protox::compile(FILES, ["proto"])?;
    fs::write(
        out_dir.join("conformance_descriptors.bin"),
        descriptors.encode_to_vec(),
    )?;
    let services = descriptors
        .file
        .iter_mut()
        .flat_map(|file| &mut file.service);
    for service in services {
        // Left to tonic's answer for a method that a service does not have.
        service
            .method
            .retain(|method| method.name() != "Unimplemented");
        for method in &mut service.method {
            // tonic lets no unary handler choose trailers, nor headers beside an error. On the wire of gRPC, a response is a stream of
            // one message.
            method.server_streaming = Some(true);
        }
    }
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
