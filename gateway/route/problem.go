// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// ErrorHeader is on every answer that is the gateway's own instead of a
// service's, with the word for the reason.
const ErrorHeader = "Sandbox-Gateway-Error"

// Problem is why somebody does not reach a service.
type Problem struct {
	Status int    // of HTTP
	Reason string // one word
	Text   string // a sentence without its stop
}

var relayProblems = map[mux.RelayStatus]Problem{
	mux.RelayUnknownService: {http.StatusBadGateway, "UnknownService", "the agent of the sandbox does not know this service yet"},
	mux.RelayRefused:        {http.StatusBadGateway, "Refused", "nothing listens on the port of the service"},
	mux.RelayTimeout:        {http.StatusBadGateway, "Timeout", "the service does not accept connections"},
	mux.RelayTooMany:        {http.StatusServiceUnavailable, "TooMany", "the sandbox has " + strconv.Itoa(mux.MaxRelays) + " connections open, and no more are allowed"},
	mux.RelayStopping:       {http.StatusBadGateway, "Stopping", "the sandbox is about to stop"},
	mux.RelayForbidden:      {http.StatusBadGateway, "Forbidden", "the port of the service is the agent's own, which is not served"},
	mux.RelayUnreachable:    {http.StatusBadGateway, "Unreachable", "the agent could not connect to the service"},
}

// Explain finds the words for an error of a Directory or of Relays.
func Explain(name Name, err error) Problem {
	if errors.Is(err, ErrNoSandbox) || errors.Is(err, ErrNoService) {
		return lookupProblem(name, err)
	}
	return problemOf(err)
}

// NotReady is what keeps a service from being asked while its sandbox is in a
// phase in which services are not served.
func NotReady(name Name, e Endpoint) Problem {
	return Problem{http.StatusPreconditionFailed, "NotReady", "sandbox " + name.Sandbox + " is " + e.Phase}
}

// problemOf finds the words for an error of a relay or of a service.
func problemOf(err error) Problem {
	refused, ok := errors.AsType[*mux.RelayError](err)
	switch {
	case ok:
		if p, known := relayProblems[refused.Status]; known {
			return p
		}
		return Problem{http.StatusBadGateway, "Refused", "the agent of the sandbox refused the connection"}
	case errors.Is(err, mux.ErrTooManyStreams):
		return relayProblems[mux.RelayTooMany]
	case errors.Is(err, mux.ErrRelayNoAnswer):
		return Problem{http.StatusBadGateway, "NoAnswer", "the agent of the sandbox does not answer"}
	case errors.Is(err, mux.ErrSessionClosed):
		return Problem{http.StatusBadGateway, "Disconnected", "the agent of the sandbox is not connected"}
	case errors.Is(err, mux.ErrReset), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Problem{http.StatusBadGateway, "Closed", "the service closed the connection without an answer"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Problem{http.StatusGatewayTimeout, "Stalled", "the service takes nothing of the request"}
	}
	return Problem{http.StatusBadGateway, "BadResponse", "what the service answered is not a proper HTTP/1.1 response"}
}

// lookupProblem finds the words for an error of the Directory.
func lookupProblem(name Name, err error) Problem {
	switch {
	case errors.Is(err, ErrNoSandbox):
		return Problem{http.StatusNotFound, "NoSandbox", "there is no sandbox " + name.Sandbox + " in workspace " + name.Workspace}
	case errors.Is(err, ErrNoService) && name.Service == "":
		return Problem{http.StatusNotFound, "NoService", "sandbox " + name.Sandbox + " has no unnamed service"}
	case errors.Is(err, ErrNoService):
		return Problem{http.StatusNotFound, "NoService", "sandbox " + name.Sandbox + " has no service " + name.Service}
	}
	return Problem{http.StatusServiceUnavailable, "Store", "the gateway's store does not answer"}
}

// serve answers with the problem: as text for people, or as JSON where that is
// asked for.
func (p Problem) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	clear(h)
	h.Set(ErrorHeader, p.Reason)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	body := []byte(strconv.Itoa(p.Status) + " " + http.StatusText(p.Status) + "\n\n" + p.Text + ".\n")
	if wantsJSON(r.Header["Accept"]) {
		h.Set("Content-Type", "application/json")
		// Of strings and numbers there is always JSON.
		body, _ = json.Marshal(map[string]any{"error": map[string]any{"status": p.Status, "reason": p.Reason, "message": p.Text}})
		body = append(body, '\n')
	} else {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error means that the client has left
}

// wantsJSON reports whether JSON is asked for by name, and a page is not.
func wantsJSON(accept []string) bool {
	all := strings.ToLower(strings.Join(accept, ","))
	return strings.Contains(all, "application/json") && !strings.Contains(all, "text/html")
}
