// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Watches against the fake gateway. The clock is paused: time passes when
//! nothing else is left to do.

use std::time::Duration;

use sandbox_agent::api::openshell::v1::DeleteServiceRequest;
use sandbox_agent::api::sandbox::v1::WatchServicesRequest;
use sandbox_agent::testing::{FakeGateway, endpoint, health};
use sandbox_agent::{
    Error, ErrorKind, HealthState, ServiceUpdate, ServiceWatch, WATCH_TIMEOUT, WatchedService,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

fn put(gateway: &FakeGateway, name: &str, state: HealthState, reason: &str) {
    gateway.put_service(endpoint("web", name, 80), Some(health(state, reason)));
}

fn everything() -> WatchServicesRequest {
    WatchServicesRequest::default()
}

/// Services as `name state reason`.
fn words(list: &[WatchedService]) -> Vec<String> {
    let word = |s: &WatchedService| {
        let health = s.health();
        let name = &s.service.endpoint.as_ref().unwrap().name;
        format!("{name} {} {}", health.state, health.reason)
    };
    list.iter().map(word).collect()
}

/// The next update, which has to come within a limit.
async fn next(watch: &mut ServiceWatch, limit: Duration) -> ServiceUpdate {
    let update = timeout(limit, watch.next())
        .await
        .expect("an update in time");
    update.expect("a watch that goes on").expect("no error")
}

async fn quiet(watch: &mut ServiceWatch, time: Duration) {
    if let Ok(update) = timeout(time, watch.next()).await {
        panic!("unexpected: {update:?}");
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn full_state_first_then_changes() {
    let gateway = FakeGateway::with_token("t0ken");
    let client = gateway.client();
    put(&gateway, "a", HealthState::Healthy, "OK");
    put(&gateway, "b", HealthState::Unknown, "NotObserved");
    let mut watch = client.watch_services(everything());
    let first = next(&mut watch, SECOND).await;
    assert_eq!(
        words(&first.changed),
        ["a healthy OK", "b unknown NotObserved"]
    );
    assert!(first.connected && first.failure.is_none());

    put(&gateway, "b", HealthState::Unhealthy, "Refused");
    let update = next(&mut watch, SECOND).await;
    assert_eq!(words(&update.changed), ["b unhealthy Refused"]);

    let request = DeleteServiceRequest {
        sandbox: "web".into(),
        name: "a".into(),
        ..Default::default()
    };
    client.delete_service(request).await.unwrap();
    let update = next(&mut watch, SECOND).await;
    assert_eq!(
        (words(&update.changed).len(), words(&update.removed)),
        (0, vec!["a healthy OK".to_owned()])
    );

    // T08: ten idle minutes bring no news, no second connection, and ages that
    // are younger than two heartbeats.
    for _ in 0..150 {
        quiet(&mut watch, Duration::from_secs(4)).await;
        gateway.set_health("", "web", "b", health(HealthState::Unhealthy, "Refused"));
        let age = watch.services()[0].checked.unwrap().elapsed();
        assert!(age < Duration::from_secs(9), "{age:?}");
    }
    let watches = gateway
        .requests()
        .iter()
        .filter(|m| *m == "WatchServices")
        .count();
    assert_eq!((watches, gateway.watches()), (1, 1));
    drop(watch);
    while gateway.watches() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

// T24: whatever was told counts for 15 s after the last word of the gateway;
// then it is unknown, once; and right again as soon as the gateway is back.
#[tokio::test(start_paused = true)]
async fn a_watch_ages_by_itself() {
    for hangs in [true, false] {
        let gateway = FakeGateway::new();
        let client = gateway.client();
        put(&gateway, "", HealthState::Healthy, "OK");
        let began = Instant::now();
        let mut watch = client.watch_services(everything());
        next(&mut watch, SECOND).await;
        // The last heartbeat is that of second 8.
        quiet(&mut watch, Duration::from_secs(9)).await;
        if hangs {
            gateway.mute_watches(true);
        } else {
            gateway.fail("WatchServices", Status::unavailable("stopping"));
            gateway.break_watches(Status::unavailable("stopping"));
            let lost = next(&mut watch, SECOND).await;
            assert!(!lost.connected && lost.changed.is_empty());
            assert_eq!(lost.failure.unwrap().kind(), ErrorKind::Unavailable);
        }
        let stale = loop {
            let update = next(&mut watch, WATCH_TIMEOUT).await;
            if !update.changed.is_empty() {
                break update;
            }
        };
        assert_eq!(words(&stale.changed), [" unknown WatchStale"]);
        let after = began.elapsed().as_secs_f64();
        assert!(
            (22.9..23.1).contains(&after),
            "hangs: {hangs}: unknown after {after} s"
        );
        assert_eq!(words(&watch.services()), [" unknown WatchStale"]);
        if stale.connected {
            assert!(!next(&mut watch, SECOND).await.connected);
        }
        quiet(&mut watch, Duration::from_secs(3600)).await;
        gateway.mute_watches(false);
        gateway.heal("WatchServices");
        let back = next(&mut watch, Duration::from_secs(60)).await;
        assert_eq!(
            (words(&back.changed), back.connected),
            (vec![" healthy OK".to_owned()], true)
        );
    }
}

// After a gap the difference is told, as if there had been none.
#[tokio::test(start_paused = true)]
async fn a_watch_connects_again() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    for name in ["a", "b", "c"] {
        put(&gateway, name, HealthState::Healthy, "OK");
    }
    let mut watch = client.watch_services(everything());
    next(&mut watch, SECOND).await;
    gateway.fail("WatchServices", Status::unavailable("stopping"));
    gateway.break_watches(Status::unavailable("stopping"));
    assert!(!next(&mut watch, SECOND).await.connected);
    let request = DeleteServiceRequest {
        sandbox: "web".into(),
        name: "a".into(),
        ..Default::default()
    };
    client.delete_service(request).await.unwrap();
    put(&gateway, "b", HealthState::Unhealthy, "Refused");
    gateway.heal("WatchServices");
    let back = next(&mut watch, Duration::from_secs(5)).await;
    assert!(back.connected && back.failure.is_none());
    assert_eq!(words(&back.changed), ["b unhealthy Refused"]);
    assert_eq!(words(&back.removed), ["a healthy OK"]);
}

#[tokio::test(start_paused = true)]
async fn what_repeating_does_not_heal_ends_the_watch() {
    for (code, kind) in [
        (Code::InvalidArgument, ErrorKind::InvalidArgument),
        (Code::Unauthenticated, ErrorKind::Unauthenticated),
        (Code::PermissionDenied, ErrorKind::PermissionDenied),
        (Code::ResourceExhausted, ErrorKind::ResourceExhausted),
        (Code::Unimplemented, ErrorKind::Unimplemented),
    ] {
        let gateway = FakeGateway::new();
        gateway.fail("WatchServices", Status::new(code, "no"));
        let mut watch = gateway.client().watch_services(everything());
        let end: Error = watch.next().await.unwrap().expect_err("an error");
        assert_eq!(end.kind(), kind);
        assert!(watch.next().await.is_none());
    }
}

// A gateway that is not there is an update, and no more than one.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_not_there() {
    let gateway = FakeGateway::new();
    gateway.set_unreachable(true);
    let mut watch = gateway.client().watch_services(everything());
    let update = next(&mut watch, SECOND).await;
    assert_eq!(
        (update.connected, update.failure.unwrap().kind()),
        (false, ErrorKind::Unavailable)
    );
    quiet(&mut watch, Duration::from_secs(600)).await;
    gateway.set_unreachable(false);
    let update = next(&mut watch, Duration::from_secs(20)).await;
    assert!(update.connected && update.changed.is_empty());
}

// Of what comes and goes between two polls the newest is told.
#[tokio::test(start_paused = true)]
async fn who_is_slow_gets_the_newest() {
    let gateway = FakeGateway::new();
    put(&gateway, "a", HealthState::Healthy, "OK");
    let mut watch = gateway.client().watch_services(everything());
    next(&mut watch, SECOND).await;
    for reason in ["Refused", "Reset", "BadStatus"] {
        put(&gateway, "a", HealthState::Unhealthy, reason);
        sleep(SECOND).await;
    }
    assert_eq!(
        words(&next(&mut watch, SECOND).await.changed),
        ["a unhealthy BadStatus"]
    );
    quiet(&mut watch, Duration::from_secs(60)).await;
}
