// SPDX-License-Identifier: Apache-2.0

package usercode_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/usercode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestApart(t *testing.T) {
	for name, test := range map[string]struct {
		fn   func()
		want any
	}{
		"returns": {func() {}, nil},
		"panics":  {func() { panic("mine") }, "mine"},
		"exits":   {runtime.Goexit, usercode.ErrExited},
	} {
		t.Run(name, func(t *testing.T) {
			p := usercode.Apart(test.fn)
			if test.want == nil {
				require.Nil(t, p)
				return
			}
			require.Equal(t, test.want, p.Value)
			require.Contains(t, p.Stack, "usercode")
		})
	}
}

// TestCallIsFollowedByDone on the goroutine of the function, and by the caller unless that has ended.
func TestCallIsFollowedByDone(t *testing.T) {
	var of *usercode.PanicError
	usercode.Call(func() { panic("mine") }, func(p *usercode.PanicError) { of = p })
	require.Equal(t, "mine", of.Value)
	ended, last := make(chan struct{}), any(nil)
	go func() {
		defer close(ended)
		usercode.Call(runtime.Goexit, func(p *usercode.PanicError) { last = p.Value })
		last = "it went on"
	}()
	<-ended
	require.Equal(t, usercode.ErrExited, last)
}
