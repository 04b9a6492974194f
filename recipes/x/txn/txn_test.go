// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestDoAppliesAllWrites(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.CreationNumbers)
		client := zktest.Client(t, server)
		put(t, client, "/d/a", "1", "/d/b", "2", "/d/old/x", "", "/d/again/x", "")

		err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			require.NoError(t, tx.Prefetch("/d/a", "/d/b", "/d/none"))
			require.NoError(t, tx.Set("/d/b", append(must.Get(tx.Get("/d/a"))(t), '!')))
			require.NoError(t, tx.Create("/d/new", []byte("n")))
			require.NoError(t, tx.Create("/d/new/child", []byte("c")))
			require.NoError(t, tx.CreateEphemeral("/d/mine", nil))
			for _, path := range []string{"/d/old/x", "/d/old", "/d/again/x", "/d/again"} {
				require.NoError(t, tx.Delete(path))
			}
			require.NoError(t, tx.Create("/d/again", []byte("2")))
			return nil
		})

		require.NoError(t, err)
		for path, want := range map[string]string{
			"/d/a": "1", "/d/b": "1!", "/d/new": "n", "/d/new/child": "c", "/d/mine": "",
			"/d/old": "none", "/d/again": "2", "/d/again/x": "none",
		} {
			require.Equal(t, want, data(t, client, path), path)
		}
		require.Equal(t, client.Session().ID(), must.Get(client.Exists(zktest.Context(t), "/d/mine"))(t).EphemeralOwner)
		children := must.Get(client.Children(zktest.Context(t), "/d"))(t)
		require.ElementsMatch(t, []string{"a", "b", "new", "mine", "again"}, children, "no znode of a check is left")
	})
}

func TestTxnReadsSeeTheWritesBefore(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "2", "/d/c", "3")

	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		value := []byte("x")
		require.NoError(t, tx.Set("/d/a", value))
		value[0] = 'y' // the transaction has its own
		got := must.Get(tx.Get("/d/a"))(t)
		require.Equal(t, "x", string(got))
		got[0] = 'z'
		got = must.Get(tx.Get("/d/a"))(t)
		require.Equal(t, "x", string(got))

		require.NoError(t, tx.Delete("/d/b"))
		require.False(t, must.Get(tx.Exists("/d/b"))(t))
		require.NoError(t, tx.Create("/d/e", nil))
		require.NoError(t, tx.Create("/d/f", nil))
		require.NoError(t, tx.Delete("/d/f"))
		names := must.Get(tx.Children("/d"))(t)
		require.Equal(t, []string{"a", "c", "e"}, names)
		names = must.Get(tx.Children("/d/e"))(t)
		require.Empty(t, names)
		_, err := tx.Children("/d/b")
		require.ErrorIs(t, err, framework.ErrNoNode)
		return nil
	})

	require.NoError(t, err)
	require.Equal(t, "x", data(t, client, "/d/a"))
	require.Equal(t, "none", data(t, client, "/d/f"))
}

// change is what another client does to what a transaction has read.
type change struct {
	name     string
	read     func(*txn.Tx) (string, error)
	before   []framework.Op // there is /d/a with the data "old" in any case
	ops      []framework.Op
	old, new string
	versions bool // a conflict with VersionsOnly, too
	early    bool // it must come before the last look
}

func get(path string) func(*txn.Tx) (string, error) {
	return func(tx *txn.Tx) (string, error) {
		got, err := tx.Get(path)
		if errors.Is(err, framework.ErrNoNode) {
			return "none", nil
		}
		return string(got), err
	}
}

func exists(path string) func(*txn.Tx) (string, error) {
	return func(tx *txn.Tx) (string, error) {
		exists, err := tx.Exists(path)
		return strconv.FormatBool(exists), err
	}
}

func list(path string) func(*txn.Tx) (string, error) {
	return func(tx *txn.Tx) (string, error) {
		names, err := tx.Children(path)
		if errors.Is(err, framework.ErrNoNode) {
			return "none", nil
		}
		return strings.Join(names, ","), err
	}
}

