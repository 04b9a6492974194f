// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	values "github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// create is mustCreate of this package.
func create(t *testing.T, f *framework.Framework, path, data string, opts ...framework.CreateOption) string {
	t.Helper()
	var bytes []byte
	if data != "" {
		bytes = []byte(data)
	}
	created, err := f.Create(zktest.Context(t), path, bytes, opts...)
	require.NoError(t, err)
	return created
}

func get(t *testing.T, f *framework.Framework, path string, opts ...framework.ReadOption) string {
	t.Helper()
	data, err := f.Get(zktest.Context(t), path, opts...)
	require.NoError(t, err)
	return string(data)
}

// What one side has compressed the other can read, from a create, a set or a
// transaction.
func TestVerbsCompressedData(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		java := newActor(t, server)
		for _, text := range []string{"", "x", strings.Repeat("r\u00e9sum\u00e9 ", 10_000)} {
			size := "-" + strconv.Itoa(len(text))
			java.do(t, "create-compressed", "/java"+size, text)
			java.do(t, "transact", "create-compressed", "/java-op"+size, text)
			for _, path := range []string{"/java" + size, "/java-op" + size} {
				require.Equal(t, text, get(t, client, path, framework.Decompressed()), path)
			}

			create(t, client, "/go"+size, text, framework.Compressed())
			create(t, client, "/go-set"+size, "plain")
			require.NoError(t, client.Set(zktest.Context(t), "/go-set"+size, []byte(text), framework.Compressed()))
			_, err := client.Transact(zktest.Context(t), framework.CreateOp("/go-op"+size, []byte(text), framework.Compressed()))
			require.NoError(t, err)
			for _, path := range []string{"/go" + size, "/go-set" + size, "/go-op" + size} {
				require.Equal(t, []string{text}, java.do(t, "get-compressed", path), path)
			}
		}
	})
}

// A client that compresses by default writes what Java reads with decompressed(), and the other way
// round, in calls and in recipes. (Curator has such a default since 5.8.)
func TestVerbsCompressionByDefault(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server, framework.WithCompression())
		java := newActor(t, server)
		for _, text := range []string{"", "x", strings.Repeat("r\u00e9sum\u00e9 ", 10_000)} {
			size := "-" + strconv.Itoa(len(text))
			java.do(t, "create-compressed", "/java"+size, text)
			require.Equal(t, text, get(t, client, "/java"+size))
			create(t, client, "/go"+size, text)
			create(t, client, "/go-set"+size, "other")
			require.NoError(t, client.Set(zktest.Context(t), "/go-set"+size, []byte(text)))
			_, err := client.Transact(zktest.Context(t), framework.CreateOp("/go-op"+size, []byte(text)))
			require.NoError(t, err)
			for _, path := range []string{"/go" + size, "/go-set" + size, "/go-op" + size} {
				require.Equal(t, []string{text}, java.do(t, "get-compressed", path), path)
			}
		}

		java.do(t, "create-compressed", "/value", "from Java")
		value, err := values.NewSharedValue(client, "/value", nil)
		require.NoError(t, err)
		require.NoError(t, value.Start(zktest.Context(t)))
		require.Equal(t, "from Java", string(value.Value()))
		require.NoError(t, value.SetValue(zktest.Context(t), []byte("from Go")))
		require.NoError(t, value.Close())
		require.Equal(t, []string{"from Go"}, java.do(t, "get-compressed", "/value"))
	})
}

// TestVerbsDefaultData: Java's is its address, ours is none, and each can read the other's.
func TestVerbsDefaultData(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		java := newActor(t, server)
		java.do(t, "create", "/java", "PERSISTENT")
		require.NotNil(t, net.ParseIP(get(t, client, "/java")))
		create(t, client, "/go", "")
		require.Equal(t, []string{"", "0", "0"}, java.do(t, "get", "/go")[:3])
	})
}

