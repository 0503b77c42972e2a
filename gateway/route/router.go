// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

const (
	copyBuffer = 64 << 10
)

// Config is what a Router needs.
type Config struct {
	// Domain is the parent of the services' host names, in lower case.
	Domain string
	// Own serves all other hosts.
	Own       http.Handler
	Directory Directory
	Relays    Relays
	// IsAdmin tells the gateway's own token from an application's.
	IsAdmin func(token string) bool
	Logger  *slog.Logger
}

// Router is the handler of the gateway's HTTP listener.
type Router struct {
	cfg       Config
	patience  mux.Patience
	transport *transport
	proxy     *httputil.ReverseProxy

	requests sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	held     map[*heldConn]struct{} // client connections of switched protocols
}

// New returns a Router.
func New(cfg Config) *Router {
	r := &Router{cfg: cfg, patience: mux.RelayPatience(), held: make(map[*heldConn]struct{})}
	r.transport = newTransport(r.dial)
	r.proxy = &httputil.ReverseProxy{
		Rewrite:        r.rewrite,
		Transport:      r.transport,
		FlushInterval:  -1,
		ModifyResponse: r.modify,
		ErrorHandler:   r.failed,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(debug{cfg.Logger}, slog.LevelDebug),
	}
	return r
}

// hop is a request on its way to a service.
type hop struct {
	Endpoint
	source Source
	in     *http.Request
}

type hopKey struct{}

func hopOf(ctx context.Context) *hop {
	h, _ := ctx.Value(hopKey{}).(*hop)
	return h
}

// upstream is where the service believes to be.
func (h *hop) upstream() string { return "localhost:" + strconv.Itoa(int(h.Port)) }

// ServeHTTP implements http.Handler.
func (r *Router) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	if len(in.Header["Origin"]) > 1 {
		Problem{http.StatusBadRequest, "Origin", "the header Origin is there more than once"}.serve(w, in)
		return
	}
	name, place := ParseHost(in.Host, r.cfg.Domain)
	ask := askOf(in)
	switch {
	case place == Nowhere:
		Problem{http.StatusNotFound, "NoName", "the host name is not of the form WORKSPACE--SANDBOX." + r.cfg.Domain + " or WORKSPACE--SANDBOX--SERVICE." + r.cfg.Domain}.serve(w, in)
	case place == Own && ask.OwnAllows(r.cfg.Domain):
		// A request before this one may have left a deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		r.cfg.Own.ServeHTTP(w, in)
	case place == Own || !ask.ServiceAllows(r.cfg.Domain):
		Problem{http.StatusForbidden, "Origin", "this request comes from a page of another site, which may not send it"}.serve(w, in)
	default:
		r.service(w, in, name, ask)
	}
}

func askOf(in *http.Request) Ask {
	a := Ask{
		Method: in.Method, Host: in.Host,
		Origin: in.Header.Get("Origin"), HasOrigin: len(in.Header["Origin"]) > 0,
		Site: in.Header.Get("Sec-Fetch-Site"), Mode: in.Header.Get("Sec-Fetch-Mode"),
		Upgrade: len(in.Header["Upgrade"]) > 0,
	}
	if wanted := in.Header.Get("Access-Control-Request-Method"); wanted != "" && in.Method == http.MethodOptions {
		a.Method = wanted
	}
	return a
}

// service serves a request of a service.
func (r *Router) service(w http.ResponseWriter, in *http.Request, name Name, ask Ask) {
	if !r.enter() {
		Problem{http.StatusServiceUnavailable, "Stopping", "the gateway is stopping"}.serve(w, in)
		return
	}
	defer r.requests.Done()
	if in.Method == http.MethodConnect {
		Problem{http.StatusMethodNotAllowed, "Method", "a service is not a proxy"}.serve(w, in)
		return
	}
	e, err := r.cfg.Directory.Endpoint(in.Context(), name)
	if err != nil {
		p := lookupProblem(name, err)
		if p.Status == http.StatusServiceUnavailable && in.Context().Err() == nil {
			r.cfg.Logger.Warn("a service could not be looked up", "error", err)
		}
		p.serve(w, in)
		return
	}
	if !e.Open {
		NotReady(name, e).serve(w, in)
		return
	}
	h := &hop{Endpoint: e, source: ask.Source(r.cfg.Domain), in: in}
	// A service may answer while it is still being sent to. An error means that
	// this is so already, or that a test has no connection.
	_ = http.NewResponseController(w).EnableFullDuplex()
	patiently := &writer{ResponseWriter: w, control: http.NewResponseController(w), router: r}
	r.proxy.ServeHTTP(patiently, in.WithContext(context.WithValue(in.Context(), hopKey{}, h)))
	patiently.extend() // the server writes the end, however long ago the rest was written
}

