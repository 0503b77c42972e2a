// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package balancer tests two gateways behind a real HAProxy that runs the
// configuration of packaging/loadbalancer, sharing one PostgreSQL. Run it with
// make e2e-balancer.
package balancer
