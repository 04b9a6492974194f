// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a version of ZooKeeper: major, minor and patch.
type Version [3]int

// parseVersion reads a version as servers report it: 3.8.0, 3.10.0-SNAPSHOT, or 3.5.10-1 with a revision behind it. What
// follows the three numbers is ignored.
func parseVersion(text string) (Version, error) {
	var v Version
	numbers, _, _ := strings.Cut(text, "-")
	parts := strings.Split(numbers, ".")
	if len(parts) != len(v) {
		return Version{}, fmt.Errorf("ensemble: version %q, expected three numbers such as 3.8.0", text)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return Version{}, fmt.Errorf("ensemble: version %q, expected three numbers such as 3.8.0", text)
		}
		v[i] = n
	}
	return v, nil
}

// String returns the version in the form 3.8.0.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// AtLeast reports whether v is other or later.
func (v Version) AtLeast(other Version) bool { return slices.Compare(v[:], other[:]) >= 0 }

// Has reports whether servers of this version have the feature.
func (v Version) Has(f Feature) bool { return v.AtLeast(f.Since) }

// Feature is something that only later servers have, or that only ZooKeeper has. The features below are all the differences
// between servers that tests of this module know of.
type Feature struct {
	Name  string
	Since Version
}

// String describes the feature, for messages.
func (f Feature) String() string { return fmt.Sprintf("%s (ZooKeeper %v)", f.Name, f.Since) }

// The features.
var (
	PersistentWatches = Feature{"persistent watches", Version{3, 6, 0}}
	GetEphemerals     = Feature{"the list of a session's ephemeral nodes", Version{3, 6, 0}}
	Containers        = Feature{"container nodes", Version{3, 5, 0}}
	TTLNodes          = Feature{"nodes with a time to live", Version{3, 5, 0}}

	// ResumedSessions are sessions that go on at the next connection.
	ResumedSessions = Feature{"sessions that outlive a connection", Version{3, 4, 0}}

	// CreationNumbers show in a Stat how many children of a node were created, and in Pzxid when one was deleted.
	CreationNumbers = Feature{"the numbers of creations and deletions in a Stat", Version{3, 4, 0}}
)

// Version asks the server for its version, with the four letter word srvr. A server that is not serving is [ErrNotServing].
func (s *Server) Version(ctx context.Context) (Version, error) {
	answer, err := s.askServing(ctx, "srvr")
	if err != nil {
		return Version{}, err
	}
	return VersionIn(answer)
}

// VersionIn finds the version in a server's answer to the four letter word srvr.
func VersionIn(srvr string) (Version, error) {
	text, found := lineOf(srvr, "Zookeeper version: ")
	if !found {
		return Version{}, fmt.Errorf("ensemble: no version in the answer to srvr: %q", srvr)
	}
	version, _, _ := strings.Cut(text, ",")
	return parseVersion(version)
}
