// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use tonic::{Request, Response, Status};

use super::{FakeGateway, Key, Stored, World, no_service, one};
use crate::api::openshell::datamodel::v1::{WorkspaceSelector, workspace_selector::Selection};
use crate::api::openshell::v1::open_shell_server::OpenShell;
use crate::api::openshell::v1::*;

type Answer<T> = Result<Response<T>, Status>;

fn absent() -> Status {
    Status::unimplemented("the fake gateway does not have this call")
}

#[tonic::async_trait]
impl OpenShell for FakeGateway {
    async fn health(&self, _: Request<HealthRequest>) -> Answer<HealthResponse> {
        Ok(Response::new(self.lock().own.clone()))
    }

    async fn get_current_user(
        &self,
        _: Request<GetCurrentUserRequest>,
    ) -> Answer<GetCurrentUserResponse> {
        Err(absent())
    }

    async fn get_gateway_info(
        &self,
        _: Request<GetGatewayInfoRequest>,
    ) -> Answer<GetGatewayInfoResponse> {
        Err(absent())
    }

    async fn get_workspace(&self, _: Request<GetWorkspaceRequest>) -> Answer<GetWorkspaceResponse> {
        Err(absent())
    }

    async fn list_workspaces(
        &self,
        _: Request<ListWorkspacesRequest>,
    ) -> Answer<ListWorkspacesResponse> {
        Err(absent())
    }

    async fn create_sandbox(&self, r: Request<CreateSandboxRequest>) -> Answer<SandboxResponse> {
        let r = r.into_inner();
        self.change(|world| world.create(r)).map(Response::new)
    }

    async fn get_sandbox(&self, r: Request<GetSandboxRequest>) -> Answer<SandboxResponse> {
        let r = r.into_inner();
        let key = sandbox_key(r.workspace_scope.as_ref(), &r.name)?;
        answer(self.lock().sandbox(&key)?)
    }

    async fn list_sandboxes(
        &self,
        r: Request<ListSandboxesRequest>,
    ) -> Answer<ListSandboxesResponse> {
        let (r, world) = (r.into_inner(), self.lock());
        let fits = |key: &Key, s: &Sandbox| {
            in_scope(r.workspace_scope.as_ref(), key)
                && selected(&r.label_selector, s.metadata.as_ref().map(|m| &m.labels))
        };
        let all = world
            .sandboxes
            .iter()
            .filter(|(k, s)| fits(k, s))
            .map(|(_, s)| s.clone());
        let (sandboxes, next_page_token) =
            page(all.collect(), world.page_size, r.page_size, &r.page_token)?;
        Ok(Response::new(ListSandboxesResponse {
            sandboxes,
            next_page_token,
        }))
    }

    async fn delete_sandbox(
        &self,
        r: Request<DeleteSandboxRequest>,
    ) -> Answer<DeleteSandboxResponse> {
        let r = r.into_inner();
        let key = sandbox_key(r.workspace_scope.as_ref(), &r.name)?;
        let found = self.change(|world| {
            world
                .services
                .retain(|k, _| (&k.0, &k.1) != (&key.0, &key.1));
            world.sandboxes.remove(&key)
        });
        let outcome = outcome(found.is_some(), r.allow_missing).ok_or_else(|| no_sandbox(&key))?;
        let sandbox_id = found.and_then(|s| s.metadata).unwrap_or_default().id;
        Ok(Response::new(DeleteSandboxResponse {
            outcome,
            sandbox_id,
        }))
    }

    async fn stop_sandbox(&self, r: Request<StopSandboxRequest>) -> Answer<SandboxResponse> {
        let r = r.into_inner();
        let key = sandbox_key(r.workspace_scope.as_ref(), &r.name)?;
        answer(self.change(|world| world.turn(&key, SandboxPhase::Stopped))?)
    }

    async fn start_sandbox(&self, r: Request<StartSandboxRequest>) -> Answer<SandboxResponse> {
        let r = r.into_inner();
        let key = sandbox_key(r.workspace_scope.as_ref(), &r.name)?;
        answer(self.change(|world| world.turn(&key, SandboxPhase::Starting))?)
    }

