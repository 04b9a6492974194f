// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/txn"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestDoAppliesAllWrites(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		put(t, client, "/d/a", "1", "/d/b", "2", "/d/old/x", "", "/d/again/x", "")

		err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			must(t, tx.Prefetch("/d/a", "/d/b", "/d/none"))
			a, err := tx.Get("/d/a")
			must(t, err)
			must(t, tx.Set("/d/b", append(a, '!')))
			must(t, tx.Create("/d/new", []byte("n")))
			must(t, tx.Create("/d/new/child", []byte("c")))
			must(t, tx.CreateEphemeral("/d/mine", nil))
			for _, path := range []string{"/d/old/x", "/d/old", "/d/again/x", "/d/again"} {
				must(t, tx.Delete(path))
			}
			must(t, tx.Create("/d/again", []byte("2")))
			return nil
		})

		require.NoError(t, err)
		for path, want := range map[string]string{
			"/d/a": "1", "/d/b": "1!", "/d/new": "n", "/d/new/child": "c", "/d/mine": "",
			"/d/old": "none", "/d/again": "2", "/d/again/x": "none",
		} {
			require.Equal(t, want, data(t, client, path), path)
		}
		stat, err := client.Exists(zktest.Context(t), "/d/mine")
		require.NoError(t, err)
		require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
		children, err := client.Children(zktest.Context(t), "/d")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"a", "b", "new", "mine", "again"}, children, "no znode of a check is left")
	})
}

func TestTxnReadsSeeTheWritesBefore(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "2", "/d/c", "3")

	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		value := []byte("x")
		must(t, tx.Set("/d/a", value))
		value[0] = 'y' // the transaction has its own
		got, err := tx.Get("/d/a")
		must(t, err)
		require.Equal(t, "x", string(got))
		got[0] = 'z'
		got, err = tx.Get("/d/a")
		must(t, err)
		require.Equal(t, "x", string(got))

		must(t, tx.Delete("/d/b"))
		exists, err := tx.Exists("/d/b")
		must(t, err)
		require.False(t, exists)
		must(t, tx.Create("/d/e", nil))
		must(t, tx.Create("/d/f", nil))
		must(t, tx.Delete("/d/f"))
		names, err := tx.Children("/d")
		must(t, err)
		require.Equal(t, []string{"a", "c", "e"}, names)
		names, err = tx.Children("/d/e")
		must(t, err)
		require.Empty(t, names)
		_, err = tx.Children("/d/b")
		require.ErrorIs(t, err, framework.ErrNoNode)
		return nil
	})

	require.NoError(t, err)
	require.Equal(t, "x", data(t, client, "/d/a"))
	require.Equal(t, "none", data(t, client, "/d/f"))
}

// TestTxnConflicts changes what the first run of the function has read, each time in
// another way. The function must run again, and see the change.
func TestTxnConflicts(t *testing.T) {
	t.Parallel()
	get := func(path string) func(*txn.Tx) (string, error) {
		return func(tx *txn.Tx) (string, error) {
			got, err := tx.Get(path)
			if errors.Is(err, framework.ErrNoNode) {
				return "none", nil
			}
			return string(got), err
		}
	}
	list := func(tx *txn.Tx) (string, error) {
		names, err := tx.Children("/d")
		return strings.Join(names, ","), err
	}
	set := func(ctx context.Context, c *framework.Framework) error { return c.Set(ctx, "/d/a", []byte("new")) }
	recreate := func(ctx context.Context, c *framework.Framework) error {
		_, err := c.Transact(ctx, framework.DeleteOp("/d/a"), framework.CreateOp("/d/a", []byte("new")))
		return err
	}
	create := func(path string) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, c *framework.Framework) error {
			_, err := c.Create(ctx, path, []byte("new"), framework.CreatingParentsIfNeeded())
			return err
		}
	}
	remove := func(ctx context.Context, c *framework.Framework) error { return c.Delete(ctx, "/d/a") }
	replaceChild := func(ctx context.Context, c *framework.Framework) error {
		_, err := c.Transact(ctx, framework.DeleteOp("/d/a"), framework.CreateOp("/d/z", nil))
		return err
	}
	for _, c := range []struct {
		name     string
		read     func(*txn.Tx) (string, error)
		change   func(context.Context, *framework.Framework) error
		old, new string
		versions bool // a conflict with VersionsOnly, too
	}{
		{"written", get("/d/a"), set, "old", "new", true},
		{"deleted", get("/d/a"), remove, "old", "none", true},
		{"deleted and created again", get("/d/a"), recreate, "old", "new", false},
		{"created", get("/d/none"), create("/d/none"), "none", "new", true},
		{"created below a missing folder", get("/d/x/y/z"), create("/d/x/y/z"), "none", "new", true},
		{"a sibling appears", list, create("/d/b"), "a", "a,b", true},
		{"a sibling leaves", list, remove, "a", "", true},
		{"a sibling replaces another", list, replaceChild, "a", "z", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				for _, opts := range [][]txn.Option{nil, {txn.VersionsOnly()}} {
					if opts != nil && !c.versions {
						continue
					}
					client, other := zktest.Client(t, server), zktest.Client(t, server)
					ns := "x" + strconv.Itoa(len(opts))
					client, err := client.UsingNamespace(ns)
					require.NoError(t, err)
					other, err = other.UsingNamespace(ns)
					require.NoError(t, err)
					put(t, client, "/d/a", "old", "/out", "")
					var seen []string
					err = txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
						got, err := c.read(tx)
						if err != nil {
							return err
						}
						if seen = append(seen, got); len(seen) == 1 {
							must(t, c.change(zktest.Context(t), other))
						}
						return tx.Set("/out", []byte(got))
					}, opts...)
					require.NoError(t, err)
					require.Equal(t, []string{c.old, c.new}, seen)
					require.Equal(t, c.new, data(t, client, "/out"))
				}
			})
		})
	}
}

