// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

/**
 * The messages, enums and services of the API, generated from its protos.
 *
 * @module
 */
export * from "./gen/openshell/datamodel/v1/datamodel_pb.js";
export * from "./gen/openshell/v1/openshell_pb.js";
export * from "./gen/sandbox/v1/watch_pb.js";
