// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package balancer tests two gateways behind a real HAProxy and a real nginx
// that run the configurations of packaging/loadbalancer, sharing one PostgreSQL,
// and what of the other configurations can be shown without their programs. Run
// it with make e2e-balancer.
package balancer
