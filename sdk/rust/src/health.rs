// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::openshell::v1::{ServiceEndpointResponse, ServiceHealth, ServiceHealthState};

/// Whether a service passes its check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HealthState {
    /// Nobody knows; the reason says why.
    #[default]
    Unknown,
    /// It passes.
    Healthy,
    /// It has failed three times in a row.
    Unhealthy,
}

impl HealthState {
    /// The state that a number on the wire stands for: unspecified, and every
    /// number that this version does not know, are unknown.
    pub fn from_wire(state: i32) -> Self {
        match ServiceHealthState::try_from(state) {
            Ok(ServiceHealthState::Healthy) => HealthState::Healthy,
            Ok(ServiceHealthState::Unhealthy) => HealthState::Unhealthy,
            _ => HealthState::Unknown,
        }
    }

    /// Its number on the wire.
    pub fn to_wire(self) -> i32 {
        match self {
            HealthState::Unknown => ServiceHealthState::Unknown,
            HealthState::Healthy => ServiceHealthState::Healthy,
            HealthState::Unhealthy => ServiceHealthState::Unhealthy,
        }
        .into()
    }
}

/// `unknown`, `healthy` or `unhealthy`.
impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HealthState::Unknown => "unknown",
            HealthState::Healthy => "healthy",
            HealthState::Unhealthy => "unhealthy",
        })
    }
}

/// A service's health as the gateway answered it. The default is the health of
/// no answer: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the service passes its check.
    pub state: HealthState,
    /// What the state is about: true when the service has a readiness check (it
    /// answers 2xx on its path), false when it only has to answer.
    pub ready: bool,
    /// One word of a closed list that may grow.
    pub reason: String,
    /// One sentence of the gateway's.
    pub message: String,
    /// Status code of the latest attempt, if it got one.
    pub http_status: Option<u32>,
    /// Failures in a row, as far as they count towards unhealthy.
    pub failures: u32,
    /// When the latest attempt ended, on the gateway's clock.
    pub last_checked: Option<SystemTime>,
    /// When the state last changed, on the gateway's clock.
    pub last_transition: Option<SystemTime>,
    /// Latency of the latest attempt.
    pub latency: Option<Duration>,
    /// The loopback address that answered, or empty.
    pub address: String,
}

impl Health {
    /// Reads the health in an answer. No health in it, an unspecified state and
    /// a state that this version does not know all are
    /// [`Unknown`](HealthState::Unknown).
    pub fn of(answer: &ServiceEndpointResponse) -> Self {
        let endpoint = answer.endpoint.as_ref();
        let ready = endpoint.is_some_and(|e| e.readiness_check.is_some());
        Health {
            ready,
            ..answer.health.as_ref().map(Health::read).unwrap_or_default()
        }
    }

    pub(crate) fn read(h: &ServiceHealth) -> Self {
        Health {
            state: HealthState::from_wire(h.state),
            ready: false,
            reason: h.reason.clone(),
            message: h.message.clone(),
            http_status: h.http_status_code,
            failures: h.consecutive_failures,
            last_checked: h.last_checked_time.as_ref().and_then(instant),
            last_transition: h.last_transition_time.as_ref().and_then(instant),
            latency: h.latency.as_ref().and_then(duration),
            address: h.address.clone(),
        }
    }
}

/// None for a timestamp out of range.
fn instant(t: &prost_types::Timestamp) -> Option<SystemTime> {
    // The years 1 to 9999.
    if !(-62_135_596_800..=253_402_300_799).contains(&t.seconds) {
        return None;
    }
    let nanos = u32::try_from(t.nanos).ok().filter(|n| *n < 1_000_000_000)?;
    let whole = Duration::from_secs(t.seconds.unsigned_abs());
    let second = if t.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}

/// None for a duration out of range; a negative one is.
pub(crate) fn duration(d: &prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(d.seconds)
        .ok()
        .filter(|s| *s <= 315_576_000_000)?;
    let nanos = u32::try_from(d.nanos).ok().filter(|n| *n < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// A duration on the wire; what is longer than 10,000 years is that long.
pub(crate) fn wire_duration(d: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration {
        seconds: seconds.min(315_576_000_000),
        nanos: d.subsec_nanos() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_unknown() {
        assert_eq!(
            Health::of(&ServiceEndpointResponse::default()),
            Health::default()
        );
        for (wire, state) in [
            (0, HealthState::Unknown),
            (1, HealthState::Unknown),
            (2, HealthState::Healthy),
            (3, HealthState::Unhealthy),
            (4, HealthState::Unknown),
            (-1, HealthState::Unknown),
            (i32::MAX, HealthState::Unknown),
        ] {
            assert_eq!(HealthState::from_wire(wire), state, "{wire}");
        }
        for state in [
            HealthState::Unknown,
            HealthState::Healthy,
            HealthState::Unhealthy,
        ] {
            assert_eq!(HealthState::from_wire(state.to_wire()), state);
        }
    }

    #[test]
    fn times_out_of_range_are_absent() {
        let at = |seconds, nanos| instant(&prost_types::Timestamp { seconds, nanos });
        assert_eq!(at(0, 0), Some(UNIX_EPOCH));
        assert_eq!(
            at(-1, 500_000_000),
            UNIX_EPOCH.checked_sub(Duration::from_millis(500))
        );
        for (seconds, nanos) in [
            (253_402_300_800, 0),
            (i64::MIN, 0),
            (i64::MAX, 0),
            (0, -1),
            (0, 1_000_000_000),
        ] {
            assert_eq!(at(seconds, nanos), None, "{seconds} {nanos}");
        }
        let long = |seconds, nanos| duration(&prost_types::Duration { seconds, nanos });
        assert_eq!(long(1, 2), Some(Duration::new(1, 2)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (315_576_000_001, 0), (0, 1_000_000_000)] {
            assert_eq!(long(seconds, nanos), None, "{seconds} {nanos}");
        }
        assert_eq!(
            duration(&wire_duration(Duration::MAX)).unwrap().as_secs(),
            315_576_000_000
        );
    }
}