// both reads a second znode after the first.
func both(one, two func(*txn.Tx) (string, error)) func(*txn.Tx) (string, error) {
	return func(tx *txn.Tx) (string, error) {
		first, err := one(tx)
		if err != nil {
			return "", err
		}
		second, err := two(tx)
		return first + " " + second, err
	}
}

func changes() []change {
	create := func(path string) framework.Op { return framework.CreateOp(path, []byte("new")) }
	remove := framework.DeleteOp("/d/a")
	ephemeral := framework.CreateOp("/d/e", nil, framework.WithMode(framework.Ephemeral))
	ops := func(ops ...framework.Op) []framework.Op { return ops }
	return []change{
		{"written", get("/d/a"), nil, ops(framework.SetDataOp("/d/a", []byte("new"))), "old", "new", true, false},
		{"deleted", get("/d/a"), nil, ops(remove), "old", "none", true, false},
		{"deleted, where only its existence was read", exists("/d/a"), nil, ops(remove), "true", "false", true, false},
		{"deleted and created again", get("/d/a"), nil, ops(remove, create("/d/a")), "old", "new", false, false},
		{
			"created again beside a znode named like the check", get("/d/a"), nil,
			ops(remove, create("/d/a"), create("/d/_txn-0000000001")), "old", "new", false, false,
		},
		{"created", get("/d/none"), nil, ops(create("/d/none")), "none", "new", true, false},
		{"created below a missing folder", get("/d/x/y"), nil, ops(create("/d/x"), create("/d/x/y")), "none", "new", true, false},
		{"a sibling appears", list("/d"), nil, ops(create("/d/b")), "a", "a,b", true, false},
		{"a sibling leaves", list("/d"), nil, ops(remove), "a", "", true, false},
		{"a sibling replaces another", list("/d"), nil, ops(remove, create("/d/z")), "a", "z", true, false},
		{"a missing folder is created with a child", list("/d/x"), nil, ops(create("/d/x"), create("/d/x/y")), "none", "y", true, false},
		{
			"the child of a missing folder is read, too", both(list("/d/x"), get("/d/x/y")), nil,
			ops(create("/d/x"), create("/d/x/y")), "none none", "y new", true, false, //nolint:dupword // what is seen
		},
		{"a folder is replaced by a like one", get("/d/a"), nil, ops(remove, framework.DeleteOp("/d"), create("/d"), create("/d/a")), "old", "new", false, true},
		{"a listed folder is replaced", list("/d"), nil, ops(remove, framework.DeleteOp("/d"), create("/d"), create("/d/b")), "a", "b", true, false},
		{
			"an ephemeral znode is replaced by a folder", get("/d/e/x"), ops(ephemeral),
			ops(framework.DeleteOp("/d/e"), create("/d/e"), create("/d/e/x")), "none", "new", true, false,
		},
		{
			"a listed ephemeral znode is replaced by a folder", list("/d/e"), ops(ephemeral),
			ops(framework.DeleteOp("/d/e"), create("/d/e"), create("/d/e/x")), "", "x", true, false,
		},
		{
			"a listed folder is replaced by an ephemeral znode", both(list("/d"), list("/d/f")), ops(create("/d/f")),
			ops(framework.DeleteOp("/d/f"), remove, framework.CreateOp("/d/f", nil, framework.WithMode(framework.Ephemeral))), "a,f ", "f ", true, false,
		},
	}
}

// TestTxnConflicts changes what the first run of the function has read, each time in
// another way. The function must run again, and see the change.
func TestTxnConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				server.Requires(t, ensemble.CreationNumbers)
				for i, opts := range [][]txn.Option{nil, {txn.VersionsOnly()}} {
					if opts != nil && !c.versions {
						continue
					}
					client, other := prepare(t, c, server, "x"+strconv.Itoa(i))
					var seen []string
					err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
						got, err := c.read(tx)
						if err != nil {
							return err
						}
						if seen = append(seen, got); len(seen) == 1 {
							c.make(t, other)
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

// TestTxnConflictsAtTheCommit makes the same changes at the last moment: the request is on its way.
func TestTxnConflictsAtTheCommit(t *testing.T) {
	t.Parallel()
	for _, c := range changes() {
		if c.early {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for i, opts := range [][]txn.Option{nil, {txn.VersionsOnly()}} {
				if opts != nil && !c.versions {
					continue
				}
				server := zktest.NewServer(t)
				client, other := prepare(t, c, server, "x"+strconv.Itoa(i))
				holdFirstMulti(t, server, func() { c.make(t, other) })
				var seen []string
				require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
					got, err := c.read(tx)
					if err != nil {
						return err
					}
					seen = append(seen, got)
					return tx.Set("/out", []byte(got))
				}, opts...))
				require.Equal(t, []string{c.old, c.new}, seen)
				require.Equal(t, c.new, data(t, client, "/out"))
			}
		})
	}
}

