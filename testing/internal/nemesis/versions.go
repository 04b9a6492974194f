// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// withServers adds the version that the servers of a round have told.
func withServers(versions []string, round roundRecord) []string {
	version := "zookeeper " + round.ZooKeeper
	if round.ZooKeeper == "" || slices.Contains(versions, version) {
		return versions
	}
	return append(versions, version)
}

// versions returns the versions of what a campaign depends on, apart from the servers.
func versions() []string {
	all := []string{runtime.Version(), fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/go-zookeeper/zk" {
				all = append(all, module.Path+" "+module.Version)
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				all = append(all, "revision "+setting.Value)
			}
		}
	}
	// Neither is needed for anything else, so a machine that does not tell is no obstacle.
	for _, question := range [][]string{{"uname", "-sr"}, {"java", "--version"}} {
		if answer, err := exec.Command(question[0], question[1:]...).Output(); err == nil {
			line, _, _ := strings.Cut(string(answer), "\n")
			all = append(all, strings.ReplaceAll(line, "\t", " "))
		}
	}
	return all
}

// wallOffset is by how much the wall clock, in which servers write down the time of transactions,
// is ahead of the monotonic one.
func wallOffset() int64 { return time.Now().UnixNano() - monotonic() }
