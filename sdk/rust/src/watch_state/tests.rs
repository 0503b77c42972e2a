// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use super::*;
use crate::api::openshell::datamodel::v1::ObjectMeta;
use crate::api::openshell::v1::ServiceEndpoint;
use crate::api::sandbox::v1 as sandboxv1;
use crate::health::HealthState;

const HEALTHY: i32 = ServiceHealthState::Healthy as i32;

fn answer(name: &str, id: &str, state: i32) -> ServiceEndpointResponse {
    ServiceEndpointResponse {
        endpoint: Some(ServiceEndpoint {
            metadata: Some(ObjectMeta {
                id: id.into(),
                ..Default::default()
            }),
            name: name.into(),
            ..Default::default()
        }),
        health: Some(ServiceHealth {
            state,
            reason: "OK".into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn sent(number: u32, name: &str) -> sandboxv1::WatchedService {
    sandboxv1::WatchedService {
        number,
        service: Some(answer(name, "1", HEALTHY)),
        sandbox_phase: SandboxPhase::Ready.into(),
        age_ms: Some(1000),
    }
}

fn message(sequence: u64, services: Vec<sandboxv1::WatchedService>) -> WatchServicesResponse {
    WatchServicesResponse {
        sequence,
        complete: true,
        services,
        ..Default::default()
    }
}

fn names(state: &WatchState, now: Instant) -> Vec<String> {
    let name = |s: &WatchedService| format!("{} {}", s.key().2, s.health().state);
    state.at(now).iter().map(name).collect()
}

#[test]
fn a_full_state_replaces_what_was_known_only_once_it_is_complete() {
    let (mut state, now) = (WatchState::default(), Instant::now());
    state.begin();
    state
        .take(message(1, vec![sent(1, "a"), sent(2, "b")]), now)
        .unwrap();
    assert_eq!(names(&state, now), ["a healthy", "b healthy"]);
    state.begin();
    let part = WatchServicesResponse {
        complete: false,
        ..message(1, vec![sent(7, "b")])
    };
    state.take(part, now).unwrap();
    assert_eq!(names(&state, now), ["a healthy", "b healthy"]);
    state.take(message(2, vec![sent(8, "c")]), now).unwrap();
    assert_eq!(names(&state, now), ["b healthy", "c healthy"]);
    let gone = WatchServicesResponse {
        removed: vec![7],
        ..message(3, vec![])
    };
    state.take(gone, now).unwrap();
    assert_eq!(names(&state, now), ["c healthy"]);
}

#[test]
fn a_message_that_is_missing_is_noticed() {
    let (mut state, now) = (WatchState::default(), Instant::now());
    state.begin();
    state.take(message(1, vec![]), now).unwrap();
    for wrong in [0, 1, 3] {
        assert!(state.take(message(wrong, vec![]), now).is_err(), "{wrong}");
    }
}

#[test]
fn numbers_without_a_service_are_passed_over() {
    let (mut state, now) = (WatchState::default(), Instant::now());
    state.begin();
    let empty = sandboxv1::WatchedService {
        number: 3,
        ..Default::default()
    };
    let mut first = message(1, vec![sent(0, "zero"), empty, sent(1, "a")]);
    first.ages = vec![sandboxv1::ServiceAge {
        number: 9,
        age_ms: 1,
    }];
    state.take(first, now).unwrap();
    assert_eq!(names(&state, now), ["a healthy"]);
}

// T24: what was told counts for 15 s after the last word, to the nanosecond.
#[test]
fn silence_makes_everything_unknown() {
    let (mut state, now) = (WatchState::default(), Instant::now());
    assert_eq!(state.expires(now), None);
    state.begin();
    state.take(message(1, vec![sent(1, "a")]), now).unwrap();
    let end = now + WATCH_TIMEOUT;
    assert_eq!(state.expires(now), Some(end));
    assert_eq!(names(&state, end - Duration::from_nanos(1)), ["a healthy"]);
    assert_eq!(names(&state, end), ["a unknown"]);
    assert_eq!(state.expires(end), None);
    let stale = state.at(end).remove(0).health();
    assert_eq!(
        (stale.state, stale.reason.as_str()),
        (HealthState::Unknown, REASON_WATCH_STALE)
    );
    // A new stream that is not complete says nothing of what is known.
    state.begin();
    let part = WatchServicesResponse {
        complete: false,
        ..message(1, vec![])
    };
    state.take(part, end).unwrap();
    assert_eq!(names(&state, end), ["a unknown"]);
    state.take(message(2, vec![sent(1, "a")]), end).unwrap();
    assert_eq!(names(&state, end), ["a healthy"]);
}

#[test]
fn ages_are_taken_without_being_news() {
    let (mut state, now) = (WatchState::default(), Instant::now());
    state.begin();
    state.take(message(1, vec![sent(1, "a")]), now).unwrap();
    let before = state.at(now);
    assert_eq!(before[0].checked, now.checked_sub(Duration::from_secs(1)));
    let later = now + Duration::from_secs(5);
    let mut beat = message(2, vec![]);
    beat.ages = vec![sandboxv1::ServiceAge {
        number: 1,
        age_ms: 200,
    }];
    state.take(beat, later).unwrap();
    let after = state.at(later);
    assert_eq!(
        after[0].checked,
        later.checked_sub(Duration::from_millis(200))
    );
    assert_eq!(difference(&before, &after), (vec![], vec![]));
}

/// A model: whoever applies the differences to what he had has what there is.
#[test]
fn differences_amount_to_the_list() {
    let mut seed = 1u64;
    let mut dice = move |n: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut random = || {
        let mut list: Vec<_> = (0..6)
            .filter_map(|n| {
                let (id, state, there) = (dice(2).to_string(), dice(4) as i32, dice(3) > 0);
                there.then(|| WatchedService {
                    service: answer(&n.to_string(), &id, state),
                    phase: SandboxPhase::Ready,
                    checked: None,
                })
            })
            .collect();
        list.sort_by(|a, b| a.key().cmp(&b.key()));
        list
    };
    let key = |s: &WatchedService| format!("{:?}", s.key());
    let mut before = random();
    let mut held: BTreeMap<_, _> = before.iter().map(|s| (key(s), s.clone())).collect();
    for _ in 0..2000 {
        let after = random();
        let (changed, removed) = difference(&before, &after);
        for s in removed {
            assert!(held.remove(&key(&s)).is_some(), "{} was not there", key(&s));
        }
        for s in changed {
            let old = held.insert(key(&s), s.clone());
            assert!(
                !old.is_some_and(|o| o.is_same(&s)),
                "{} is no change",
                key(&s)
            );
        }
        assert_eq!(held.values().cloned().collect::<Vec<_>>(), after);
        before = after;
    }
}
