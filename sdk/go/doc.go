// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the Go client of a sandbox gateway: one connection, one
// method for each call of the API, generated messages in and out. What it adds
// by hand is little: finding a gateway, dialling it with a CA and a token, lists
// as iterators over every page, errors by kind, and HealthOf, which reads health
// the way every client must.
//
//	options, err := sandbox.Discover() // or sandbox.Options{Address: …}
//	if err != nil {
//		return err
//	}
//	client, err := sandbox.Dial(ctx, options)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	answer, err := client.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: "web"})
//	if errors.Is(err, sandbox.ErrNotFound) {
//		…
//	}
//	if sandbox.HealthOf(answer).State == sandbox.HealthHealthy {
//		…
//	}
//
// WaitService waits until a service is healthy, WatchServices follows many:
//
//	watch := client.WatchServices(ctx, &sandboxv1.WatchServicesRequest{Sandbox: "web"})
//	defer watch.Close()
//	for {
//		update, err := watch.Next()
//		if err != nil {
//			return err
//		}
//		for _, s := range update.Changed {
//			fmt.Println(s.Service.GetUrl(), s.Health().State)
//		}
//	}
//
// Discover finds a gateway in the environment, else that of this machine by the
// client.json in its state directory; its token is sent to no other. FromStateDir
// asks one directory, Search is for programs that have flags, too. They look when
// they are called, and keep nothing.
//
// A Client is safe for concurrent use and belongs to whoever dialled it, who
// closes it. Each call ends with its context; none has a time limit of its
// own. Watches and waits connect again by themselves; no other call is repeated
// after it reached the gateway. Requests are not changed and not kept. Calls may overtake each other: only one that begins
// after another has returned is sure to come after it.
//
// A health is true for the instant at which the gateway answered. A copy of it
// grows old: after 15 seconds ask again. A watch does that for what it holds: it
// is unknown once the gateway has not been heard for 15 seconds.
//
// Texts in answers are the gateway's. Whoever writes them to a terminal
// escapes what is not printable; errors of this package are escaped already.
package sandbox
