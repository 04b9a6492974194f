// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
)

// reserved is ZooKeeper's own tree: readable, never written through this client. Below its
// quotas clients write, as ZooKeeper's own command does.
const (
	reserved = "/zookeeper"
	quotas   = "/zookeeper/quota/"
)

// ValidatePath returns nil for a path that a ZooKeeper server accepts. Otherwise the error
// matches [ErrInvalidPath] and names the fault and its place. The rules come from
// ZooKeeper's PathUtils. A path is "/", or begins with a slash and does not end with one.
// None of its names is empty, "." or "..". It has no control character, no private-use
// character and no character outside the Basic Multilingual Plane.
func ValidatePath(path string) error {
	if err := checkPath(path); err != nil {
		return &pathError{path, err.Error()}
	}
	return nil
}

func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("it is empty, a path begins with a slash")
	case path[0] != '/':
		return fmt.Errorf("it begins with %q, a path begins with a slash", path[0])
	case path == "/":
		return nil
	}
	return checkNames(path[1:], 1)
}

// checkNames checks what follows the first slash of a path. It counts bytes from offset.
func checkNames(names string, offset int) error {
	if strings.HasSuffix(names, "/") {
		return fmt.Errorf("it ends with a slash")
	}
	for name := range strings.SplitSeq(names, "/") {
		// There are no relative paths: ZooKeeper refuses these names.
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("the name %q at byte %d", name, offset)
		}
		if at, r := badRune(name); at >= 0 {
			return fmt.Errorf("the character %U at byte %d", r, offset+at)
		}
		offset += len(name) + 1
	}
	return nil
}

// badRune finds the first character that a server refuses. What is not UTF-8 reads as U+FFFD, which is refused.
func badRune(name string) (at int, r rune) {
	for i, r := range name {
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return i, r
		}
	}
	return -1, 0
}

// JoinPath returns the path of name below parent, with further names below it. It changes
// and checks nothing: see [ValidatePath].
func JoinPath(parent, name string, more ...string) string {
	path := parent + "/" + name
	if parent == "/" {
		path = parent + name
	}
	for _, name := range more {
		path += "/" + name
	}
	return path
}

// PathNames returns the names in a path, from the top; none for the root. It is Curator's
// ZKPaths.split.
func PathNames(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "/"), "/")
}

// SplitPath returns the parent of a path and its last name. The parent is "/" for a
// top-level znode, for the root, and for a string without a slash.
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// chroot is the prefix that a connection string puts before every path, "" for
// none.
type chroot string

// full returns the path at the server.
func (c chroot) full(path string) string {
	if c == "" {
		return path
	}
	if path == "/" {
		return string(c)
	}
	return string(c) + path
}

// below returns the path at the server of a znode that will be created. Unlike full it
// keeps the slash at the end of a sequential znode's path.
func (c chroot) below(path string) string { return string(c) + path }

// own returns the path as the user of the client names it.
func (c chroot) own(path string) string {
	rest, ok := strings.CutPrefix(path, string(c))
	if !ok || rest != "" && rest[0] != '/' {
		return path // not below the chroot: /appendix is not below /app
	}
	if rest == "" {
		return "/"
	}
	return rest
}

// writable checks a path for a change and returns the server's path.
func (c chroot) writable(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	full := c.full(path)
	if isReserved(full) {
		return "", &pathError{path, reserved + " is ZooKeeper's own"}
	}
	return full, nil
}

func isReserved(full string) bool {
	return full == reserved || strings.HasPrefix(full, reserved+"/") && !strings.HasPrefix(full, quotas)
}

// isBelow reports whether a path equals ancestor or is below it.
func isBelow(path, ancestor string) bool {
	return ancestor == "/" || path == ancestor ||
		len(path) > len(ancestor) && path[:len(ancestor)] == ancestor && path[len(ancestor)] == '/'
}