// TestTxnReadOnlyConflicts: a transaction that only reads sees one moment, too. The change comes between two of its reads.
func TestTxnReadOnlyConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client, other := prepare(t, c, server, "x")
				ops := append(c.ops, framework.SetDataOp("/out", []byte("new"))) //nolint:gocritic // a copy is meant, and ops are made anew
				var seen []string
				require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
					got, err := c.read(tx)
					if err != nil {
						return err
					}
					if len(seen) == 0 {
						must.Get(other.Transact(zktest.Context(t), ops...))(t)
					}
					out, err := tx.Get("/out")
					seen = append(seen, got+" "+string(out))
					return err
				}))
				require.Equal(t, []string{c.old + " new", c.new + " new"}, seen)
			})
		})
	}
}

// prepare returns two clients in a namespace with what the change needs.
func prepare[T zktest.Target](t *testing.T, c change, server T, namespace string) (client, other *framework.Framework) {
	t.Helper()
	client = must.Get(zktest.Client(t, server).UsingNamespace(namespace))(t)
	other = must.Get(zktest.Client(t, server).UsingNamespace(namespace))(t)
	put(t, client, "/d/a", "old", "/out", "")
	must.Get(other.Transact(zktest.Context(t), c.before...))(t)
	return client, other
}

func (c change) make(t *testing.T, other *framework.Framework) {
	t.Helper()
	_, err := other.Transact(zktest.Context(t), c.ops...)
	assert.NoError(t, err)
}

// holdFirstMulti calls fn, which may make transactions, before the server gets the next transaction.
func holdFirstMulti(t *testing.T, server *zkserver.Server, fn func()) {
	t.Helper()
	var once sync.Once
	server.Intercept(func(r zkserver.Request) (fault zkserver.Fault) {
		fault = zkserver.Pass
		if r.Op == zkserver.OpMulti {
			once.Do(func() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					fn()
				}()
				fault = zkserver.HoldUntil(done)
			})
		}
		return fault
	})
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
		a := must.Get(tx.Get("/d/a"))(t)
		if runs++; runs == 1 {
			must.Get(client.Transact(zktest.Context(t), framework.SetDataOp("/d/a", []byte("2")), framework.SetDataOp("/d/b", []byte("2"))))(t)
		}
		b := must.Get(tx.Get("/d/b"))(t)
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

func TestTxnContextEndsTheTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithRetryPolicy(retry.None()))
		put(t, client, "/d/a", "1")
		runs := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := txn.Do(ctx, client, func(tx *txn.Tx) error {
			runs++
			must.Get(tx.Get("/d/a"))(t)
			require.NoError(t, client.Set(t.Context(), "/d/a", nil))
			return tx.Set("/d/a", []byte("x"))
		})
		require.ErrorIs(t, err, txn.ErrConflict)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "/d/a")
		require.Greater(t, runs, 50, "the pauses are short, whatever the policy of the client")
		require.Less(t, runs, 1000, "and they are not too short")
		require.Empty(t, data(t, client, "/d/a"))

		ended, end := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		err = txn.Do(ended, client, func(tx *txn.Tx) error {
			end(cause)
			_, err := tx.Get("/d/a")
			return err
		})
		require.ErrorIs(t, err, cause)
	})
}

