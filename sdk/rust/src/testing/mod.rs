// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! An in-memory gateway for the tests of programs that use this crate (feature
//! `testing`).
//!
//! It is served within the process and opens no socket, so that it works in a
//! runtime whose clock is paused: `#[tokio::test(start_paused = true)]`. It does
//! what a gateway does with stored objects; health is what the test says it is.
//!
//! ```
//! use sandbox_agent::api::openshell::v1::GetServiceRequest;
//! use sandbox_agent::testing::{self, FakeGateway};
//! use sandbox_agent::{Health, HealthState};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gateway = FakeGateway::new();
//! gateway.put_service(testing::endpoint("web", "docs", 8080), None);
//! gateway.set_health("", "web", "docs", testing::health(HealthState::Healthy, "OK"));
//!
//! let client = gateway.client();
//! let request = GetServiceRequest { sandbox: "web".into(), name: "docs".into(), ..Default::default() };
//! let answer = client.get_service(request).await?;
//! assert_eq!(Health::of(&answer).state, HealthState::Healthy);
//! # Ok(())
//! # }
//! ```

mod calls;
mod serve;
mod waiting;
mod watching;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use crate::api::openshell::datamodel::v1::{
    ObjectMeta, WorkspaceSelector, workspace_selector::Selection,
};
use crate::api::openshell::v1::{
    HealthResponse, Sandbox, ServiceEndpoint, ServiceEndpointResponse, ServiceHealth, ServiceStatus,
};
use crate::client::Client;
use crate::health::HealthState;
use crate::token::Token;

/// Workspace, sandbox, service; the service of a sandbox itself is empty.
type Key = (String, String, String);

/// The gateway. Clones are the same one.
#[derive(Clone)]
pub struct FakeGateway {
    token: Token,
    world: Arc<Mutex<World>>,
    /// Counts changes of the world.
    changed: watch::Sender<u64>,
    /// How the watches and waits that are open now are to end.
    broken: watch::Sender<Option<Status>>,
}

#[derive(Default)]
struct World {
    version: u64,
    page_size: usize,
    sandboxes: BTreeMap<Key, Sandbox>,
    services: BTreeMap<Key, Stored>,
    own: HealthResponse,
    fail: BTreeMap<String, Status>,
    hang: BTreeMap<String, watch::Sender<bool>>,
    requests: Vec<String>,
    muted: bool,
    unreachable: bool,
    open: usize,
}

/// A service with its health.
#[derive(Clone, Default)]
struct Stored {
    endpoint: ServiceEndpoint,
    health: Option<ServiceHealth>,
    /// When the health was said, if an attempt stands behind it.
    checked: Option<Instant>,
}

impl Default for FakeGateway {
    fn default() -> Self {
        FakeGateway::new()
    }
}

impl FakeGateway {
    /// An empty, healthy gateway that needs no token.
    pub fn new() -> Self {
        FakeGateway::with_token("")
    }

    /// One that wants a token with every call but `Health`. Its
    /// [`client`](FakeGateway::client) has the token.
    pub fn with_token(token: impl Into<Token>) -> Self {
        let own = HealthResponse {
            status: ServiceStatus::Healthy.into(),
            version: "0.0.0-fake".into(),
        };
        let world = World {
            own,
            page_size: 100,
            ..World::default()
        };
        FakeGateway {
            token: token.into(),
            world: Arc::new(Mutex::new(world)),
            changed: watch::Sender::new(0),
            broken: watch::Sender::new(None),
        }
    }

    /// A client of this gateway, with a connection of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and if the token fits no header.
    pub fn client(&self) -> Client {
        Client::over(self.channel(), &self.token).expect("a token that fits a header")
    }

    /// Stores a sandbox as it is, under the workspace and name of its metadata.
    pub fn put_sandbox(&self, sandbox: Sandbox) {
        let meta = sandbox.metadata.clone().unwrap_or_default();
        let key = (workspace_or(&meta.workspace), meta.name, String::new());
        self.change(|world| world.sandboxes.insert(key, sandbox));
    }

    /// Stores a service and its health as they are; without a health none is
    /// answered.
    pub fn put_service(&self, endpoint: ServiceEndpoint, health: Option<ServiceHealth>) {
        let workspace = endpoint
            .metadata
            .as_ref()
            .map_or("", |m| m.workspace.as_str());
        let key = (
            workspace_or(workspace),
            endpoint.sandbox.clone(),
            endpoint.name.clone(),
        );
        let checked = checked(health.as_ref());
        let stored = Stored {
            endpoint,
            health,
            checked,
        };
        self.change(|world| world.services.insert(key, stored));
    }

