// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/testing/zktest"
)

func TestJavaMissingPackagesAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := interop.Start(t.Context())
	require.ErrorIs(t, err, interop.ErrNotInstalled)
	require.ErrorContains(t, err, "install default-jdk-headless (Debian)")
}

func TestJavaWhatGoesWrongInJava(t *testing.T) {
	needsJava(t)
	nobody := startJava(t).Actor("nobody")
	_, err := nobody.Do(zktest.Context(t), "sing", "a song")
	var thrown *interop.JavaError
	require.ErrorAs(t, err, &thrown)
	require.Equal(t, "java.lang.IllegalArgumentException", thrown.Class)
	require.Equal(t, "no command sing", thrown.Message)

	_, err = nobody.Do(zktest.Context(t), "release", "m")
	require.ErrorContains(t, err, "no lock m, expected one of []")
	_, err = nobody.Do(zktest.Context(t), "get", "two\twords")
	require.ErrorContains(t, err, "expected one without tabs")
}

func TestCloseEndsTheProcess(t *testing.T) {
	needsJava(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	java, err := interop.Start(zktest.Context(t))
	require.NoError(t, err)
	actor := java.Actor("a")
	pending := actor.Begin("await-revocation", "no such lock")
	_, err = pending(zktest.Context(t))
	require.Error(t, err)

	require.NoError(t, java.Close())
	require.NoError(t, java.Close(), "a second time")
	_, err = actor.Do(zktest.Context(t), "close")
	require.ErrorContains(t, err, "java is gone")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// What the tests of single recipes build on: each kind of lock does in Java what the
// commands say, without anybody from Go.
func TestJavaLocks(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		one, other := newActor(t, server), newActor(t, server)
		for _, test := range []struct {
			name, command, folder string
			lock                  []string // to acquire, one after the other
			args                  []string
		}{
			{"mutex", "mutex", "/a", []string{"m"}, nil},
			{"read-write, reading", "read-write", "/b", []string{"m.read"}, nil},
			{"read-write, writing", "read-write", "/c", []string{"m.write"}, nil},
			{"read-write, downgrading", "read-write", "/d", []string{"m.write", "m.read"}, nil},
			{"semaphore", "semaphore", "/e", []string{"m", "m"}, []string{"2"}},
			{"semaphore-v1", "semaphore-v1", "/f", []string{"m", "m"}, []string{"2"}},
			{"semaphore-mutex", "semaphore-mutex", "/g", []string{"m"}, nil},
		} {
			args := append([]string{"m", test.folder}, test.args...)
			one.do(t, test.command, args...)
			other.do(t, test.command, args...)
			for _, lock := range test.lock {
				node, czxid := one.acquire(t, lock)
				require.True(t, strings.HasPrefix(node, test.folder+"/"), "%s: %s", test.name, node)
				require.Positive(t, czxid)
			}
			contested := test.lock[0]
			if contested == "m.read" {
				contested = "m.write"
			}
			require.Empty(t, other.do(t, "acquire", contested, "20"), test.name)
			for _, lock := range test.lock {
				one.do(t, "release", lock)
			}
			other.acquire(t, contested)
			other.do(t, "release", contested)
		}
	})
}

// Readers and writers, all of them in Java. Writers that go on reading are not among
// them, see TestJavaDowngradesWithAGap.
func TestJavaContestInJava(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const turns = 20
		c := newContest(t)
		want := map[string]int{}
		var wg sync.WaitGroup
		for command, lock := range map[string]string{"contend": "m.write", "share": "m.read"} {
			for range 2 {
				java := newActor(t, server)
				java.do(t, "read-write", "m", "/locks/java")
				want[java.Name()] = turns
				answer := java.Begin(command, lock, c.folder, strconv.Itoa(turns))
				wg.Go(func() {
					if _, err := answer(zktest.Context(t)); err != nil {
						t.Errorf("%s: %v", java.Name(), err)
					}
				})
			}
		}
		wg.Wait()
		f := c.find(t)
		require.Empty(t, f.overlaps)
		require.Equal(t, want, f.holds)
		require.Equal(t, 2*turns, f.counter)
	})
}

// Curator 5.4 gives a writer that goes on to read a new place, at the end of the queue:
// a writer that waits gets in while it reads. With another version this test may fail,
// and "downgrade" belongs into the contests.
func TestJavaDowngradesWithAGap(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/gap"
		one, other := newActor(t, server), newActor(t, server)
		one.do(t, "read-write", "m", path)
		other.do(t, "read-write", "m", path)
		one.acquire(t, "m.write")
		turn := other.Begin("acquire", "m.write")
		awaitChildren(t, zktest.Client(t, server), path, 2)
		one.acquire(t, "m.read")
		one.do(t, "release", "m.write")
		hold, err := turn(zktest.Context(t))
		require.NoError(t, err)
		require.Len(t, hold, 2, "it writes while the other reads")
		other.do(t, "release", "m.write")
		one.do(t, "release", "m.read")
	})
}

// awaitChildren waits until the folder has n nodes.
func awaitChildren(t *testing.T, client *framework.Framework, path string, n int) {
	t.Helper()
	for f, err := range client.FollowChildren(zktest.Context(t), path) {
		require.NoError(t, err, "%s has %d nodes, expected %d", path, len(f.Names), n)
		if len(f.Names) == n {
			return
		}
	}
}
