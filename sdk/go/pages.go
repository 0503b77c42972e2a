// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// ErrRepeatedPage ends a list whose gateway answered a page with the token that
// asked for it: following it would never end.
var ErrRepeatedPage = errors.New("sandbox: the gateway's next page is the same page")

// Sandboxes iterates over every sandbox that req selects, page after page;
// PageToken says where to begin and PageSize how much to fetch at a time (0
// leaves it to the gateway). Between two pages sandboxes may come and go. The
// first error ends the iteration, as its last pair. Errors: as for a call,
// ErrInvalidArgument for a selector or token that the gateway cannot read, and
// ErrRepeatedPage.
func (c *Client) Sandboxes(ctx context.Context, req *openshellv1.ListSandboxesRequest) iter.Seq2[*openshellv1.Sandbox, error] {
	return pages(req.GetPageToken(), func(token string) ([]*openshellv1.Sandbox, string, error) {
		page := &openshellv1.ListSandboxesRequest{}
		proto.Merge(page, req)
		page.PageToken = token
		resp, err := call(ctx, "list sandboxes", c.api.ListSandboxes, page)
		return resp.GetSandboxes(), resp.GetNextPageToken(), err
	})
}

// Services iterates over every service that req selects, each with its health
// at the instant its page was answered; otherwise as Sandboxes. An empty
// Sandbox selects the services of all sandboxes in scope.
func (c *Client) Services(ctx context.Context, req *openshellv1.ListServicesRequest) iter.Seq2[*openshellv1.ServiceEndpointResponse, error] {
	return pages(req.GetPageToken(), func(token string) ([]*openshellv1.ServiceEndpointResponse, string, error) {
		page := &openshellv1.ListServicesRequest{}
		proto.Merge(page, req)
		page.PageToken = token
		resp, err := call(ctx, "list services", c.api.ListServices, page)
		return resp.GetServices(), resp.GetNextPageToken(), err
	})
}

// pages turns a paged call into one sequence.
func pages[T any](token string, fetch func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for token := token; ; {
			items, next, err := fetch(token)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if next == token {
				yield(none, ErrRepeatedPage)
				return
			}
			token = next
		}
	}
}