// What one side keeps to its credentials is the other's with the same credentials, and
// nobody's without.
func TestVerbsAccessControl(t *testing.T) {
	const alice, bob = "alice:wonderland", "bob:builder"
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx := zktest.Context(t)
		nobody, javaNobody := zktest.Client(t, server), newActor(t, server)
		client := zktest.Client(t, server, framework.WithAuth("digest", []byte(alice)))
		java := newActorAt(t, server.ConnectString(), alice)
		create(t, client, "/go", "secret", framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "auth"}))
		java.do(t, "create-private", "/java", "secret")
		for _, path := range []string{"/go", "/java"} {
			require.Equal(t, "secret", get(t, client, path))
			require.Equal(t, "secret", java.do(t, "get", path)[0])
			_, err := nobody.Get(ctx, path)
			require.ErrorIs(t, err, framework.ErrNoAuth)
			_, err = javaNobody.Do(ctx, "get", path)
			require.ErrorContains(t, err, "NoAuth")
			requireSameACL(t, client, java, path)
		}

		// Lists with several entries, set by either.
		list := append(zk.DigestACL(zk.PermAll, "bob", "builder"), zk.WorldACL(zk.PermRead)...)
		require.NoError(t, client.SetACL(ctx, "/java", list))
		java.do(t, "set-acl", "/go", "31", "digest", list[0].ID, "1", "world", "anyone")
		builder, javaBuilder := zktest.Client(t, server, framework.WithAuth("digest", []byte(bob))),
			newActorAt(t, server.ConnectString(), bob)
		for _, path := range []string{"/go", "/java"} {
			requireSameACL(t, builder, javaBuilder, path)
			acl, err := builder.GetACL(ctx, path)
			require.NoError(t, err)
			require.Equal(t, list, acl)
			require.ErrorIs(t, client.Set(ctx, path, nil), framework.ErrNoAuth)
			_, err = java.Do(ctx, "set", path, "")
			require.ErrorContains(t, err, "NoAuth")
			require.NoError(t, builder.Set(ctx, path, []byte("by Go")))
			javaBuilder.do(t, "set", path, "by Java")
		}
	})
}

func requireSameACL(t *testing.T, client *framework.Framework, java actor, path string) {
	t.Helper()
	acl, err := client.GetACL(zktest.Context(t), path)
	require.NoError(t, err)
	var words []string
	for _, a := range acl {
		words = append(words, strconv.Itoa(int(a.Perms)), a.Scheme, a.ID)
	}
	require.Equal(t, words, java.do(t, "get-acl", path))
}

// TestVerbsResultsOfTransactions: the same operations have the same results, but for the
// chroot, which Java leaves in the paths.
func TestVerbsResultsOfTransactions(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		java := newActor(t, server)
		create(t, client, "/java", "")
		create(t, client, "/go", "")
		theirs := java.do(t, "transact", "check", "/java", "0",
			"create", "/java/a", "x", "create-sequential", "/java/s-", "x", "create-sequential", "/java/s-", "x",
			"set", "/java/a", "y", "set", "/java", "z", "delete", "/java/a")
		sequential := framework.WithMode(framework.PersistentSequential)
		ours, err := client.Transact(zktest.Context(t), framework.CheckOp("/go", 0),
			framework.CreateOp("/go/a", []byte("x")),
			framework.CreateOp("/go/s-", []byte("x"), sequential), framework.CreateOp("/go/s-", []byte("x"), sequential),
			framework.SetDataOp("/go/a", []byte("y")), framework.SetDataOp("/go", []byte("z")), framework.DeleteOp("/go/a"))
		require.NoError(t, err)
		require.Len(t, theirs, 3*len(ours))
		for i, result := range ours {
			want := server.Root() + "/java" + strings.TrimPrefix(result.Path, "/go")
			if theirs[3*i] != "CREATE" {
				want = "null" // Curator's results name no path there
			}
			require.Equal(t, want, theirs[3*i+1], "path of operation %d, %s", i, theirs[3*i])
			want = "null"
			if result.Stat != nil {
				want = strconv.Itoa(int(result.Stat.Version))
			}
			require.Equal(t, want, theirs[3*i+2], "version after operation %d, %s", i, theirs[3*i])
		}
		for _, folder := range []string{"/go", "/java"} {
			require.ElementsMatch(t, []string{"s-0000000001", "s-0000000002"}, java.do(t, "children", folder))
			require.Equal(t, "z", get(t, client, folder))
			require.Equal(t, []string{"z", "1"}, java.do(t, "get", folder)[:2])
		}
	})
}

