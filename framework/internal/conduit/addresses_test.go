// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// byAddress makes a name of several addresses, and peers whose address is the one that
// was dialled.
func byAddress(n *network, addresses ...string) func(*conduit.Config) {
	return func(cfg *conduit.Config) {
		cfg.Lookup = func(context.Context, string) ([]string, error) { return addresses, nil }
		cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return n.dial(ctx, network, conduit.Address(ctx))
		}
	}
}

// TestAddressesSlowLookupLeavesTimeToConnect: the share of one address is shorter than the lookup was.
func TestAddressesSlowLookupLeavesTimeToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		left := make(chan time.Duration, 10)
		open(t, n, byAddress(n, "10.0.0.1", "10.0.0.2", "10.0.0.3"), func(cfg *conduit.Config) {
			lookup, dial := cfg.Lookup, cfg.Dial
			cfg.Lookup = func(ctx context.Context, host string) ([]string, error) {
				time.Sleep(6 * time.Second)
				return lookup(ctx, host)
			}
			cfg.Dial = func(ctx context.Context, network, server string) (net.Conn, error) {
				by, _ := ctx.Deadline()
				left <- time.Until(by)
				return dial(ctx, network, server)
			}
		})
		require.Equal(t, 5*time.Second, <-left)
		(<-n.peers).accept(0x51, sessionTimeout)
	})
}