// TestTxnOfAFolderPass: transactions on different znodes of a folder meet in the check of the folder, at most. This costs another
// commit, and never another run of the function or an ErrConflict.
func TestTxnOfAFolderPass(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    []txn.Option
		commits int32
	}{{"serializable", nil, 3}, {"VersionsOnly", []txn.Option{txn.VersionsOnly()}, 2}} {
		t.Run(c.name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client, other := zktest.Client(t, server), zktest.Client(t, server)
			put(t, client, "/d/a", "1", "/d/b", "1")
			runs := 0
			add := func(client *framework.Framework, path string) {
				assert.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
					runs++
					got, err := tx.Get(path)
					if err != nil {
						return err
					}
					return tx.Set(path, append(got, '+'))
				}, c.opts...))
			}
			var commits atomic.Int32
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpMulti {
					commits.Add(1)
				}
				return zkserver.Pass
			})
			holdFirstMulti(t, server, func() { add(other, "/d/b") })

			add(client, "/d/a")

			require.Equal(t, 2, runs)
			require.Equal(t, c.commits, commits.Load())
			require.Equal(t, "1+", data(t, client, "/d/a"))
			require.Equal(t, "1+", data(t, client, "/d/b"))
		})
	}
}

// TestTxnUsesUpNoNumbers: only the read of data in a transaction that writes, and a list, take a sequential number of the folder.
func TestTxnUsesUpNoNumbers(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1", "/d/b", "1", "/out", "")
	for name, c := range map[string]struct {
		fn     func(*txn.Tx) error
		number int32
	}{
		"reads only": {func(tx *txn.Tx) error {
			_, err := list("/d")(tx)
			return errors.Join(err, tx.Prefetch("/d/a", "/d/none"))
		}, 0},
		"writes what it has not read": {func(tx *txn.Tx) error { return tx.Set("/d/a", nil) }, 0},
		"asks whether it exists": {func(tx *txn.Tx) error {
			_, err := tx.Exists("/d/a")
			return errors.Join(err, tx.Set("/out", nil))
		}, 0},
		"reads and writes": {func(tx *txn.Tx) error {
			_, err := tx.Get("/d/a")
			return errors.Join(err, tx.Set("/out", nil))
		}, 1},
		"lists and writes": {func(tx *txn.Tx) error {
			_, err := tx.Children("/d")
			return errors.Join(err, tx.Set("/out", nil))
		}, 1},
	} {
		before := must.Get(client.Exists(zktest.Context(t), "/d"))(t)
		require.NoError(t, txn.Do(zktest.Context(t), client, c.fn), name)
		require.Equal(t, 2*c.number, must.Get(client.Exists(zktest.Context(t), "/d"))(t).Cversion-before.Cversion, name)
	}
}

// TestTxnRefusesAFolderWithoutNumbers: the check of a folder is impossible at the end of its numbers, and before ZooKeeper 3.6
// also behind the end.
func TestTxnRefusesAFolderWithoutNumbers(t *testing.T) {
	for _, c := range []struct {
		version string
		next    int32
	}{
		{"3.5.9", math.MaxInt32},
		{"3.5.9", math.MinInt32 + 5},
		{"3.8.0", math.MaxInt32},
		{"3.8.0", math.MaxInt32 - 1000},
	} {
		t.Run(fmt.Sprintf("%s %d", c.version, c.next), func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithVersion(c.version))
			client := zktest.Client(t, server)
			put(t, client, "/d/a", "1", "/out", "")
			require.NoError(t, server.SetSequence("/d", c.next))
			add := func(tx *txn.Tx) error {
				got, err := tx.Get("/d/a")
				if err != nil {
					return err
				}
				return tx.Set("/d/a", append(got, '+'))
			}

			err := txn.Do(zktest.Context(t), client, add)
			require.ErrorIs(t, err, locks.ErrSequenceExhausted)
			require.ErrorContains(t, err, "/d:")
			require.NotErrorIs(t, err, txn.ErrConflict)
			require.Equal(t, "1", data(t, client, "/d/a"))

			require.NoError(t, txn.Do(zktest.Context(t), client, add, txn.VersionsOnly()))
			require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { return tx.Set("/d/a", []byte("2")) }))
			runs := 0
			require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
				exists, err := tx.Exists("/d/new")
				if err != nil {
					return err
				}
				if runs++; runs == 1 {
					put(t, client, "/d/new", "")
				}
				return tx.Set("/out", []byte(strconv.FormatBool(exists)))
			}))
			require.Equal(t, "true", data(t, client, "/out"))
		})
	}
}

