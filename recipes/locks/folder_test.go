package locks

import (
	"fmt"
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

// TestTheNeededContenderIsAwaitedWithAllOthers: in a long queue, in whose list it need not be.
func TestTheNeededContenderIsAwaitedWithAllOthers(t *testing.T) {
	mutex, err := NewInterProcessMutex(zktest.Client(t, zktest.NewServer(t)), "/lock")
	require.NoError(t, err)
	l := mutex.internals
	f := l.openFolder()
	defer f.close()
	shrinking, ok := l.driver.(ShrinkingQueue)
	require.True(t, ok)
	var live []string
	for i := range 3 * notified {
		live = append(live, fmt.Sprintf("lock-%010d", i))
	}
	a := &acquisition{l: l, folder: f, shrinking: shrinking, name: live[2]}
	f.orders = append(f.orders, &order{key: l.orderKey, live: live})

	require.ElementsMatch(t, []string{live[0], live[1], "younger"}, a.andMore(live[:3], []string{"younger"}))
	require.ElementsMatch(t, live[:2], a.andMore(live[:3], live[1:2]), "each once")
}
