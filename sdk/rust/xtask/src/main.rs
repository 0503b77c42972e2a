// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Generates the Rust code of the public protos, without protoc.
//!
//! `cargo run -p xtask` writes `src/generated`; a test holds that it is what the
//! protos generate.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    match write(&out()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("xtask: {err}");
            ExitCode::FAILURE
        }
    }
}

fn write(out: &Path) -> Result<(), Box<dyn Error>> {
    let made = generate()?;
    fs::create_dir_all(out)?;
    for old in files(out)?.into_keys() {
        if !made.contains_key(&old) {
            fs::remove_file(out.join(old))?;
        }
    }
    for (name, content) in made {
        fs::write(out.join(name), content)?;
    }
    Ok(())
}

fn out() -> PathBuf {
    root().join("src/generated")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The descriptors of the public API.
fn descriptors() -> Result<prost_types::FileDescriptorSet, Box<dyn Error>> {
    let protos = [
        "openshell/v1/openshell.proto",
        "openshell/datamodel/v1/datamodel.proto",
        "sandbox/v1/watch.proto",
    ];
    Ok(protox::compile(protos, [root().join("../../api")])?)
}

/// The generated files, by name.
fn generate() -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let scratch = env::temp_dir().join(format!("sandbox-agent-xtask-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let made = generate_into(&scratch);
    fs::remove_dir_all(&scratch)?;
    made
}

fn generate_into(dir: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    tonic_prost_build::configure()
        .out_dir(dir)
        .btree_map(".")
        .build_transport(false)
        .server_mod_attribute(".", "#[cfg(feature = \"testing\")]")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors()?)?;
    let mut made = BTreeMap::new();
    for (name, content) in files(dir)? {
        let head =
            "// Copyright The sandbox-agent Authors\n// SPDX-License-Identifier: Apache-2.0\n\n";
        made.insert(name, format!("{head}{content}"));
    }
    Ok(made)
}

fn files(dir: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        found.insert(name.into_owned(), fs::read_to_string(&path)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
