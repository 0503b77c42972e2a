// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// engine is one empty database of one kind.
type engine struct {
	postgres bool
	config   store.Config
}

// engines runs a test on both engines, each with a database of its own.
// PostgreSQL needs TEST_DATABASE_URL, the URL of a database in which the test
// may create schemas.
func engines(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, sqliteEngine(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresEngine(t)) })
}

func sqliteEngine(t testing.TB) engine {
	return engine{config: store.Config{Dir: filepath.Join(t.TempDir(), "state")}}
}

func postgresEngine(t testing.TB) engine {
	t.Helper()
	base := os.Getenv("TEST_DATABASE_URL")
	if base == "" {
		t.Skip("TEST_DATABASE_URL is not set: the PostgreSQL engine is not tested")
	}
	schema := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := rawDB(t, "pgx", base)
	execRaw(t, admin, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return engine{postgres: true, config: store.Config{URL: u.String()}}
}

// open opens the store as a gateway would; the test may close it earlier.
func (e engine) open(t testing.TB) *handle {
	t.Helper()
	if e.config.Logger == nil {
		e.config.Logger = testLogger(t)
	}
	s, err := store.Open(context.Background(), e.config)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	h := &handle{Store: s}
	t.Cleanup(func() { h.close(t) })
	return h
}

func testLogger(t testing.TB) *slog.Logger { return testkit.Logger(t) }

type handle struct {
	*store.Store
	once sync.Once
}

func (h *handle) close(t testing.TB) {
	t.Helper()
	h.once.Do(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// raw is another client of the same database, which knows nothing of the store.
func (e engine) raw(t testing.TB) *sql.DB {
	t.Helper()
	if e.postgres {
		return rawDB(t, "pgx", e.config.URL)
	}
	return rawDB(t, "sqlite", filepath.Join(e.config.Dir, "gateway.db"))
}

func rawDB(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execRaw(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// do is Mutate without a request id that must succeed.
func (h *handle) do(t testing.TB, fn func(tx store.Tx) error) {
	t.Helper()
	if err := h.try(fn); err != nil {
		t.Fatalf("Mutate: %v", err)
	}
}

// try is Mutate without a request id.
func (h *handle) try(fn func(tx store.Tx) error) error {
	_, _, err := h.Mutate(context.Background(), store.Request{}, func(tx store.Tx) ([]byte, error) { return nil, fn(tx) })
	return err
}

func (h *handle) addSandbox(t testing.TB, s store.Sandbox) store.Sandbox {
	t.Helper()
	h.do(t, func(tx store.Tx) (err error) {
		s, err = tx.InsertSandbox(s)
		return err
	})
	return s
}

func (h *handle) addService(t testing.TB, s store.Service) store.Service {
	t.Helper()
	h.do(t, func(tx store.Tx) (err error) {
		s, err = tx.InsertService(s)
		return err
	})
	return s
}

// clock is a fake Now.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func hash(s string) [32]byte { return sha256.Sum256([]byte(s)) }

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// shortly is a deadline that a test waits for.
const shortly = 200 * time.Millisecond

func name(n int) string { return fmt.Sprintf("sandbox-%04d", n) }
