// SPDX-License-Identifier: Apache-2.0

package framework

import "context"

// RequireZooKeeper returns an error that matches [ErrUnsupported] if the server of the connection is not ZooKeeper, such as
// ClickHouse Keeper. It is for code that relies on what only ZooKeeper promises, such as the numbers of sequential
// znodes, or the Cversion of a parent. The server is asked by the four-letter word srvr on a separate connection, once
// per connection. One that does not answer within a sixth of the session timeout counts as ZooKeeper if it numbers
// sessions as ZooKeeper does.
func (f *Framework) RequireZooKeeper(ctx context.Context, opts ...CallOption) error {
	cfg, err := newCommon(opts)
	attempt := func(ctx context.Context) error {
		if err := f.awaitConnection(ctx, f.cfg.ConnectTimeout); err != nil {
			return err
		}
		return f.checked(ctx, f.conduit.CheckZooKeeper(ctx))
	}
	return f.run(ctx, opRequireZooKeeper, "", plan{common: cfg, attempt: attempt}, err)
}
