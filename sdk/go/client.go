// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

const (
	// A gateway refuses pings that come more often than every 20 s, or
	// without a call under way.
	pingAfter   = 25 * time.Second
	pingTimeout = 10 * time.Second

	// A lost gateway is dialled again after about firstRedial, growing to
	// lastRedial.
	firstRedial = 250 * time.Millisecond
	lastRedial  = 15 * time.Second
	dialTimeout = 20 * time.Second

	// A page of 1,000 entries fits.
	maxAnswerBytes = 16 << 20
)

// Options say how to reach a gateway. Only Address is required. Discover and
// FromStateDir fill in the first three.
type Options struct {
	// Address is "https://HOST:PORT" (TLS 1.2 or newer), or
	// "http://HOST:PORT" for plain text, which is refused for a host other
	// than localhost, 127.0.0.0/8 or ::1 unless Insecure is set. Without a
	// port it is 443 or 80.
	Address string

	// Token is sent with every call. Empty sends none; only Health works
	// then.
	Token Token

	// CAFile and CA (PEM) name the authorities that may sign the gateway's
	// certificate. Neither means those of the system; both is an error.
	CAFile string
	CA     []byte

	// Insecure allows plain text to another machine. The token travels in
	// plain text, too.
	Insecure bool

	// UserAgent goes before gRPC's own, for example "tool/1.2".
	UserAgent string

	// Dialer replaces the TCP dial. It gets "HOST:PORT" of Address. TLS is
	// spoken over what it returns.
	Dialer func(ctx context.Context, hostPort string) (net.Conn, error)
}

// OptionError says which field of Options cannot be used. Dial returns it.
type OptionError struct {
	Field string // name of the field of Options
	Err   error  // what is wrong with its value
}

func (e *OptionError) Error() string {
	return "sandbox: Options." + e.Field + ": " + printable(e.Err.Error())
}

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

// Client is a connection to one gateway. Make it with Dial.
type Client struct {
	conn  *grpc.ClientConn
	api   openshellv1.OpenShellClient
	watch sandboxv1.ServiceHealthWatchClient
}

// Dial checks the options, reads CAFile and returns a client. It does not wait
// for the gateway: the first call connects, and so does any call after the
// connection was lost. ctx ends Dial only.
//
// Errors: *OptionError; ctx's error when it has ended.
func Dial(ctx context.Context, o Options) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	addr, err := o.check()
	if err != nil {
		return nil, err
	}
	if !addr.secure && !addr.loopback() && !o.Insecure {
		return nil, &OptionError{"Address", errPlainText}
	}
	opts, err := dialOptions(o, addr)
	if err != nil {
		return nil, err
	}
	target := "dns:///" + addr.hostPort()
	if o.Dialer != nil {
		target = "passthrough:///" + addr.hostPort()
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, &OptionError{"Address", err}
	}
	return &Client{conn: conn, api: openshellv1.NewOpenShellClient(conn), watch: sandboxv1.NewServiceHealthWatchClient(conn)}, nil
}

// check looks at the form of address and token alone.
func (o Options) check() (address, error) {
	addr, err := parseAddress(o.Address)
	if err != nil {
		return address{}, &OptionError{"Address", err}
	}
	if err := o.Token.check(); err != nil {
		return address{}, &OptionError{"Token", err}
	}
	return addr, nil
}

var (
	errPlainText = errors.New("plain text (http) is for this machine only: use https")
	errTwoCAs    = errors.New("is set together with CAFile: give one of them")
	errNoCA      = errors.New("holds no PEM certificate")
)

func dialOptions(o Options, addr address) ([]grpc.DialOption, error) {
	transport := insecure.NewCredentials()
	if addr.secure {
		pool, err := authorities(o)
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent(o.UserAgent),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRedial, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastRedial},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithUnaryInterceptor(explainUnary),
		grpc.WithStreamInterceptor(explainStream),
	}
	if o.Token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{Token: o.Token, secure: addr.secure}))
	}
	if o.Dialer != nil {
		opts = append(opts, grpc.WithContextDialer(o.Dialer))
	}
	return opts, nil
}

// authorities returns nil for those of the system.
func authorities(o Options) (*x509.CertPool, error) {
	field, pem := "CA", o.CA
	if o.CAFile != "" {
		if len(o.CA) > 0 {
			return nil, &OptionError{"CA", errTwoCAs}
		}
		b, err := readBounded(o.CAFile, authoritiesFile)
		if err != nil {
			return nil, &OptionError{"CAFile", err}
		}
		field, pem = "CAFile", b
	} else if len(o.CA) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &OptionError{field, errNoCA}
	}
	return pool, nil
}

// bearer puts the token on every call.
type bearer struct {
	Token  Token // exported, so that fmt finds its redaction
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b.Token)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// Close ends the connection and every call under way (ErrCanceled). Call it
// once.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("sandbox: close: %w", err)
	}
	return nil
}

// API returns the generated client over the same connection, for call options
// that the methods here do not take. Its errors are gRPC's.
func (c *Client) API() openshellv1.OpenShellClient { return c.api }

// WatchAPI is API for sandbox.v1: watching, waiting, history. What its watch
// sends does not age by itself; WatchServices is for that.
func (c *Client) WatchAPI() sandboxv1.ServiceHealthWatchClient { return c.watch }
