package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// TestAFolderWithoutUsersKeepsNoList: not while a lock in it is just held. It goes with its
// last member.
func TestAFolderWithoutUsersKeepsNoList(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	mutex, err := NewInterProcessMutex(client, "/lock")
	require.NoError(t, err)
	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	f := lease.hold.self.folder
	require.Nil(t, f.known)
	_, err = mutex.TryAcquire(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	require.Nil(t, f.known)

	used := mutex.internals.openFolder()
	require.Same(t, f, used)
	require.NotNil(t, f.known)
	require.NoError(t, lease.Release(t.Context()))
	require.NotNil(t, f.known)
	used.close()
	require.Nil(t, f.known)
	require.NotSame(t, f, openAndClose(mutex.internals))
}

func openAndClose(l *LockInternals) *folder {
	f := l.openFolder()
	f.close()
	return f
}
