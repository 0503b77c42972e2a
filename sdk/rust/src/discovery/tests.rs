// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use super::*;

const CLIENT: &str = r#"{"api":"https://local:1","ca_file":"ca.crt","token_file":"admin.token","http":"http://local:2"}"#;

/// `NAME=VALUE ...`
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
    text.split_whitespace().filter_map(pair).collect()
}

fn find(env: &str, root: bool) -> Result<String, String> {
    let files = BTreeMap::from([
        ("/var/lib/sandbox-gateway/client.json", CLIENT),
        ("/var/lib/sandbox-gateway/admin.token", "root's\n"),
        ("/home/u/.local/state/sandbox-gateway/client.json", CLIENT),
        ("/home/u/.local/state/sandbox-gateway/admin.token", "home's"),
        (
            "/xdg/sandbox-gateway/client.json",
            r#"{"api":"https://local:1","token_file":"/abs/token"}"#,
        ),
        ("/abs/token", "absolute"),
        (
            "/dir/client.json",
            r#"{"api":"https://dir:1","token_file":"t"}"#,
        ),
        ("/dir/t", "dir's"),
        (
            "/empty/client.json",
            r#"{"api":"https://local:1","token_file":"t"}"#,
        ),
        ("/empty/t", " \n"),
        (
            "/lost/client.json",
            r#"{"api":"https://local:1","token_file":"t"}"#,
        ),
        ("/bare/client.json", r#"{"api":"https://bare:1"}"#),
        ("/noapi/client.json", r#"{"token_file":"t"}"#),
        ("/bad/client.json", "api: https://local:1"),
        ("/t", "file's"),
    ]);
    let env = pairs(env);
    let read = |file: &Path| match files.get(file.to_str().unwrap()) {
        Some(content) => Ok(content.as_bytes().to_vec()),
        None if file.starts_with("/secret") => Err(io::ErrorKind::PermissionDenied.into()),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    let get = |name: &str| env.get(name).cloned();
    let sources = Sources {
        env: Some(&get),
        root,
        read: &read,
    };
    let show = |o: Options| {
        let (token, ca) = o.secrets();
        format!(
            "{} {token} {}",
            o.address(),
            ca.map_or("-".into(), |f| f.display().to_string())
        )
    };
    sources.find().map(show).map_err(|err| err.to_string())
}

#[test]
fn what_names_what_and_which_of_several_wins() {
    for (env, root, want) in [
        (
            "",
            true,
            "https://local:1 root's /var/lib/sandbox-gateway/ca.crt",
        ),
        (
            "HOME=/home/u",
            false,
            "https://local:1 home's /home/u/.local/state/sandbox-gateway/ca.crt",
        ),
        (
            "HOME=/home/u XDG_STATE_HOME=/xdg",
            false,
            "https://local:1 absolute -",
        ),
        (
            "HOME=/home/u SANDBOX_GATEWAY_STATE_DIR=/dir",
            true,
            "https://dir:1 dir's -",
        ),
        (
            "HOME=/home/u SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=mine",
            false,
            "https://env:1 mine -",
        ),
        (
            "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=mine SANDBOX_TOKEN_FILE=/t SANDBOX_CA_FILE=/c",
            false,
            "https://env:1 mine /c",
        ),
        (
            "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN_FILE=/t",
            false,
            "https://env:1 file's -",
        ),
        (
            "SANDBOX_TOKEN=mine",
            true,
            "https://local:1 mine /var/lib/sandbox-gateway/ca.crt",
        ),
        (
            "SANDBOX_GATEWAY=https://local:1/",
            true,
            "https://local:1/ root's /var/lib/sandbox-gateway/ca.crt",
        ),
    ] {
        assert_eq!(find(env, root).as_deref(), Ok(want), "{env}");
    }
}

#[test]
fn what_is_not_found_is_said() {
    for (env, root, want) in [
        (
            "SANDBOX_GATEWAY=https://evil:1",
            true,
            "no token for the gateway at https://evil:1: name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN",
        ),
        (
            "HOME=/home/u SANDBOX_GATEWAY=https://evil:1",
            false,
            "no token for the gateway at https://evil:1",
        ),
        (
            "HOME=/nobody",
            false,
            "no gateway found in /nobody/.local/state/sandbox-gateway: start one with `sandbox-gateway serve`, or name it with SANDBOX_GATEWAY",
        ),
        (
            "",
            false,
            "no gateway is named, and without HOME there is no place to look for one: name it with SANDBOX_GATEWAY",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/secret",
            false,
            "/secret/client.json: permission denied",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/bad",
            false,
            "/bad/client.json: is not what a gateway writes",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/noapi",
            false,
            "/noapi/client.json: is not what a gateway writes: it has no",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/bare",
            false,
            "no token for the gateway at https://bare:1",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/empty",
            false,
            "/empty/t: the token file is empty",
        ),
        (
            "SANDBOX_GATEWAY_STATE_DIR=/lost",
            false,
            "/lost/t: entity not found",
        ),
        ("SANDBOX_TOKEN_FILE=/none", true, "/none: entity not found"),
    ] {
        let err = find(env, root).expect_err(env);
        assert!(err.starts_with(want), "{env}: {err}, want {want}");
    }
}

#[test]
fn a_state_directory_on_disk() {
    let dir = std::env::temp_dir().join(format!("sandbox-agent-{}", crate::new_request_id()));
    std::fs::create_dir(&dir).unwrap();
    let nothing = Options::from_state_dir(&dir).expect_err("no gateway");
    // Nobody looks into the environment, which therefore is no advice.
    let said = format!(
        "no gateway found in {}: start one with `sandbox-gateway serve`",
        dir.display()
    );
    assert_eq!(nothing.to_string(), said);
    assert!(
        matches!(nothing, DiscoveryError::NoGateway { dir: Some(d), environment: false } if d == dir)
    );
    std::fs::write(dir.join("client.json"), r#"{"api":"https://bare:1"}"#).unwrap();
    let bare = Options::from_state_dir(&dir).expect_err("no token");
    assert_eq!(
        bare.to_string(),
        "no token for the gateway at https://bare:1"
    );
    std::fs::write(dir.join("client.json"), CLIENT).unwrap();
    std::fs::write(dir.join("admin.token"), vec![b'x'; SMALL + 1]).unwrap();
    let large = Options::from_state_dir(&dir).expect_err("a large token");
    assert!(large.to_string().contains("larger than 64 KiB"), "{large}");
    std::fs::write(dir.join("admin.token"), "secret\n").unwrap();
    let options = Options::from_state_dir(&dir).unwrap();
    assert_eq!(options.address(), "https://local:1");
    assert_eq!(options.secrets().0, "secret");
    std::fs::remove_dir_all(&dir).unwrap();
}