// TestWriteSkew: two transactions read both znodes and write one each. Only one may succeed at once.
func TestWriteSkew(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/on/a", "1", "/on/b", "1")
	// off switches one off if the other is on.
	off := func(mine, its string, between func()) error {
		return txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			must(t, tx.Prefetch(mine, its))
			other, err := tx.Get(its)
			if err != nil {
				return err
			}
			if between != nil {
				between()
				between = nil
			}
			if string(other) == "0" {
				return nil
			}
			return tx.Set(mine, []byte("0"))
		})
	}

	require.NoError(t, off("/on/a", "/on/b", func() { must(t, off("/on/b", "/on/a", nil)) }))

	require.Equal(t, "1", data(t, client, "/on/a"))
	require.Equal(t, "0", data(t, client, "/on/b"))
}

func TestTxnReadOnlyTransactionSeesOneMoment(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "1")
	var a, b string
	runs := 0
	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		runs++
		got, err := tx.Get("/d/a")
		must(t, err)
		a = string(got)
		if runs == 1 {
			_, err := client.Transact(zktest.Context(t), framework.SetDataOp("/d/a", []byte("2")), framework.SetDataOp("/d/b", []byte("2")))
			must(t, err)
		}
		got, err = tx.Get("/d/b")
		b = string(got)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 2, runs)
	require.Equal(t, "2 2", a+" "+b)
	children, err := client.Exists(zktest.Context(t), "/d")
	require.NoError(t, err)
	require.EqualValues(t, 2, children.Cversion, "nothing was written to read")
}

func TestTxnErrorOfTheFunctionEndsTheTransaction(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "1")
	failure := errors.New("no")

	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { return errors.Join(tx.Set("/d/a", nil), failure) })
	require.ErrorIs(t, err, failure)
	require.Equal(t, "1", data(t, client, "/d/a"))

	runs := 0
	err = txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		a, err := tx.Get("/d/a")
		must(t, err)
		if runs++; runs == 1 {
			_, err := client.Transact(zktest.Context(t), framework.SetDataOp("/d/a", []byte("2")), framework.SetDataOp("/d/b", []byte("2")))
			must(t, err)
		}
		b, err := tx.Get("/d/b")
		must(t, err)
		if string(a) != string(b) {
			return failure
		}
		return nil
	})
	require.NoError(t, err, "its values never stood side by side")
	require.Equal(t, 2, runs)

	nested := txn.Do(zktest.Context(t), client, func(*txn.Tx) error { runs++; return txn.ErrConflict })
	require.ErrorIs(t, nested, txn.ErrConflict)
	require.Equal(t, 3, runs, "the conflict of another transaction is an error like others")
}

func TestTxnPolicyEndsTheTries(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t), framework.WithRetryPolicy(retry.NTimes(2, time.Millisecond)))
	put(t, client, "/d/a", "1")
	runs := 0
	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		runs++
		_, err := tx.Get("/d/a")
		must(t, err)
		must(t, client.Set(zktest.Context(t), "/d/a", nil))
		return tx.Set("/d/a", []byte("x"))
	})
	require.ErrorIs(t, err, txn.ErrConflict)
	require.ErrorContains(t, err, "/d/a")
	require.Equal(t, 3, runs)
	require.Empty(t, data(t, client, "/d/a"))

	ctx, cancel := context.WithCancelCause(zktest.Context(t))
	cause := errors.New("enough")
	err = txn.Do(ctx, client, func(tx *txn.Tx) error {
		cancel(cause)
		_, err := tx.Get("/d/a")
		return err
	})
	require.ErrorIs(t, err, cause)
}

