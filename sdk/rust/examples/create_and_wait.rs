// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Creates a sandbox, waits until its service is ready, calls it, deletes the
//! sandbox.
//!
//! ```sh
//! cargo run --example create_and_wait -- demo 8080 /readyz
//! ```

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use sandbox_agent::api::openshell::v1::{
    CreateSandboxRequest, DeleteSandboxRequest, HttpReadinessCheck, SandboxServiceExposure,
};
use sandbox_agent::{Client, Health, Options, wait_request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, port, path] = args.as_slice() else {
        eprintln!("usage: create_and_wait SANDBOX PORT READINESS_PATH");
        return ExitCode::from(2);
    };
    match run(name, port, path).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("create_and_wait: {err}");
            ExitCode::FAILURE
        }
    }
}

async fn run(name: &str, port: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(Options::discover()?)?;
    let exposure = SandboxServiceExposure {
        service: String::new(),
        target_port: port.parse()?,
        readiness_check: Some(HttpReadinessCheck { path: path.into() }),
    };
    let request = CreateSandboxRequest {
        name: name.into(),
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
