package interop_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/interop"
)

func TestMissingPackagesAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := interop.Start(t.Context())
	require.ErrorIs(t, err, interop.ErrNotInstalled)
	require.ErrorContains(t, err, "install default-jdk-headless (Debian)")
}

func TestWhatGoesWrongInJava(t *testing.T) {
	needsJava(t)
	nobody := startJava(t).Actor("nobody")
	_, err := nobody.Do(withLimit(t), "sing", "a song")
	var thrown *interop.JavaError
	require.ErrorAs(t, err, &thrown)
	require.Equal(t, "java.lang.IllegalArgumentException", thrown.Class)
	require.Equal(t, "no command sing", thrown.Message)

	_, err = nobody.Do(withLimit(t), "release", "m")
	require.ErrorContains(t, err, "no lock m, expected one of []")
	_, err = nobody.Do(withLimit(t), "get", "two\twords")
	require.ErrorContains(t, err, "expected one without tabs")
}

func TestCloseEndsTheProcess(t *testing.T) {
	needsJava(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	java, err := interop.Start(withLimit(t))
	require.NoError(t, err)
	actor := java.Actor("a")
	pending := actor.Begin("await-revocation", "no such lock")
	_, err = pending(withLimit(t))
	require.Error(t, err)

	require.NoError(t, java.Close())
	require.NoError(t, java.Close(), "a second time")
	_, err = actor.Do(withLimit(t), "close")
	require.ErrorContains(t, err, "java is gone")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}
