// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::calls::{in_scope, selected};
use super::{FakeGateway, Key, Stored, World};
use crate::api::openshell::v1::{SandboxPhase, ServiceEndpointResponse};
use crate::api::sandbox::v1::service_health_watch_server::ServiceHealthWatch;
use crate::api::sandbox::v1::{
    ListServiceTransitionsRequest, ListServiceTransitionsResponse, ServiceAge, WaitServiceRequest,
    WaitServiceResponse, WatchServicesRequest, WatchServicesResponse, WatchedService,
};

const HEARTBEAT: Duration = Duration::from_secs(4);

/// Counts an open watch or wait as long as it lives.
pub(super) struct Open(FakeGateway);

impl Open {
    pub fn new(gateway: &FakeGateway) -> Self {
        gateway.lock().open += 1;
        Open(gateway.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

/// What a watch has sent of a service.
struct Sent {
    number: u32,
    answer: ServiceEndpointResponse,
    phase: i32,
}

#[derive(Default)]
struct Watch {
    request: WatchServicesRequest,
    sent: BTreeMap<Key, Sent>,
    sequence: u64,
    numbers: u32,
}

#[tonic::async_trait]
impl ServiceHealthWatch for FakeGateway {
    type WatchServicesStream = ReceiverStream<Result<WatchServicesResponse, Status>>;

    async fn watch_services(
        &self,
        request: Request<WatchServicesRequest>,
    ) -> Result<Response<Self::WatchServicesStream>, Status> {
        let watch = Watch {
            request: request.into_inner(),
            ..Watch::default()
        };
        let (out, stream) = mpsc::channel(1);
        tokio::spawn(follow(self.clone(), watch, out));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn wait_service(
        &self,
        request: Request<WaitServiceRequest>,
    ) -> Result<Response<WaitServiceResponse>, Status> {
        let _open = Open::new(self);
        self.wait(&request.into_inner()).await.map(Response::new)
    }

    async fn list_service_transitions(
        &self,
        _: Request<ListServiceTransitionsRequest>,
    ) -> Result<Response<ListServiceTransitionsResponse>, Status> {
        Err(Status::unimplemented(
            "the fake gateway keeps no transitions",
        ))
    }
}

async fn follow(
    gateway: FakeGateway,
    mut watch: Watch,
    out: mpsc::Sender<Result<WatchServicesResponse, Status>>,
) {
    let _open = Open::new(&gateway);
    let mut changed = gateway.changed.subscribe();
    let mut broken = gateway.broken.subscribe();
    let mut beat = interval(HEARTBEAT);
    let mut due = false;
    loop {
        changed.borrow_and_update();
        let message = watch.message(&gateway.lock(), due);
        if let Some(message) = message
            && out.send(Ok(message)).await.is_err()
        {
            return;
        }
        due = tokio::select! {
            _ = changed.changed() => false,
            _ = beat.tick() => true,
            () = out.closed() => return,
            _ = broken.changed() => {
                let status = broken.borrow_and_update().clone();
                // Fails if nobody listens any more.
                let _ = out.send(Err(status.unwrap_or_else(|| Status::unavailable("stopping")))).await;
                return;
            }
        };
    }
}

impl Watch {
    /// The next message, if there is something to say or a heartbeat is due.
    fn message(&mut self, world: &World, due: bool) -> Option<WatchServicesResponse> {
        if world.muted {
            return None;
        }
        let mut m = WatchServicesResponse {
            complete: true,
            ..Default::default()
        };
        self.compare(world, &mut m);
        let first = self.sequence == 0;
        if !first && !due && m.services.is_empty() && m.removed.is_empty() {
            return None;
        }
        self.sequence += 1;
        m.sequence = self.sequence;
        Some(m)
    }

    fn compare(&mut self, world: &World, m: &mut WatchServicesResponse) {
        let request = &self.request;
        let id = |e: &crate::api::openshell::v1::ServiceEndpoint| {
            e.metadata.as_ref().map(|meta| meta.id.clone())
        };
        self.sent.retain(|key, sent| {
            let now = world
                .services
                .get(key)
                .filter(|_| is_watched(request, world, key));
            let there =
                now.is_some_and(|s| sent.answer.endpoint.as_ref().map(id) == Some(id(&s.endpoint)));
            if !there {
                m.removed.push(sent.number);
            }
            there
        });
        for (key, stored) in &world.services {
            if !is_watched(&self.request, world, key) {
                continue;
            }
            let answer = World::answer(key, stored);
            let phase = phase_of(world, key);
            let age_ms = age(stored);
            let number = match self.sent.get(key) {
                Some(sent) if is_same(sent, &answer, phase) => {
                    m.ages.extend(age_ms.map(|age_ms| ServiceAge {
                        number: sent.number,
                        age_ms,
                    }));
                    continue;
                }
                Some(sent) => sent.number,
                None => {
                    self.numbers += 1;
                    self.numbers
                }
            };
            let service = Some(answer.clone());
            m.services.push(WatchedService {
                number,
                service,
                sandbox_phase: phase,
                age_ms,
            });
            self.sent.insert(
                key.clone(),
                Sent {
                    number,
                    answer,
                    phase,
                },
            );
        }
    }
}

fn is_same(sent: &Sent, answer: &ServiceEndpointResponse, phase: i32) -> bool {
    let said = |a: &ServiceEndpointResponse| a.health.as_ref().map(|h| (h.state, h.reason.clone()));
    sent.phase == phase
        && sent.answer.endpoint == answer.endpoint
        && said(&sent.answer) == said(answer)
}

fn is_watched(request: &WatchServicesRequest, world: &World, key: &Key) -> bool {
    let sandbox = world
        .sandboxes
        .get(&(key.0.clone(), key.1.clone(), String::new()));
    let labels = sandbox.and_then(|s| s.metadata.as_ref()).map(|m| &m.labels);
    in_scope(request.workspace_scope.as_ref(), key)
        && (request.sandbox.is_empty() || request.sandbox == key.1)
        && (request.services.is_empty() || request.services.contains(&key.2))
        && selected(&request.label_selector, labels)
}

pub(super) fn phase_of(world: &World, key: &Key) -> i32 {
    let sandbox = world
        .sandboxes
        .get(&(key.0.clone(), key.1.clone(), String::new()));
    let status = sandbox.and_then(|s| s.status.as_ref());
    status.map_or(SandboxPhase::Unspecified.into(), |s| s.phase)
}

fn age(stored: &Stored) -> Option<u32> {
    let checked: Instant = stored.checked?;
    u32::try_from(checked.elapsed().as_millis()).ok()
}
