// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::convert::Infallible;
use std::io;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::transport::{Channel, Endpoint};

use super::FakeGateway;
use crate::api::openshell::v1::open_shell_server::OpenShellServer;
use crate::api::sandbox::v1::service_health_watch_server::ServiceHealthWatchServer;
use crate::client::tuned;

impl FakeGateway {
    /// A channel to this gateway; each dial makes a pair of pipes.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn channel(&self) -> Channel {
        let gateway = self.clone();
        let dial = tower::service_fn(move |_| {
            let gateway = gateway.clone();
            async move { gateway.dial() }
        });
        let endpoint = Endpoint::from_static("http://localhost:1");
        tuned(endpoint).connect_with_connector_lazy(dial)
    }

    fn dial(&self) -> io::Result<TokioIo<tokio::io::DuplexStream>> {
        if self.lock().unreachable {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(1 << 16);
        let gateway = self.clone();
        let answer = hyper::service::service_fn(move |request| {
            let gateway = gateway.clone();
            async move { gateway.answer(request).await }
        });
        let serving = http2::Builder::new(TokioExecutor::new());
        // It ends with the client's half.
        tokio::spawn(serving.serve_connection(TokioIo::new(far), answer));
        Ok(TokioIo::new(near))
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        let method = path.rsplit('/').next().unwrap_or_default();
        let token = request.headers().get("authorization");
        let token = token.and_then(|t| t.to_str().ok()).unwrap_or_default();
        if let Err(status) = self.admit(method, token).await {
            return Ok(status.into_http());
        }
        if path.starts_with("/openshell.v1.OpenShell/") {
            return OpenShellServer::new(self.clone()).call(request).await;
        }
        ServiceHealthWatchServer::new(self.clone())
            .call(request)
            .await
    }

    /// Records a request and decides whether it is carried out.
    async fn admit(&self, method: &str, token: &str) -> Result<(), Status> {
        let hang = {
            let mut world = self.lock();
            world.requests.push(method.to_owned());
            let wanted = format!("Bearer {}", self.token.reveal());
            if method != "Health" && !self.token.is_empty() && token != wanted {
                return Err(Status::unauthenticated("the token is not valid"));
            }
            if let Some(status) = world.fail.get(method) {
                return Err(status.clone());
            }
            world.hang.get(method).cloned()
        };
        if let Some(arrived) = hang {
            arrived.send_replace(true);
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}
