// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/guarding"
)

// verbGuard ends the sessions of processes that are gone.
func verbGuard(fs *flag.FlagSet) action {
	socket := textFlag(fs, "socket", "`path` of the socket, in a folder that only its owner may enter and that is created if need be; "+
		"with a command, the default is a new path")
	return func(ctx context.Context, c *call) error {
		if *socket == "" && len(c.command) == 0 {
			return usage("guard: neither -socket nor a command, expected one of them")
		}
		path := cmp.Or(*socket, filepath.Join(os.TempDir(), "curatorctl-guard-"+strings.Repeat("0", 10), "socket"))
		if err := guarding.CheckPath(path); err != nil {
			return usage("guard: %s: %w", path, err)
		}
		opts, err := c.clientOptions()
		if err != nil {
			return err
		}
		if len(c.command) > 0 && c.reports == nil {
			return c.front(c.line)
		}
		if *socket == "" {
			folder, err := os.MkdirTemp("", "curatorctl-guard-")
			if err != nil {
				return err
			}
			defer func() { _ = os.Remove(folder) }() // the socket is gone, or another program has put something there
			path = filepath.Join(folder, "socket")
		}
		g := newSessionGuard(c, func(ctx context.Context, r guarding.Registration) error {
			return framework.EndSession(ctx, r.Servers, r.Session, r.Password(), opts...)
		})
		if err := g.listen(path); err != nil {
			return err
		}
		defer g.close()
		if len(c.command) == 0 {
			return g.untilSignal(ctx, c)
		}
		if err := findCommand(c.command[0]); err != nil {
			return err
		}
		return new(underLock).supervise(c, nil, guarding.Env+"="+path)
	}
}

// untilSignal serves until a signal ends it.
func (g *sessionGuard) untilSignal(ctx context.Context, c *call) error {
	if err := c.println("listening on " + g.path); err != nil {
		return err
	}
	ctx, stop := c.untilSignal(ctx, 0)
	defer stop()
	select {
	case err := <-g.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
