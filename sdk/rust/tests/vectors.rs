// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! The golden vectors that every SDK is held to; see `api/testdata/README.md`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use prost::Message;
use sandbox_agent::api::openshell::v1::{ListServicesResponse, ServiceEndpointResponse};
use sandbox_agent::api::{openshell, sandbox};
use sandbox_agent::{Health, HealthState};
use serde_json::{Value, json};

fn read(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/testdata");
    fs::read_to_string(dir.join(name)).expect("a file of the vectors")
}

fn bytes(name: &str) -> Vec<u8> {
    let hex = read(&format!("vectors/{name}.hex"));
    let digits: Vec<_> = hex
        .trim()
        .chars()
        .map(|c| c.to_digit(16).expect("hex") as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn again<M: Message + Default + PartialEq + std::fmt::Debug>(wire: &[u8]) -> Vec<u8> {
    let message = M::decode(wire).expect("a message");
    let encoded = message.encode_to_vec();
    let decoded = M::decode(encoded.as_slice()).expect("the same message");
    assert!(decoded == message, "{decoded:?} was {message:?}");
    encoded
}

/// The bytes without the empty keys of maps, which some libraries write and
/// prost, as it may, does not.
fn without_empty_keys(name: &str, wire: Vec<u8>) -> Vec<u8> {
    if name != "sandbox_ready" {
        return wire;
    }
    // service_urls: an entry of 48 bytes, of which the first two are its key.
    let entry = [0x12, 48, 0x0a, 0];
    let at = wire
        .windows(4)
        .position(|w| w == entry)
        .expect("an entry with an empty key");
    [&wire[..at], &[0x12, 46], &wire[at + 4..]].concat()
}

/// Decodes as the named message, and encodes it again.
fn transcode(message: &str, wire: &[u8]) -> Vec<u8> {
    use openshell::v1::*;
    use sandbox::v1::*;
    match message {
        "openshell.v1.ServiceEndpointResponse" => again::<ServiceEndpointResponse>(wire),
        "openshell.v1.SandboxResponse" => again::<SandboxResponse>(wire),
        "openshell.v1.ExposeServiceRequest" => again::<ExposeServiceRequest>(wire),
        "openshell.v1.ListServicesResponse" => again::<ListServicesResponse>(wire),
        "openshell.v1.GetServiceRequest" => again::<GetServiceRequest>(wire),
        "openshell.v1.ListServicesRequest" => again::<ListServicesRequest>(wire),
        "openshell.v1.DeleteServiceRequest" => again::<DeleteServiceRequest>(wire),
        "openshell.v1.CreateSandboxRequest" => again::<CreateSandboxRequest>(wire),
        "openshell.v1.DeleteServiceResponse" => again::<DeleteServiceResponse>(wire),
        "openshell.v1.HealthResponse" => again::<HealthResponse>(wire),
        "sandbox.v1.WatchServicesResponse" => again::<WatchServicesResponse>(wire),
        "sandbox.v1.WaitServiceRequest" => again::<WaitServiceRequest>(wire),
        "sandbox.v1.WaitFailure" => again::<WaitFailure>(wire),
        "sandbox.v1.ListServiceTransitionsResponse" => {
            again::<ListServiceTransitionsResponse>(wire)
        }
        other => panic!("a vector of {other}, which this test does not know"),
    }
}

fn cases() -> Vec<Value> {
    let list: Value = serde_json::from_str(&read("cases.json")).expect("JSON");
    list.as_array().expect("a list").clone()
}

#[test]
fn vectors_encode_to_what_they_were() {
    let cases = cases();
    assert!(
        cases.len() >= 40,
        "{} vectors: where are the others?",
        cases.len()
    );
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let wire = bytes(name);
        let encoded = transcode(case["message"].as_str().expect("a message"), &wire);
        if case["unknown_fields"] == json!(false) {
            assert_eq!(encoded, without_empty_keys(name, wire), "{name}");
        } else {
            // They are dropped; what is left is as it was. That it is what the
            // JSON says, the tests of xtask hold.
            assert!(encoded.len() < wire.len(), "{name} has no unknown field");
            assert_eq!(
                transcode(case["message"].as_str().unwrap(), &encoded),
                encoded,
                "{name}"
            );
        }
    }
}

#[test]
fn vectors_read_as_the_expected_views() {
    let mut seen = 0;
    for case in cases() {
        let name = case["name"].as_str().expect("a name");
        let wire = bytes(name);
        let answers = match case["message"].as_str() {
            Some("openshell.v1.ServiceEndpointResponse") => {
                vec![ServiceEndpointResponse::decode(wire.as_slice()).expect(name)]
            }
            Some("openshell.v1.ListServicesResponse") => {
                ListServicesResponse::decode(wire.as_slice())
                    .expect(name)
                    .services
            }
            _ => Vec::new(),
        };
        let views: Vec<_> = answers.iter().map(view).collect();
        assert_eq!(json!(views), case["views"], "{name}");
        seen += views.len();
    }
    assert!(seen > 40, "{seen} views");
}

fn view(answer: &ServiceEndpointResponse) -> Value {
    let (endpoint, health) = (
        answer.endpoint.clone().unwrap_or_default(),
        Health::of(answer),
    );
    json!({
        "sandbox": endpoint.sandbox,
        "service": endpoint.name,
        "state": health.state.to_string(),
        "ready": health.ready,
        "words": words(&health),
        "reason": health.reason,
        "message": health.message,
        "http_status": health.http_status.unwrap_or_default(),
        "failures": health.failures,
        "last_checked": health.last_checked.map(rfc3339).unwrap_or_default(),
        "last_transition": health.last_transition.map(rfc3339).unwrap_or_default(),
        "latency_ns": u64::try_from(health.latency.unwrap_or_default().as_nanos()).expect("a latency"),
        "address": health.address,
    })
}

fn words(health: &Health) -> String {
    let word = match (health.state, health.ready) {
        (HealthState::Healthy, true) => "Ready",
        (HealthState::Healthy, false) => "Responsive",
        (HealthState::Unhealthy, true) => "Not ready",
        (HealthState::Unhealthy, false) => "Unresponsive",
        (HealthState::Unknown, _) if health.reason.is_empty() => "Unknown",
        (HealthState::Unknown, _) => return format!("Unknown ({})", health.reason),
    };
    word.to_owned()
}

/// RFC 3339 with a Z and as few digits as needed.
fn rfc3339(t: SystemTime) -> String {
    let prost_types::Timestamp { seconds, nanos } = t.into();
    let stamp = prost_types::Timestamp { seconds, nanos: 0 };
    let whole = stamp.to_string();
    let digits = format!("{nanos:09}");
    match digits.trim_end_matches('0') {
        "" => whole,
        digits => format!("{}.{digits}Z", whole.trim_end_matches('Z')),
    }
}
