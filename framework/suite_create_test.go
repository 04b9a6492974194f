// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// inMode is WithMode, and a long time to live where the mode needs one.
func inMode(mode framework.CreateMode, more ...framework.CreateOption) []framework.CreateOption {
	if mode == framework.PersistentWithTTL || mode == framework.PersistentSequentialWithTTL {
		more = append(more, framework.WithTTL(time.Hour))
	}
	return append(more, framework.WithMode(mode))
}

var everyMode = []struct {
	name string
	mode framework.CreateMode
}{
	{"persistent", framework.Persistent},
	{"ephemeral", framework.Ephemeral},
	{"persistent-sequential", framework.PersistentSequential},
	{"ephemeral-sequential", framework.EphemeralSequential},
	{"container", framework.Container},
	{"ttl", framework.PersistentWithTTL},
	{"ttl-sequential", framework.PersistentSequentialWithTTL},
}

// createRows are about what is created.
var createRows = []row{
	{"create/modes", func(s *script) {
		for _, m := range everyMode {
			var stat framework.Stat
			path, err := s.f.Create(s.ctx, "/node/"+m.name, []byte(m.name), inMode(m.mode, framework.StoringStatIn(&stat))...)
			s.created(path, err)
			s.stat(&stat, nil)
			s.data(s.f.Get(s.ctx, path))
			s.stat(s.f.Exists(s.ctx, path))
			s.created(s.f.Create(s.ctx, path+"/child", nil))
		}
		s.names(s.f.Children(s.ctx, "/node"))
	}},
	{"create/modes protected", func(s *script) {
		for _, m := range everyMode {
			path, err := s.f.Create(s.ctx, "/node/"+m.name, nil, inMode(m.mode, framework.WithProtection())...)
			s.created(path, err)
			s.sayf("protected %t", framework.IsProtectedName(path))
			s.stat(s.f.Exists(s.ctx, path))
		}
	}},
	{"create/modes are what they say", func(s *script) {
		s.created(s.f.Create(s.ctx, "/ttl", nil, framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(time.Millisecond)))
		s.awaitGone("/ttl")
		s.created(s.f.Create(s.ctx, "/container", nil, framework.WithMode(framework.Container)))
		s.created(s.f.Create(s.ctx, "/container/child", nil))
		s.done(s.f.Delete(s.ctx, "/container/child"))
		s.awaitGone("/container")
		other := s.client()
		s.created(other.Create(s.ctx, "/ephemeral", nil, framework.WithMode(framework.Ephemeral)))
		s.done(other.Close())
		s.awaitGone("/ephemeral")
		s.stat(s.f.Exists(s.ctx, "/node"))
	}},
	{"create/data", func(s *script) {
		for i, data := range [][]byte{nil, {}, {0}, []byte("text"), []byte(strings.Repeat("x", 50))} {
			path := "/data-" + string(rune('a'+i))
			s.created(s.f.Create(s.ctx, path, data))
			s.data(s.f.Get(s.ctx, path))
		}
	}},
	{"create/sequence", func(s *script) {
		sequential := framework.WithMode(framework.PersistentSequential)
		s.created(s.f.Create(s.ctx, "/node/a-", nil, sequential))
		s.created(s.f.Create(s.ctx, "/node/b-", nil, sequential))
		s.created(s.f.Create(s.ctx, "/node/", nil, sequential))
		s.created(s.f.Create(s.ctx, "/node/plain", nil))
		s.done(s.f.Delete(s.ctx, "/node/plain"))
		s.created(s.f.Create(s.ctx, "/node/a-", nil, sequential))
		s.done(s.f.Delete(s.ctx, "/node", framework.DeletingChildrenIfNeeded()))
		s.created(s.f.Create(s.ctx, "/node", nil))
		s.created(s.f.Create(s.ctx, "/node/a-", nil, sequential))
		s.stat(s.f.Exists(s.ctx, "/node"))
	}},
	{"create/refused", func(s *script) {
		s.created(s.f.Create(s.ctx, "/node", nil))
		s.created(s.f.Create(s.ctx, "/none/child", nil))
		s.created(s.f.Create(s.ctx, "/", nil))
		s.created(s.f.Create(s.ctx, "relative", nil))
		s.created(s.f.Create(s.ctx, "/node/", nil))
		s.created(s.f.Create(s.ctx, "/ephemeral", nil, framework.WithMode(framework.Ephemeral)))
		s.created(s.f.Create(s.ctx, "/ephemeral/child", nil, framework.CreatingParentsIfNeeded()))
		s.created(s.f.Create(s.ctx, "/acl", nil, framework.WithACL(framework.ACL{Perms: 31, Scheme: "nope", ID: "x"})))
		s.created(s.f.Create(s.ctx, "/acl", nil, framework.WithACL(framework.ACL{Perms: 31, Scheme: "auth"})))
		s.names(s.f.Children(s.ctx, "/"))
	}},
	{"create/invalid options", func(s *script) {
		for _, opts := range [][]framework.CreateOption{
			{framework.WithMode(-1)},
			{framework.WithMode(7)},
			{framework.WithMode(framework.PersistentWithTTL)},
			{framework.WithTTL(time.Hour)},
			{framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(0)},
			{framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(time.Microsecond)},
			{framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(1 << 40 * time.Millisecond)},
			{framework.WithACL()},
			{framework.InSession(nil)},
			{framework.StoringStatIn(nil)},
			{framework.ListingSiblingsIn(nil)},
			{framework.OrSetData(1, 2)},
			{framework.OrSetData(), framework.WithProtection()},
			{framework.OrSetData(), framework.WithMode(framework.EphemeralSequential)},
			{framework.Idempotent(), framework.WithProtection()},
			{framework.Idempotent(), framework.WithMode(framework.EphemeralSequential)},
			{framework.ApplyingACLToParents()},
			{nil},
		} {
			s.created(s.f.Create(s.ctx, "/refused", nil, opts...))
		}
		s.stat(s.f.Exists(s.ctx, "/refused"))
	}},
}