    async fn expose_service(
        &self,
        r: Request<ExposeServiceRequest>,
    ) -> Answer<ServiceEndpointResponse> {
        let r = r.into_inner();
        self.change(|world| world.expose(r)).map(Response::new)
    }

    async fn get_service(&self, r: Request<GetServiceRequest>) -> Answer<ServiceEndpointResponse> {
        let r = r.into_inner();
        let key = (one(r.workspace_scope.as_ref())?, r.sandbox, r.name);
        let world = self.lock();
        let stored = world.services.get(&key).ok_or_else(|| no_service(&key))?;
        Ok(Response::new(World::answer(&key, stored)))
    }

    async fn list_services(&self, r: Request<ListServicesRequest>) -> Answer<ListServicesResponse> {
        let (r, world) = (r.into_inner(), self.lock());
        let owner = sandbox_key(r.workspace_scope.as_ref(), &r.sandbox);
        if let (Ok(owner), false) = (&owner, r.sandbox.is_empty()) {
            world.sandbox(owner)?;
        }
        let fits = |key: &Key| {
            in_scope(r.workspace_scope.as_ref(), key)
                && (r.sandbox.is_empty() || r.sandbox == key.1)
        };
        let all = world.services.iter().filter(|(k, _)| fits(k));
        let all = all.map(|(k, s)| World::answer(k, s)).collect();
        let (services, next_page_token) = page(all, world.page_size, r.page_size, &r.page_token)?;
        Ok(Response::new(ListServicesResponse {
            services,
            next_page_token,
        }))
    }

    async fn delete_service(
        &self,
        r: Request<DeleteServiceRequest>,
    ) -> Answer<DeleteServiceResponse> {
        let r = r.into_inner();
        let key = (one(r.workspace_scope.as_ref())?, r.sandbox, r.name);
        let found = self.change(|world| world.services.remove(&key)).is_some();
        let outcome = outcome(found, r.allow_missing).ok_or_else(|| no_service(&key))?;
        Ok(Response::new(DeleteServiceResponse { outcome }))
    }
}

impl World {
    fn sandbox(&self, key: &Key) -> Result<Sandbox, Status> {
        self.sandboxes
            .get(key)
            .cloned()
            .ok_or_else(|| no_sandbox(key))
    }

    fn turn(&mut self, key: &Key, phase: SandboxPhase) -> Result<Sandbox, Status> {
        let sandbox = self.sandboxes.get_mut(key).ok_or_else(|| no_sandbox(key))?;
        sandbox.status.get_or_insert_default().phase = phase.into();
        Ok(sandbox.clone())
    }

    fn create(&mut self, mut r: CreateSandboxRequest) -> Result<SandboxResponse, Status> {
        if r.name.is_empty() {
            r.name = format!("sandbox-{:08}", self.version + 1);
        }
        let key = sandbox_key(r.workspace_scope.as_ref(), &r.name)?;
        if self.sandboxes.contains_key(&key) {
            return Err(Status::already_exists(format!(
                "sandbox {:?} exists",
                r.name
            )));
        }
        for e in &r.service_exposures {
            check_port(e.target_port)?;
        }
        let mut metadata = self.meta(&key.0, &r.name);
        metadata.labels = r.labels;
        metadata.annotations = r.annotations;
        let sandbox = Sandbox {
            metadata: Some(metadata),
            spec: r.spec,
            status: Some(SandboxStatus {
                phase: SandboxPhase::Provisioning.into(),
                ..SandboxStatus::default()
            }),
        };
        self.sandboxes.insert(key, sandbox.clone());
        let mut service_urls = BTreeMap::new();
        for e in r.service_exposures {
            let answer = self.expose(ExposeServiceRequest {
                sandbox: r.name.clone(),
                name: e.service.clone(),
                target_port: e.target_port,
                workspace_scope: r.workspace_scope.clone(),
                readiness_check: e.readiness_check,
                ..ExposeServiceRequest::default()
            })?;
            service_urls.insert(e.service, answer.url);
        }
        Ok(SandboxResponse {
            sandbox: Some(sandbox),
            service_urls,
        })
    }

