// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use prost::Message;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::watching::phase_of;
use super::{FakeGateway, Key, World, no_service, one};
use crate::api::openshell::v1::{SandboxPhase, ServiceHealth};
use crate::api::sandbox::v1::{
    WaitFailure, WaitFailureCause, WaitServiceRequest, WaitServiceResponse,
};
use crate::health::{HealthState, duration, wire_duration};
use crate::wait::{Details, WAIT_FAILURE};

/// A wait, and what it has seen.
struct Waiting {
    key: Key,
    states: Vec<i32>,
    began: Instant,
    found: bool,
    last: Option<ServiceHealth>,
    phase: i32,
    exit_code: Option<i32>,
}

impl FakeGateway {
    pub(super) async fn wait(
        &self,
        request: &WaitServiceRequest,
    ) -> Result<WaitServiceResponse, Status> {
        let workspace = one(request.workspace_scope.as_ref())?;
        let mut waiting = Waiting {
            key: (workspace, request.sandbox.clone(), request.name.clone()),
            states: match request.states.as_slice() {
                [] => vec![HealthState::Healthy.to_wire()],
                states => states.to_vec(),
            },
            began: Instant::now(),
            found: false,
            last: None,
            phase: 0,
            exit_code: None,
        };
        let mut changed = self.changed.subscribe();
        let mut broken = self.broken.subscribe();
        let limit = request.timeout.as_ref().and_then(duration);
        let over = async move {
            match limit {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            changed.borrow_and_update();
            if let Some(answer) = waiting.look(&self.lock())? {
                return Ok(answer);
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = broken.changed() => {
                    let status = broken.borrow_and_update().clone();
                    return Err(status.unwrap_or_else(|| Status::unavailable("stopping")));
                }
                () = &mut over => {
                    return Err(waiting.fail(Code::DeadlineExceeded, WaitFailureCause::Timeout));
                }
            }
        }
    }
}

impl Waiting {
    fn look(&mut self, world: &World) -> Result<Option<WaitServiceResponse>, Status> {
        let sandbox = world
            .sandboxes
            .get(&(self.key.0.clone(), self.key.1.clone(), String::new()));
        let over = |w: &Self, cause| Err(w.fail(Code::FailedPrecondition, cause));
        let Some(stored) = world.services.get(&self.key) else {
            return match (self.found, sandbox) {
                (false, _) => Err(no_service(&self.key)),
                (true, None) => over(self, WaitFailureCause::SandboxDeleted),
                (true, Some(_)) => over(self, WaitFailureCause::ServiceDeleted),
            };
        };
        self.found = true;
        self.last = stored.health.clone();
        self.phase = phase_of(world, &self.key);
        self.exit_code = sandbox
            .and_then(|s| s.status.as_ref())
            .and_then(|s| s.exit_code);
        let state = stored.health.as_ref().map_or(0, |h| h.state);
        if self.states.contains(&state) {
            return Ok(Some(WaitServiceResponse {
                service: Some(World::answer(&self.key, stored)),
                sandbox_phase: self.phase,
                elapsed: Some(wire_duration(self.began.elapsed())),
            }));
        }
        match SandboxPhase::try_from(self.phase) {
            Ok(SandboxPhase::Stopped | SandboxPhase::Stopping) => {
                over(self, WaitFailureCause::SandboxStopped)
            }
            Ok(SandboxPhase::Error) => over(self, WaitFailureCause::MainProcessExited),
            Ok(SandboxPhase::Deleting) => over(self, WaitFailureCause::SandboxDeleted),
            _ => Ok(None),
        }
    }

    fn fail(&self, code: Code, cause: WaitFailureCause) -> Status {
        let failure = WaitFailure {
            cause: cause.into(),
            workspace: self.key.0.clone(),
            sandbox: self.key.1.clone(),
            name: self.key.2.clone(),
            states: self.states.clone(),
            elapsed: Some(wire_duration(self.began.elapsed())),
            last_health: self.last.clone(),
            sandbox_phase: self.phase,
            exit_code: self.exit_code,
        };
        let text = format!(
            "service {:?} of sandbox {:?} is not as wanted: {}",
            self.key.2,
            self.key.1,
            cause.as_str_name()
        );
        let details = Details {
            code: code.into(),
            message: text.clone(),
            details: vec![prost_types::Any {
                type_url: WAIT_FAILURE.into(),
                value: failure.encode_to_vec(),
            }],
        };
        Status::with_details(code, text, details.encode_to_vec().into())
    }
}
