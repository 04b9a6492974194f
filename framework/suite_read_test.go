// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

// readRows are about what is read.
var readRows = []row{
	{"get", func(s *script) {
		var stat framework.Stat
		s.data(s.f.Get(s.ctx, "/node"))
		s.data(s.f.Get(s.ctx, "/node", framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		s.data(s.f.Get(s.ctx, "/"))
		s.data(s.f.Get(s.ctx, "/none"))
		s.data(s.f.Get(s.ctx, "none"))
		s.data(s.f.Get(s.ctx, "/node/"))
		s.data(s.f.Get(s.ctx, "/node", framework.StoringStatIn(nil)))
		s.data(s.f.Get(s.ctx, "/node", framework.Watched(nil)))
		s.data(s.f.Get(s.ctx, "/node", nil))
	}},
	{"get/absent", func(s *script) {
		var stat framework.Stat
		for _, path := range []string{"/node", "/none"} {
			var absent bool
			var watch *framework.Watch
			s.data(s.f.Get(s.ctx, path, framework.StoringAbsenceIn(&absent), framework.Watched(&watch)))
			s.sayf("absent: %t, watched: %t", absent, watch != nil)
			watch.Cancel()
		}
		var data []byte
		var absent bool
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/none", nil, framework.StoringAbsenceIn(&absent)),
			framework.ReadData("/node", &data, framework.StoringStatIn(&stat))))
		s.sayf("absent: %t, the other: %q", absent, data)
		s.data(s.f.Get(s.ctx, "/none", framework.StoringAbsenceIn(nil)))
	}},
	{"get/decompressed", func(s *script) {
		var stat framework.Stat
		s.data(s.f.Get(s.ctx, "/node", framework.Decompressed()))
		s.done(s.f.Set(s.ctx, "/node", []byte("text"), framework.Compressed()))
		s.data(s.f.Get(s.ctx, "/node", framework.Decompressed(), framework.StoringStatIn(&stat)))
		stored := must.Get(s.f.Get(s.ctx, "/node"))(s)
		s.sayf("the length is that of what is stored: %t", int(stat.DataLength) == len(stored))
		s.done(s.f.Set(s.ctx, "/node", nil))
		s.data(s.f.Get(s.ctx, "/node", framework.Decompressed()))
		s.data(s.f.Get(s.ctx, "/none", framework.Decompressed()))
	}},
	// Whether Exists tells of a node that one may not read depends on the server's version
	// (ZOOKEEPER-2590).
	{"get/not allowed", func(s *script) {
		s.created(s.f.Create(s.ctx, "/secret", []byte("x"), framework.WithACL(zk.WorldACL(zk.PermCreate)...)))
		s.created(s.f.Create(s.ctx, "/secret/child", nil))
		s.data(s.f.Get(s.ctx, "/secret"))
		s.names(s.f.Children(s.ctx, "/secret"))
		s.acl(s.f.GetACL(s.ctx, "/secret"))
		s.done(s.f.Set(s.ctx, "/secret", nil))
		s.done(s.f.SetACL(s.ctx, "/secret", zk.WorldACL(zk.PermAll)))
		s.done(s.f.Delete(s.ctx, "/secret/child"))
		s.done(s.f.Delete(s.ctx, "/secret", framework.DeletingChildrenIfNeeded()))
	}},
	{"exists", func(s *script) {
		s.stat(s.f.Exists(s.ctx, "/node"))
		s.stat(s.f.Exists(s.ctx, "/none"))
		s.stat(s.f.Exists(s.ctx, "/none/child"))
		s.stat(s.f.Exists(s.ctx, "none"))
		s.stat(s.f.Exists(s.ctx, "/node", framework.Watched(nil)))
		s.stat(s.f.Exists(s.ctx, "/p/q/r", framework.CreatingParentsIfNeeded()))
		s.stat(s.f.Exists(s.ctx, "/p/q/r"))
		s.stat(s.f.Exists(s.ctx, "/p/q"))
		s.stat(s.f.Exists(s.ctx, "/c/d", framework.CreatingParentContainersIfNeeded()))
		s.created(s.f.Create(s.ctx, "/c/d", nil))
		s.done(s.f.Delete(s.ctx, "/c/d"))
		s.awaitGone("/c")
		s.stat(s.f.Exists(s.ctx, "/node/child", framework.CreatingParentsIfNeeded()))
		s.created(s.f.Create(s.ctx, "/e", nil, framework.WithMode(framework.Ephemeral)))
		s.stat(s.f.Exists(s.ctx, "/e/x/y", framework.CreatingParentsIfNeeded()))
	}},
	{"children", func(s *script) {
		var stat framework.Stat
		s.names(s.f.Children(s.ctx, "/node"))
		for _, path := range []string{"/node/b", "/node/a", "/node/a/x", "/node/\u00fc"} {
			s.created(s.f.Create(s.ctx, path, nil))
		}
		s.names(s.f.Children(s.ctx, "/node", framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		s.names(s.f.Children(s.ctx, "/"))
		s.names(s.f.Children(s.ctx, "/none"))
		s.names(s.f.Children(s.ctx, "none"))
		s.names(s.f.Children(s.ctx, "/node", framework.StoringStatIn(nil)))
		s.names(s.f.Children(s.ctx, "/node", framework.Watched(nil)))
	}},
	{"pipeline", func(s *script) {
		var data []byte
		var names []string
		var stat framework.Stat
		s.done(s.f.Pipeline(s.ctx))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", &data, framework.StoringStatIn(&stat)),
			framework.ReadChildren("/", &names), framework.ReadData("/node", nil)))
		s.data(data, nil)
		s.stat(&stat, nil)
		s.names(names, nil)
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", &data), framework.ReadChildren("/none", &names)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/none/1", nil), framework.ReadData("/none/2", nil)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", &data), framework.ReadData("none", nil)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", &data, framework.Decompressed())))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", nil, framework.Decompressed())))
	}},
	{"pipeline/stat and errors", func(s *script) {
		var data, damaged []byte
		var stat *framework.Stat
		var absent *framework.Stat
		errs := make([]error, 4)
		s.created(s.f.Create(s.ctx, "/secret", nil, framework.WithACL(zk.WorldACL(zk.PermDelete)...)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadStat("/node", &stat), framework.ReadStat("/none", &absent)))
		s.stat(stat, nil)
		s.stat(absent, nil)
		s.done(s.f.Pipeline(s.ctx,
			framework.ReadData("/secret", nil).StoringErrorIn(&errs[0]),
			framework.ReadData("/none", nil).StoringErrorIn(&errs[1]),
			framework.ReadData("/node", &damaged, framework.Decompressed()).StoringErrorIn(&errs[2]),
			framework.ReadData("/node", &data).StoringErrorIn(&errs[3])))
		for _, err := range errs {
			s.done(err)
		}
		s.data(data, nil)
		s.done(s.f.Pipeline(s.ctx, framework.ReadStat("/node", nil)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadStat("/node", &stat, framework.CreatingParentsIfNeeded())))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", nil).StoringErrorIn(nil)))
		s.done(s.f.Pipeline(s.ctx, framework.Read{}.StoringErrorIn(&errs[0])))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("none", nil).StoringErrorIn(&errs[0])))
	}},
	{"sync", func(s *script) {
		s.done(s.client().Set(s.ctx, "/node", []byte("new")))
		s.done(s.f.Sync(s.ctx, "/node"))
		s.data(s.f.Get(s.ctx, "/node"))
		s.done(s.f.Sync(s.ctx, "/none"))
		s.done(s.f.Sync(s.ctx, "none"))
	}},
	{"acl", func(s *script) {
		var stat framework.Stat
		s.acl(s.f.GetACL(s.ctx, "/node", framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		readable := zk.WorldACL(zk.PermRead | zk.PermAdmin)
		s.done(s.f.SetACL(s.ctx, "/node", readable, framework.WithVersion(3)))
		s.done(s.f.SetACL(s.ctx, "/node", readable, framework.WithVersion(0), framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		s.acl(s.f.GetACL(s.ctx, "/node"))
		s.done(s.f.Set(s.ctx, "/node", nil))
		s.done(s.f.SetACL(s.ctx, "/node", zk.WorldACL(zk.PermAll)))
		s.done(s.f.Set(s.ctx, "/node", nil))
		s.done(s.f.SetACL(s.ctx, "/node", nil))
		s.done(s.f.SetACL(s.ctx, "/node", []framework.ACL{{Perms: 1, Scheme: "nope", ID: "x"}}))
		s.done(s.f.SetACL(s.ctx, "/node", zk.WorldACL(0)))
		s.done(s.f.SetACL(s.ctx, "/none", readable))
		s.done(s.f.SetACL(s.ctx, "/node", readable, framework.StoringStatIn(nil)))
		s.acl(s.f.GetACL(s.ctx, "/none"))
		s.acl(s.f.GetACL(s.ctx, "none"))
		s.acl(s.f.GetACL(s.ctx, "/node", framework.StoringStatIn(nil)))
	}},
	{"inventory", func(s *script) {
		s.server.Requires(s.T, ensemble.GetEphemerals)
		ephemeral := framework.WithMode(framework.Ephemeral)
		for _, path := range []string{"/node/y", "/node/x", "/nodes"} {
			s.created(s.f.Create(s.ctx, path, nil, ephemeral))
		}
		s.created(s.client().Create(s.ctx, "/node/theirs", nil, ephemeral))
		for _, path := range []string{"/", "/node", "/node/x", "/none", "none"} {
			s.names(s.f.Ephemerals(s.ctx, path))
		}
	}},
	{"config", func(s *script) {
		var stat framework.Stat
		config := must.Get(s.f.Config(s.ctx, framework.StoringStatIn(&stat)))(s)
		s.sayf("lines %q", strings.Fields(string(config)))
		s.sayf("bytes %t", int(stat.DataLength) == len(config))
		var changed *framework.Watch
		_, err := s.f.Config(s.ctx, framework.Watched(&changed))
		s.done(err)
		changed.Cancel()
		reconfigure := func(change framework.Reconfiguration) {
			s.data(s.f.Reconfig(s.ctx, change))
		}
		reconfigure(framework.Reconfiguration{Joining: []string{"5=127.0.0.1:1:2:observer;3"}})
		reconfigure(framework.Reconfiguration{Leaving: []string{"4"}, From: 7})
		reconfigure(framework.Reconfiguration{Members: []string{"1=127.0.0.1:1:2:participant;3"}})
		reconfigure(framework.Reconfiguration{})
		reconfigure(framework.Reconfiguration{From: 7})
		reconfigure(framework.Reconfiguration{Members: []string{"1=a"}, Leaving: []string{"2"}})
		reconfigure(framework.Reconfiguration{Joining: []string{"1=a,2=b"}})
		reconfigure(framework.Reconfiguration{Leaving: []string{""}})
	}},
}

// watchRows are about what is told of changes.
var watchRows = []row{
	{"watch/one-shot", func(s *script) {
		other := s.client()
		change := map[string]func(){
			"create":       func() { s.created(other.Create(s.ctx, "/w", nil)) },
			"set":          func() { s.done(other.Set(s.ctx, "/w", nil)) },
			"create child": func() { s.created(other.Create(s.ctx, "/w/child", nil)) },
			"delete child": func() { s.done(other.Delete(s.ctx, "/w/child")) },
			"delete":       func() { s.done(other.Delete(s.ctx, "/w")) },
		}
		var data, children, exists, hooked *framework.Watch
		s.stat(s.f.Exists(s.ctx, "/w", framework.Watched(&exists)))
		change["create"]()
		s.fired(exists)
		s.data(s.f.Get(s.ctx, "/w", framework.Watched(&data)))
		s.stat(s.f.Exists(s.ctx, "/w", framework.Watched(&exists)))
		change["set"]()
		s.fired(data)
		s.fired(exists)
		s.names(s.f.Children(s.ctx, "/w", framework.Watched(&children)))
		change["create child"]()
		s.fired(children)
		s.names(s.f.Children(s.ctx, "/w", framework.Watched(&children)))
		change["delete child"]()
		s.fired(children)
		s.data(s.f.Get(s.ctx, "/w", framework.Watched(&data)))
		s.names(s.f.Children(s.ctx, "/w", framework.Watched(&children)))
		s.stat(s.f.Exists(s.ctx, "/w", framework.Watched(&exists)))
		s.stat(s.f.Exists(s.ctx, "/w", framework.Watched(&hooked)))
		told := make(chan framework.Event, 1)
		hooked.OnFired(func(e framework.Event) { told <- e })
		ended, end := context.WithCancelCause(s.ctx)
		hooked.EndOnDeletion(end, errors.New("the node is gone"))
		change["delete"]()
		s.event(next(s, told))
		s.sayf("ended: %v", context.Cause(ended))
		for _, w := range []*framework.Watch{data, children, exists, hooked} {
			<-w.Fired() // all by the same event
			s.event(w.Event())
		}
	}},
	{"watch/cancelled", func(s *script) {
		var cancelled, kept, waited, failed *framework.Watch
		s.data(s.f.Get(s.ctx, "/node", framework.Watched(&cancelled)))
		s.data(s.f.Get(s.ctx, "/node", framework.Watched(&kept)))
		cancelled.Cancel()
		s.done(s.f.Set(s.ctx, "/node", nil))
		s.fired(kept)
		notFired(s.T, cancelled)
		ended, end := context.WithCancel(s.ctx)
		end()
		event, err := kept.Wait(ended)
		s.done(err)
		s.event(event)
		s.data(s.f.Get(s.ctx, "/node", framework.Watched(&waited)))
		_, err = waited.Wait(ended)
		s.done(err)
		s.data(s.f.Get(s.ctx, "/none", framework.Watched(&failed)))
		s.sayf("watch %t", failed != nil)
		failed.Cancel()
		s.sayf("%d watched paths", s.f.WatchedPaths())
	}},
	{"watch/lost", func(s *script) {
		var w *framework.Watch
		s.data(s.f.Get(s.ctx, "/node", framework.Watched(&w)))
		s.done(s.f.Close())
		s.fired(w)
	}},
	{"watch/persistent", func(s *script) {
		s.server.Requires(s.T, ensemble.PersistentWatches)
		for _, on := range []struct {
			path string
			mode framework.WatchMode
			sees []framework.Event
		}{
			{"/w", framework.WatchPersistent, seenPersistently},
			{"/", framework.WatchPersistentRecursive, seenRecursively},
		} {
			w, err := s.f.AddWatch(s.ctx, on.path, on.mode)
			s.done(err)
			s.sayf("on %s", on.path)
			events := make(chan framework.Event, 100)
			w.OnEvent(func(e framework.Event) { events <- e })
			makeChanges(s.T, s.f)
			for range twice(on.sees) {
				s.event(next(s, events))
			}
			s.sayf("%d watched paths", s.f.WatchedPaths())
			w.Cancel()
			<-w.Done()
			s.done(w.Err())
		}
		_, err := s.f.AddWatch(s.ctx, "/w", 7)
		s.done(err)
		_, err = s.f.AddWatch(s.ctx, "w", framework.WatchPersistent)
		s.done(err)
		s.sayf("%d watched paths", s.f.WatchedPaths())
	}},
}