// withQuickReaper is a server that deletes containers and TTL nodes at once, as the
// real ones do that tests start.
func withQuickReaper(t *testing.T, server zktest.Backend) zktest.Backend {
	t.Helper()
	if server.Name() == "zkserver" { // which otherwise looks once a minute
		server = zktest.Embedded(zktest.NewServer(t, zkserver.WithContainerCheckInterval(10*time.Millisecond)))
		makeChroot(t, server)
	}
	return server
}

// TestVerbsNodesWithATimeToLive: each side's are read by the other, and deleted by the server.
func TestVerbsNodesWithATimeToLive(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		server = withQuickReaper(t, server)
		client := zktest.Client(t, server.ConnectString())
		java := newActor(t, server)
		const hour = "3600000"
		java.do(t, "create-ttl", "/java", hour, "stays")
		require.Equal(t, "stays", get(t, client, "/java"))
		ttl := framework.WithMode(framework.PersistentWithTTL)
		create(t, client, "/go", "stays", ttl, framework.WithTTL(time.Hour))
		require.Equal(t, []string{"stays", "0", "0"}, java.do(t, "get", "/go")[:3])

		java.do(t, "create-ttl", "/java-goes", "1", "")
		create(t, client, "/go-goes", "", ttl, framework.WithTTL(time.Millisecond))
		awaitGone(t, client, "/java-goes")
		awaitGone(t, client, "/go-goes")
		require.ElementsMatch(t, []string{"java", "go"}, java.do(t, "children", "/"))
	})
}

// TestVerbsNamespaces: both sides know what is in one by the same names, and the server
// deletes it when it is empty, whoever has made it.
func TestVerbsNamespaces(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		server = withQuickReaper(t, server)
		client := zktest.Client(t, server.ConnectString())
		java := newActor(t, server)
		for _, namespace := range []string{"java", "go", "java/deep", "go/deep"} {
			view, err := client.UsingNamespace(namespace)
			require.NoError(t, err)
			inJava := func(command ...string) []string {
				t.Helper()
				return java.do(t, "in", append([]string{namespace}, command...)...)
			}
			byJava := func() { require.Equal(t, []string{"/theirs"}, inJava("create", "/theirs", "PERSISTENT", "by Java")) }
			if strings.HasPrefix(namespace, "java") {
				byJava()
			}
			require.Equal(t, "/ours", create(t, view, "/ours", "by Go"))
			if strings.HasPrefix(namespace, "go") {
				byJava()
			}
			require.Equal(t, "by Java", get(t, view, "/theirs"))
			require.Equal(t, "by Java", get(t, client, "/"+namespace+"/theirs"))
			require.Equal(t, "by Go", inJava("get", "/ours")[0])
			require.Equal(t, "by Go", java.do(t, "get", "/"+namespace+"/ours")[0])
			require.ElementsMatch(t, []string{"ours", "theirs"}, inJava("children", "/"))
			require.NoError(t, view.Delete(zktest.Context(t), "/theirs"))
			inJava("delete", "/ours")
			awaitGone(t, client, "/"+namespace)
		}
	})
}

// TestVerbsChroots: both sides have the same root. Ours makes it, Java's needs it.
func TestVerbsChroots(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		observer := zktest.Client(t, server.Addr())
		chroot := server.ConnectString() + "/deep/er"
		client := zktest.Client(t, chroot)
		require.Equal(t, "/go/a", create(t, client, "/go/a", "by Go", framework.CreatingParentsIfNeeded()))
		java := newActorAt(t, chroot)
		require.Equal(t, []string{"/java/a"}, java.do(t, "create", "/java/a", "PERSISTENT", "by Java"))
		for path, by := range map[string]string{"/go/a": "by Go", "/java/a": "by Java"} {
			require.Equal(t, by, get(t, client, path))
			require.Equal(t, by, java.do(t, "get", path)[0])
			require.Equal(t, by, get(t, observer, server.Root()+"/deep/er"+path))
		}
	})
}