    /// Replaces the health of a service, if there is such a service; the empty
    /// workspace is the default one.
    pub fn set_health(&self, workspace: &str, sandbox: &str, service: &str, health: ServiceHealth) {
        let key = (
            workspace_or(workspace),
            sandbox.to_owned(),
            service.to_owned(),
        );
        self.change(|world| {
            if let Some(stored) = world.services.get_mut(&key) {
                stored.checked = checked(Some(&health));
                stored.health = Some(health);
            }
        });
    }

    /// Replaces what the call `Health` answers.
    pub fn set_own_health(&self, health: HealthResponse) {
        self.change(|world| world.own = health);
    }

    /// How many entries a page has at most; 100 at first.
    pub fn set_page_size(&self, entries: usize) {
        self.change(|world| world.page_size = entries.max(1));
    }

    /// Makes every call of a method (`GetService`) end with a status.
    pub fn fail(&self, method: &str, status: Status) {
        self.change(|world| world.fail.insert(method.to_owned(), status));
    }

    /// Undoes [`fail`](FakeGateway::fail).
    pub fn heal(&self, method: &str) {
        self.change(|world| world.fail.remove(method));
    }

    /// Makes every call of a method wait until its caller gives up. The value
    /// becomes true once the first such call has arrived.
    pub fn hang(&self, method: &str) -> watch::Receiver<bool> {
        let (arrived, receiver) = watch::channel(false);
        self.change(|world| world.hang.insert(method.to_owned(), arrived));
        receiver
    }

    /// Makes watches say nothing any more, heartbeats included, or speak again.
    pub fn mute_watches(&self, muted: bool) {
        self.change(|world| world.muted = muted);
    }

    /// Ends every watch and every wait that is open with a status.
    pub fn break_watches(&self, status: Status) {
        self.broken.send_replace(Some(status));
    }

    /// Makes new connections fail, or succeed again; those that are open stay.
    pub fn set_unreachable(&self, unreachable: bool) {
        self.change(|world| world.unreachable = unreachable);
    }

    /// How many watches and waits are open.
    pub fn watches(&self) -> usize {
        self.lock().open
    }

    /// The methods that were called so far, in order, refused calls too.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let result = f(&mut self.lock());
        self.changed.send_modify(|n| *n += 1);
        result
    }
}

impl World {
    /// Makes the metadata of a new object.
    fn meta(&mut self, workspace: &str, name: &str) -> ObjectMeta {
        self.version += 1;
        ObjectMeta {
            id: format!("id-{}", self.version),
            name: name.to_owned(),
            resource_version: self.version,
            workspace: workspace.to_owned(),
            created_time: Some(SystemTime::now().into()),
            ..ObjectMeta::default()
        }
    }

    fn answer(key: &Key, stored: &Stored) -> ServiceEndpointResponse {
        let mut host = format!("{}--{}", key.0, key.1);
        if !key.2.is_empty() {
            host = format!("{host}--{}", key.2);
        }
        ServiceEndpointResponse {
            endpoint: Some(stored.endpoint.clone()),
            url: format!("http://{host}.sandbox.localhost:17680/"),
            health: stored.health.clone(),
        }
    }
}

fn checked(health: Option<&ServiceHealth>) -> Option<Instant> {
    health
        .and_then(|h| h.last_checked_time)
        .map(|_| Instant::now())
}

fn workspace_or(name: &str) -> String {
    if name.is_empty() { "default" } else { name }.to_owned()
}

/// The workspace of a request about one object.
fn one(scope: Option<&WorkspaceSelector>) -> Result<String, Status> {
    match scope.and_then(|s| s.selection.as_ref()) {
        None => Ok(workspace_or("")),
        Some(Selection::Workspace(name)) => Ok(workspace_or(name)),
        Some(Selection::AllWorkspaces(_)) => Err(Status::invalid_argument(
            "workspace_scope: all workspaces are for lists only",
        )),
    }
}

fn no_service(key: &Key) -> Status {
    Status::not_found(format!(
        "sandbox {:?} has no service {:?} in workspace {:?}",
        key.1, key.2, key.0
    ))
}

/// A service of the default workspace, for [`FakeGateway::put_service`].
pub fn endpoint(sandbox: &str, service: &str, port: u16) -> ServiceEndpoint {
    ServiceEndpoint {
        metadata: Some(ObjectMeta {
            id: format!("id-of-{sandbox}-{service}"),
            name: service.to_owned(),
            workspace: workspace_or(""),
            ..ObjectMeta::default()
        }),
        sandbox: sandbox.to_owned(),
        name: service.to_owned(),
        target_port: port.into(),
        ..ServiceEndpoint::default()
    }
}

/// A health, just checked, for [`FakeGateway::set_health`].
pub fn health(state: HealthState, reason: &str) -> ServiceHealth {
    ServiceHealth {
        state: state.to_wire(),
        reason: reason.to_owned(),
        last_checked_time: Some(SystemTime::now().into()),
        ..ServiceHealth::default()
    }
}
