// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// The functions up to TestStopping are the programs of recipes/STOPPING.md.

func saveReport(ctx context.Context, db *sql.DB, body string) error {
	tx, err := db.BeginTx(ctx, nil) // rolled back when ctx ends
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or there is another error
	token := locks.LeaseFrom(ctx).Token()
	result, err := tx.ExecContext(ctx, "UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?", body, token, 1, token)
	if err != nil {
		return err
	}
	if err := fence.CheckUpdated(result, token); err != nil { // no row: a later holder has written
		return err
	}
	return tx.Commit()
}

func putReport(ctx context.Context, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &fence.Transport{Lease: locks.LeaseFrom(ctx)}}
	response, err := client.Do(request) // returns when ctx ends
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func reportCommand(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // when ctx ends; without it kill -9
	cmd.WaitDelay = 5 * time.Second                                          // from SIGTERM to kill -9
	cmd.Env = append(os.Environ(), "FENCE_TOKEN="+strconv.FormatInt(locks.LeaseFrom(ctx).Token(), 10))
	return cmd
}

// record and producer stand for what a client of Kafka has.
type record struct{ key, value, token string }

type producer interface {
	ProduceSync(ctx context.Context, r record) error
}

func produce(ctx context.Context, to producer, key, value string) error {
	token := strconv.FormatInt(locks.LeaseFrom(ctx).Token(), 10)
	return to.ProduceSync(ctx, record{key, value, token}) // a buffer would be sent after the loss
}

func consume(ctx context.Context, newest *fence.Register, r record, apply func() error) error {
	token, err := strconv.ParseInt(r.token, 10, 64)
	if err != nil {
		return err
	}
	err = newest.Do(ctx, token, apply)
	if errors.Is(err, fence.ErrStale) {
		return nil // its producer had lost the lock
	}
	return err
}

func sendReport(ctx context.Context, conn net.Conn, lines []string) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // ends a Write that blocks
	defer stop()
	for _, line := range lines {
		if err := locks.LeaseFrom(ctx).Err(); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return err
		}
	}
	return nil
}

func inParallel(ctx context.Context, parts []string, work func(ctx context.Context, part string) error) error {
	var group sync.WaitGroup
	failed := make([]error, len(parts))
	for i, part := range parts {
		group.Go(func() { failed[i] = work(ctx, part) })
	}
	group.Wait() // the lock is released when this function returns
	return errors.Join(failed...)
}

// TestStopping has each program lose its lock while a call of it blocks. The call ends, and so does the program.
func TestStopping(t *testing.T) {
	for name, program := range map[string]func(ctx context.Context, t *testing.T, begun func()) error{
		"database/sql": func(ctx context.Context, t *testing.T, begun func()) error {
			db := sql.OpenDB(&slowDatabase{begun: begun})
			defer func() { require.NoError(t, db.Close()) }()
			return saveReport(ctx, db, "late")
		},
		"net/http": func(ctx context.Context, _ *testing.T, begun func()) error {
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begun()
				<-r.Context().Done()
			}))
			defer server.Close()
			defer http.DefaultClient.CloseIdleConnections()
			return putReport(ctx, server.URL, "late")
		},
		"os/exec": func(ctx context.Context, t *testing.T, begun func()) error {
			cmd := reportCommand(ctx, "sh", "-c", `echo "$FENCE_TOKEN"; exec sleep 600`)
			output := must.Get(cmd.StdoutPipe())(t)
			require.NoError(t, cmd.Start())
			var token int64
			must.Get(fmt.Fscanln(output, &token))(t)
			require.Equal(t, locks.LeaseFrom(ctx).Token(), token)
			begun()
			err := cmd.Wait()
			require.Equal(t, syscall.SIGTERM.String(), cmd.ProcessState.Sys().(interface{ Signal() syscall.Signal }).Signal().String())
			return err
		},
		"kafka": func(ctx context.Context, _ *testing.T, begun func()) error {
			return produce(ctx, slowBroker{begun}, "report", "late")
		},
		"net": func(ctx context.Context, _ *testing.T, begun func()) error {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				_, _ = io.ReadFull(theirs, make([]byte, len("first")))
				begun()
			}()
			return sendReport(ctx, ours, []string{"first", "second"})
		},
		"goroutines": func(ctx context.Context, _ *testing.T, begun func()) error {
			var both sync.WaitGroup
			both.Add(2)
			go func() { both.Wait(); begun() }()
			return inParallel(ctx, []string{"a", "b"}, func(ctx context.Context, _ string) error {
				both.Done()
				<-ctx.Done()
				return ctx.Err()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report"))(t)
			begun, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- mutex.Do(zktest.Context(t), func(ctx context.Context) error {
					return program(ctx, t, sync.OnceFunc(func() { close(begun) }))
				})
			}()
			zktest.Await(t, begun, "the work of "+name)
			require.Equal(t, 1, server.Cut(client.Session().ID(), 1))
			require.ErrorAs(t, zktest.Await(t, ended, "the end of "+name), new(*locks.LostError))
		})
	}
}

// TestStoppingConsumerDropsTheRecordsOfOldHolders: the token does what no context can.
func TestStoppingConsumerDropsTheRecordsOfOldHolders(t *testing.T) {
	var newest fence.Register
	var applied []string
	for _, r := range []record{{"report", "first", "7"}, {"report", "second", "9"}, {"report", "late", "7"}} {
		require.NoError(t, consume(t.Context(), &newest, r, func() error {
			applied = append(applied, r.value)
			return nil
		}))
	}
	require.Equal(t, []string{"first", "second"}, applied)
	require.Error(t, consume(t.Context(), &newest, record{token: "none"}, nil))
}

// slowBroker answers no record.
type slowBroker struct{ begun func() }

func (s slowBroker) ProduceSync(ctx context.Context, _ record) error {
	s.begun()
	<-ctx.Done()
	return ctx.Err()
}

// slowDatabase has a statement that ends only when its context does.
type slowDatabase struct{ begun func() }

func (s *slowDatabase) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *slowDatabase) Driver() driver.Driver                        { return nil }
func (s *slowDatabase) Begin() (driver.Tx, error)                    { return s, nil }
func (s *slowDatabase) Close() error                                 { return nil }
func (s *slowDatabase) Commit() error                                { return errors.New("it is committed") }
func (s *slowDatabase) Rollback() error                              { return nil }
func (s *slowDatabase) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }

func (s *slowDatabase) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	s.begun()
	<-ctx.Done()
	return nil, ctx.Err()
}
