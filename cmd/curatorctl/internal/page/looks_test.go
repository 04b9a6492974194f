// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// measure is a function in JavaScript that measures what is shown.
//
//go:embed testdata/measure.js
var measure string

// measured is what measure returns.
type measured struct {
	Sideways   []string // what is wider than the window
	Faint      []string // text and edges with too little contrast
	Texts      int      // that were compared
	Focusables int
	Nameless   []string // controls without a label
	Tiny       []string // text below 12 pixels
}

// shows is one state of the page in which it must be usable.
type shows struct {
	name, query string
	text        string // that it has
	gone        bool   // the server is gone
}

// TestBrowserOfAnySize: nothing is wider than the screen, all text has the contrast of WCAG's level AA, and the
// keyboard reaches everything. The page is shown narrow and wide, in light and in dark, with few and many locks, and
// in an outage.
func TestBrowserOfAnySize(t *testing.T) {
	if *browserProgram == "" {
		t.Skip("without -browser: make test-long gives it")
	}
	for _, n := range []int{0, 3, 300, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			states := []shows{{name: "list", text: "Read at"}}
			if n > 0 {
				populate(t, server, n)
				states = append(states, shows{name: "lock", query: "?lock=" + url.QueryEscape("/locks/busy"), text: "Contenders"})
			}
			if n == 3 {
				states = append(states, shows{name: "figures", text: "Contention from"})
			}
			if n == 300 {
				states = append(states, shows{name: "filtered", query: "?q=nothing", text: "No lock has this text"},
					shows{name: "missing", query: "?lock=/missing", text: "Nothing to show"})
			}
			states = append(states, shows{name: "outage", text: "Out of date", gone: true})
			site := httptest.NewServer(page.Handler(client, "/"))
			t.Cleanup(site.Close)
			b := startBrowser(t)
			t.Cleanup(site.CloseClientConnections)
			for _, s := range states {
				if s.gone {
					require.NoError(t, server.Stop())
					zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
				}
				b.checkLooks(site.URL+"/"+s.query, s.text, fmt.Sprintf("%d-%s", n, s.name))
			}
		})
	}
}

// populate creates locks with one holder, and one lock with a queue.
func populate(t *testing.T, server *zkserver.Server, n int) {
	t.Helper()
	client := zktest.Client(t, server)
	var ops []framework.Op
	for i := range n - 1 {
		path := fmt.Sprintf("/locks/%s/%05d/_c_%08x-5bf2-4c4b-8f0e-3c9a5d1f7b21-lock-%010d", []string{"orders", "invoices", "reports"}[i%3], i, i, i)
		ops = append(ops, framework.CreateOp(path, fmt.Appendf(nil, "worker-%d.internal.example/%d nightly %d", i%40, 1000+i, i),
			framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))
	}
	must.Get(client.Bulk(t.Context(), ops))(t)
	for i := range 6 {
		data := fmt.Appendf(nil, "worker-%d.internal.example/%d settlement", i, 1000+i)
		must.Get(client.Create(t.Context(), "/locks/busy/lock-", data, framework.WithMode(framework.EphemeralSequential),
			framework.WithProtection(), framework.CreatingParentsIfNeeded()))(t)
	}
	for _, path := range []string{"/services/payments/0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd30", "/jobs/queue/queue-0000000001"} {
		must.Get(client.Create(t.Context(), path, []byte("{}"), framework.CreatingParentsIfNeeded()))(t)
	}
}

// checkLooks shows a page on three sizes of screen in two schemes of colours.
func (b *browser) checkLooks(address, text, name string) {
	b.t.Helper()
	for _, width := range []int{400, 800, 1280} {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{
			"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == 400,
		}, nil)
		for _, scheme := range []string{"light", "dark"} {
			b.call("Emulation.setEmulatedMedia", map[string]any{
				"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
			}, nil)
			at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			b.navigate(address)
			b.awaitText(text)
			if *pictures != "" {
				b.writePicture(filepath.Join(*pictures, at+".png"))
			}
			result := must.Get(json.Marshal(b.evaluate("(" + measure + ")()")))(b.t)
			var m measured
			require.NoError(b.t, json.Unmarshal(result, &m))
			assert.Empty(b.t, m.Sideways, at)
			assert.Empty(b.t, m.Faint, at)
			assert.Empty(b.t, m.Nameless, at)
			assert.Empty(b.t, m.Tiny, at)
			assert.Greater(b.t, m.Texts, 3, at)
			b.checkKeyboard(at, m.Focusables)
			b.checkRoles(at)
		}
	}
}

// checkKeyboard presses the tabulator until it has been everywhere. What has the focus is seen, and is seen to have it.
func (b *browser) checkKeyboard(at string, focusables int) {
	b.t.Helper()
	b.evaluate(`document.activeElement.blur(); window.getSelection().removeAllRanges(); scrollTo(0, 0)`)
	reached := make(map[string]bool)
	for range min(focusables, 150) + 2 { // a list has a hundred locks
		b.key("Tab")
		where, _ := b.evaluate(`(() => {
			const at = document.activeElement;
			if (at === document.body) { return ""; }
			const box = at.getBoundingClientRect(), style = getComputedStyle(at);
			const isSeen = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
			const isMarked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
			return (isSeen && isMarked ? "" : "not seen: ") + at.tagName + " " + (at.id || at.getAttribute("href") || at.textContent);
		})()`).(string)
		require.NotContains(b.t, where, "not seen", at)
		if where != "" {
			reached[where] = true
		}
	}
	require.GreaterOrEqual(b.t, len(reached), min(focusables, 150), "%s: %v", at, reached)
}

func (b *browser) key(name string) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": 9}, nil)
	}
}

// checkRoles reads what a screen reader is told.
func (b *browser) checkRoles(at string) {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	count := make(map[string]int)
	for _, n := range tree.Nodes {
		role, _ := n.Role.Value.(string)
		if n.Ignored {
			continue
		}
		count[role]++
		name, _ := n.Name.Value.(string)
		switch role {
		case "link", "button", "searchbox", "textbox", "combobox", "heading", "image", "img", "navigation", "RootWebArea":
			assert.NotEmpty(b.t, strings.TrimSpace(name), "%s: %s", at, role)
		}
	}
	assert.Equal(b.t, 1, count["main"], at)
	assert.Equal(b.t, 1, count["banner"], at)
	assert.Equal(b.t, 1, count["status"], at)
	assert.Positive(b.t, count["heading"], at)
	if count["table"] > 0 {
		assert.Positive(b.t, count["row"], at)
		assert.Positive(b.t, count["cell"], "%s: %v", at, count)
	}
	require.EqualValues(b.t, 1, b.evaluate(`document.querySelectorAll("h1").length`), at)
	require.Equal(b.t, true, b.evaluate(`!document.querySelector("main table") || document.querySelectorAll("main [role=table]").length > 0`), at)
}

// writePicture writes what the window shows.
func (b *browser) writePicture(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	require.NoError(b.t, os.WriteFile(file, must.Get(base64.StdEncoding.DecodeString(shot.Data))(b.t), 0o600))
}