// TestTxnReadsOfTheServersTree: what is always there can be read. The rest cannot be checked, and is refused before a request.
func TestTxnReadsOfTheServersTree(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/a", "1")
	for _, path := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			_, err := get(path)(tx)
			return errors.Join(err, tx.Set("/a", []byte("2")))
		}), path)
	}
	for name, read := range map[string]func(*txn.Tx) (string, error){
		"/zookeeper/any": get("/zookeeper/any"), "/zookeeper/quota/a": get("/zookeeper/quota/a"), "/zookeeper": list("/zookeeper"),
	} {
		err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { _, err := read(tx); return err })
		require.ErrorIs(t, err, framework.ErrInvalidPath, name)
		require.ErrorContains(t, err, name)
	}
	view := must.Get(client.UsingNamespace("ns"))(t)
	put(t, view, "/zookeeper/any", "1")
	require.NoError(t, txn.Do(zktest.Context(t), view, func(tx *txn.Tx) error {
		_, err := tx.Get("/zookeeper/any")
		return errors.Join(err, tx.Set("/zookeeper/any", []byte("2")))
	}), "its own znode of this name")
}

func TestWithHoldsOnlyUnderTheLock(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/d/a", "1")
	mutex := must.Get(locks.NewInterProcessMutex(client, "/lock"))(t)
	lease := must.Get(mutex.Acquire(zktest.Context(t)))(t)
	set := func(value string, between func()) error {
		return txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			if between != nil {
				between()
			}
			return tx.Set("/d/a", []byte(value))
		}, txn.With(lease))
	}

	require.NoError(t, set("2", nil))

	view := must.Get(client.UsingNamespace("d"))(t)
	err := txn.Do(zktest.Context(t), view, func(tx *txn.Tx) error { return tx.Set("/a", []byte("3")) }, txn.With(lease))
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.ErrorContains(t, err, "this client names it otherwise")

	require.ErrorIs(t, set("4", func() { require.NoError(t, lease.Release(zktest.Context(t))) }), locks.ErrReleased)
	require.Equal(t, "2", data(t, client, "/d/a"))
}

func TestTxnLostReplyIsSettledOrUnknown(t *testing.T) {
	for name, fn := range map[string]func(*txn.Tx) error{
		"reads and writes": func(tx *txn.Tx) error {
			got := must.Get(tx.Get("/d/a"))(t)
			return tx.Set("/d/a", append(got, '+'))
		},
		"writes":            func(tx *txn.Tx) error { return tx.Set("/d/a", []byte("1+")) },
		"deletes":           func(tx *txn.Tx) error { return tx.Delete("/d/b") },
		"creates":           func(tx *txn.Tx) error { return tx.Create("/d/new", nil) },
		"creates a folder":  func(tx *txn.Tx) error { return errors.Join(tx.Create("/d/f", nil), tx.Create("/d/f/new", nil)) },
		"creates once more": func(tx *txn.Tx) error { return errors.Join(tx.Delete("/d/b"), tx.Create("/d/b", nil)) },
	} {
		for _, c := range []struct {
			fault   zkserver.Fault
			unknown bool
		}{{zkserver.LoseRequest, false}, {zkserver.LoseReply, true}} {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			put(t, client, "/d/a", "1", "/d/b", "1")
			server.Intercept(zkserver.Nth(1, zkserver.OpMulti, c.fault))
			runs := 0
			err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { runs++; return fn(tx) })
			require.Equal(t, c.unknown, framework.OutcomeUnknown(err), "%s: %v", name, err)
			require.Equal(t, c.unknown, err != nil, "%s: %v", name, err)
			require.Equal(t, 1, runs, name)
		}
	}
}

