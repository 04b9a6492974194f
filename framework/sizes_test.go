// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// TestSizesWarnBeforeTheLimit: the metrics, the health and the log say that a znode and a folder are near what a server takes. Once in
// ten minutes the log names one of them.
func TestSizesWarnBeforeTheLimit(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		var logged []string
		log := slog.New(handlerFunc(func(r slog.Record) {
			text := r.Level.String() + " " + r.Message
			r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
			if strings.Contains(text, "near the limit") {
				logged = append(logged, text)
			}
		}))
		o := newObserved()
		f := n.client(t, o.options(framework.WithMaxRequestSize(4000), framework.WithLogger(log))...)
		value := func(series string) float64 { return o.values(t)["curator.client."+series] }
		health := func() string {
			text := must.Get(json.Marshal(f.Health()))(t)
			return string(text)
		}
		require.Contains(t, o.values(t), "curator.client.size.warnings{curator.operation=children}", "it begins at zero")
		mustCreate(t, f, "/large")
		mustCreate(t, f, "/folder")
		answers := value("response.size{curator.operation=get}")
		require.NoError(t, f.Set(t.Context(), "/large", make([]byte, 2900)))
		must.Get(f.Get(t.Context(), "/large"))(t)
		require.InDelta(t, answers+1, value("response.size{curator.operation=get}"), 0)
		require.InDelta(t, 1, value("request.size{curator.operation=set}"), 0)
		require.Zero(t, f.Health().Sizes.Warnings)
		require.NotContains(t, health(), "izeWarnings")

		require.NoError(t, f.Set(t.Context(), "/large", make([]byte, 3000)))
		require.InDelta(t, 1, value("size.warnings{curator.operation=set}"), 0)
		must.Get(f.Get(t.Context(), "/large"))(t)
		require.InDelta(t, 1, value("size.warnings{curator.operation=get}"), 0)
		require.Equal(t, int64(2), f.Health().Sizes.Warnings)
		require.Contains(t, health(), `"sizeWarnings":2,"largestRequest":3026,"largestReply":3088`)
		synctest.Wait() // the log has a goroutine of its own
		require.Len(t, logged, 1)
		require.Regexp(t, `^WARN a request or a reply is near the limit: .* curator.path=/large curator.operation=set request=3026 reply=\d+ limit=4000$`, logged[0])

		var ops []framework.Op
		for i := range 40 {
			ops = append(ops, framework.CreateOp(fmt.Sprintf("/folder/%03d", i), nil))
		}
		must.Get(f.Transact(t.Context(), ops[:30]...))(t)
		must.Get(f.Bulk(t.Context(), ops[30:]))(t)
		for i := range 40 {
			ops[i] = framework.CreateOp(fmt.Sprintf("/folder/%03d%s", i, strings.Repeat("n", 70)), nil)
		}
		must.Get(f.Bulk(t.Context(), ops))(t)
		time.Sleep(10 * time.Minute)
		must.Get(f.Children(t.Context(), "/folder"))(t)
		require.InDelta(t, 1, value("size.warnings{curator.operation=children}"), 0)
		require.InDelta(t, 1, value("children{}"), 0)
		require.InDelta(t, 1, value("transaction.operations{}"), 0)
		sizes := f.Health().Sizes
		require.Equal(t, 80, sizes.Children)
		require.Equal(t, 30, sizes.Transaction)
		require.Equal(t, 4000, sizes.Limit)
		synctest.Wait()
		require.Len(t, logged, 2)
		require.Contains(t, logged[1], "curator.path=/folder curator.operation=children")
	})
}