// rewrite makes the request that the service sees.
func (r *Router) rewrite(p *httputil.ProxyRequest) {
	h := hopOf(p.In.Context())
	p.Out.URL.Scheme = "http"
	// What connections are told apart by; the service is told upstream.
	p.Out.URL.Host = h.SandboxID + "--" + h.Service + ":" + strconv.Itoa(int(h.Port))
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = h.upstream()
	p.Out.Trailer = p.In.Trailer // filled when the body has been read
	strip(p.Out.Header, r.cfg.IsAdmin)
	client, _, err := net.SplitHostPort(p.In.RemoteAddr)
	if err != nil {
		client = ""
	}
	proto := "http"
	if p.In.TLS != nil {
		proto = "https"
	}
	forward(p.Out.Header, client, p.In.Host, proto)
	localOrigin(p.Out.Header, h.upstream(), h.source, p.In.Host)
}

// Errors of responses that are none.
var (
	errStatus = errors.New("the status is below 100")
	errSwitch = errors.New("a switch to a protocol that was not asked for")
)

// modify makes the response that the client sees.
func (r *Router) modify(resp *http.Response) error {
	switch {
	case resp.StatusCode < 100:
		return errStatus
	case resp.StatusCode == http.StatusSwitchingProtocols && !switches(resp):
		return errSwitch // the proxy would refuse it, too, and keep the relay
	}
	h := hopOf(resp.Request.Context())
	proto := "http://"
	if h.in.TLS != nil {
		proto = "https://"
	}
	publicLocation(resp.Header, ":"+strconv.Itoa(int(h.Port)), proto+h.in.Host)
	resp.Header.Del("Alt-Svc")   // the service knows no other way to itself
	resp.Header.Del(ErrorHeader) // and does not speak for the gateway
	return nil
}

// failed answers for a service that could not.
func (r *Router) failed(w http.ResponseWriter, out *http.Request, err error) {
	if out.Context().Err() != nil {
		return // the client has left
	}
	p := problemOf(err)
	// The error may quote what a service has sent.
	r.cfg.Logger.Debug("a request did not reach its service", "reason", p.Reason)
	p.serve(w, hopOf(out.Context()).in)
}

// dial opens a relay; it implements http.Transport.DialContext.
func (r *Router) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h := hopOf(ctx)
	conn, err := r.cfg.Relays.OpenRelay(ctx, h.SandboxID, h.Service)
	if err != nil {
		return nil, err
	}
	return &patient{Duplex: conn, patience: r.patience}, nil
}

// enter counts a request, unless the Router is closed.
func (r *Router) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.requests.Add(1)
	return true
}

// heldConn is a client's connection that the server has given up.
type heldConn struct {
	*patient
	router *Router
}

// Close closes it.
func (c *heldConn) Close() error {
	c.router.mu.Lock()
	delete(c.router.held, c)
	c.router.mu.Unlock()
	return c.patient.Close()
}

// hold takes note of a client's connection, so that Close can end it.
func (r *Router) hold(p *patient) net.Conn {
	c := &heldConn{p, r}
	r.mu.Lock()
	r.held[c] = struct{}{}
	closed := r.closed
	r.mu.Unlock()
	if closed {
		_ = c.Close()
	}
	return c
}

// Close ends connections that have switched protocols, and returns when no
// request of a service is served any more. The HTTP server and the sessions of
// agents have stopped before.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	held := make([]*heldConn, 0, len(r.held))
	for c := range r.held {
		held = append(held, c)
	}
	r.mu.Unlock()
	for _, c := range held {
		_ = c.Close()
	}
	r.requests.Wait()
	r.transport.close()
}

// buffers are what responses are copied through.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return *kept
	}
	return make([]byte, copyBuffer)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// debug gives the messages of net/http one constant text, without what they
// quote of a service.
type debug struct{ log *slog.Logger }

func (d debug) Enabled(ctx context.Context, level slog.Level) bool { return d.log.Enabled(ctx, level) }

func (d debug) Handle(ctx context.Context, _ slog.Record) error {
	d.log.DebugContext(ctx, "a response was cut short")
	return nil
}

func (d debug) WithAttrs([]slog.Attr) slog.Handler { return d }
func (d debug) WithGroup(string) slog.Handler      { return d }
