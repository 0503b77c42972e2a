// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Creates a sandbox, waits until its service is ready, says where and how it
//! is, and deletes the sandbox. With a command the gateway's local driver runs
//! it; without one the sandbox is somebody else's to start.
//!
//! ```sh
//! cargo run --example create_and_wait -- demo 8080 / python3 -m http.server 8080
//! ```

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use sandbox_agent::api::openshell::v1::{
    CreateSandboxRequest, DeleteSandboxRequest, HttpReadinessCheck, SandboxServiceExposure,
    SandboxSpec,
};
use sandbox_agent::{Client, Health, Options, wait_request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, port, path, command @ ..] = args.as_slice() else {
        eprintln!("usage: create_and_wait SANDBOX PORT READINESS_PATH [COMMAND ...]");
        return ExitCode::from(2);
    };
    match run(name, port, path, command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("create_and_wait: {err}");
            ExitCode::FAILURE
        }
    }
}

async fn run(name: &str, port: &str, path: &str, command: &[String]) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(Options::discover()?)?;
    let exposure = SandboxServiceExposure {
        service: String::new(),
        target_port: port.parse()?,
        readiness_check: Some(HttpReadinessCheck { path: path.into() }),
    };
    let driver = if command.is_empty() {
        "external"
    } else {
        "local"
    };
    let request = CreateSandboxRequest {
        name: name.into(),
        annotations: [("sandbox-agent.dev/driver".to_owned(), driver.to_owned())].into(),
        spec: Some(SandboxSpec {
            command: command.to_vec(),
            ..Default::default()
        }),
        service_exposures: vec![exposure],
        ..Default::default()
    };
    let created = client.create_sandbox(request).await?;
    for url in created.service_urls.values() {
        println!("{url}");
    }
    let outcome = client
        .wait_for_service(wait_request(name, "", Duration::from_secs(60)))
        .await;
    let request = DeleteSandboxRequest {
        name: name.into(),
        allow_missing: true,
        ..Default::default()
    };
    client.delete_sandbox(request).await?;
    let health = Health::of(&outcome?.service.unwrap_or_default());
    println!("{} ({})", health.state, health.reason);
    Ok(())
}
