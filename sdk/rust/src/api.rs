// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//! The generated messages and clients, in the modules of their packages, and
//! what makes them shorter to write.
//!
//! Enum fields are `i32`, since a gateway may be newer than this crate; the
//! accessor of the field's name reads a value that it does not know as the
//! unspecified one.

use openshell::datamodel::v1::{AllWorkspaces, WorkspaceSelector, workspace_selector::Selection};

/// The packages `openshell.*`.
#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
#[rustfmt::skip]
pub mod openshell {
    /// `openshell.v1`: sandboxes, services and their health.
    pub mod v1 {
        include!("generated/openshell.v1.rs");
    }
    /// The packages `openshell.datamodel.*`.
    pub mod datamodel {
        /// `openshell.datamodel.v1`: what every stored object carries.
        pub mod v1 {
            include!("generated/openshell.datamodel.v1.rs");
        }
    }
}

/// The packages `sandbox.*`.
#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
#[rustfmt::skip]
pub mod sandbox {
    /// `sandbox.v1`: watching, waiting, history.
    pub mod v1 {
        include!("generated/sandbox.v1.rs");
    }
}

/// Selects one workspace; the empty name is the gateway's default.
pub fn workspace(name: &str) -> Option<WorkspaceSelector> {
    (!name.is_empty()).then(|| WorkspaceSelector {
        selection: Some(Selection::Workspace(name.to_owned())),
    })
}

/// Selects every workspace. Lists and watches alone take it.
pub fn all_workspaces() -> Option<WorkspaceSelector> {
    Some(WorkspaceSelector {
        selection: Some(Selection::AllWorkspaces(AllWorkspaces {})),
    })
}
