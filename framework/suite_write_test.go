// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// writeRows are about what is changed.
var writeRows = []row{
	{"set", func(s *script) {
		var stat framework.Stat
		s.done(s.f.Set(s.ctx, "/node", []byte("one"), framework.StoringStatIn(&stat)))
		s.stat(&stat, nil)
		s.done(s.f.Set(s.ctx, "/node", []byte("two"), framework.WithVersion(1)))
		s.done(s.f.Set(s.ctx, "/node", []byte("three"), framework.WithVersion(1)))
		s.done(s.f.Set(s.ctx, "/node", []byte("four"), framework.WithVersion(framework.AnyVersion)))
		s.data(s.f.Get(s.ctx, "/node"))
		s.done(s.f.Set(s.ctx, "/node", nil))
		s.data(s.f.Get(s.ctx, "/node"))
		s.done(s.f.Set(s.ctx, "/node", []byte{}))
		s.data(s.f.Get(s.ctx, "/node"))
		s.done(s.f.Set(s.ctx, "/none", nil))
		s.done(s.f.Set(s.ctx, "none", nil))
		s.done(s.f.Set(s.ctx, "/node", nil, framework.StoringStatIn(nil)))
		s.done(s.f.Set(s.ctx, "/node", nil, nil))
		s.done(s.f.Set(s.ctx, "/", []byte("root")))
		s.data(s.f.Get(s.ctx, "/"))
	}},
	{"set/compressed", func(s *script) {
		s.done(s.f.Set(s.ctx, "/node", []byte("text"), framework.Compressed()))
		s.data(s.f.Get(s.ctx, "/node", framework.Decompressed()))
		s.done(s.f.Set(s.ctx, "/node", []byte("text"), framework.Compressed(), framework.Idempotent(), framework.WithVersion(0)))
		s.done(s.f.Set(s.ctx, "/node", []byte("text"), framework.Idempotent(), framework.WithVersion(0)))
	}},
	{"set/idempotent", func(s *script) {
		set := func(path, data string, version int32) {
			var stat framework.Stat
			s.done(s.f.Set(s.ctx, path, []byte(data), framework.Idempotent(), framework.WithVersion(version),
				framework.StoringStatIn(&stat)))
			s.stat(&stat, nil)
		}
		set("/node", "one", 0)
		set("/node", "one", 0)
		set("/node", "two", 0)
		set("/node", "two", 1)
		set("/node", "two", 0)
		set("/node", "two", framework.AnyVersion)
		set("/none", "one", 0)
		s.data(s.f.Get(s.ctx, "/node"))
	}},
}

