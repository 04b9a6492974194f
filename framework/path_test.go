// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

var badPaths = map[string]string{ // and what the error must say
	"":                     "empty",
	"a":                    "begins with",
	"//":                   "ends with a slash",
	"/a/":                  "ends with a slash",
	"/a//b":                `"" at byte 3`,
	"/.":                   `"." at byte 1`,
	"/a/..":                `".." at byte 3`,
	"/a/./b":               `"." at byte 3`,
	"/a\x00":               "U+0000 at byte 2",
	"/\x1f":                "U+001F at byte 1",
	"/a/b\x7f":             "U+007F at byte 4",
	"/\u009f":              "U+009F at byte 1",
	"/\ue000":              "U+E000 at byte 1",
	"/\uf8ff":              "U+F8FF at byte 1",
	"/\ufff0":              "U+FFF0 at byte 1",
	"/\uffff":              "U+FFFF at byte 1",
	"/\U0001f600":          "U+1F600 at byte 1",
	"/\xff":                "byte 1",
	"/a/\xed\xa0\x80":      "byte 3", // half a surrogate pair
	"/\u00e9/\u00e9\u0001": "U+0001 at byte 6",
}

func TestValidatePath(t *testing.T) {
	for path, says := range badPaths {
		err := framework.ValidatePath(path)
		require.ErrorIs(t, err, framework.ErrInvalidPath, "%q", path)
		require.ErrorContains(t, err, says, "%q", path)
	}
	for _, path := range []string{"/", "/a", "/a/b", "/...", "/.a", "/a..b", "/ ", "/\u00a0", "/\u00e9", "/\u65e5", "/\ud7ff", "/\uf900", "/\uffef"} {
		require.NoError(t, framework.ValidatePath(path), "%q", path)
	}
}

func TestPathVerbsRefuseBadPaths(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	requests := countRequests(server)
	for name, verb := range verbs {
		for path := range badPaths {
			require.ErrorIs(t, verb(t.Context(), f, path), framework.ErrInvalidPath, "%s %q", name, path)
		}
	}
	for _, name := range []string{"create", "create protected", "set", "delete", "delete guaranteed"} {
		for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
			require.ErrorIs(t, verbs[name](t.Context(), f, path), framework.ErrInvalidPath, "%s %q", name, path)
		}
	}
	_, err := f.Create(t.Context(), "/", nil)
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	_, err = f.Get(t.Context(), "bad")
	require.EqualError(t, err, `framework: get: invalid path "bad": it begins with 'b', a path begins with a slash`)
	require.Zero(t, requests(), "nothing was sent")
	_, err = f.Children(t.Context(), "/zookeeper")
	require.NoError(t, err, "what is reserved may be read")
}

func TestPathJoinAndSplit(t *testing.T) {
	for path, want := range map[string][2]string{
		"/": {"/", ""}, "/a": {"/", "a"}, "/a/b": {"/a", "b"}, "/a/b/": {"/a/b", ""},
	} {
		parent, name := framework.SplitPath(path)
		require.Equal(t, want, [2]string{parent, name}, path)
		require.Equal(t, path, framework.JoinPath(parent, name))
	}
}

// FuzzPath holds our rules against those of the servers: what we accept they
// accept.
func FuzzPath(f *testing.F) {
	for path := range badPaths {
		f.Add(path)
	}
	for _, path := range []string{"/a", "/a/b", "/...", "/ ", "/\u00e9", "/\ud7ff/\uf900", "/" + strings.Repeat("x", 5000)} {
		f.Add(path)
	}
	client := zktest.Client(f, zktest.NewServer(f).Addr())
	f.Fuzz(func(t *testing.T, path string) { checkPathWith(t, client, path) })
}

// TestPathsOnEachBackend is what FuzzPath checks, with a real server too.
func TestPathsOnEachBackend(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.Addr())
		for path := range badPaths {
			checkPathWith(t, client, path)
		}
		for r := rune(1); r <= 0x11000; r += 1 + r/40 {
			checkPathWith(t, client, "/a"+string(r))
		}
		for _, r := range []rune{0x1f, 0x20, 0x7e, 0x7f, 0x9f, 0xa0, 0xd7ff, 0xe000, 0xf8ff, 0xf900, 0xffef, 0xfff0, 0xffff, 0x10000} {
			checkPathWith(t, client, "/"+string(r)+"/b")
		}
	})
}

