// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zktest"
)

// What Curator's own classes write, and read.
func TestNamesAndBytesAreCurators(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	ctx := zktest.Context(t)
	fifo := newQueue(t, client)
	priority := must.Get(queues.NewDistributedPriorityQueue(client, path))(t)
	delay := must.Get(queues.NewDistributedDelayQueue(client, path))(t)
	ids := must.Get(queues.NewDistributedIdQueue(client, path))(t)
	simple := must.Get(queues.NewSimpleDistributedQueue(client, path))(t)
	one := []byte("\x00\x01\x00\x01\x01\x00\x00\x00\x04test\x02")
	for _, c := range []struct {
		put  func() error
		name string
		data []byte
	}{
		{func() error { return fifo.Put(ctx, []byte("test")) }, "queue-0000000000", one},
		{
			func() error { return fifo.PutMulti(ctx, []byte("test"), nil, []byte("b")) }, "queue-0000000001",
			[]byte("\x00\x01\x00\x01\x01\x00\x00\x00\x04test\x01\x00\x00\x00\x00\x01\x00\x00\x00\x01b\x02"),
		},
		{func() error { return priority.Put(ctx, []byte("test"), 5) }, "queue-1000000050000000002", one},
		{func() error { return priority.Put(ctx, []byte("test"), -1) }, "queue-0FFFFFFFF0000000003", one},
		{func() error { return delay.Put(ctx, []byte("test"), time.UnixMilli(0x18BCFE56800)) }, "queue-|18BCFE56800|0000000004", one},
		{func() error { return delay.Put(ctx, []byte("test"), time.UnixMicro(10_001)) }, "queue-|0000000B|0000000005", one},
		{func() error { return ids.Put(ctx, []byte("test"), "a/b|c") }, "queue-|a_b_c|0000000006", one},
		{func() error { return simple.Offer(ctx, []byte("test")) }, "qn-0000000007", []byte("test")},
	} {
		require.NoError(t, c.put())
		data, err := client.Get(ctx, path+"/"+c.name)
		require.NoError(t, err, c.name)
		require.Equal(t, c.data, data, c.name)
		require.NoError(t, client.Delete(ctx, path+"/"+c.name))
	}
}

// A folder of a queue must outlive its items: Curator's producers do not create
// it again.
func TestNameFolderOfAQueueIsNoContainer(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	q := newQueue(t, client, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	awaitItems(t, consumed(t, q), 1)
	for _, folder := range []string{path, lockPath} {
		var stat framework.Stat
		must.Get(client.Get(zktest.Context(t), folder, framework.StoringStatIn(&stat)))(t)
		require.Zero(t, stat.EphemeralOwner, "%s is a container", folder)
	}
}

func TestNameWhatIsNoItemStays(t *testing.T) {
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t))
			q := newQueue(t, client, opts...)
			foreign := []string{}
			for i, data := range []string{
				"", "\x00\x01", "\x00\x01\x00\x02\x02", "\x00\x01\x00\x01", "\x00\x01\x00\x01\x07",
				"\x00\x01\x00\x01\x01\x00\x00", "\x00\x01\x00\x01\x01\x00\x00\x00\x09test\x02", "\x00\x01\x00\x01\x01\xff\xff\xff\xfftest\x02",
			} {
				foreign = append(foreign, "queue-x"+numbers(10)[i])
				must.Get(client.Create(zktest.Context(t), path+"/"+foreign[i], []byte(data), framework.CreatingParentsIfNeeded()))(t)
			}
			foreign = append(foreign, "other")
			must.Get(client.Create(zktest.Context(t), path+"/other", nil))(t)
			require.NoError(t, q.Put(zktest.Context(t), []byte("a")))

			items := consumed(t, q)

			require.Equal(t, []string{"a"}, awaitItems(t, items, 1))
			require.NoError(t, q.Put(zktest.Context(t), []byte("b")))
			require.Equal(t, []string{"b"}, awaitItems(t, items, 1))
			require.Equal(t, slices.Sorted(slices.Values(foreign)), awaitNames(t, client, path, len(foreign)))
		})
	}
}

func TestNameBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for name, c := range map[string]struct {
		path string
		opts []queues.Option
		want string
	}{
		"relative path":      {"a", nil, `"a"`},
		"nil option":         {"/a", []queues.Option{nil}, "a nil option"},
		"relative lock path": {"/a", []queues.Option{queues.WithLockPath("b")}, `"b"`},
		"the queue's own":    {"/a", []queues.Option{queues.WithLockPath("/a")}, "locks at /a, expected"},
		"locks in the queue": {"/a", []queues.Option{queues.WithLockPath("/a/locks")}, "locks at /a/locks, expected"},
		"mode":               {"/a", []queues.Option{withLock, queues.WithErrorMode(7)}, "error mode 7"},
		"mode without lock":  {"/a", []queues.Option{queues.WithErrorMode(queues.Delete)}, "without WithLockPath"},
		"no room":            {"/a", []queues.Option{queues.WithMaxItems(0)}, "at most 0"},
		"refresh":            {"/a", []queues.Option{queues.WithMinItemsBeforeRefresh(-1)}, "after -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := queues.NewDistributedQueue(client, c.path, c.opts...)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := queues.NewDistributedQueue(nil, path)
	require.ErrorContains(t, err, "client nil")
	_, err = queues.NewSimpleDistributedQueue(nil, path)
	require.ErrorContains(t, err, "client nil")
	q := newQueue(t, client)
	require.ErrorContains(t, q.PutMulti(t.Context()), "no items")
	require.ErrorContains(t, q.Consume(t.Context(), nil), "function nil")
	require.ErrorIs(t, q.Put(nilContext, nil), framework.ErrInvalidOption)
	require.ErrorIs(t, q.FlushPuts(nilContext), framework.ErrInvalidOption)
	for item, err := range q.Items(nilContext) {
		require.Nil(t, item)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
	}
	require.ErrorIs(t, q.Put(t.Context(), make([]byte, 2<<20)), framework.ErrTooLarge)
	delay := must.Get(queues.NewDistributedDelayQueue(client, path))(t)
	require.ErrorContains(t, delay.Put(t.Context(), nil, time.Time{}), "due at")
	require.ErrorContains(t, delay.Put(t.Context(), nil, time.Unix(1<<62, 0)), "due at")
	ids := must.Get(queues.NewDistributedIdQueue(client, path))(t)
	require.ErrorContains(t, ids.Put(t.Context(), nil, ""), `id ""`)
	_, err = ids.Remove(t.Context(), "")
	require.ErrorContains(t, err, `id ""`)
	simple := must.Get(queues.NewSimpleDistributedQueue(client, path))(t)
	require.ErrorIs(t, simple.Offer(nilContext, nil), framework.ErrInvalidOption)
	_, err = simple.Take(nilContext)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
}

// The folder of a queue is created even if it is the root of a chroot.
func TestNameRootOfANewChroot(t *testing.T) {
	client := must.Get(framework.Connect(zktest.Context(t), zktest.NewServer(t).Addr()+"/new/chroot"))(t)
	defer func() { require.NoError(t, client.Close()) }()
	q := must.Get(queues.NewSimpleDistributedQueue(client, "/"))(t)
	require.NoError(t, q.Offer(zktest.Context(t), []byte("a")))
	require.Equal(t, "a", string(must.Get(q.Poll(zktest.Context(t)))(t)))
}