// deleteRows are about what is deleted.
var deleteRows = []row{
	{"delete", func(s *script) {
		s.created(s.f.Create(s.ctx, "/node/child", nil))
		s.done(s.f.Delete(s.ctx, "/node"))
		s.done(s.f.Delete(s.ctx, "/node/child", framework.WithVersion(3)))
		s.done(s.f.Delete(s.ctx, "/node/child", framework.WithVersion(0)))
		s.done(s.f.Delete(s.ctx, "/node/child"))
		s.done(s.f.Delete(s.ctx, "/node"))
		s.done(s.f.Delete(s.ctx, "/"))
		s.done(s.f.Delete(s.ctx, "/", framework.DeletingChildrenIfNeeded()))
		s.done(s.f.Delete(s.ctx, "node"))
		s.done(s.f.Delete(s.ctx, "/node", nil))
		s.names(s.f.Children(s.ctx, "/"))
	}},
	{"delete/options", func(s *script) {
		for name, opts := range [][]framework.DeleteOption{
			{framework.Quietly()},
			{framework.Idempotent()},
			{framework.Guaranteed()},
			{framework.Guaranteed(), framework.Quietly()},
			{framework.DeletingChildrenIfNeeded()},
			{framework.DeletingChildrenIfNeeded(), framework.Quietly()},
		} {
			path := fmt.Sprintf("/deleted-%d", name)
			s.created(s.f.Create(s.ctx, path+"/child", nil, framework.CreatingParentsIfNeeded()))
			s.done(s.f.Delete(s.ctx, path, opts...))
			s.done(s.f.Delete(s.ctx, path, framework.DeletingChildrenIfNeeded(), framework.WithVersion(5)))
			s.done(s.f.Delete(s.ctx, path+"/child"))
			s.done(s.f.Delete(s.ctx, path, opts...))
			s.done(s.f.Delete(s.ctx, path, opts...))
		}
	}},
	{"delete/background", func(s *script) {
		s.done(s.f.Delete(s.ctx, "/node", framework.InBackground()))
		s.awaitGone("/node")
		s.done(s.f.Delete(s.ctx, "/none", framework.InBackground()))
		s.done(s.f.Delete(s.ctx, "none", framework.InBackground()))
		s.created(s.f.Create(s.ctx, "/tree/child", nil, framework.CreatingParentsIfNeeded()))
		s.done(s.f.Delete(s.ctx, "/tree", framework.InBackground(), framework.DeletingChildrenIfNeeded()))
		s.awaitGone("/tree")
	}},
	{"delete/children", func(s *script) {
		plant(s.T, s.f, "/tree", 3, 3)
		plant(s.T, s.f, "/tree/1/wide", 101, 1)
		s.names(s.f.Children(s.ctx, "/tree/1"))
		s.done(s.f.Delete(s.ctx, "/tree"))
		s.done(s.f.Delete(s.ctx, "/tree", framework.DeletingChildrenIfNeeded()))
		s.names(s.f.Children(s.ctx, "/"))
	}},
}

// pathRows are about whole paths and trees.
var pathRows = []row{
	{"paths", func(s *script) {
		s.done(s.f.Mkdirs(s.ctx, "/dir/a/b"))
		s.done(s.f.Mkdirs(s.ctx, "/dir/a/b"))
		s.done(s.f.Mkdirs(s.ctx, "/"))
		s.stat(s.f.Exists(s.ctx, "/dir/a"))
		s.done(s.f.CreateContainers(s.ctx, "/dir/c/d"))
		s.names(s.f.Children(s.ctx, "/dir/c"))
		s.done(s.f.DeleteChildren(s.ctx, "/dir"))
		s.done(s.f.DeleteChildren(s.ctx, "/dir"))
		s.names(s.f.Children(s.ctx, "/dir"))
		s.done(s.f.DeleteChildren(s.ctx, "/none"))
		s.created(s.f.Create(s.ctx, "/e", nil, framework.WithMode(framework.Ephemeral)))
		s.done(s.f.Mkdirs(s.ctx, "/e/x"))
		s.done(s.f.Mkdirs(s.ctx, "a/"))
		s.done(s.f.DeleteChildren(s.ctx, "a/"))
		s.done(s.f.DeleteChildren(s.ctx, "/"))
		s.names(s.f.Children(s.ctx, "/"))
	}},
}

