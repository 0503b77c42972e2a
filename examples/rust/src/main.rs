// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::error::Error;
use std::time::Duration;

use sandbox_agent::api::openshell::v1::{
    CreateSandboxRequest, DeleteSandboxRequest, HttpReadinessCheck, SandboxServiceExposure,
    SandboxSpec,
};
use sandbox_agent::{Client, Health, Options, wait_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The gateway of this machine, or the one that the environment names.
    let client = Client::connect(Options::discover()?)?;

    // Start something, wait until it is ready, go on.
    let command = "python3 -m http.server 8080 --bind 127.0.0.1";
    client
        .create_sandbox(CreateSandboxRequest {
            name: "hello-rust".into(),
            annotations: [("sandbox-agent.dev/driver".into(), "local".into())].into(),
            spec: Some(SandboxSpec {
                command: command.split(' ').map(Into::into).collect(),
                ..Default::default()
            }),
            service_exposures: vec![SandboxServiceExposure {
                target_port: 8080,
                readiness_check: Some(HttpReadinessCheck { path: "/".into() }),
                ..Default::default()
            }],
            ..Default::default()
        })
        .await?;
    let outcome = wait_and_call(&client).await;
    client
        .delete_sandbox(DeleteSandboxRequest {
            name: "hello-rust".into(),
            ..Default::default()
        })
        .await?;
    outcome
}

async fn wait_and_call(client: &Client) -> Result<(), Box<dyn Error>> {
    // An error names the target, the time, the last state and the last reason.
    let request = wait_request("hello-rust", "", Duration::from_secs(60));
    let ready = client
        .wait_for_service(request)
        .await?
        .service
        .unwrap_or_default();
    println!("{} is {}", ready.url, Health::of(&ready).state);

    // Browsers take every name below localhost for this machine, a resolver may
    // not: dial localhost, and leave the name in Host.
    let host = ready
        .url
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let port = host.rsplit(':').next().unwrap_or("80");
    let mut stream = TcpStream::connect(format!("localhost:{port}")).await?;
    stream
        .write_all(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("it answers {}", answer.lines().next().unwrap_or_default());
    Ok(())
}
