// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/constant"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// promises has constants that documents name, their values, and where: a file, a colon, and the words in it. Words that a
// line break divides are written with a space.
var promises = map[string]struct {
	value int64
	said  []string
}{
	"framework.defaultSessionTimeout": {int64(60 * time.Second), []string{
		"framework/options.go: see [Session.Timeout]. Default: 60 s.", "framework/doc.go: for a session of 60 s",
		"recipes/locks/doc.go: A client asks for 60 s.", "recipes/LOSS.md: The client asks for 60 s by default",
		"recipes/PRODUCTION.md: The client asks for 60 s by default", "recipes/PRODUCTION.md: | 60 s (default), granted 40 s |",
		"recipes/MIGRATING.md: The default of this library is 60 s.", "recipes/MIGRATING.md: | session timeout 60 s | the same default |",
	}},
	"framework.defaultConnectionTimeout": {int64(15 * time.Second), []string{"framework/options.go: attempt to connect. Default: 15 s."}},
	"framework.defaultMaxRequestSize":    {1_047_552, []string{"framework/options.go: in requests of its own. Default: 1,047,552."}},
	"framework.defaultMaxReplySize":      {16 << 20, []string{"framework/options.go: limit. Default: 16 MiB."}},
	"framework.defaultTickTime": {int64(2 * time.Second), []string{
		"framework/options.go: Default: 2 s", "recipes/PRODUCTION.md: safe with syncLimit 5 and tickTime 2 s",
		"recipes/LOSS.md: if the session timeout is 18 s or more with usual settings, 1.5 × (syncLimit + 1) × tickTime in general",
	}},
	"framework.defaultSyncLimit":               {5, []string{"recipes/PRODUCTION.md: safe with syncLimit 5 and tickTime 2 s"}},
	"framework/internal/conduit.maxEphemerals": {131_072, []string{"recipes/PRODUCTION.md: more than 131,072 ephemeral znodes"}},
	"recipes/locks.placesAlone": {4, []string{
		"recipes/locks/options.go: Default: 4 while no other client is in the queue",
		"recipes/locks/doc.go: a client has at most four nodes in the queue of a mutex",
		"recipes/LOSS.md: At most four of its goroutines have a node", "recipes/CHOOSING.md: of one client at most four goroutines have a node",
		"recipes/MIGRATING.md: at most four nodes for each client", "CHANGELOG.md: of one client four acquisitions have a node",
		"ARCHITECTURE.md: four while no other client is in it",
	}},
	"recipes/locks.placesBesideOthers": {2, []string{
		"recipes/locks/options.go: and 2 when others are.", "recipes/locks/doc.go: and two when other clients are in it",
		"recipes/LOSS.md: and two beside other clients", "recipes/CHOOSING.md: and two beside other clients",
		"recipes/MIGRATING.md: two beside other clients", "CHANGELOG.md: two beside other clients", "ARCHITECTURE.md: two beside others",
	}},
	"recipes/locks.proofAge":       {int64(100 * time.Millisecond), []string{"recipes/locks/doc.go: a waiter relies on its node for 100 ms after a request that has shown it"}},
	"recipes/locks.holdDelay":      {int64(time.Millisecond), []string{"recipes/locks/doc.go: a holder watches its node only after 1 ms"}},
	"recipes/locks.releaseTimeout": {int64(10 * time.Second), []string{"recipes/PRODUCTION.md: A release takes ten seconds at most"}},
}

// TestDocumentsPromisesAreTheConstants: a constant with a row has the value that the documents name, and they still name it.
func TestDocumentsPromisesAreTheConstants(t *testing.T) {
	texts := make(map[string]string)
	for _, promise := range promises {
		for _, said := range promise.said {
			name, _, _ := strings.Cut(said, ": ")
			texts[name] = strings.Join(strings.Fields(strings.ReplaceAll(content(t, name), "\n//", "\n")), " ")
		}
	}
	t.Chdir(root)
	packs := must.Get(load(t.Context(), []string{"./framework", "./framework/internal/conduit", "./recipes/locks"}))(t)
	seen := 0
	for _, p := range packs {
		for _, name := range p.types.Scope().Names() {
			place := strings.TrimPrefix(p.name, modulePath+"/") + "." + name
			promise, promised := promises[place]
			if !promised {
				continue
			}
			seen++
			declared, isConstant := p.types.Scope().Lookup(name).(*types.Const)
			require.True(t, isConstant, place)
			value, exact := constant.Int64Val(declared.Val())
			require.True(t, exact, place)
			require.Equal(t, promise.value, value, "%s: change the row, and what it names: %q", place, promise.said)
			for _, said := range promise.said {
				name, words, _ := strings.Cut(said, ": ")
				require.Contains(t, texts[name], words, "%s is said to be %d in %s", place, value, name)
			}
		}
	}
	require.Len(t, promises, seen, "a row has no constant")
}

// TestDocumentsExitStatuses: the documentation of curatorctl lists the statuses that it has.
func TestDocumentsExitStatuses(t *testing.T) {
	text := content(t, "cmd/curatorctl/doc.go")
	_, list, found := strings.Cut(text, "\n// # Exit status\n//\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n//\n")
	listed := make(map[string]bool)
	for _, status := range regexp.MustCompile(`(?m)(?:^//\t|, )(\d+) `).FindAllStringSubmatch(list, -1) {
		listed[status[1]] = true
	}
	t.Chdir(filepath.Join(root, "cmd", "curatorctl"))
	packs := must.Get(load(t.Context(), []string{"."}))(t)
	declared := map[string]bool{}
	scope := packs[0].types.Scope()
	for _, name := range scope.Names() {
		if status, isConstant := scope.Lookup(name).(*types.Const); isConstant && regexp.MustCompile(`^exit[A-Z]`).MatchString(name) {
			value, _ := constant.Int64Val(status.Val())
			declared[strconv.FormatInt(value, 10)] = true
		}
	}
	require.Contains(t, text, "After another signal n the status is 128+n.")
	delete(declared, "128")
	require.Equal(t, declared, listed, path.Join("cmd", "curatorctl", "doc.go"))
}
