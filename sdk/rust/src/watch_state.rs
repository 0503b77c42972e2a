// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::openshell::v1::{
    SandboxPhase, ServiceEndpointResponse, ServiceHealth, ServiceHealthState,
};
use crate::api::sandbox::v1::WatchServicesResponse;
use crate::error::Error;
use crate::health::Health;

/// How long what a watch has told counts without a word from the gateway. After
/// that every service is unknown.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(15);

/// The reason of a health that is unknown because a watch has heard nothing for
/// [`WATCH_TIMEOUT`]. It is this crate's; no gateway says it.
pub const REASON_WATCH_STALE: &str = "WatchStale";

/// A service as a watch knows it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WatchedService {
    /// The endpoint, its URL and its health.
    pub service: ServiceEndpointResponse,
    /// Phase of the sandbox; unspecified if this version does not know it.
    pub phase: SandboxPhase,
    /// When the latest attempt at the service was, on this machine's clock; none
    /// if there was none. `checked.elapsed()` is its age.
    pub checked: Option<Instant>,
}

impl WatchedService {
    /// [`Health::of`] the service.
    pub fn health(&self) -> Health {
        Health::of(&self.service)
    }

    /// Orders services and tells them apart: one that was deleted and made anew
    /// is another.
    fn key(&self) -> (&str, &str, &str, &str) {
        let Some(e) = &self.service.endpoint else {
            return ("", "", "", "");
        };
        let (workspace, id) = match &e.metadata {
            Some(m) => (m.workspace.as_str(), m.id.as_str()),
            None => ("", ""),
        };
        (workspace, &e.sandbox, &e.name, id)
    }

    /// Whether a change from one to the other is no news.
    fn is_same(&self, other: &WatchedService) -> bool {
        let answer = |s: &WatchedService| {
            let health = s.service.health.as_ref();
            health
                .map(|h| (h.state, h.reason.clone()))
                .unwrap_or_default()
        };
        self.phase == other.phase
            && self.service.url == other.service.url
            && self.service.endpoint == other.service.endpoint
            && answer(self) == answer(other)
    }

    /// Makes it what it is once nobody knows how it is.
    fn turn_stale(&mut self) {
        let last_checked_time = self.service.health.take().and_then(|h| h.last_checked_time);
        self.service.health = Some(ServiceHealth {
            state: ServiceHealthState::Unknown.into(),
            reason: REASON_WATCH_STALE.into(),
            message: "the gateway has not been heard for 15 seconds".into(),
            last_checked_time,
            ..ServiceHealth::default()
        });
    }
}

/// What the messages of a watch amount to, over all its streams. It is pure.
#[derive(Default)]
pub(crate) struct WatchState {
    /// Of the latest full state, by number.
    services: BTreeMap<u32, WatchedService>,
    /// Of a full state that is not complete.
    incoming: Option<BTreeMap<u32, WatchedService>>,
    /// Of the latest message of the stream.
    sequence: u64,
    /// A full state was complete once.
    pub complete: bool,
    pub connected: bool,
    /// Why it is not connected.
    pub failure: Option<Error>,
    /// The latest message about services.
    heard: Option<Instant>,
}

impl WatchState {
    /// Takes note of a new stream.
    pub fn begin(&mut self) {
        self.sequence = 0;
        self.incoming = Some(BTreeMap::new());
    }

    /// Takes in a message that was received at `now`. After an error the stream
    /// cannot be trusted any more.
    pub fn take(&mut self, m: WatchServicesResponse, now: Instant) -> Result<(), String> {
        if m.sequence != self.sequence + 1 {
            return Err(format!(
                "the gateway's messages are not in sequence: {} came after {}",
                m.sequence, self.sequence
            ));
        }
        self.sequence = m.sequence;
        if self.incoming.is_none() {
            self.heard = Some(now);
        }
        let into = self.incoming.as_mut().unwrap_or(&mut self.services);
        let ago = |ms: u32| now.checked_sub(Duration::from_millis(ms.into()));
        for number in m.removed {
            into.remove(&number);
        }
        for s in m.services {
            let phase = s.sandbox_phase();
            if let (Some(service), true) = (s.service, s.number != 0) {
                let checked = s.age_ms.and_then(ago);
                into.insert(
                    s.number,
                    WatchedService {
                        service,
                        phase,
                        checked,
                    },
                );
            }
        }
        for age in m.ages {
            if let Some(s) = into.get_mut(&age.number) {
                s.checked = ago(age.age_ms);
            }
        }
        if m.complete
            && let Some(services) = self.incoming.take()
        {
            self.services = services;
            self.heard = Some(now);
            (self.complete, self.connected, self.failure) = (true, true, None);
        }
        Ok(())
    }

    /// Takes note that the stream has ended.
    pub fn lost(&mut self, failure: Error) {
        self.connected = false;
        self.failure = Some(failure);
    }

    /// The instant from which on everything is unknown, if it is to come.
    pub fn expires(&self, now: Instant) -> Option<Instant> {
        self.heard.map(|t| t + WATCH_TIMEOUT).filter(|t| *t > now)
    }

    /// All services as they are known at `now`, in order.
    pub fn at(&self, now: Instant) -> Vec<WatchedService> {
        let mut list: Vec<_> = self.services.values().cloned().collect();
        if self.expires(now).is_none() {
            list.iter_mut().for_each(WatchedService::turn_stale);
        }
        list.sort_by(|a, b| a.key().cmp(&b.key()));
        list
    }
}

/// What of two lists in order is new or other in the second, and what is gone
/// from the first.
pub(crate) fn difference(
    before: &[WatchedService],
    after: &[WatchedService],
) -> (Vec<WatchedService>, Vec<WatchedService>) {
    let (mut changed, mut removed) = (Vec::new(), Vec::new());
    let mut old = before.iter().peekable();
    for s in after {
        while let Some(gone) = old.next_if(|o| o.key() < s.key()) {
            removed.push(gone.clone());
        }
        match old.next_if(|o| o.key().cmp(&s.key()) == Ordering::Equal) {
            Some(same) if same.is_same(s) => {}
            _ => changed.push(s.clone()),
        }
    }
    removed.extend(old.cloned());
    (changed, removed)
}

#[cfg(test)]
mod tests;
