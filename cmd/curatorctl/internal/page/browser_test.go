// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// "make test-long" runs the browser: it is 220 MB, and slow beside other tests.
var (
	browserProgram = flag.String("browser", "", "show the page in this `program`, a headless Chromium")
	picture        = flag.String("picture", "", "write a picture of the page into this `file`")
	pictures       = flag.String("pictures", "", "write pictures of all sizes into this `folder`")
)

// browser is a tab of a headless Chromium, which is driven over a pipe by the DevTools protocol.
type browser struct {
	t       *testing.T
	control *os.File
	session string
	loaded  chan struct{}

	mu       sync.Mutex
	last     int
	answers  map[int]chan json.RawMessage
	requests []string // URLs that were asked for
	dialogs  []string // that scripts have opened
	failures []string // of scripts, and what the content security policy has refused
}

// message is what the protocol sends in both directions.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// startBrowser returns a tab that shows nothing yet. The browser ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	theirs, control, err := os.Pipe()
	require.NoError(t, err)
	output, theirOutput, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(*browserProgram, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", //nolint:gosec // the flag says which
		"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--window-size=1100,620", "about:blank")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.ExtraFiles = []*os.File{theirs, theirOutput}
	require.NoError(t, cmd.Start(), "the browser comes in the Debian package chromium-headless-shell")
	require.NoError(t, theirs.Close())
	require.NoError(t, theirOutput.Close())
	b := &browser{t: t, control: control, loaded: make(chan struct{}, 100), answers: make(map[int]chan json.RawMessage)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.receive(output)
	}()
	t.Cleanup(func() {
		assert.NoError(t, control.Close()) // which ends the browser
		<-read
		_ = cmd.Wait() // its status is of no interest
		assert.NoError(t, output.Close())
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// receive reads messages. A zero byte ends each message.
func (b *browser) receive(output *os.File) {
	decoder := json.NewDecoder(zeroIsSpace{output})
	for {
		var m struct {
			message
			Params struct {
				Request          struct{ URL string }
				Message          string
				ExceptionDetails json.RawMessage
				Entry            struct{ Text, Level string }
			} `json:"params"`
		}
		if err := decoder.Decode(&m); err != nil {
			b.mu.Lock()
			for _, answer := range b.answers {
				close(answer)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if m.Error != nil {
				m.Result = m.Error
				b.failures = append(b.failures, string(m.Error))
			}
			b.answers[m.ID] <- m.Result
			delete(b.answers, m.ID)
		case m.Method == "Page.loadEventFired":
			b.loaded <- struct{}{}
		case m.Method == "Network.requestWillBeSent":
			b.requests = append(b.requests, m.Params.Request.URL)
		case m.Method == "Page.javascriptDialogOpening":
			b.dialogs = append(b.dialogs, m.Params.Message)
		case m.Method == "Runtime.exceptionThrown":
			b.failures = append(b.failures, string(m.Params.ExceptionDetails))
		case m.Method == "Log.entryAdded" && m.Params.Entry.Level == "error":
			b.failures = append(b.failures, m.Params.Entry.Text)
		}
		b.mu.Unlock()
	}
}

// zeroIsSpace is a reader for which zero bytes are white space, as the JSON decoder needs it.
type zeroIsSpace struct{ file *os.File }

func (z zeroIsSpace) Read(p []byte) (int, error) {
	n, err := z.file.Read(p)
	for i := range p[:n] {
		if p[i] == 0 {
			p[i] = ' '
		}
	}
	return n, err
}

// call sends a command and reads its result.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	answer := make(chan json.RawMessage, 1)
	b.mu.Lock()
	require.NotNil(b.t, b.answers, "the browser has ended")
	b.last++
	m := message{ID: b.last, SessionID: b.session, Method: method, Params: params}
	b.answers[m.ID] = answer
	b.mu.Unlock()
	text := must.Get(json.Marshal(m))(b.t)
	must.Get(b.control.Write(append(text, 0)))(b.t)
	result := zktest.Await(b.t, answer, "the answer to "+method)
	require.NotNil(b.t, result, "the browser has ended")
	if into != nil {
		require.NoError(b.t, json.Unmarshal(result, into), string(result))
	}
}

// evaluate returns the value of an expression, which may be a promise.
func (b *browser) evaluate(expression string) any {
	b.t.Helper()
	var result struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &result)
	require.Nil(b.t, result.ExceptionDetails, string(result.ExceptionDetails))
	return result.Result.Value
}

// awaitText waits until the page shows the text.
func (b *browser) awaitText(text string) {
	b.t.Helper()
	require.Equal(b.t, true, b.evaluate(`new Promise(done => {
		const look = () => { if (document.body?.innerText.includes(`+strconv.Quote(text)+`)) { done(true); } };
		new MutationObserver(look).observe(document, {childList: true, subtree: true, characterData: true});
		look();
	})`))
}

// navigate shows a page and waits until it is loaded.
func (b *browser) navigate(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for loaded := false; !loaded; { // what was shown before may have an event left
		zktest.Await(b.t, b.loaded, "the page")
		loaded = b.evaluate("location.href") == url
	}
}

func (b *browser) seen() (requests, dialogs, failures []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...), append([]string(nil), b.dialogs...), append([]string(nil), b.failures...)
}

