// SPDX-License-Identifier: Apache-2.0

package zkserver

import "strings"

const (
	rootPath   = "/"
	procPath   = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

// splitPath cuts a path at its last slash. The parent of a child of the root is the root; ok is false without a slash.
func splitPath(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return canonical(path[:i]), path[i+1:], true
}

// canonical names the root "/", which ZooKeeper also knows as "".
func canonical(path string) string {
	if path == "" {
		return rootPath
	}
	return path
}

// reserved reports whether a node can never be deleted.
func reserved(path string) bool {
	switch path {
	case "", rootPath, procPath, quotaPath, configPath:
		return true
	}
	return false
}

// validPath applies the rules of ZooKeeper's PathUtils.validatePath.
func validPath(path string) bool {
	if path == rootPath {
		return true
	}
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, forbidden) {
			return false
		}
	}
	return true
}

// forbidden reports whether ZooKeeper refuses a character in a path: control characters, the private use area, the
// specials, and everything outside the basic plane, which Java sees as surrogates.
func forbidden(r rune) bool {
	switch {
	case r <= 0x1f, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
		return true
	}
	return false
}