// TestTxnWhoseContextEndsDuringItsCommitBlamesNoOther: there is no other client.
func TestTxnWhoseContextEndsDuringItsCommitBlamesNoOther(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	put(t, client, "/d/a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpMulti {
			return zkserver.Pass
		}
		cancel()
		return zkserver.ApplyNeverAnswer
	})

	err := txn.Do(ctx, client, func(tx *txn.Tx) error { return tx.Set("/d/a", []byte("2")) })

	require.True(t, framework.OutcomeUnknown(err), "%v", err)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "other clients")
}

// TestTxnOfUnknownOutcomeIsNotAppliedTwice: another client has deleted what the commit has created, so that nothing stands in the way of
// a second one.
func TestTxnOfUnknownOutcomeIsNotAppliedTwice(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	put(t, client, "/d/a", "1")
	deleted := make(chan struct{})
	sent, looked := false, false
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.Op == zkserver.OpMulti && !sent:
			sent = true
			return zkserver.LoseReply
		case r.Op != zkserver.OpExists || !sent:
			return zkserver.Pass
		case !looked:
			looked = true
			go func() {
				defer close(deleted)
				assert.NoError(t, other.Delete(context.Background(), "/d/new"))
			}()
		}
		return zkserver.HoldUntil(deleted)
	})

	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error { return tx.Create("/d/new", nil) })

	require.True(t, framework.OutcomeUnknown(err), "%v", err)
	require.Equal(t, "none", data(t, client, "/d/new"))
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
	must.Get(client.Create(zktest.Context(t), "/d/e", nil, framework.WithMode(framework.Ephemeral)))(t)
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

func TestTxnNamespaceThatCannotBeCreatedIsAnError(t *testing.T) {
	server := zktest.NewServer(t)
	client := must.Get(zktest.Client(t, server).UsingNamespace("unused"))(t)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Path == "/unused" && strings.HasPrefix(r.Op.String(), "create") {
			return zkserver.FailWith(-102) // NoAuth
		}
		return zkserver.Pass
	})
	require.ErrorContains(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		exists, err := tx.Exists("/a")
		require.False(t, exists)
		return errors.Join(err, tx.Create("/a", nil))
	}), "create /")
}

// toBeRestored returns a client, and a function that has its servers replaced. The new ones have znodes with the versions, the zxids and
// the numbers of creations that the old ones have, and other data.
func toBeRestored(t *testing.T) (client *framework.Framework, restore func()) {
	t.Helper()
	server, another := zktest.NewServer(t, zkserver.WithoutListener()), zktest.NewServer(t, zkserver.WithoutListener())
	client = zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Second)))
	put(t, client, "/d/a", "1", "/d/b", "1")
	put(t, zktest.Client(t, another), "/d/a", "restored", "/d/b", "restored", "/more/transactions/than/there/were", "")
	return client, func() {
		require.NoError(t, server.Stop())
		zktest.AwaitState(t, client, framework.Suspended)
		require.NoError(t, server.Restore(another.Backup(), 0))
		time.AfterFunc(time.Second, func() { assert.NoError(t, server.Restart()) }) // while the next request waits for a connection
	}
}

// TestTxnCommitThatMeetsRestoredServersIsAConflict, whether there is a look before it or not.
func TestTxnCommitThatMeetsRestoredServersIsAConflict(t *testing.T) {
	for _, opts := range [][]txn.Option{nil, {txn.VersionsOnly()}} {
		synctest.Test(t, func(t *testing.T) {
			client, restore := toBeRestored(t)
			runs := 0
			require.NoError(t, txn.Do(t.Context(), client, func(tx *txn.Tx) error {
				got, err := tx.Get("/d/a")
				if err != nil {
					return err
				}
				if runs++; runs == 1 {
					restore()
				}
				return tx.Set("/d/a", append(got, '+'))
			}, opts...))
			require.Equal(t, 2, runs)
			require.Equal(t, "restored+", data(t, client, "/d/a"))
		})
	}
}

func TestTxnReadsOfRestoredServersAreNotMixedWithThoseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, restore := toBeRestored(t)
		runs := 0
		var a, b []byte
		require.NoError(t, txn.Do(t.Context(), client, func(tx *txn.Tx) (err error) {
			if a, err = tx.Get("/d/a"); err != nil {
				return err
			}
			if runs++; runs == 1 {
				restore()
			}
			b, err = tx.Get("/d/b")
			return err
		}))
		require.Equal(t, 2, runs)
		require.Equal(t, []string{"restored", "restored"}, []string{string(a), string(b)})
	})
}

