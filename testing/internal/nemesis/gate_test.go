// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// What is logged while the gate is blocked waits, whatever the logger was derived with, and nothing is lost.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g := newGate(slog.NewTextHandler(&out, nil))
		log := slog.New(g)
		log.Info("before")
		g.block()
		g.block()
		logged := make(chan struct{})
		go func() {
			log.With("client", "c1").WithGroup("x").Info("meanwhile")
			close(logged)
		}()
		synctest.Wait()
		select {
		case <-logged:
			require.Fail(t, "the gate was not blocked")
		default:
		}
		require.NotContains(t, out.String(), "meanwhile")
		g.unblock()
		g.unblock()
		<-logged
		require.Contains(t, out.String(), "msg=meanwhile client=c1")
	})
}
