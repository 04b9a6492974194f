// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
)

// verbVersion shows the version and the build of this program.
func verbVersion(*flag.FlagSet) func(context.Context, *call) error {
	return func(_ context.Context, c *call) error {
		version, revision, toolchain := "unknown", "", ""
		if info, ok := debug.ReadBuildInfo(); ok {
			version, toolchain = info.Main.Version, info.GoVersion
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					revision = s.Value
				}
			}
		}
		if c.output == "json" {
			return c.json(map[string]string{"version": version, "revision": revision, "go": toolchain})
		}
		return c.println(strings.TrimSpace(fmt.Sprintf("curatorctl %s %s %s", version, revision, toolchain)))
	}
}

// verbWhoAmI lists the identities that a server has for this command.
func verbWhoAmI(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		found, err := c.client.WhoAmI(ctx)
		if err != nil {
			return err
		}
		if c.output == "json" {
			list := []aclEntry{}
			for _, identity := range found {
				list = append(list, aclEntry{Scheme: identity.Scheme, ID: identity.ID})
			}
			return c.json(list)
		}
		return c.lines(identityTexts(found))
	}
}

// verbConfig writes the configuration of the ensemble.
func verbConfig(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		data, err := c.client.Config(ctx)
		if err != nil {
			return err
		}
		return c.writeConfig(data)
	}
}

// writeConfig writes a configuration as ZooKeeper has it, a line for each server.
func (c *call) writeConfig(data []byte) error {
	lines := slices.Collect(strings.Lines(strings.TrimSpace(string(data))))
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if c.output != "json" {
		return c.lines(lines)
	}
	said := struct {
		Servers []string `json:"servers"`
		Version string   `json:"version,omitempty"` // hexadecimal
	}{Servers: []string{}}
	for _, line := range lines {
		if version, found := strings.CutPrefix(line, "version="); found {
			said.Version = "0x" + version
		} else {
			said.Servers = append(said.Servers, line)
		}
	}
	return c.json(said)
}

// verbReconfig changes the servers of the ensemble.
func verbReconfig(fs *flag.FlagSet) func(context.Context, *call) error {
	var change framework.Reconfiguration
	add := func(to *[]string) func(string) error {
		return func(server string) error { *to = append(*to, server); return nil }
	}
	fs.Func("add", "`server` to add or change, such as 5=host:2888:3888:observer;2181; may be repeated", add(&change.Joining))
	fs.Func("remove", "`number` of a server to remove; may be repeated", add(&change.Leaving))
	fs.Func("version", "`version` in hexadecimal that the configuration must have, as config has it", func(text string) error {
		version, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64)
		if err != nil || version <= 0 {
			return errors.New("expected hexadecimal digits of a number above 0")
		}
		change.From = version
		return nil
	})
	yes := fs.Bool("yes", false, "do it")
	return func(ctx context.Context, c *call) error {
		switch {
		case len(change.Joining)+len(change.Leaving) == 0:
			return usage("reconfig: nothing to change, expected -add or -remove")
		case !*yes:
			return usage("reconfig: nothing was done: -yes is missing")
		}
		data, err := c.client.Reconfig(ctx, change)
		if err != nil {
			return err
		}
		return c.writeConfig(data)
	}
}
