// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// serverVersion is a ZooKeeper version: major, minor, patch.
type serverVersion [3]int

// The versions that introduced requests. since34 stands for all earlier ones, too.
var (
	since34 = serverVersion{3, 4, 0}
	since35 = serverVersion{3, 5, 0}
	since36 = serverVersion{3, 6, 0}
	since37 = serverVersion{3, 7, 0}
)

func parseVersion(s string) (serverVersion, error) {
	var v serverVersion
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, fmt.Errorf("version %q: three numbers expected, such as 3.8.0", s)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, fmt.Errorf("version %q: three numbers expected, such as 3.8.0", s)
		}
		v[i] = n
	}
	return v, nil
}

func (v serverVersion) String() string {
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

func (v serverVersion) atLeast(other serverVersion) bool {
	return slices.Compare(v[:], other[:]) >= 0
}
