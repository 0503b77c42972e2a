// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A request whose text is not UTF-8 cannot be encoded, which gRPC takes for a
// fault of somebody else. Nothing is looked at before it has failed.

// explain returns InvalidArgument, which names the field, if a request failed
// because of its text; otherwise err.
func explain(req any, err error) error {
	m, ok := req.(proto.Message)
	if !ok || err == nil || err == io.EOF {
		return err
	}
	if field := notText(m.ProtoReflect()); field != "" {
		return status.Error(codes.InvalidArgument, field+" is not UTF-8, as every text in a request must be")
	}
	return err
}

func explainUnary(ctx context.Context, method string, req, resp any, c *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return explain(req, next(ctx, method, req, resp, c, opts...))
}

func explainStream(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := next(ctx, d, c, method, opts...)
	return explained{stream}, err
}

type explained struct{ grpc.ClientStream }

func (e explained) SendMsg(m any) error { return explain(m, e.ClientStream.SendMsg(m)) }

// notText returns the path of a field of m that is not UTF-8, or "".
func notText(m protoreflect.Message) string {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v, name := m.Get(f), string(f.Name())
		switch {
		case f.IsMap():
			// What is wrong may be a key: it is not shown.
			if notTextIn(f, v.Map()) {
				return name + ": a key or a value of it"
			}
		case f.IsList():
			for j := range v.List().Len() {
				if path, bad := notTextAt(fmt.Sprintf("%s[%d]", name, j), f, v.List().Get(j)); bad {
					return path
				}
			}
		case m.Has(f):
			if path, bad := notTextAt(name, f, v); bad {
				return path
			}
		}
	}
	return ""
}

// notTextAt looks at one value, of which path is the path.
func notTextAt(path string, f protoreflect.FieldDescriptor, v protoreflect.Value) (string, bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return path, !utf8.ValidString(v.String())
	case protoreflect.MessageKind:
		in := notText(v.Message())
		return path + "." + in, in != ""
	}
	return "", false
}

// notTextIn reports whether a key or a value of a map is not UTF-8.
func notTextIn(f protoreflect.FieldDescriptor, m protoreflect.Map) (bad bool) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		_, badKey := notTextAt("", f.MapKey(), k.Value())
		_, badValue := notTextAt("", f.MapValue(), v)
		bad = badKey || badValue
		return !bad
	})
	return bad
}
