// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use tonic::{Response, Status};

use crate::api::openshell::v1::{
    CreateSandboxRequest, DeleteSandboxRequest, DeleteSandboxResponse, DeleteServiceRequest,
    DeleteServiceResponse, ExposeServiceRequest, GetSandboxRequest, GetServiceRequest,
    HealthRequest, HealthResponse, SandboxResponse, ServiceEndpointResponse, StartSandboxRequest,
    StopSandboxRequest,
};
use crate::api::sandbox::v1::{ListServiceTransitionsRequest, ListServiceTransitionsResponse};
use crate::client::Client;
use crate::error::Error;

/// Gives the error of a call the name of the operation.
pub(crate) fn named<T>(op: &'static str, result: Result<Response<T>, Status>) -> Result<T, Error> {
    result
        .map(Response::into_inner)
        .map_err(|status| Error::new(op, status))
}

/// One call each. Any of them may fail with
/// [`Unauthenticated`](crate::ErrorKind::Unauthenticated),
/// [`Unavailable`](crate::ErrorKind::Unavailable) and their like; what else is
/// to be expected each one says. Dropping the future cancels the call.
impl Client {
    /// Tells how the gateway itself is, as deep as its `/readyz`. It needs no
    /// token.
    pub async fn health(&self) -> Result<HealthResponse, Error> {
        named("gateway health", self.api().health(HealthRequest {}).await)
    }

    /// Registers a sandbox, with the services to expose, and, with a driver that
    /// can, boots it; it does not wait until the sandbox is ready. Errors:
    /// `AlreadyExists`, `InvalidArgument`.
    pub async fn create_sandbox(
        &self,
        request: CreateSandboxRequest,
    ) -> Result<SandboxResponse, Error> {
        named("create sandbox", self.api().create_sandbox(request).await)
    }

    /// Returns one sandbox. Errors: `NotFound`, `InvalidArgument`.
    pub async fn get_sandbox(&self, request: GetSandboxRequest) -> Result<SandboxResponse, Error> {
        named("get sandbox", self.api().get_sandbox(request).await)
    }

    /// Ends the processes of a sandbox; its services stay stored. Errors:
    /// `NotFound`, `InvalidArgument`, `FailedPrecondition` in a phase that cannot
    /// be stopped.
    pub async fn stop_sandbox(
        &self,
        request: StopSandboxRequest,
    ) -> Result<SandboxResponse, Error> {
        named("stop sandbox", self.api().stop_sandbox(request).await)
    }

    /// Begins a new generation: older tokens and observations no longer count.
    /// Errors: as [`stop_sandbox`](Client::stop_sandbox).
    pub async fn start_sandbox(
        &self,
        request: StartSandboxRequest,
    ) -> Result<SandboxResponse, Error> {
        named("start sandbox", self.api().start_sandbox(request).await)
    }

    /// Deletes a sandbox and its services. Errors: `NotFound` unless
    /// `allow_missing` is set, `InvalidArgument`.
    pub async fn delete_sandbox(
        &self,
        request: DeleteSandboxRequest,
    ) -> Result<DeleteSandboxResponse, Error> {
        named("delete sandbox", self.api().delete_sandbox(request).await)
    }

    /// Creates or updates a service. An update without a readiness check keeps
    /// the stored one. Errors: `NotFound` (no such sandbox), `InvalidArgument`,
    /// `Aborted` when another update came first.
    pub async fn expose_service(
        &self,
        request: ExposeServiceRequest,
    ) -> Result<ServiceEndpointResponse, Error> {
        named("expose service", self.api().expose_service(request).await)
    }

    /// Returns a service with its health at this instant; see
    /// [`Health::of`](crate::Health::of). It starts no probe. Errors:
    /// `NotFound`, `InvalidArgument`.
    pub async fn get_service(
        &self,
        request: GetServiceRequest,
    ) -> Result<ServiceEndpointResponse, Error> {
        named("get service", self.api().get_service(request).await)
    }

    /// Deletes a service. Errors: `NotFound` unless `allow_missing` is set,
    /// `InvalidArgument`.
    pub async fn delete_service(
        &self,
        request: DeleteServiceRequest,
    ) -> Result<DeleteServiceResponse, Error> {
        named("delete service", self.api().delete_service(request).await)
    }

    /// Tells how the health of a service has changed, as far as the gateway
    /// remembers. Errors: `NotFound`, `InvalidArgument`.
    pub async fn service_transitions(
        &self,
        request: ListServiceTransitionsRequest,
    ) -> Result<ListServiceTransitionsResponse, Error> {
        let answer = self.watch_api().list_service_transitions(request).await;
        named("list service transitions", answer)
    }
}
