// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
)

// verbVersion shows the version and the build of this program.
func verbVersion(_ context.Context, c *call) error {
	version, revision, toolchain := "unknown", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version, toolchain = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return c.say(map[string]string{"version": version, "revision": revision, "go": toolchain},
		strings.TrimSpace(fmt.Sprintf("curatorctl %s %s %s", version, revision, toolchain)))
}
