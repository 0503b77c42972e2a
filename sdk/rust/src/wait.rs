// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;

use crate::api::openshell::datamodel::v1::workspace_selector::Selection;
use crate::api::openshell::v1::SandboxPhase;
use crate::api::sandbox::v1::{
    WaitFailure, WaitFailureCause, WaitServiceRequest, WaitServiceResponse,
};
use crate::calls::named;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::health::{Health, HealthState, duration, wire_duration};
use crate::retry::pause;

const OP: &str = "wait for service";

/// How much longer than the timeout that the gateway knows of a call may take,
/// so that it is the gateway that answers.
const GRACE: Duration = Duration::from_secs(2);

/// Why a wait has ended without the state it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitCause {
    /// The time is over.
    Timeout,
    /// The sandbox is stopped, or was asked to stop.
    SandboxStopped,
    /// The sandbox was deleted, or is being deleted.
    SandboxDeleted,
    /// The service was deleted.
    ServiceDeleted,
    /// The main process of the sandbox has ended.
    MainProcessExited,
    /// The gateway has another cause, which this version does not know.
    Other,
    /// The call failed; the kind of [`WaitError::error`] says how.
    Call,
}

/// What was waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitTarget {
    /// Empty if the gateway's default was meant and it was not asked.
    pub workspace: String,
    /// Name of the sandbox.
    pub sandbox: String,
    /// Name of the service, empty for the unnamed one.
    pub service: String,
    /// Any of these states; never empty.
    pub states: Vec<HealthState>,
}

/// A wait that has ended without the state it was for.
#[derive(Clone, Debug)]
pub struct WaitError(Box<Ended>);

#[derive(Clone, Debug)]
struct Ended {
    cause: WaitCause,
    target: WaitTarget,
    elapsed: Duration,
    last: Option<Health>,
    phase: SandboxPhase,
    exit_code: Option<i32>,
    error: Error,
}

impl WaitError {
    /// Why it has ended.
    pub fn cause(&self) -> WaitCause {
        self.0.cause
    }

    /// What was waited for.
    pub fn target(&self) -> &WaitTarget {
        &self.0.target
    }

    /// How long, in all.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// The last health that was seen; none if the gateway could not be asked. Its
    /// `ready` is false: a wait does not tell what the state is about.
    pub fn last(&self) -> Option<&Health> {
        self.0.last.as_ref()
    }

    /// The last phase of the sandbox that was seen, or unspecified.
    pub fn phase(&self) -> SandboxPhase {
        self.0.phase
    }

    /// The exit code of the main process, if it has exited; -1: it is not known.
    pub fn exit_code(&self) -> Option<i32> {
        self.0.exit_code
    }

    /// The failed call, with its kind: `Timeout` when the time was over,
    /// `FailedPrecondition` when the state cannot be reached any more.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// The last state that was seen.
    pub fn last_state(&self) -> HealthState {
        self.last().map(|h| h.state).unwrap_or_default()
    }

    /// The reason of the last state, or empty.
    pub fn last_reason(&self) -> &str {
        self.last().map_or("", |h| h.reason.as_str())
    }

    fn new(request: &WaitServiceRequest, began: Instant, error: Error) -> Self {
        let elapsed = began.elapsed();
        let ended = match detail(error.status()) {
            Some(failure) => Ended {
                cause: cause(failure.cause()),
                phase: failure.sandbox_phase(),
                target: WaitTarget {
                    workspace: failure.workspace,
                    sandbox: failure.sandbox,
                    service: failure.name,
                    states: states(&failure.states),
                },
                elapsed,
                last: failure.last_health.as_ref().map(Health::read),
                exit_code: failure.exit_code,
                error,
            },
            None => Ended {
                cause: match error.kind() {
                    ErrorKind::Timeout => WaitCause::Timeout,
                    _ => WaitCause::Call,
                },
                phase: SandboxPhase::Unspecified,
                target: target_of(request),
                elapsed,
                last: None,
                exit_code: None,
                error,
            },
        };
        WaitError(Box::new(ended))
    }
}

fn target_of(request: &WaitServiceRequest) -> WaitTarget {
    let scope = request.workspace_scope.as_ref();
    let workspace = match scope.and_then(|s| s.selection.as_ref()) {
        Some(Selection::Workspace(name)) => name.clone(),
        _ => String::new(),
    };
    WaitTarget {
        workspace,
        sandbox: request.sandbox.clone(),
        service: request.name.clone(),
        states: states(&request.states),
    }
}

