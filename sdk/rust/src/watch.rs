// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_stream::Stream;
use tonic::Status;

use crate::api::sandbox::v1::{WatchServicesRequest, WatchServicesResponse};
use crate::client::Client;
use crate::error::Error;
use crate::retry::pause;
use crate::watch_state::{WATCH_TIMEOUT, WatchState, WatchedService, difference};

const OP: &str = "watch services";

/// What is new in a watch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServiceUpdate {
    /// Services that are new, or of which the state, the reason, the endpoint or
    /// the sandbox's phase is another than in the updates before. The first
    /// update that is `connected` has all services.
    pub changed: Vec<WatchedService>,
    /// Services that are gone, as they were last.
    pub removed: Vec<WatchedService>,
    /// Whether the gateway is being heard. While it is not, what it said counts
    /// for [`WATCH_TIMEOUT`]; then an update makes every service unknown.
    pub connected: bool,
    /// Why it is not connected.
    pub failure: Option<Error>,
}

/// Follows the health of services; dropping it ends the watch.
///
/// The watch reads eagerly, in a task of its own, and keeps the newest state
/// alone: whoever is slow to poll delays nothing, and misses what has come and
/// gone in between. It connects again by itself, for ever; then the next item
/// tells the difference to what was told before, as if there had been no gap.
///
/// A gateway that cannot be reached is an update, not an error. An error is the
/// last item: what repeating would not heal, as `InvalidArgument`,
/// `Unauthenticated`, `PermissionDenied`, `ResourceExhausted` (a limit of the
/// gateway), `Unimplemented`.
#[must_use = "the watch ends when this is dropped"]
pub struct ServiceWatch {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    /// When what is known becomes unknown.
    stale: Pin<Box<Sleep>>,
    told: Told,
}

/// What was told last.
#[derive(Default)]
struct Told {
    services: Vec<WatchedService>,
    connected: bool,
    complete: bool,
    failed: bool,
    ended: bool,
}

#[derive(Default)]
struct Shared(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    state: WatchState,
    end: Option<Error>,
    waker: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = f(&mut inner);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }
}

impl Client {
    /// Begins to follow the services that the request selects; the default
    /// request selects those of the default workspace. It does not wait for the
    /// gateway.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn watch_services(&self, request: WatchServicesRequest) -> ServiceWatch {
        let shared = Arc::new(Shared::default());
        ServiceWatch {
            task: tokio::spawn(run(self.clone(), request, shared.clone())),
            shared,
            stale: Box::pin(sleep(WATCH_TIMEOUT)),
            told: Told::default(),
        }
    }
}

impl ServiceWatch {
    /// All services as they are known now, in the order of workspace, sandbox
    /// and name; nothing before the first full state has come.
    pub fn services(&self) -> Vec<WatchedService> {
        self.shared.lock().state.at(Instant::now())
    }

    /// Waits until something is new; `None` after an error.
    pub async fn next(&mut self) -> Option<Result<ServiceUpdate, Error>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Drop for ServiceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Told {
    /// Compares what is known at `now` with what was told.
    fn news(&mut self, state: &WatchState, now: Instant) -> Option<ServiceUpdate> {
        let services = state.at(now);
        let (changed, removed) = difference(&self.services, &services);
        let failed = state.failure.is_some();
        let news = !changed.is_empty()
            || !removed.is_empty()
            || state.connected != self.connected
            || state.complete != self.complete
            || failed && !self.failed;
        *self = Told {
            services,
            connected: state.connected,
            complete: state.complete,
            failed,
            ended: self.ended,
        };
        news.then(|| ServiceUpdate {
            changed,
            removed,
            connected: state.connected,
            failure: state.failure.clone(),
        })
    }
}

impl Stream for ServiceWatch {
    type Item = Result<ServiceUpdate, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.told.ended {
            return Poll::Ready(None);
        }
        loop {
            let mut inner = this.shared.lock();
            let now = Instant::now();
            if let Some(update) = this.told.news(&inner.state, now) {
                return Poll::Ready(Some(Ok(update)));
            }
            if let Some(err) = inner.end.take() {
                this.told.ended = true;
                return Poll::Ready(Some(Err(err)));
            }
            inner.waker = Some(cx.waker().clone());
            let Some(expires) = inner.state.expires(now) else {
                return Poll::Pending;
            };
            drop(inner);
            this.stale.as_mut().reset(expires);
            if this.stale.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// Keeps a stream open until a failure that repeating does not heal.
async fn run(client: Client, request: WatchServicesRequest, shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let (heard, status) = follow(&client, &request, &shared).await;
        let err = Error::new(OP, status);
        if !err.is_transient() {
            return shared.update(|inner| inner.end = Some(err));
        }
        shared.update(|inner| inner.state.lost(err));
        if heard {
            failures = 0;
        }
        sleep(pause(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Opens one stream and takes its messages until it ends, or is silent for
/// [`WATCH_TIMEOUT`]; tells whether any came, and why it has ended.
async fn follow(
    client: &Client,
    request: &WatchServicesRequest,
    shared: &Shared,
) -> (bool, Status) {
    let mut api = client.watch_api();
    let opening = api.watch_services(request.clone());
    let mut stream = match timeout(WATCH_TIMEOUT, opening).await {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(status)) => return (false, status),
        Err(_) => return (false, silent()),
    };
    shared.update(|inner| inner.state.begin());
    let mut heard = false;
    loop {
        let silence = sleep_until(Instant::now() + WATCH_TIMEOUT);
        let message: WatchServicesResponse = tokio::select! {
            message = stream.message() => match message {
                Ok(Some(message)) => message,
                Ok(None) => return (heard, Status::unavailable("the gateway has ended the watch")),
                Err(status) => return (heard, status),
            },
            () = silence => return (heard, silent()),
        };
        heard = true;
        let taken = shared.update(|inner| inner.state.take(message, Instant::now()));
        if let Err(why) = taken {
            return (heard, Status::unavailable(why));
        }
    }
}

fn silent() -> Status {
    Status::unavailable("the gateway has said nothing for 15 seconds")
}