func TestVersionsOnlyLetsTransactionsOfAFolderPass(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "1")
	add := func(path string, between func(), opts ...txn.Option) (runs int) {
		must(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			got, err := tx.Get(path)
			if err != nil {
				return err
			}
			if runs++; runs == 1 && between != nil {
				between()
			}
			return tx.Set(path, append(got, '+'))
		}, opts...))
		return runs
	}
	require.Equal(t, 2, add("/d/a", func() { add("/d/b", nil) }))
	require.Equal(t, 1, add("/d/a", func() { add("/d/b", nil, txn.VersionsOnly()) }, txn.VersionsOnly()))
	require.Equal(t, "1++", data(t, client, "/d/a"))
	require.Equal(t, "1++", data(t, client, "/d/b"))
}

func TestWithHoldsOnlyUnderTheLock(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1")
	mutex, err := locks.NewInterProcessMutex(client, "/lock")
	require.NoError(t, err)
	lease, err := mutex.Acquire(zktest.Context(t))
	require.NoError(t, err)
	set := func(value string, between func()) error {
		return txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			if between != nil {
				between()
			}
			return tx.Set("/d/a", []byte(value))
		}, txn.With(lease))
	}

	require.NoError(t, set("2", nil))

	view, err := client.UsingNamespace("d")
	require.NoError(t, err)
	err = txn.Do(zktest.Context(t), view, func(tx *txn.Tx) error { return tx.Set("/a", []byte("3")) }, txn.With(lease))
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.ErrorContains(t, err, "this client names it otherwise")

	require.ErrorIs(t, set("4", func() { must(t, lease.Release(zktest.Context(t))) }), locks.ErrReleased)
	require.Equal(t, "2", data(t, client, "/d/a"))
}

func TestTxnLostReplyIsSettledOrUnknown(t *testing.T) {
	for _, c := range []struct {
		fault   zkserver.Fault
		unknown bool
	}{{zkserver.LoseRequest, false}, {zkserver.LoseReply, true}} {
		server := zktest.NewServer(t)
		client := zktest.Client(t, server)
		put(t, client, "/d/a", "1")
		server.Intercept(zkserver.Nth(1, zkserver.OpMulti, c.fault))
		runs := 0
		err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			runs++
			got, err := tx.Get("/d/a")
			must(t, err)
			return tx.Set("/d/a", append(got, '+'))
		})
		require.Equal(t, c.unknown, framework.OutcomeUnknown(err), "%v", err)
		require.Equal(t, c.unknown, err != nil, "%v", err)
		require.Equal(t, 1, runs)
		require.Equal(t, "1+", data(t, client, "/d/a"))
	}
}

func TestTxnTransactionThatIsTooLargeIsNotSent(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	put(t, client, "/d/a", "1", "/d/b", "1")
	large := make([]byte, 600<<10)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpMulti {
			t.Error("a transaction was sent")
		}
		return zkserver.Pass
	})
	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		return errors.Join(tx.Set("/d/a", large), tx.Set("/d/b", large))
	})
	require.ErrorIs(t, err, framework.ErrTooLarge)
}

func TestTxnRefusals(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/full/x", "")
	_, err := client.Create(zktest.Context(t), "/d/e", nil, framework.WithMode(framework.Ephemeral))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		call func(*txn.Tx) error
		want error
		path string
	}{
		"set what is missing":       {func(tx *txn.Tx) error { return tx.Set("/d/x", nil) }, framework.ErrNoNode, "/d/x"},
		"get what is missing":       {func(tx *txn.Tx) error { _, err := tx.Get("/x/y"); return err }, framework.ErrNoNode, "/x/y"},
		"list what is missing":      {func(tx *txn.Tx) error { _, err := tx.Children("/x"); return err }, framework.ErrNoNode, "/x"},
		"delete what is missing":    {func(tx *txn.Tx) error { return tx.Delete("/d/x") }, framework.ErrNoNode, "/d/x"},
		"create what exists":        {func(tx *txn.Tx) error { return tx.Create("/d/a", nil) }, framework.ErrNodeExists, "/d/a"},
		"create without a parent":   {func(tx *txn.Tx) error { return tx.Create("/x/y", nil) }, framework.ErrNoNode, "/x"},
		"create below an ephemeral": {func(tx *txn.Tx) error { return tx.Create("/d/e/y", nil) }, framework.ErrNoChildrenForEphemerals, "/d/e"},
		"delete above children":     {func(tx *txn.Tx) error { return tx.Delete("/d/full") }, framework.ErrNotEmpty, "/d/full"},
		"delete above a new child":  {func(tx *txn.Tx) error { return errors.Join(tx.Create("/d/a/n", nil), tx.Delete("/d/a")) }, framework.ErrNotEmpty, "/d/a"},
		"a bad path":                {func(tx *txn.Tx) error { return tx.Set("d", nil) }, framework.ErrInvalidPath, "d"},
		"the reserved folder":       {func(tx *txn.Tx) error { return tx.Create("/zookeeper/x", nil) }, framework.ErrInvalidPath, "/zookeeper"},
		"create below a new ephemeral": {func(tx *txn.Tx) error {
			return errors.Join(tx.CreateEphemeral("/d/n", nil), tx.Create("/d/n/y", nil))
		}, framework.ErrNoChildrenForEphemerals, "/d/n"},
	} {
		t.Run(name, func(t *testing.T) {
			err := txn.Do(zktest.Context(t), client, c.call)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.path)
			require.NotErrorIs(t, err, txn.ErrConflict)
		})
	}
	require.Equal(t, "1", data(t, client, "/d/a"))
}

