// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package containers tests the images in podman, and the agent as process 1 of
// a container. Images, containers, volumes and the network are in a store of
// their own that is gone after the run; nothing is pulled.
package containers