// creationRows are about how it is created.
var creationRows = []row{
	{"create/parents", func(s *script) {
		s.created(s.f.Create(s.ctx, "/p/q/r", []byte("x"), framework.CreatingParentsIfNeeded()))
		s.created(s.f.Create(s.ctx, "/p/q/r", []byte("x"), framework.CreatingParentsIfNeeded()))
		s.created(s.f.Create(s.ctx, "/p/q/s", nil, framework.CreatingParentsIfNeeded()))
		s.data(s.f.Get(s.ctx, "/p/q"))
		s.stat(s.f.Exists(s.ctx, "/p/q"))
		s.created(s.f.Create(s.ctx, "/c/d/", nil, inMode(framework.EphemeralSequential,
			framework.CreatingParentContainersIfNeeded(), framework.WithProtection())...))
		s.stat(s.f.Exists(s.ctx, "/c/d"))
		s.done(s.f.Delete(s.ctx, "/c/d", framework.DeletingChildrenIfNeeded()))
		s.awaitGone("/c")
		s.stat(s.f.Exists(s.ctx, "/p"))
		s.done(s.f.CreateContainers(s.ctx, "/c/d"))
		s.done(s.f.CreateContainers(s.ctx, "/c/d"))
		s.done(s.f.CreateContainers(s.ctx, "/"))
		s.stat(s.f.Exists(s.ctx, "/c/d"))
		s.done(s.f.CreateContainers(s.ctx, "c"))
	}},
	{"create/acl", func(s *script) {
		readable := framework.WithACL(zk.WorldACL(framework.PermRead | framework.PermCreate)...)
		s.created(s.f.Create(s.ctx, "/open/q", nil, framework.CreatingParentsIfNeeded(), readable))
		s.acl(s.f.GetACL(s.ctx, "/open"))
		s.acl(s.f.GetACL(s.ctx, "/open/q"))
		s.done(s.f.Set(s.ctx, "/open/q", nil))
		s.created(s.f.Create(s.ctx, "/closed/q", nil, framework.CreatingParentsIfNeeded(), readable, framework.ApplyingACLToParents()))
		s.acl(s.f.GetACL(s.ctx, "/closed"))
		s.done(s.f.Delete(s.ctx, "/closed/q"))
		s.created(s.f.Create(s.ctx, "/several", nil, framework.WithACL(
			framework.ACL{Perms: framework.PermRead, Scheme: "world", ID: "anyone"},
			framework.ACL{Perms: framework.PermAll, Scheme: "digest", ID: "alice:hash"},
			framework.ACL{Perms: framework.PermWrite, Scheme: "ip", ID: "127.0.0.1"})))
		s.done(s.f.Set(s.ctx, "/several", nil))
		s.done(s.f.SetACL(s.ctx, "/several", framework.OpenACL()))
	}},
	{"create/or set data", func(s *script) {
		put := func(path, data string, opts ...framework.CreateOption) {
			var stat framework.Stat
			s.created(s.f.Create(s.ctx, path, []byte(data), append(opts, framework.StoringStatIn(&stat))...))
			s.stat(&stat, nil)
		}
		put("/new", "one", framework.OrSetData())
		put("/new", "two", framework.OrSetData())
		put("/new", "three", framework.OrSetData(1))
		put("/new", "four", framework.OrSetData(1))
		put("/other", "one", framework.OrSetData(7))
		put("/node", "one", framework.OrSetData(), framework.WithMode(framework.Ephemeral))
		put("/x/y", "one", framework.OrSetData(), framework.CreatingParentsIfNeeded())
		s.data(s.f.Get(s.ctx, "/new"))
	}},
	{"create/idempotent", func(s *script) {
		create := func(f *framework.Framework, path, data string, opts ...framework.CreateOption) {
			s.created(f.Create(s.ctx, path, []byte(data), append(opts, framework.Idempotent())...))
		}
		create(s.f, "/a", "one")
		create(s.f, "/a", "one")
		create(s.f, "/a", "two")
		s.done(s.f.Set(s.ctx, "/a", []byte("one")))
		create(s.f, "/a", "one")
		create(s.f, "/a", "one", framework.OrSetData(0))
		create(s.f, "/a", "two", framework.OrSetData(0))
		create(s.f, "/e", "one", framework.WithMode(framework.Ephemeral))
		create(s.f, "/e", "one", framework.WithMode(framework.Ephemeral))
		create(s.client(), "/e", "one", framework.WithMode(framework.Ephemeral))
		s.stat(s.f.Exists(s.ctx, "/a"))
	}},
	{"create/compressed", func(s *script) {
		text := []byte(strings.Repeat("text ", 10))
		s.created(s.f.Create(s.ctx, "/zipped", text, framework.Compressed()))
		s.data(s.f.Get(s.ctx, "/zipped", framework.Decompressed()))
		stat := must.Get(s.f.Exists(s.ctx, "/zipped"))(s)
		s.sayf("smaller %t", int(stat.DataLength) < len(text))
		s.created(s.f.Create(s.ctx, "/zipped", []byte("less"), framework.Compressed(), framework.OrSetData()))
		s.data(s.f.Get(s.ctx, "/zipped", framework.Decompressed()))
		s.created(s.f.Create(s.ctx, "/nothing", nil, framework.Compressed()))
		s.data(s.f.Get(s.ctx, "/nothing", framework.Decompressed()))
		stored := must.Get(s.f.Get(s.ctx, "/nothing"))(s)
		s.sayf("stored as something %t", len(stored) > 0)
	}},
	{"create/in session", func(s *script) {
		var stat framework.Stat
		session := s.f.Session()
		ephemeral := framework.WithMode(framework.Ephemeral)
		s.created(s.f.Create(s.ctx, "/e", nil, ephemeral, framework.InSession(session), framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		s.created(s.client().Create(s.ctx, "/f", nil, ephemeral, framework.InSession(session)))
		zktest.KillSession(s, s.f)
		<-session.Done()
		require.NoError(s, s.f.BlockUntilConnected(s.ctx))
		s.created(s.f.Create(s.ctx, "/g", nil, ephemeral, framework.InSession(session)))
		s.created(s.f.Create(s.ctx, "/g", nil, ephemeral, framework.InSession(session), framework.WithProtection()))
		s.created(s.f.Create(s.ctx, "/e", nil, ephemeral, framework.InSession(s.f.Session())))
		s.names(s.f.Children(s.ctx, "/"))
	}},
	{"create/listing siblings", func(s *script) {
		list := func(path string, opts ...framework.CreateOption) {
			names := []string{"stale"}
			s.created(s.f.Create(s.ctx, path, nil, append(opts, framework.ListingSiblingsIn(&names))...))
			s.names(names, nil)
		}
		list("/node/a")
		list("/node/b-", framework.WithMode(framework.EphemeralSequential))
		list("/node/c", framework.OrSetData())
		list("/node/c", framework.OrSetData())
		list("/x/y", framework.CreatingParentsIfNeeded())
		list("/node/a")
	}},
}
