// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	dashed = "0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd30"
	plain  = "0c8f7ab1f7a54ad3b8cb1b1c4ef2bd30"
)

// likeContenders are names of applications that end like a contender's, or are as long as one.
var likeContenders = []string{
	"release-0000000001", "block-0000000001", "unlock-0000000001", "lock-0000000001", "lock--2147483648", "lease-0000000001",
	"clock-0000000001", "wait-0000000001", "await-0000000001", "latch-0000000001", "batch-latch-0000000001",
	"__READ__0000000001", "__WRIT__0000000001", "x__READ__0000000001", "__lock__0000000001", "__rlock__0000000001", "a__lock__0000000001",
	"_c_lock-0000000001", "_c_-lock-0000000001", "_c_" + dashed + "lock-0000000001", "_c_" + dashed + "-block-0000000001",
	"_c_" + dashed + "-release-0000000001", "_c_" + dashed + "-x-lock-0000000001", "_c_" + dashed + "-lock-lock-0000000001",
	"_c_" + dashed + "--lock-0000000001", "x_c_" + dashed + "-lock-0000000001", "_C_" + dashed + "-lock-0000000001",
	"_c_" + dashed + "-batch-0000000001", "_c_" + dashed + "-__READ__-0000000001", "_c_" + dashed + "-wait-lock-0000000001",
	"_c_" + plain + "-lease-0000000001", "_c_" + plain + "-latch-0000000001", "_c_" + plain + "-__WRIT__0000000001",
	"_c_" + plain + "lock-0000000001", "_c_" + plain + "0-lock-0000000001", plain + "-__lock__0000000001", plain + "0__lock__0000000001",
	dashed + "__lock__0000000001", plain + "__wlock__0000000001", plain + "-lock-0000000001", plain,
}

// TestNamesOfApplications that end like a contender's are no contenders, of whatever mode their znodes are. Nor is
// a persistent znode with a whole name.
func TestNamesOfApplications(t *testing.T) {
	require.GreaterOrEqual(t, len(likeContenders), 40)
	client := zktest.Client(t, zktest.NewServer(t))
	whole := []string{
		"_c_" + dashed + "-lock-0000000001", "_c_" + plain + "-lock-0000000001", "_c_" + dashed + "-__READ__0000000001",
		"_c_" + dashed + "-latch-0000000001", "_c_" + dashed + "-lease-0000000001",
		plain + "__lock__0000000001",
	}
	for i, name := range likeContenders {
		put(t, client, framework.JoinPath("/persistent", string(rune('A'+i)), name))
		putAs(t, client, framework.Ephemeral, framework.JoinPath("/ephemeral", string(rune('A'+i)), name))
	}
	for i, name := range whole {
		put(t, client, framework.JoinPath("/whole", string(rune('a'+i)), name))
	}
	for _, opts := range [][]inspect.Option{nil, {inspect.HeadsOnly()}, {inspect.HeadsOnly(), inspect.WithMemoryLimit(1 << 20)}} {
		require.Empty(t, must.Get(inspect.Walk(t.Context(), client, "/", opts...))(t).Recipes)
	}
	for i, name := range whole {
		at := framework.JoinPath("/real", string(rune('a'+i)))
		putAs(t, client, framework.Ephemeral, framework.JoinPath(at, name))
		require.Equal(t, 1, only(t, client, at).Holders+only(t, client, at).Waiters, name)
	}
}

// TestNamesThatKeepOthersOut: contenders look at the end of a name only, so they wait for a znode that is none. It is
// not counted, and they are not said to hold.
func TestNamesThatKeepOthersOut(t *testing.T) {
	for _, blocks := range [][]string{
		{"block-0000000000"},
		{"lock-0000000000"},
		{"_c_" + dashed + "-lock-0000000000"},
		{"_c_" + dashed + "-lock-0000000000", "block-0000000000", "lock-0000000000"},
	} {
		client := zktest.Client(t, zktest.NewServer(t))
		for _, name := range blocks {
			put(t, client, "/locks/report/"+name)
		}
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report", locks.WithoutReentry(), locks.WithQueuePlaces(0)))(t)
		for n := range 3 {
			contend(t, mutex)
			awaitChildren(t, client, "/locks/report", len(blocks)+n+1)
		}
		want := must.Get(mutex.Participants(t.Context()))(t)
		want = want[len(blocks):]

		all := only(t, client, "/locks/report")
		require.Equal(t, []int{0, 3}, []int{all.Holders, all.Waiters}, blocks)
		require.Equal(t, want, all.Participants)
		require.ElementsMatch(t, blocks, all.Foreign)
		require.Contains(t, all.Participants[0].WaitsFor[0], "0000000000")
		heads := only(t, client, "/locks/report", inspect.HeadsOnly())
		require.Equal(t, []int{0, 3}, []int{heads.Holders, heads.Waiters}, blocks)
		require.Equal(t, want[:1], heads.Participants)
	}
}
