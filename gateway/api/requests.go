// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// mutation is a request with an id.
type mutation interface {
	proto.Message
	GetRequestId() string
}

// request identifies a mutation for replay: what is hashed is the whole
// request but its id.
func request(method string, m mutation) (store.Request, error) {
	id, err := requestID(m.GetRequestId())
	if err != nil || id == "" {
		return store.Request{}, err
	}
	payload := proto.Clone(m)
	f := payload.ProtoReflect().Descriptor().Fields().ByName("request_id")
	payload.ProtoReflect().Clear(f)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	if err != nil {
		return store.Request{}, err
	}
	return store.Request{ID: id, Method: method, Payload: sha256.Sum256(b)}, nil
}

// replayed reads a stored response.
func replayed[M proto.Message](response []byte, into M) (M, error) {
	return into, proto.Unmarshal(response, into)
}
