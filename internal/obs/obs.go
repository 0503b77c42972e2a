// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
)

// NewRegistry returns a registry with the metrics of the process and a gauge
// NAME_build_info.
func NewRegistry(name string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: name + "_build_info",
		Help: "The version of this binary; always 1.",
	}, []string{"version"})
	info.WithLabelValues(buildinfo.Version).Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// OpsHandler serves /metrics, /debug/pprof/ and, for everything else, next.
func OpsHandler(reg *prometheus.Registry, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("/", next)
	return mux
}
