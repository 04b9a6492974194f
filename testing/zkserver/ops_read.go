// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"cmp"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

// readable finds a node for which the client has one of the permissions, in the client's view of the tree. It fails if
// the request, of which all has been read, is malformed.
func (x *call) readable(path string, perm int32) (*node, code) {
	if x.in.bad {
		return nil, codeMarshalling
	}
	n := x.s.view(x.c).lookup(path)
	if n == nil {
		return nil, codeNoNode
	}
	if !x.caller().allowed(n.acl, perm) {
		return nil, codeNoAuth
	}
	return n, codeOK
}

// pathAndWatch reads the request of exists, getData and getChildren.
func (x *call) pathAndWatch() (path string, watch bool) {
	return x.in.string(), x.in.bool()
}

// exists sets its watch on a missing node too: it waits for the creation.
func (x *call) exists() code {
	path, watch := x.pathAndWatch()
	if strings.IndexByte(path, 0) >= 0 {
		return codeBadArguments
	}
	n, err := x.readable(path, permRead)
	if err != codeOK && err != codeNoNode {
		return err
	}
	if watch {
		x.s.watchOnce(x.c, path, &x.s.watches.data)
	}
	return x.answerStat(n, err)
}

func (x *call) getData() code {
	path, watch := x.pathAndWatch()
	return x.readData(path, watch)
}

// readData writes a node's data and Stat.
func (x *call) readData(path string, watch bool) code {
	n, err := x.readable(path, permRead)
	if err != codeOK {
		return err
	}
	if watch {
		x.s.watchOnce(x.c, path, &x.s.watches.data)
	}
	x.out.buffer(n.data)
	x.out.stat(n)
	return codeOK
}

// getChildren serves both requests for children: the older one gets no Stat.
func (x *call) getChildren() code {
	path, watch := x.pathAndWatch()
	n, err := x.readChildren(path, watch)
	if err == codeOK && x.op == OpGetChildren2 {
		x.out.stat(n)
	}
	return err
}

// readChildren writes the names of a node's children.
func (x *call) readChildren(path string, watch bool) (*node, code) {
	n, err := x.readable(path, permRead)
	if err != codeOK {
		return nil, err
	}
	if watch {
		x.s.watchOnce(x.c, path, &x.s.watches.children)
	}
	x.out.strings(x.s.childrenOf(n))
	return n, codeOK
}

// childrenOf returns names in no order that a client may rely on. That of a server alone differs from call to call. That of an ensemble follows from the
// names and the last change, so a simulation is played again as it was.
func (s *Server) childrenOf(n *node) []string {
	names := slices.Collect(maps.Keys(n.children))
	if s.member != nil {
		sum := func(name string) uint32 { return crc32.Update(uint32(n.pzxid), crc32.IEEETable, []byte(name)) } //nolint:gosec // its lower half changes
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sum(a), sum(b)), strings.Compare(a, b)) })
	}
	return names
}

// getACL shows the hashes of passwords only to clients that may change the ACL.
func (x *call) getACL() code {
	n, err := x.readable(x.in.string(), permRead|permAdmin)
	if err != codeOK {
		return err
	}
	acl := n.acl
	if !x.caller().allowed(acl, permAdmin) {
		acl = hideDigests(acl)
	}
	x.out.acl(acl)
	x.out.stat(n)
	return codeOK
}

// getAllChildrenNumber counts the nodes below a path. The root is below the empty path, its other name, as in ZooKeeper.
func (x *call) getAllChildrenNumber() code {
	path := x.in.string()
	if _, err := x.readable(path, permRead); err != codeOK {
		return err
	}
	total, prefix := 0, path+"/"
	if path == rootPath {
		total, prefix = -1, path
	}
	for p := range x.s.view(x.c).nodes {
		if strings.HasPrefix(p, prefix) {
			total++
		}
	}
	x.out.int32(int32(total))
	return codeOK
}

// getEphemerals lists the client's own ephemeral nodes whose paths start with a prefix. Spaces around a prefix count,
// unless it is blank or the root.
func (x *call) getEphemerals() code {
	prefix, _ := x.in.text()
	if x.in.bad {
		return codeMarshalling
	}
	if blank := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' }); blank == "" || blank == rootPath { // Java's trim
		prefix = rootPath
	}
	paths := x.s.view(x.c).ephemeralsOf(x.c.session.id)
	x.out.strings(slices.DeleteFunc(paths, func(p string) bool { return !strings.HasPrefix(p, prefix) }))
	return codeOK
}

// whoAmI lists the client's identities, without the hashes of digests.
func (x *call) whoAmI() code {
	x.out.int32(int32(len(x.c.ids)))
	for _, id := range x.c.ids {
		user := id.id
		if id.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		x.out.string(id.scheme)
		x.out.string(user)
	}
	return codeOK
}

// sync has nothing to wait for on a single server. It returns the path, which need not exist and may be null.
func (x *call) sync() code {
	path := x.in.buffer()
	if x.in.bad {
		return codeMarshalling
	}
	x.out.buffer(path)
	return codeOK
}

func (x *call) ping() code {
	return codeOK
}