// TestBrowserShowsThePage: the page is drawn, follows changes without being loaded again, takes names
// of locks for text, asks no other host for anything, and is read with scripts off.
func TestBrowserShowsThePage(t *testing.T) {
	if *browserProgram == "" {
		t.Skip("without -browser: make test-long gives it")
	}
	const evil = `<script>alert(1)</script>`
	server := zktest.NewServer(t)
	client, other, third := zktest.Client(t, server), zktest.Client(t, server), zktest.Client(t, server)
	hold(t, client, "/locks/report", locks.WithLabel("nightly-report"))
	hold(t, client, "/locks/"+strings.ReplaceAll(evil, "/", "")+`" onmouseover="alert(2)`, locks.WithLabel(`<img src=x onerror=alert(3)>`))
	lost := must.Get(locks.NewInterProcessMutex(third, "/locks/invoices"))(t)
	lease := must.Get(lost.Acquire(t.Context()))(t)
	zktest.KillSession(t, third)
	zktest.Await(t, lease.Done(), "the loss")
	require.Error(t, lease.Release(context.Background()))

	loads := make(chan string, 1000)
	handler := page.Handler(client, "/")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/html") { // a page, and not what its script loads
			loads <- r.URL.String()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(site.Close)
	b := startBrowser(t)
	t.Cleanup(site.CloseClientConnections) // first: its stream has no end
	b.navigate(site.URL + "/debug/locks")
	b.awaitText("nightly-report (")
	b.awaitText(`/locks/<script>alert(1)<script>" onmouseover="alert(2)`)
	b.awaitText(`<img src=x onerror=alert(3)> (`)
	b.awaitText("Lost by this process")
	require.Equal(t, "/debug/locks", zktest.Await(t, loads, "the page"))

	b.evaluate("window.mark = 1")
	hold(t, other, "/locks/second", locks.WithLabel("came later"))
	mutex := must.Get(locks.NewInterProcessMutex(other, "/locks/report", locks.WithLabel("standby")))(t)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	waited := make(chan error, 1)
	go func() {
		_, err := mutex.Acquire(ctx)
		waited <- err
	}()
	b.awaitText("/locks/second")
	b.awaitText("standby (")
	require.EqualValues(t, 1, b.evaluate("window.mark"), "the page was not loaded again")
	b.evaluate(`document.querySelector("main").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}))`)
	require.EqualValues(t, 0, b.evaluate(`document.querySelectorAll("main script, main img, main [onmouseover]").length`))
	b.shoot()

	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.navigate(site.URL + "/debug/locks?lock=/locks/report")
	zktest.Await(t, b.loaded, "the page, which loads itself again")
	for range 2 {
		require.Equal(t, "/debug/locks?lock=/locks/report", zktest.Await(t, loads, "the page without scripts"))
	}
	b.awaitText("nightly-report (")
	b.awaitText("standby (")

	requests, dialogs, failures := b.seen()
	require.Empty(t, dialogs, "a name of a lock was run as a script")
	require.Empty(t, failures)
	require.NotEmpty(t, requests)
	for _, url := range requests {
		require.True(t, strings.HasPrefix(url, site.URL+"/"), "%q of %q", url, requests)
	}
	giveUp()
	require.Error(t, zktest.Await(t, waited, "the waiter's end"))
}

// shoot takes a picture and checks that something is on it.
func (b *browser) shoot() {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data := must.Get(base64.StdEncoding.DecodeString(shot.Data))(b.t)
	drawn := must.Get(png.Decode(bytes.NewReader(data)))(b.t)
	colors := make(map[color.Color]bool)
	for y := range drawn.Bounds().Dy() {
		for x := range drawn.Bounds().Dx() {
			colors[drawn.At(x, y)] = true
		}
	}
	require.Greater(b.t, len(colors), 20, "text, bars and lines have more colours")
	b.t.Logf("a picture of %v with %d colours, %d bytes", drawn.Bounds().Size(), len(colors), len(data))
	if *picture != "" {
		require.NoError(b.t, os.WriteFile(*picture, data, 0o600))
	}
}