func TestTxnBadArguments(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	nothing := func(*txn.Tx) error { return nil }
	for name, call := range map[string]func() error{
		"context":  func() error { return txn.Do(nil, client, nothing) }, //nolint:staticcheck // the error is what is tested
		"client":   func() error { return txn.Do(t.Context(), nil, nothing) },
		"function": func() error { return txn.Do(t.Context(), client, nil) },
		"With":     func() error { return txn.Do(t.Context(), client, nothing, txn.With(nil)) },
		"option":   func() error { return txn.Do(t.Context(), client, nothing, nil) },
	} {
		err := call()
		require.ErrorIs(t, err, framework.ErrInvalidOption, name)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, txn.Do(t.Context(), client, nothing))
}

func TestTxnTxEndsWithItsFunction(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	var kept *txn.Tx
	require.Panics(t, func() {
		_ = txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { kept = tx; panic("x") })
	})
	require.ErrorContains(t, kept.Create("/a", nil), "the transaction has ended")
	_, err := kept.Get("/")
	require.Error(t, err)
}

func TestTxnEmptyNamespace(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, err := zktest.Client(t, server).UsingNamespace("unused")
		require.NoError(t, err)
		require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			exists, err := tx.Exists("/a")
			must(t, err)
			require.False(t, exists)
			return tx.Create("/a", []byte("1"))
		}))
		require.Equal(t, "1", data(t, client, "/a"))
	})
}

// TestTxnSessionThatEndsIsAConflict: the servers may have begun again since, with the same versions for other data.
func TestTxnSessionThatEndsIsAConflict(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1")
	runs := 0
	require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		got, err := tx.Get("/d/a")
		if err != nil {
			return err
		}
		if runs++; runs == 1 {
			zktest.KillSession(t, client)
			must(t, client.Sync(zktest.Context(t), "/"))
		}
		return tx.Set("/d/a", append(got, '+'))
	}))
	require.Equal(t, 2, runs)
	require.Equal(t, "1+", data(t, client, "/d/a"))
}

// A read that fails leaves nothing that later reads of the transaction would take for its result.
func TestTxnReadThatFailedIsMadeAgain(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	put(t, client, "/d/a", "1")
	counts, created := make(chan struct{}), make(chan struct{})
	server.Intercept(zkserver.Nth(2, zkserver.OpGetData, zkserver.FailWith(-1))) // the read after the count
	counted := false
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpExists || counted {
			return zkserver.Pass
		}
		counted = true
		close(counts)
		return zkserver.HoldUntil(created)
	})
	go func() {
		defer close(created)
		<-counts
		_, err := other.Create(zktest.Context(t), "/d/new", []byte("2"))
		assert.NoError(t, err)
	}()

	must(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		_, err := tx.Exists("/d/new")
		require.Error(t, err)
		exists, err := tx.Exists("/d/new")
		must(t, err)
		require.True(t, exists)
		return nil
	}, txn.VersionsOnly()))
}

// TestTxnCommitThatMeetsRestoredServersIsAConflict: their znodes have the versions and the numbers of creations that were read, and
// other data.
func TestTxnCommitThatMeetsRestoredServersIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, another := zktest.NewServer(t, zkserver.WithoutListener()), zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Second)))
		put(t, client, "/d/a", "1")
		put(t, zktest.Client(t, another), "/d/a", "restored", "/more/transactions/than/there/were", "")
		runs := 0
		require.NoError(t, txn.Do(t.Context(), client, func(tx *txn.Tx) error {
			got, err := tx.Get("/d/a")
			if err != nil {
				return err
			}
			if runs++; runs == 1 {
				must(t, server.Stop())
				zktest.AwaitState(t, client, framework.Suspended)
				must(t, server.Restore(another.Backup(), 0))
				time.AfterFunc(time.Second, func() { assert.NoError(t, server.Restart()) }) // while the commit waits for a connection
			}
			return tx.Set("/d/a", append(got, '+'))
		}))
		require.Equal(t, 2, runs)
		require.Equal(t, "restored+", data(t, client, "/d/a"))
	})
}