    fn expose(&mut self, r: ExposeServiceRequest) -> Result<ServiceEndpointResponse, Status> {
        let owner = sandbox_key(r.workspace_scope.as_ref(), &r.sandbox)?;
        let sandbox_id = self.sandbox(&owner)?.metadata.unwrap_or_default().id;
        check_port(r.target_port)?;
        let key = (owner.0, r.sandbox.clone(), r.name.clone());
        let mut metadata = self.meta(&key.0, &r.name);
        let old = self.services.get(&key);
        if let Some(old) = old.and_then(|s| s.endpoint.metadata.as_ref()) {
            metadata.id = old.id.clone();
            metadata.created_time = old.created_time;
        }
        let kept = old.and_then(|s| s.endpoint.readiness_check.clone());
        let mut readiness_check = r.readiness_check.or(kept);
        if let Some(check) = readiness_check.as_mut().filter(|c| c.path.is_empty()) {
            check.path = "/".into();
        }
        let same = old.filter(|s| {
            s.endpoint.target_port == r.target_port && s.endpoint.readiness_check == readiness_check
        });
        let reason = if old.is_some() {
            "ConfigurationChanged"
        } else {
            "NotObserved"
        };
        let unknown = ServiceHealth {
            state: ServiceHealthState::Unknown.into(),
            reason: reason.into(),
            message: "The agent has not checked this service yet.".into(),
            ..ServiceHealth::default()
        };
        let stored = Stored {
            health: same.map_or(Some(unknown), |s| s.health.clone()),
            checked: same.and_then(|s| s.checked),
            endpoint: ServiceEndpoint {
                metadata: Some(metadata),
                sandbox_id,
                sandbox: r.sandbox,
                name: r.name,
                target_port: r.target_port,
                domain: r.domain,
                readiness_check,
            },
        };
        let answer = World::answer(&key, &stored);
        self.services.insert(key, stored);
        Ok(answer)
    }
}

fn answer(sandbox: Sandbox) -> Answer<SandboxResponse> {
    let service_urls = BTreeMap::new();
    Ok(Response::new(SandboxResponse {
        sandbox: Some(sandbox),
        service_urls,
    }))
}

fn sandbox_key(scope: Option<&WorkspaceSelector>, name: &str) -> Result<Key, Status> {
    Ok((one(scope)?, name.to_owned(), String::new()))
}

fn no_sandbox(key: &Key) -> Status {
    Status::not_found(format!("no sandbox {:?} in workspace {:?}", key.1, key.0))
}

fn check_port(port: u32) -> Result<(), Status> {
    if (1..=65535).contains(&port) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "target_port: {port} is not within 1..65535"
    )))
}

/// None for what is missing and may not be.
fn outcome(found: bool, allow_missing: bool) -> Option<i32> {
    match (found, allow_missing) {
        (true, _) => Some(DeletionOutcome::Completed.into()),
        (false, true) => Some(DeletionOutcome::AlreadyAbsent.into()),
        (false, false) => None,
    }
}

pub(super) fn in_scope(scope: Option<&WorkspaceSelector>, key: &Key) -> bool {
    match scope.and_then(|s| s.selection.as_ref()) {
        Some(Selection::AllWorkspaces(_)) => true,
        _ => one(scope).is_ok_and(|workspace| workspace == key.0),
    }
}

pub(super) fn selected(selector: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    selector
        .split(',')
        .filter(|term| !term.is_empty())
        .all(|term| {
            let (key, value) = term.split_once('=').unwrap_or((term, ""));
            labels
                .and_then(|l| l.get(key))
                .is_some_and(|got| got == value)
        })
}

/// One page of a list, and the token of the next.
fn page<T>(
    mut list: Vec<T>,
    most: usize,
    size: i32,
    token: &str,
) -> Result<(Vec<T>, String), Status> {
    let wrong = || Status::invalid_argument("page_token: is not one of this gateway's");
    let begin = match token {
        "" => 0,
        token => token
            .parse()
            .ok()
            .filter(|n| *n <= list.len())
            .ok_or_else(wrong)?,
    };
    let size = usize::try_from(size)
        .ok()
        .filter(|n| *n > 0)
        .unwrap_or(most)
        .min(most);
    let mut rest = list.split_off(begin);
    if rest.len() <= size {
        return Ok((rest, String::new()));
    }
    rest.truncate(size);
    Ok((rest, (begin + size).to_string()))
}
