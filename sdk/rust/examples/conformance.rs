// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! The driver of the conformance tests: reads one JSON object a line, makes the
//! call that it names, writes one JSON object a line. The protocol is that of
//! `test/conformance/README.md`.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use sandbox_agent::api::openshell::v1::*;
use sandbox_agent::api::sandbox::v1::{WaitServiceRequest, WatchServicesRequest};
use sandbox_agent::api::workspace;
use sandbox_agent::{
    Client, Error, ErrorKind, Health, HealthState, Options, ServiceWatch, WaitError,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(Options::discover()?)?;
    let mut driver = Driver {
        client,
        watch: None,
    };
    // Standard input is read in a thread of its own: it would block the runtime.
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let call = Call(serde_json::from_str(&line?)?);
        let answer = match driver.call(&call).await {
            Ok(result) => json!({ "ok": result }),
            Err(Failed(error)) => json!({ "error": error }),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// What to do; a member that is not there is the call's default.
struct Call(Map<String, Value>);

impl Call {
    fn text(&self, member: &str) -> String {
        self.0
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    fn number(&self, member: &str) -> u64 {
        self.0
            .get(member)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }

    fn flag(&self, member: &str) -> bool {
        self.0
            .get(member)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    fn millis(&self, member: &str) -> Duration {
        Duration::from_millis(self.number(member))
    }
}

/// An error as the protocol has it.
struct Failed(Value);

impl Failed {
    fn new(kind: &str, message: &str) -> Self {
        Failed(json!({ "kind": kind, "message": message }))
    }
}

fn kind(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::Timeout => "DeadlineExceeded".to_owned(),
        other => format!("{other:?}"),
    }
}

impl From<Error> for Failed {
    fn from(err: Error) -> Self {
        Failed::new(&kind(err.kind()), &err.to_string())
    }
}

impl From<WaitError> for Failed {
    fn from(err: WaitError) -> Self {
        let cause = upper_snake(&format!("{:?}", err.cause()));
        Failed(json!({
            "kind": kind(err.error().kind()),
            "message": err.to_string(),
            "wait": {
                "cause": cause,
                "sandbox": err.target().sandbox,
                "service": err.target().service,
                "elapsed_ms": millis(err.elapsed()),
                "last_state": err.last_state().to_string(),
                "last_reason": err.last_reason(),
            },
        }))
    }
}

/// `SandboxStopped` as `SANDBOX_STOPPED`.
fn upper_snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

struct Driver {
    client: Client,
    watch: Option<ServiceWatch>,
}

impl Driver {
    async fn call(&mut self, call: &Call) -> Result<Value, Failed> {
        match call.text("op").as_str() {
            "health" => {
                let status = self.client.health().await?.status();
                Ok(json!({ "status": short(status.as_str_name(), "SERVICE_STATUS_") }))
            }
            "watch_open" => self.watch_open(call).await,
            "watch_until" => self.watch_until(call).await,
            "watch_idle" => self.watch_idle(call).await,
            "watch_close" => {
                self.watch = None;
                Ok(json!({}))
            }
            op if op.ends_with("_sandbox") || op == "list_sandboxes" => {
                self.sandbox_call(op, call).await
            }
            op => self.service_call(op, call).await,
        }
    }

    async fn sandbox_call(&self, op: &str, call: &Call) -> Result<Value, Failed> {
        let (name, workspace_scope) = (call.text("sandbox"), workspace(&call.text("workspace")));
        let request_id = String::new();
        let answer = match op {
            "create_sandbox" => {
                let request = create_request(call, name, workspace_scope);
                self.client.create_sandbox(request).await?
            }
            "get_sandbox" => {
                self.client
                    .get_sandbox(GetSandboxRequest {
                        name,
                        workspace_scope,
                    })
                    .await?
            }
            "stop_sandbox" => {
                let request = StopSandboxRequest {
                    name,
                    workspace_scope,
                    request_id,
                };
                self.client.stop_sandbox(request).await?
            }
            "start_sandbox" => {
                let request = StartSandboxRequest {
                    name,
                    workspace_scope,
                    request_id,
                };
                self.client.start_sandbox(request).await?
            }
            "list_sandboxes" => {
                let label_selector = call.text("selector");
                let request = ListSandboxesRequest {
                    label_selector,
                    workspace_scope,
                    ..Default::default()
                };
                let all = self.client.list_sandboxes(request).all().await?;
                let names: BTreeSet<_> = all
                    .into_iter()
                    .filter_map(|s| s.metadata)
                    .map(|m| m.name)
                    .collect();
                return Ok(json!({ "sandboxes": names }));
            }
            "delete_sandbox" => {
                let allow_missing = call.flag("allow_missing");
                let request = DeleteSandboxRequest {
                    name,
                    workspace_scope,
                    allow_missing,
                    request_id,
                };
                let outcome = self.client.delete_sandbox(request).await?.outcome();
                return Ok(json!({ "outcome": short(outcome.as_str_name(), "DELETION_OUTCOME_") }));
            }
            other => return Err(Failed::new("Driver", &format!("no such op: {other}"))),
        };
        let sandbox = answer.sandbox.unwrap_or_default();
        let phase = sandbox.status.unwrap_or_default().phase();
        Ok(json!({
            "sandbox": sandbox.metadata.unwrap_or_default().name,
            "phase": short(phase.as_str_name(), "SANDBOX_PHASE_"),
            "urls": answer.service_urls,
        }))
    }

    async fn service_call(&self, op: &str, call: &Call) -> Result<Value, Failed> {
        let (sandbox, name) = (call.text("sandbox"), call.text("service"));
        let workspace_scope = workspace(&call.text("workspace"));
        match op {
            "expose" => {
                let request = ExposeServiceRequest {
                    sandbox,
                    name,
                    target_port: port(call.0.get("port")),
                    workspace_scope,
                    request_id: call.text("request_id"),
                    readiness_check: check(call.0.get("readiness_path")),
                    ..Default::default()
                };
                Ok(service(&self.client.expose_service(request).await?))
            }
            "get" => {
                let request = GetServiceRequest {
                    sandbox,
                    name,
                    workspace_scope,
                };
                Ok(service(&self.client.get_service(request).await?))
            }
            "list" => {
                let page_size = i32::try_from(call.number("page_size")).unwrap_or_default();
                let request = ListServicesRequest {
                    sandbox,
                    page_size,
                    workspace_scope,
                    ..Default::default()
                };
                let all = self.client.list_services(request).all().await?;
                let name =
                    |s: &ServiceEndpointResponse| s.endpoint.clone().unwrap_or_default().name;
                let distinct: BTreeSet<_> = all.iter().map(name).collect();
                Ok(json!({ "count": all.len(), "distinct": distinct.len() }))
            }
            "delete" => {
                let request = DeleteServiceRequest {
                    sandbox,
                    name,
                    workspace_scope,
                    allow_missing: call.flag("allow_missing"),
                    ..Default::default()
                };
                let outcome = self.client.delete_service(request).await?.outcome();
                Ok(json!({ "outcome": short(outcome.as_str_name(), "DELETION_OUTCOME_") }))
            }
            "wait" => {
                let limit = call.millis("timeout_ms");
                let request = WaitServiceRequest {
                    workspace_scope,
                    states: states(call),
                    ..sandbox_agent::wait_request(&sandbox, &name, limit)
                };
                let began = Instant::now();
                let answer = self.client.wait_for_service(request).await?;
                let mut result = service(&answer.service.unwrap_or_default());
                result["elapsed_ms"] = millis(began.elapsed()).into();
                Ok(result)
            }
            other => Err(Failed::new("Driver", &format!("no such op: {other}"))),
        }
    }

    async fn watch_open(&mut self, call: &Call) -> Result<Value, Failed> {
        let mut watch = self.client.watch_services(WatchServicesRequest {
            sandbox: call.text("sandbox"),
            workspace_scope: workspace(&call.text("workspace")),
            ..Default::default()
        });
        while let Some(update) = watch.next().await {
            if update?.connected {
                break;
            }
        }
        let services: Vec<_> = watch
            .services()
            .iter()
            .map(|s| service(&s.service))
            .collect();
        self.watch = Some(watch);
        Ok(json!({ "services": services }))
    }

    async fn watch_until(&mut self, call: &Call) -> Result<Value, Failed> {
        let watch = self
            .watch
            .as_mut()
            .ok_or_else(|| Failed::new("Driver", "no watch is open"))?;
        let limit = call.millis("limit_ms");
        let waiting = async {
            loop {
                if let Some(found) = wanted(watch, call) {
                    return Ok(found);
                }
                match watch.next().await {
                    Some(update) => update?,
                    None => return Err(Failed::new("Driver", "the watch has ended")),
                };
            }
        };
        match timeout(limit, waiting).await {
            Ok(result) => result,
            Err(_) => {
                let last: Vec<_> = watch
                    .services()
                    .iter()
                    .map(|s| service(&s.service))
                    .collect();
                Err(Failed::new(
                    "Limit",
                    &format!("not within {limit:?}; the watch has {last:?}"),
                ))
            }
        }
    }

    async fn watch_idle(&mut self, call: &Call) -> Result<Value, Failed> {
        let watch = self
            .watch
            .as_mut()
            .ok_or_else(|| Failed::new("Driver", "no watch is open"))?;
        let mut updates = 0;
        let counting = async {
            while let Some(update) = watch.next().await {
                update?;
                updates += 1;
            }
            Err(Failed::new("Driver", "the watch has ended"))
        };
        match timeout(call.millis("ms"), counting).await {
            Ok(ended) => ended,
            Err(_) => Ok(json!({ "updates": updates })),
        }
    }
}

/// What `watch_until` waits for, if it is so now.
fn wanted(watch: &ServiceWatch, call: &Call) -> Option<Value> {
    let name = call.text("service");
    let list = watch.services();
    let found = list
        .iter()
        .find(|s| s.service.endpoint.as_ref().is_some_and(|e| e.name == name));
    let Some(found) = found else {
        return call.flag("gone").then(|| json!({ "gone": true }));
    };
    let (health, reason) = (found.health(), call.text("reason"));
    let right = !call.flag("gone")
        && health.state.to_string() == call.text("state")
        && (reason.is_empty() || reason == health.reason);
    right.then(|| service(&found.service))
}

fn create_request(
    call: &Call,
    name: String,
    workspace_scope: Option<sandbox_agent::api::openshell::datamodel::v1::WorkspaceSelector>,
) -> CreateSandboxRequest {
    let exposures = call.0.get("exposures").and_then(Value::as_array);
    let exposure = |e: &Value| SandboxServiceExposure {
        service: e["service"].as_str().unwrap_or_default().to_owned(),
        target_port: port(e.get("port")),
        readiness_check: check(e.get("readiness_path")),
    };
    let labels = call.0.get("labels").and_then(Value::as_object);
    let label = |(k, v): (&String, &Value)| (k.clone(), v.as_str().unwrap_or_default().to_owned());
    CreateSandboxRequest {
        name,
        workspace_scope,
        labels: labels.into_iter().flatten().map(label).collect(),
        service_exposures: exposures.into_iter().flatten().map(exposure).collect(),
        ..Default::default()
    }
}

fn port(value: Option<&Value>) -> u32 {
    let number = value.and_then(Value::as_u64).unwrap_or_default();
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A path that is there and empty is a check with an empty path.
fn check(value: Option<&Value>) -> Option<HttpReadinessCheck> {
    let path = value?.as_str()?.to_owned();
    Some(HttpReadinessCheck { path })
}

fn states(call: &Call) -> Vec<i32> {
    let named = call.0.get("states").and_then(Value::as_array);
    let all = [
        HealthState::Unknown,
        HealthState::Healthy,
        HealthState::Unhealthy,
    ];
    let find = |v: &Value| {
        all.into_iter()
            .find(|s| Some(s.to_string().as_str()) == v.as_str())
    };
    named
        .into_iter()
        .flatten()
        .filter_map(find)
        .map(HealthState::to_wire)
        .collect()
}

/// A service, and what the crate reads of it.
fn service(answer: &ServiceEndpointResponse) -> Value {
    let (endpoint, health) = (
        answer.endpoint.clone().unwrap_or_default(),
        Health::of(answer),
    );
    json!({
        "sandbox": endpoint.sandbox,
        "service": endpoint.name,
        "port": endpoint.target_port,
        "readiness_path": endpoint.readiness_check.map(|c| c.path),
        "url": answer.url,
        "answered": answer.health.is_some(),
        "state": health.state.to_string(),
        "ready": health.ready,
        "reason": health.reason,
        "http_status": health.http_status.unwrap_or_default(),
    })
}

fn short<'a>(name: &'a str, prefix: &str) -> &'a str {
    name.strip_prefix(prefix).unwrap_or(name)
}