// TestTxnMissingBelowAnEphemeralZnode: no creation can show that nothing is there.
func TestTxnMissingBelowAnEphemeralZnode(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.CreationNumbers)
		client := zktest.Client(t, server)
		put(t, client, "/d/a", "1")
		must.Get(client.Create(zktest.Context(t), "/d/e", nil, framework.WithMode(framework.Ephemeral)))(t)
		runs := 0
		require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
			runs++
			require.Equal(t, 1, runs)
			for _, path := range []string{"/d/e/x", "/d/e/y"} {
				require.False(t, must.Get(tx.Exists(path))(t))
			}
			return tx.Set("/d/a", []byte("2"))
		}))
		require.Equal(t, "2", data(t, client, "/d/a"))
	})
}

// TestTxnMissingZnodesWereMissingAtOneMoment: one of two znodes is always there, and moves whenever the transaction looks at the other place.
func TestTxnMissingZnodesWereMissingAtOneMoment(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	put(t, client, "/d/y", "")
	move := func(from, to string) {
		_, err := other.Transact(context.Background(), framework.DeleteOp(from), framework.CreateOp(to, nil))
		assert.NoError(t, err)
	}
	moved := make(chan struct{})
	var once sync.Once
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpExists || r.Path != "/d/y" {
			return zkserver.Pass
		}
		once.Do(func() {
			go func() {
				defer close(moved)
				move("/d/y", "/d/x")
			}()
		})
		return zkserver.HoldUntil(moved)
	})
	runs, x, y := 0, false, false
	require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) (err error) {
		if x, err = tx.Exists("/d/x"); err != nil {
			return err
		}
		if runs++; runs == 1 {
			move("/d/y", "/d/x")
		}
		if y, err = tx.Exists("/d/y"); runs == 1 {
			move("/d/x", "/d/y")
		}
		return err
	}))
	require.NotEqual(t, x, y)
}

// TestTxnFolderOfACreationIsOneAnswer: a folder that a creation was told of cannot be missing a moment later within the
// same transaction. The function runs again, even if it would have created the folder itself.
func TestTxnFolderOfACreationIsOneAnswer(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(tx *txn.Tx) (bool, error){
		"Exists": func(tx *txn.Tx) (bool, error) { return tx.Exists("/d") },
		"Children": func(tx *txn.Tx) (bool, error) {
			_, err := tx.Children("/d")
			return !errors.Is(err, framework.ErrNoNode), ignoring(err, framework.ErrNoNode)
		},
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client, other := zktest.Client(t, server), zktest.Client(t, server)
				put(t, client, "/d", "")
				var seen []string
				require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
					created := tx.Create("/d/a", nil)
					if len(seen) == 0 {
						require.NoError(t, other.Delete(zktest.Context(t), "/d"))
					}
					exists, err := ask(tx)
					if seen = append(seen, fmt.Sprintf("%t, %t", created == nil, exists)); err != nil || exists {
						return err
					}
					return tx.Create("/d", nil)
				}))
				require.Equal(t, "false, false", seen[len(seen)-1])
				require.Nil(t, must.Get(client.Exists(zktest.Context(t), "/d/a"))(t))
			})
		})
	}
}

// TestTxnCreationTakenBackDependsOnItsFolder: a transaction that creates a znode and deletes it again sends neither. Its
// folder must exist all the same.
func TestTxnCreationTakenBackDependsOnItsFolder(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"beside a write": true, "beside a read": false} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				server.Requires(t, ensemble.CreationNumbers)
				client, other := zktest.Client(t, server), zktest.Client(t, server)
				put(t, client, "/d", "", "/out", "")
				var seen []bool
				require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
					created := tx.Create("/d/a", nil)
					if err := ignoring(created, framework.ErrNoNode); err != nil {
						return err
					}
					if seen = append(seen, created == nil); created == nil {
						require.NoError(t, tx.Delete("/d/a"))
					}
					if len(seen) == 1 {
						require.NoError(t, other.Delete(zktest.Context(t), "/d"))
						require.NoError(t, other.Set(zktest.Context(t), "/out", []byte("deleted")))
					}
					if _, err := tx.Get("/out"); err != nil || !writes {
						return err
					}
					return tx.Set("/out", []byte("written"))
				}))
				require.Equal(t, []bool{true, false}, seen)
			})
		})
	}
}

