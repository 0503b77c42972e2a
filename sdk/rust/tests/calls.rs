// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! Calls, lists and waits, against the fake gateway. The clock is paused: time
//! passes when nothing else is left to do.

use std::time::Duration;

use sandbox_agent::api::openshell::v1::*;
use sandbox_agent::api::sandbox::v1::{ListServiceTransitionsRequest, WaitServiceRequest};
use sandbox_agent::api::{all_workspaces, workspace};
use sandbox_agent::testing::{FakeGateway, endpoint, health};
use sandbox_agent::{
    Client, ErrorKind, Health, HealthState, Options, Token, WaitCause, new_request_id, wait_request,
};
use tokio::time::{Instant, advance, sleep};
use tonic::Status;

fn create(name: &str) -> CreateSandboxRequest {
    CreateSandboxRequest {
        name: name.into(),
        request_id: new_request_id(),
        service_exposures: vec![SandboxServiceExposure {
            service: "docs".into(),
            target_port: 8080,
            readiness_check: Some(HttpReadinessCheck::default()),
        }],
        ..Default::default()
    }
}

fn get(sandbox: &str, service: &str) -> GetServiceRequest {
    GetServiceRequest {
        sandbox: sandbox.into(),
        name: service.into(),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn every_method_reaches_its_own_call() {
    let gateway = FakeGateway::with_token("t0ken");
    let client = gateway.client();
    assert_eq!(
        client.health().await.unwrap().status(),
        ServiceStatus::Healthy
    );

    let created = client.create_sandbox(create("web")).await.unwrap();
    assert_eq!(
        created.service_urls["docs"],
        "http://default--web--docs.sandbox.localhost:17680/"
    );
    let name = || "web".to_owned();
    let again = client.create_sandbox(create("web")).await.unwrap_err();
    assert_eq!(
        (again.kind(), again.op()),
        (ErrorKind::AlreadyExists, "create sandbox")
    );
    let request = GetSandboxRequest {
        name: name(),
        ..Default::default()
    };
    let sandbox = client.get_sandbox(request).await.unwrap().sandbox.unwrap();
    assert_eq!(sandbox.status.unwrap().phase(), SandboxPhase::Provisioning);

    let answer = client.get_service(get("web", "docs")).await.unwrap();
    let read = Health::of(&answer);
    assert_eq!(
        (read.state, read.ready, read.reason.as_str()),
        (HealthState::Unknown, true, "NotObserved")
    );
    let request = ExposeServiceRequest {
        sandbox: name(),
        name: "docs".into(),
        target_port: 9090,
        ..Default::default()
    };
    let exposed = client.expose_service(request).await.unwrap();
    assert_eq!(
        exposed
            .endpoint
            .clone()
            .unwrap()
            .readiness_check
            .unwrap()
            .path,
        "/"
    );
    assert_eq!(Health::of(&exposed).reason, "ConfigurationChanged");
    let request = ExposeServiceRequest {
        sandbox: name(),
        target_port: 70_000,
        ..Default::default()
    };
    let wrong = client.expose_service(request).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
    assert!(wrong.message().contains("target_port"));

    let request = StopSandboxRequest {
        name: name(),
        ..Default::default()
    };
    let stopped = client.stop_sandbox(request).await.unwrap().sandbox.unwrap();
    assert_eq!(stopped.status.unwrap().phase(), SandboxPhase::Stopped);
    let request = StartSandboxRequest {
        name: name(),
        ..Default::default()
    };
    client.start_sandbox(request).await.unwrap();

    let request = ListServiceTransitionsRequest {
        sandbox: name(),
        ..Default::default()
    };
    let none = client.service_transitions(request).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unimplemented);

    let request = DeleteServiceRequest {
        sandbox: name(),
        name: "docs".into(),
        ..Default::default()
    };
    let outcome = client
        .delete_service(request.clone())
        .await
        .unwrap()
        .outcome();
    assert_eq!(outcome, DeletionOutcome::Completed);
    assert_eq!(
        client.delete_service(request).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let request = DeleteSandboxRequest {
        name: name(),
        allow_missing: true,
        ..Default::default()
    };
    assert_eq!(
        client
            .delete_sandbox(request.clone())
            .await
            .unwrap()
            .outcome(),
        DeletionOutcome::Completed
    );
    assert_eq!(
        client.delete_sandbox(request).await.unwrap().outcome(),
        DeletionOutcome::AlreadyAbsent
    );
    assert_eq!(
        client
            .get_service(get("web", "docs"))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn services_of_a_sandbox_are_listed_if_it_is_there() {
    let client = FakeGateway::new().client();
    client.create_sandbox(create("web")).await.unwrap();
    let services = |sandbox: &str| {
        let request = ListServicesRequest {
            sandbox: sandbox.into(),
            ..Default::default()
        };
        client.list_services(request).all()
    };
    assert_eq!(services("web").await.unwrap().len(), 1);
    let missing = services("none").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_sandbox_without_a_name_gets_one() {
    let client = FakeGateway::new().client();
    let mut names = Vec::new();
    for _ in 0..2 {
        let made = client.create_sandbox(create("")).await.unwrap();
        let name = made.sandbox.unwrap().metadata.unwrap().name;
        let chosen = name.strip_prefix("sandbox-");
        assert_eq!(chosen.map(str::len), Some(8), "{name:?}");
        assert_eq!(
            made.service_urls["docs"],
            format!("http://default--{name}--docs.sandbox.localhost:17680/")
        );
        client.get_service(get(&name, "docs")).await.unwrap();
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_refused_and_not_shown() {
    let gateway = FakeGateway::with_token("t0ken");
    let client = Client::over(gateway.channel(), &Token::from("s3cret")).unwrap();
    client.health().await.expect("health needs no token");
    let err = client.get_service(get("web", "")).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unauthenticated);
    for shown in [format!("{err:?} {err}"), format!("{client:?}")] {
        assert!(
            !shown.contains("s3cret") && !shown.contains("t0ken"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn nobody_listens() {
    // A port that is bound, and not listened on, refuses for as long.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", held.local_addr().unwrap());
    let client = Client::connect(Options::new(address).token("t")).unwrap();
    let err = client.health().await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
    assert!(err.to_string().contains("refused"), "{err}");
    let err = client
        .wait_for_service(wait_request("web", "", Duration::from_secs(60)))
        .await
        .unwrap_err();
    assert_eq!(
        (err.cause(), err.error().kind()),
        (WaitCause::Call, ErrorKind::Unavailable),
        "{err}"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_iterate_over_every_page() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    for n in 0..25 {
        let mut e = endpoint("web", &format!("s{n:02}"), 80);
        if n >= 20 {
            e.metadata.as_mut().unwrap().workspace = "blue".into();
        }
        gateway.put_service(e, None);
    }
    for page_size in [0, 1, 7, 100] {
        let request = ListServicesRequest {
            page_size,
            ..Default::default()
        };
        let list = client.list_services(request.clone()).all().await.unwrap();
        assert_eq!(list.len(), 20, "pages of {page_size}");
        let all = ListServicesRequest {
            workspace_scope: all_workspaces(),
            ..request.clone()
        };
        assert_eq!(client.list_services(all).all().await.unwrap().len(), 25);
        let blue = ListServicesRequest {
            workspace_scope: workspace("blue"),
            ..request
        };
        assert_eq!(client.list_services(blue).all().await.unwrap().len(), 5);
    }
    let before = gateway.requests().len();
    let mut pages = client.list_services(ListServicesRequest {
        page_size: 7,
        ..Default::default()
    });
    for _ in 0..7 {
        pages.next().await.unwrap().unwrap();
    }
    assert_eq!(
        gateway.requests().len() - before,
        1,
        "pages are fetched when they are needed"
    );
    gateway.fail("ListServices", Status::unavailable("stopping"));
    assert_eq!(
        pages.next().await.unwrap().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert!(pages.next().await.is_none(), "an error is the last item");

    client.create_sandbox(create("web")).await.unwrap();
    let sandboxes = client
        .list_sandboxes(ListSandboxesRequest::default())
        .all()
        .await
        .unwrap();
    assert_eq!(sandboxes.len(), 1);
    let request = ListSandboxesRequest {
        page_token: "x".into(),
        ..Default::default()
    };
    let wrong = client.list_sandboxes(request).all().await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_service_is_healthy() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    gateway.put_service(
        endpoint("web", "docs", 80),
        Some(health(HealthState::Unknown, "NotObserved")),
    );
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .wait_for_service(wait_request("web", "docs", Duration::from_secs(60)))
                .await
        }
    });
    open(&gateway, 1).await;
    advance(Duration::from_secs(10)).await;
    gateway.set_health("", "web", "docs", health(HealthState::Healthy, "OK"));
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(
        Health::of(&answer.service.unwrap()).state,
        HealthState::Healthy
    );
    assert_eq!(answer.elapsed.unwrap().seconds, 10);
    let unhealthy = WaitServiceRequest {
        states: vec![
            HealthState::Unhealthy.to_wire(),
            HealthState::Healthy.to_wire(),
        ],
        ..wait_request("web", "docs", Duration::ZERO)
    };
    client
        .wait_for_service(unhealthy)
        .await
        .expect("one of the states");
}

/// Lets time pass until so many watches and waits are open at the gateway.
async fn open(gateway: &FakeGateway, n: usize) {
    while gateway.watches() != n {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_fails_says_everything() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    client.create_sandbox(create("web")).await.unwrap();
    let limit = Duration::from_millis(1500);
    let err = client
        .wait_for_service(wait_request("web", "docs", limit))
        .await
        .unwrap_err();
    assert_eq!(
        (err.cause(), err.error().kind()),
        (WaitCause::Timeout, ErrorKind::Timeout)
    );
    assert_eq!(
        (
            err.target().workspace.as_str(),
            err.target().sandbox.as_str()
        ),
        ("default", "web")
    );
    assert_eq!(
        (
            err.target().service.as_str(),
            err.target().states.as_slice()
        ),
        ("docs", [HealthState::Healthy].as_slice())
    );
    assert_eq!(
        (err.last_state(), err.last_reason()),
        (HealthState::Unknown, "NotObserved")
    );
    assert_eq!(err.phase(), SandboxPhase::Provisioning);
    assert!(
        err.elapsed() >= limit && err.elapsed() < limit * 2,
        "{:?}",
        err.elapsed()
    );
    let text = err.to_string();
    for word in [
        "docs",
        "web",
        "healthy",
        "1.5",
        "unknown",
        "NotObserved",
        "timed out",
    ] {
        assert!(text.contains(word), "{text} lacks {word}");
    }

    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .wait_for_service(wait_request("web", "docs", Duration::from_secs(60)))
                .await
        }
    });
    open(&gateway, 1).await;
    let request = StopSandboxRequest {
        name: "web".into(),
        ..Default::default()
    };
    client.stop_sandbox(request).await.unwrap();
    let err = waiting.await.unwrap().unwrap_err();
    assert_eq!(
        (err.cause(), err.error().kind()),
        (WaitCause::SandboxStopped, ErrorKind::FailedPrecondition)
    );

    let err = client
        .wait_for_service(wait_request("web", "none", limit))
        .await
        .unwrap_err();
    assert_eq!(
        (err.cause(), err.error().kind()),
        (WaitCause::Call, ErrorKind::NotFound)
    );
    assert_eq!(
        (err.target().service.as_str(), err.last().is_none()),
        ("none", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_a_gateway_that_restarts() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    gateway.put_service(endpoint("web", "", 80), None);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .wait_for_service(wait_request("web", "", Duration::from_secs(60)))
                .await
        }
    });
    open(&gateway, 1).await;
    gateway.break_watches(Status::unavailable("stopping"));
    open(&gateway, 0).await;
    open(&gateway, 1).await;
    gateway.set_health("", "web", "", health(HealthState::Healthy, "OK"));
    waiting.await.unwrap().expect("healthy");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_without_the_gateway_and_leaves_nothing() {
    let gateway = FakeGateway::new();
    let client = gateway.client();
    client.health().await.unwrap();
    let mut arrived = gateway.hang("WaitService");
    let began = Instant::now();
    let err = client
        .wait_for_service(wait_request("web", "", Duration::from_secs(5)))
        .await
        .unwrap_err();
    assert_eq!(
        (err.cause(), err.last().is_none()),
        (WaitCause::Timeout, true),
        "{err}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    arrived.changed().await.expect("it has arrived");

    // A wait that is dropped is gone at the gateway, too.
    let gateway = FakeGateway::new();
    let client = gateway.client();
    gateway.put_service(endpoint("web", "", 80), None);
    let waiting = tokio::spawn(async move {
        client
            .wait_for_service(wait_request("web", "", Duration::from_secs(600)))
            .await
    });
    open(&gateway, 1).await;
    waiting.abort();
    open(&gateway, 0).await;
}
