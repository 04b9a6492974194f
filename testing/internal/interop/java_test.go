// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
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
