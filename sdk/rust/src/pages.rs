// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio_stream::Stream;

use crate::api::openshell::v1::{
    ListSandboxesRequest, ListServicesRequest, Sandbox, ServiceEndpointResponse,
};
use crate::calls::named;
use crate::client::Client;
use crate::error::Error;

type Page<T> = Result<(Vec<T>, String), Error>;
type Fetching<T> = Pin<Box<dyn Future<Output = Page<T>> + Send>>;

/// A list, page after page. Between two pages entries may come and go. The first
/// error is the last item.
#[must_use = "nothing is fetched before it is polled"]
pub struct Pages<T> {
    op: &'static str,
    /// Fetches the page that a token names.
    fetch: Box<dyn FnMut(String) -> Fetching<T> + Send>,
    fetching: Option<Fetching<T>>,
    token: String,
    items: VecDeque<T>,
}

impl<T> Pages<T> {
    fn new(
        op: &'static str,
        token: String,
        mut fetch: impl FnMut(String) -> Fetching<T> + Send + 'static,
    ) -> Self {
        Pages {
            op,
            fetching: Some(fetch(token.clone())),
            fetch: Box::new(fetch),
            token,
            items: VecDeque::new(),
        }
    }

    /// The next entry; `None` after the last one, or after an error.
    pub async fn next(&mut self) -> Option<Result<T, Error>>
    where
        T: Unpin,
    {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// All entries that are left.
    pub async fn all(mut self) -> Result<Vec<T>, Error>
    where
        T: Unpin,
    {
        let mut list = Vec::new();
        while let Some(item) = self.next().await {
            list.push(item?);
        }
        Ok(list)
    }

    fn take(&mut self, page: Page<T>) -> Result<(), Error> {
        self.fetching = None;
        let (items, next) = page?;
        self.items = items.into();
        if next.is_empty() {
            return Ok(());
        }
        let failed = next == self.token;
        self.token = next;
        self.fetching = Some(if failed {
            let op = self.op;
            Box::pin(async move { Err(Error::repeated_page(op)) })
        } else {
            (self.fetch)(self.token.clone())
        });
        Ok(())
    }
}

impl<T: Unpin> Stream for Pages<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(fetching) = &mut self.fetching else {
                return Poll::Ready(None);
            };
            let page = ready!(fetching.as_mut().poll(cx));
            if let Err(err) = self.take(page) {
                return Poll::Ready(Some(Err(err)));
            }
        }
    }
}

impl Client {
    /// Lists every sandbox that the request selects, page after page;
    /// `page_token` says where to begin and `page_size` how much to fetch at a
    /// time (0 leaves it to the gateway). Errors: `InvalidArgument` for a
    /// selector or token that the gateway cannot read, `RepeatedPage`.
    pub fn list_sandboxes(&self, request: ListSandboxesRequest) -> Pages<Sandbox> {
        let (client, op) = (self.clone(), "list sandboxes");
        Pages::new(op, request.page_token.clone(), move |page_token| {
            let mut api = client.api();
            let request = ListSandboxesRequest {
                page_token,
                ..request.clone()
            };
            Box::pin(async move {
                let page = named(op, api.list_sandboxes(request).await)?;
                Ok((page.sandboxes, page.next_page_token))
            })
        })
    }

    /// Lists every service that the request selects, each with its health at
    /// the instant its page was answered; otherwise as
    /// [`list_sandboxes`](Client::list_sandboxes). An empty `sandbox` selects
    /// the services of all sandboxes in scope.
    pub fn list_services(&self, request: ListServicesRequest) -> Pages<ServiceEndpointResponse> {
        let (client, op) = (self.clone(), "list services");
        Pages::new(op, request.page_token.clone(), move |page_token| {
            let mut api = client.api();
            let request = ListServicesRequest {
                page_token,
                ..request.clone()
            };
            Box::pin(async move {
                let page = named(op, api.list_services(request).await)?;
                Ok((page.services, page.next_page_token))
            })
        })
    }
}