// ignoring returns an error unless it is one that is expected.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// TestTxnErrorOfTwoStatesIsNotReturned: the folder of a creation was there before the other read, and was gone, or another one, by then.
func TestTxnErrorOfTwoStatesIsNotReturned(t *testing.T) {
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client, other := zktest.Client(t, server), zktest.Client(t, server)
			put(t, client, "/open", "", "/orders", "")
			failure := errors.New("the folder is there, and nothing is open")
			runs := 0
			err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
				runs++
				if err := tx.Create("/orders/1", nil); errors.Is(err, framework.ErrNoNode) {
					return nil
				} else if err != nil {
					return err
				}
				if runs == 1 {
					ops := []framework.Op{framework.DeleteOp("/orders"), framework.DeleteOp("/open")}
					if replaced {
						ops = append(ops, framework.CreateOp("/orders", nil))
					}
					must.Get(other.Transact(t.Context(), ops...))(t)
				}
				if open, err := tx.Exists("/open"); err != nil || open {
					return err
				}
				return failure
			})
			require.Equal(t, 2, runs)
			if replaced {
				require.ErrorIs(t, err, failure, "both are so at one moment now")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestTxnErrorThatCannotBeCheckedIsNotReturned: the context ends in a function that has seen two states.
func TestTxnErrorThatCannotBeCheckedIsNotReturned(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	put(t, client, "/a", "1", "/b", "1")
	failure := errors.New("they differ")
	ctx, cancel := context.WithCancel(zktest.Context(t))
	err := txn.Do(ctx, client, func(tx *txn.Tx) error {
		a := must.Get(tx.Get("/a"))(t)
		for _, path := range []string{"/a", "/b"} {
			require.NoError(t, other.Set(t.Context(), path, []byte("2"), framework.WithVersion(framework.AnyVersion)))
		}
		b := must.Get(tx.Get("/b"))(t)
		cancel()
		if string(a) != string(b) {
			return failure
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, failure)
	require.ErrorContains(t, err, "they differ")
}

// TestTxnRefusesAZnodeWithoutAVersion: after 2^32 - 1 writes the version is -1, which is no condition.
func TestTxnRefusesAZnodeWithoutAVersion(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	put(t, client, "/a", "1")
	stat := must.Get(client.Exists(zktest.Context(t), "/a"))(t)
	stat.Version = -1
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetData {
			return zkserver.Pass
		}
		reply, err := binary.Append(nil, binary.BigEndian, struct {
			Size, Xid   int32
			Zxid        int64
			Err, Length int32
			Data        byte
			Stat        framework.Stat
		}{16 + 4 + 1 + 68, r.Xid, 1, 0, 1, '1', *stat})
		if err != nil {
			return zkserver.FailWith(-1)
		}
		return zkserver.RespondWith(reply)
	})

	err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		must.Get(tx.Get("/a"))(t)
		return tx.Set("/a", []byte("2"))
	})

	require.ErrorContains(t, err, "/a: the znode has been written 2^32 - 1 times")
}

// TestTxnExistenceDoesNotDependOnData: a transaction that asks only whether a znode exists does not conflict with a write.
func TestTxnExistenceDoesNotDependOnData(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	put(t, client, "/a", "1", "/b", "1")
	runs := 0
	require.NoError(t, txn.Do(zktest.Context(t), client, func(tx *txn.Tx) error {
		runs++
		exists, err := tx.Exists("/a")
		require.True(t, exists)
		require.NoError(t, err)
		if runs == 1 {
			require.NoError(t, other.Set(zktest.Context(t), "/a", []byte("2")))
		}
		_, err = tx.Get("/b")
		return err
	}))
	require.Equal(t, 1, runs)
}
