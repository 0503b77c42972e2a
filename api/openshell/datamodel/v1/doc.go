// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package datamodelv1 is the generated code of the metadata that every stored
// object of the service API carries. Edit datamodel.proto and run make generate.
package datamodelv1