// transactionRows are about several writes as one.
var transactionRows = []row{
	{"transact", func(s *script) {
		var stat framework.Stat
		s.results(s.f.Transact(s.ctx))
		s.results(s.f.Transact(s.ctx,
			framework.CheckOp("/node", framework.AnyVersion),
			framework.CheckOp("/node", 0),
			framework.CreateOp("/a", []byte("data")),
			framework.SetDataOp("/a", []byte("more"), framework.WithVersion(0), framework.StoringStatIn(&stat)),
			framework.CreateOp("/gone", nil),
			framework.DeleteOp("/gone", framework.WithVersion(0)),
			framework.DeleteOp("/node")))
		s.stat(&stat, nil)
		s.data(s.f.Get(s.ctx, "/a"))
		s.names(s.f.Children(s.ctx, "/"))
	}},
	{"transact/modes", func(s *script) {
		var ops []framework.Op
		for _, m := range everyMode {
			ops = append(ops, framework.CreateOp("/node/"+m.name, []byte("data"), inMode(m.mode)...))
		}
		results, err := s.f.Transact(s.ctx, ops...)
		s.results(results, err)
		for _, r := range results {
			s.stat(s.f.Exists(s.ctx, r.Path))
		}
		_, err = s.f.Transact(s.ctx,
			framework.CreateOp("/zipped", []byte("text"), framework.Compressed()),
			framework.SetDataOp("/node", []byte("text"), framework.Compressed()),
			framework.CreateOp("/list", nil, framework.WithACL(framework.ACL{Perms: 1, Scheme: "world", ID: "anyone"})))
		s.done(err)
		s.data(s.f.Get(s.ctx, "/zipped", framework.Decompressed()))
		s.data(s.f.Get(s.ctx, "/node", framework.Decompressed()))
		s.acl(s.f.GetACL(s.ctx, "/list"))
	}},
	{"transact/nothing", func(s *script) {
		create := framework.CreateOp("/a", nil)
		for _, ops := range [][]framework.Op{
			{framework.CheckOp("/none", framework.AnyVersion), create},
			{create, framework.CheckOp("/node", 3)},
			{create, framework.DeleteOp("/none")},
			{create, framework.SetDataOp("/node", nil, framework.WithVersion(9)), framework.DeleteOp("/a")},
			{create, framework.CreateOp("/node", nil), framework.CheckOp("/none", framework.AnyVersion)},
			{create, framework.CreateOp("/none/c", nil, framework.WithMode(framework.Container))},
			{create, create},
			{create, framework.CreateOp("/a/b", nil), framework.DeleteOp("/a")},
			{create, framework.CreateOp("/bad", nil, framework.WithACL(framework.ACL{Perms: 1, Scheme: "nope"}))},
		} {
			s.results(s.f.Transact(s.ctx, ops...))
		}
		s.names(s.f.Children(s.ctx, "/"))
	}},
	{"transact/invalid", func(s *script) {
		for _, op := range []framework.Op{
			framework.CreateOp("/a", nil, framework.WithProtection()),
			framework.CreateOp("/a", nil, framework.CreatingParentsIfNeeded()),
			framework.CreateOp("/a", nil, framework.OrSetData()),
			framework.CreateOp("/a", nil, framework.Idempotent()),
			framework.CreateOp("/a", nil, framework.InSession(s.f.Session())),
			framework.CreateOp("/a", nil, framework.StoringStatIn(new(framework.Stat))),
			framework.CreateOp("/a", nil, framework.ListingSiblingsIn(new([]string))),
			framework.CreateOp("/a", nil, framework.WithMode(9)),
			framework.SetDataOp("/a", nil, framework.Idempotent()),
			framework.SetDataOp("/a", nil, framework.StoringStatIn(nil)),
			framework.DeleteOp("/a", framework.Guaranteed()),
			framework.DeleteOp("/a", framework.InBackground()),
			framework.DeleteOp("/a", framework.DeletingChildrenIfNeeded()),
			framework.DeleteOp("/a", framework.Quietly()),
			framework.DeleteOp("/a", framework.Idempotent()),
			framework.CheckOp("a", framework.AnyVersion),
			framework.SetDataOp("/a", nil, nil),
			framework.CreateOp("/", nil),
			framework.DeleteOp("/"),
		} {
			s.results(s.f.Transact(s.ctx, framework.CheckOp("/node", framework.AnyVersion), op))
		}
	}},
}

