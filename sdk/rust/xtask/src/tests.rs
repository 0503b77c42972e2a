// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! That the generated code is current. And the golden vectors' JSON, which the
//! crate itself does not read: it has to mean what the bytes beside it do, and
//! what the generated code keeps of bytes with fields that it does not know.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use sandbox_agent::api::openshell::v1::{SandboxResponse, ServiceEndpointResponse};
use serde_json::{Value, json};

use super::*;

fn read(name: &str) -> String {
    fs::read_to_string(root().join("../../api/testdata").join(name)).expect("a file of the vectors")
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
        .map(|pair| (pair[0] << 4) | pair[1])
        .collect()
}

/// What the generated code keeps of a message with fields of a newer API.
fn known(message: &str, wire: &[u8]) -> Vec<u8> {
    match message {
        "openshell.v1.ServiceEndpointResponse" => ServiceEndpointResponse::decode(wire)
            .expect("a message")
            .encode_to_vec(),
        "openshell.v1.SandboxResponse" => SandboxResponse::decode(wire)
            .expect("a message")
            .encode_to_vec(),
        other => panic!("unknown fields in a vector of {other}, which this test does not know"),
    }
}

#[test]
fn json_means_what_the_bytes_do() {
    let pool = DescriptorPool::from_file_descriptor_set(descriptors().expect("protos"))
        .expect("descriptors");
    let cases: Value = serde_json::from_str(&read("cases.json")).expect("JSON");
    let mut seen = 0;
    for case in cases.as_array().expect("a list") {
        let (name, message) = (
            case["name"].as_str().expect("a name"),
            case["message"].as_str().expect("a type"),
        );
        if case["json"] == json!(false) {
            continue;
        }
        let kind = pool
            .get_message_by_name(message)
            .expect("a message of the API");
        let text = read(&format!("vectors/{name}.json"));
        let mut reader = serde_json::Deserializer::from_str(&text);
        let from_json = DynamicMessage::deserialize(kind.clone(), &mut reader).expect(name);
        let wire = match case["unknown_fields"] == json!(true) {
            true => known(message, &bytes(name)),
            false => bytes(name),
        };
        let from_wire = DynamicMessage::decode(kind, wire.as_slice()).expect(name);
        assert_eq!(from_json, from_wire, "{name}");
        seen += 1;
    }
    assert!(seen >= 40, "{seen} vectors: where are the others?");
}

#[test]
fn the_generated_code_is_current() {
    let (there, made) = (
        files(&out()).expect("src/generated"),
        generate().expect("protos"),
    );
    for name in there.keys().chain(made.keys()) {
        let same = there.get(name) == made.get(name);
        assert!(
            same,
            "src/generated/{name} is not what the protos generate (make sdk-rust-generate)"
        );
    }
}
