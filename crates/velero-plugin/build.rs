//! Makes the messages and services of the plugin protocol from `proto/`. The compiler of the definitions is a Rust
//! library, so that building needs no `protoc`.

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut files = Vec::new();
    for entry in fs::read_dir("proto")? {
        files.push(entry?.path());
    }
    files.sort();
    let definitions = protox::compile(&files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(definitions)?;
    Ok(())
}
