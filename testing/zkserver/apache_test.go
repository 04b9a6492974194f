// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

// startApache starts a standalone Apache ZooKeeper and returns its address. It is stopped with the test. Its settings are
// those of a server of ours, and what the options say.
func startApache(t *testing.T, opts ...ensemble.Option) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := ensemble.Start(ctx, append([]ensemble.Option{ensemble.WithContainerCheckInterval(time.Minute)}, opts...)...)
	require.NoError(t, err, "-short leaves this test out")
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	version := must.Get(e.Server(0).Version(ctx))(t)
	t.Logf("compared with ZooKeeper %v", version)
	return e.Server(0).Addr()
}

// ask sends a four-letter word.
func ask(addr, word string) (string, error) {
	nc, err := dialTCP(addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := nc.Write([]byte(word)); err != nil {
		return "", err
	}
	var answer bytes.Buffer
	_, err = answer.ReadFrom(nc)
	return answer.String(), err
}
