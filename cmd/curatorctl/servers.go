// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
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
