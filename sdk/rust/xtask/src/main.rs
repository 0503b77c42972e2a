// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Generates the Rust code of the public protos, without protoc.
//!
//! `cargo run -p xtask [-- --check]` writes `src/generated`, or says what in it
//! is not what the protos generate.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let check = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("xtask: the only argument is --check");
            return ExitCode::from(2);
        }
    };
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("xtask: {err}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<(), Box<dyn Error>> {
    let out = root().join("src/generated");
    let made = generate()?;
    if check {
        return compare(&out, &made);
    }
    fs::create_dir_all(&out)?;
    for old in files(&out)?.into_keys() {
        if !made.contains_key(&old) {
            fs::remove_file(out.join(old))?;
        }
    }
    for (name, content) in made {
        fs::write(out.join(name), content)?;
    }
    Ok(())
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

fn compare(dir: &Path, made: &BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    let there = files(dir)?;
    for name in there.keys().chain(made.keys()) {
        if there.get(name) != made.get(name) {
            return Err(format!(
                "src/generated/{name} is not what the protos generate (make sdk-rust-generate)"
            )
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