// clientRows are about clients and views of them.
var clientRows = []row{
	{"namespace", func(s *script) {
		s.server.Requires(s.T, ensemble.GetEphemerals)
		view := must.Get(s.f.UsingNamespace("team/orders"))(s)
		s.sayf("namespace %q of %q", view.Namespace(), s.f.Namespace())
		s.sayf("below the chroot %t", view.FullPath("/a") == s.f.FullPath("/team/orders/a"))
		s.sayf("of the same client %t", view.WithoutNamespace() == s.f && s.f.WithoutNamespace() == s.f)
		s.created(view.Create(s.ctx, "/a", []byte("x")))
		s.created(view.Create(s.ctx, "/p/q", nil, framework.CreatingParentsIfNeeded(), framework.WithProtection()))
		s.data(s.f.Get(s.ctx, "/team/orders/a"))
		s.names(view.Children(s.ctx, "/"))
		s.created(view.Create(s.ctx, "/none/a", nil))
		s.done(view.Delete(s.ctx, "/none"))
		s.results(view.Transact(s.ctx, framework.CreateOp("/t", nil), framework.SetDataOp("/a", nil)))
		s.created(view.Create(s.ctx, "/e", nil, framework.WithMode(framework.Ephemeral)))
		s.names(view.Ephemerals(s.ctx, "/"))
		s.names(s.f.Ephemerals(s.ctx, "/"))
		var w *framework.Watch
		s.data(view.Get(s.ctx, "/a", framework.Watched(&w)))
		s.done(s.f.Set(s.ctx, "/team/orders/a", nil))
		s.fired(w)
		again := must.Get(view.UsingNamespace("team/ordersandmore"))(s)
		s.created(again.Create(s.ctx, "/a", nil, framework.WithMode(framework.Ephemeral)))
		s.names(view.Ephemerals(s.ctx, "/")) // and not those of a namespace that begins like it
		s.names(s.f.Children(s.ctx, "/team"))
		s.done(view.DeleteChildren(s.ctx, "/")) // the servers delete the empty container at any time from now on
		s.created(view.Create(s.ctx, "/b/c", nil, framework.CreatingParentsIfNeeded()))
		s.done(view.Delete(s.ctx, "/", framework.DeletingChildrenIfNeeded()))
		for _, namespace := range []string{"", "/a", "a/", "a//b", "..", "zookeeper"} {
			_, err := s.f.UsingNamespace(namespace)
			s.done(err)
		}
	}},
	{"reserved", func(s *script) {
		f := zktest.Client(s, s.server.Addr()) // without a chroot
		s.created(f.Create(s.ctx, "/zookeeper/x", nil))
		s.created(f.Create(s.ctx, "/zookeeper/x/y", nil, framework.CreatingParentsIfNeeded()))
		s.stat(f.Exists(s.ctx, "/zookeeper/x/y", framework.CreatingParentsIfNeeded()))
		s.done(f.CreateContainers(s.ctx, "/zookeeper/x"))
		s.done(f.Set(s.ctx, "/zookeeper/quota", nil))
		s.done(f.SetACL(s.ctx, "/zookeeper", zk.WorldACL(zk.PermAll)))
		s.done(f.Delete(s.ctx, "/zookeeper/quota"))
		s.done(f.Delete(s.ctx, "/", framework.DeletingChildrenIfNeeded()))
		s.results(f.Transact(s.ctx, framework.DeleteOp("/zookeeper/quota")))
		s.names(f.Children(s.ctx, "/zookeeper"))
	}},
	{"acl provider", func(s *script) {
		f := s.client(framework.WithACLProvider(new(lists)))
		s.created(f.Create(s.ctx, "/readable/x", nil, framework.CreatingParentsIfNeeded()))
		s.created(f.Create(s.ctx, "/plain", nil))
		s.results(f.Transact(s.ctx, framework.CreateOp("/readable/y", nil)))
		for _, path := range []string{"/readable", "/readable/x", "/readable/y", "/plain"} {
			s.acl(f.GetACL(s.ctx, path))
		}
	}},
	{"compression provider", func(s *script) {
		f := s.client(framework.WithCompressionProvider(framework.GzipCompressionProvider{MaxSize: 4}))
		s.created(f.Create(s.ctx, "/a", []byte("1234"), framework.Compressed()))
		s.data(f.Get(s.ctx, "/a", framework.Decompressed()))
		s.done(f.Set(s.ctx, "/a", []byte("12345"), framework.Compressed()))
		s.data(f.Get(s.ctx, "/a", framework.Decompressed()))
		s.data(s.f.Get(s.ctx, "/a", framework.Decompressed()))
	}},
	{"auth", func(s *script) {
		owner := s.client(framework.WithAuth("digest", []byte(credential)))
		s.created(owner.Create(s.ctx, "/private", []byte("x"), framework.WithACL(creatorOnly()...)))
		s.acl(owner.GetACL(s.ctx, "/private"))
		s.data(owner.Get(s.ctx, "/private"))
		s.data(s.f.Get(s.ctx, "/private"))
		s.acl(s.f.GetACL(s.ctx, "/private"))
		s.data(s.client(framework.WithAuth("digest", []byte(credential))).Get(s.ctx, "/private"))
		_, err := framework.Connect(s.ctx, s.connectString, framework.WithAuth("nosuchscheme", []byte(credential)))
		s.sayf("not connected: %s", strings.Join(kindsOf(err), ", "))
	}},
	{"compression by default", func(s *script) {
		f := s.client(framework.WithCompression())
		text := []byte(strings.Repeat("text ", 10))
		raw := func(path string) {
			stored := must.Get(f.Get(s.ctx, path, framework.Undecompressed()))(s)
			s.sayf("%s is compressed %t", path, bytes.HasPrefix(stored, []byte{0x1f, 0x8b}))
		}
		s.sayf("enabled %t, %t", f.CompressionEnabled(), s.f.CompressionEnabled())
		s.created(f.Create(s.ctx, "/zipped", text))
		s.data(f.Get(s.ctx, "/zipped"))
		s.data(s.f.Get(s.ctx, "/zipped", framework.Decompressed()))
		raw("/zipped")
		s.done(f.Set(s.ctx, "/zipped", []byte("less")))
		raw("/zipped")
		s.created(f.Create(s.ctx, "/nothing", nil))
		raw("/nothing")
		s.data(f.Get(s.ctx, "/nothing"))
		s.created(f.Create(s.ctx, "/parent/plain", text, framework.CreatingParentsIfNeeded(), framework.Uncompressed()))
		raw("/parent/plain")
		s.data(f.Get(s.ctx, "/parent"))
		s.data(f.Get(s.ctx, "/parent/plain"))
		s.done(f.Set(s.ctx, "/parent/plain", []byte("plain"), framework.Uncompressed()))
		s.data(f.Get(s.ctx, "/parent/plain", framework.Undecompressed()))
		_, err := f.Transact(s.ctx, framework.CreateOp("/op", text), framework.SetDataOp("/parent/plain", text))
		s.done(err)
		raw("/op")
		raw("/parent/plain")
		view := must.Get(s.f.UsingNamespace("view", framework.WithCompression()))(s)
		s.created(view.Create(s.ctx, "/a", text))
		s.data(view.Get(s.ctx, "/a"))
		raw("/view/a")
		s.sayf("enabled %t, %t", view.CompressionEnabled(), view.WithoutNamespace().CompressionEnabled())
		s.done(f.Set(s.ctx, "/op", nil, framework.Compressed(), framework.Uncompressed()))
		_, err = f.Get(s.ctx, "/op", framework.Decompressed(), framework.Undecompressed())
		s.done(err)
		_, err = s.f.UsingNamespace("view", nil)
		s.done(err)
	}},
	{"sizes", func(s *script) {
		f := s.client(framework.WithMaxRequestSize(2000), framework.WithMaxReplySize(1024))
		s.done(f.Set(s.ctx, "/node", []byte(strings.Repeat("x", 900))))
		s.stat(f.Exists(s.ctx, "/node"))
		s.done(f.Set(s.ctx, "/node", []byte(strings.Repeat("x", 2000))))
		s.created(f.Create(s.ctx, "/big", []byte(strings.Repeat("x", 2000))))
		s.results(f.Transact(s.ctx, framework.SetDataOp("/node", []byte(strings.Repeat("x", 2000)))))
		s.stat(f.Exists(s.ctx, "/node"))
	}},
}
