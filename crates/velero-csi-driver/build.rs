//! Makes the messages and services of the container storage interface, and of kubelet's registration, from `proto/`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let definitions = protox::compile(["proto/csi.proto", "proto/pluginregistration.proto"], ["proto"])?;
    tonic_prost_build::configure().build_client(false).compile_fds(definitions)?;
    Ok(())
}