// checkPathWith asks the server about a path in a transaction that fails in any
// case, so that nothing is created.
func checkPathWith(t *testing.T, client *framework.Framework, path string) {
	t.Helper()
	_, err := client.Transact(t.Context(), framework.CreateOp(path, nil), framework.CheckOp("/none", framework.AnyVersion))
	switch {
	case path == "/" || strings.HasPrefix(path+"/", "/zookeeper/"), framework.ValidatePath(path) != nil:
		require.ErrorIs(t, err, framework.ErrInvalidPath, "%q", path)
	case errors.Is(err, framework.ErrTooLarge):
	default:
		require.NotErrorIs(t, err, zk.ErrBadArguments, "%q is refused by the server", path)
		require.ErrorIs(t, err, framework.ErrNoNode, "%q", path) // the parent, or what is checked
	}
}

func TestPathSizes(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		states := recordStates(f)
		for _, path := range []string{"/start", "/start/" + strings.Repeat("x", 1000)} {
			for _, size := range []int{1_047_552, 1_047_553, 3 << 20} {
				_, err := f.Create(t.Context(), path+"/a", make([]byte, size), framework.CreatingParentsIfNeeded())
				require.ErrorIs(t, err, framework.ErrTooLarge, "%d", size)
				require.ErrorIs(t, f.Set(t.Context(), "/start", make([]byte, size)), framework.ErrTooLarge, "%d", size)
				_, err = f.Transact(t.Context(), framework.SetDataOp("/start", make([]byte, size)))
				require.ErrorIs(t, err, framework.ErrTooLarge, "%d", size)
			}
		}
		_, err := f.Exists(t.Context(), "/"+strings.Repeat("x", 2<<20))
		require.ErrorIs(t, err, framework.ErrTooLarge)

		const overhead = 6 + 4 + 4 + 4 // path "/start", two lengths, version
		largest := make([]byte, framework.DefaultMaxRequestSize-overhead-len(server.Root()))
		require.NoError(t, f.Set(t.Context(), "/start", largest))
		require.Len(t, must.Get(f.Get(t.Context(), "/start"))(t), len(largest))
		states.none(t)
	})
}

func TestPathNames(t *testing.T) {
	require.Equal(t, "/a/b/c", framework.JoinPath("/", "a", "b", "c"))
	require.Equal(t, "/a/b/c", framework.JoinPath("/a", "b", "c"))
	require.Equal(t, []string{"a", "b", "c"}, framework.PathNames("/a/b/c"))
	require.Equal(t, []string{"a"}, framework.PathNames("/a"))
	require.Empty(t, framework.PathNames("/"))
}

// TestPathServersOwnTreeStays: not even a recursive delete touches /zookeeper.
func TestPathServersOwnTreeStays(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	for i := range 250 { // more than fit into one write
		mustCreate(t, f, fmt.Sprintf("/n%d/x", i), framework.CreatingParentsIfNeeded())
	}
	require.NoError(t, f.DeleteChildren(t.Context(), "/"))
	require.Equal(t, []string{"zookeeper"}, must.Get(f.Children(t.Context(), "/"))(t))
	for _, err := range []error{
		f.DeleteChildren(t.Context(), "/zookeeper"), f.Delete(t.Context(), "/zookeeper", framework.DeletingChildrenIfNeeded()),
		f.Mkdirs(t.Context(), "/zookeeper/x"),
	} {
		require.ErrorIs(t, err, framework.ErrInvalidPath)
	}
	mustCreate(t, f, "/stays")
	require.Error(t, f.Delete(t.Context(), "/", framework.DeletingChildrenIfNeeded()), "the root cannot be deleted")
	require.NotNil(t, must.Get(f.Exists(t.Context(), "/stays"))(t), "so nothing below it is")
	must.Get(f.Get(t.Context(), "/zookeeper/config"))(t)
}
