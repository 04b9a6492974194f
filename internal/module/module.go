// SPDX-License-Identifier: Apache-2.0

// Package module knows the version of this module.
package module

import "runtime/debug"

const path = "github.com/gocurator/curator"

// Version returns the version of this module that the program was built with, such as
// "v0.1.0", and "devel" where the build does not say.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return versionIn(info)
}

const unknown = "devel"

func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return unknown
}