/// Says all of it: the target, how long, the last state and the last reason.
impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted: Vec<_> = self
            .target()
            .states
            .iter()
            .map(HealthState::to_string)
            .collect();
        write!(
            f,
            "service {:?} of sandbox {:?} was waited for to be {} for {:.1?}: {}",
            self.target().service,
            self.target().sandbox,
            wanted.join(" or "),
            self.elapsed(),
            self.error()
        )?;
        let Some(last) = self.last() else {
            return f.write_str("; nothing was seen of it");
        };
        write!(f, "; last seen {}", last.state)?;
        if !last.reason.is_empty() {
            write!(f, " ({})", last.reason.escape_debug())?;
        }
        Ok(())
    }
}

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.error())
    }
}

fn cause(cause: WaitFailureCause) -> WaitCause {
    match cause {
        WaitFailureCause::Timeout => WaitCause::Timeout,
        WaitFailureCause::SandboxStopped => WaitCause::SandboxStopped,
        WaitFailureCause::SandboxDeleted => WaitCause::SandboxDeleted,
        WaitFailureCause::ServiceDeleted => WaitCause::ServiceDeleted,
        WaitFailureCause::MainProcessExited => WaitCause::MainProcessExited,
        WaitFailureCause::Unspecified => WaitCause::Other,
    }
}

/// The states that a request names; none means healthy.
fn states(wire: &[i32]) -> Vec<HealthState> {
    if wire.is_empty() {
        return vec![HealthState::Healthy];
    }
    wire.iter().copied().map(HealthState::from_wire).collect()
}

/// The details of a status: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Details {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<prost_types::Any>,
}

pub(crate) const WAIT_FAILURE: &str = "type.googleapis.com/sandbox.v1.WaitFailure";

fn detail(status: &Status) -> Option<WaitFailure> {
    let details = Details::decode(status.details()).ok()?.details;
    let any = details.iter().find(|any| any.type_url == WAIT_FAILURE)?;
    WaitFailure::decode(any.value.as_slice()).ok()
}

/// A request to wait, for `limit` at most, until a service of the default
/// workspace is healthy.
pub fn wait_request(sandbox: &str, service: &str, limit: Duration) -> WaitServiceRequest {
    WaitServiceRequest {
        sandbox: sandbox.to_owned(),
        name: service.to_owned(),
        timeout: Some(wire_duration(limit)),
        ..WaitServiceRequest::default()
    }
}

impl Client {
    /// Waits until the health of a service is one of `states`, or healthy if
    /// there are none; it returns at once if it is already. It ends after
    /// `timeout` if there is one, and when the future is dropped. If the gateway
    /// is lost meanwhile it connects again and goes on waiting; one that is not
    /// reached at first is `Unavailable`.
    ///
    /// Errors, by the kind of [`WaitError::error`]: `Timeout`,
    /// `FailedPrecondition`, `NotFound`, `InvalidArgument`, `ResourceExhausted`.
    pub async fn wait_for_service(
        &self,
        request: WaitServiceRequest,
    ) -> Result<WaitServiceResponse, WaitError> {
        let began = Instant::now();
        let limit = request.timeout.as_ref().and_then(duration);
        let waiting = self.wait_on(&request, began, limit);
        let Some(end) = limit.and_then(|limit| began.checked_add(limit.saturating_add(GRACE)))
        else {
            return waiting.await;
        };
        timeout_at(end, waiting).await.unwrap_or_else(|_| {
            let status = Status::deadline_exceeded("the gateway has not said how it is");
            Err(WaitError::new(&request, began, Error::new(OP, status)))
        })
    }

    /// Waits without a time limit of its own, over as many calls as it takes.
    async fn wait_on(
        &self,
        request: &WaitServiceRequest,
        began: Instant,
        limit: Option<Duration>,
    ) -> Result<WaitServiceResponse, WaitError> {
        let (mut reached, mut failures) = (false, 0);
        loop {
            let mut own = request.clone();
            if let Some(limit) = limit {
                own.timeout = Some(wire_duration(limit.saturating_sub(began.elapsed())));
            }
            let err = match named(OP, self.watch_api().wait_service(own).await) {
                Ok(mut answer) => {
                    answer.elapsed = Some(wire_duration(began.elapsed()));
                    return Ok(answer);
                }
                Err(err) => err,
            };
            reached |= !err.is_unreached();
            let err = WaitError::new(request, began, err);
            let again = err.cause() == WaitCause::Call && err.error().is_transient();
            if !again || !reached {
                return Err(err);
            }
            sleep(pause(failures)).await;
            failures += 1;
        }
    }
}
