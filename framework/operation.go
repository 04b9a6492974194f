// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/retry"
)

// operation is one of the protocol's requests.
type operation struct {
	code  int32
	name  string // as an OpError shows it
	write bool
}

var (
	opCreate          = operation{wire.OpCreate2, "create", true}
	opCreateContainer = operation{wire.OpCreateContainer, "create", true}
	opCreateTTL       = operation{wire.OpCreateTTL, "create", true}
	opDelete          = operation{wire.OpDelete, "delete", true}
	opExists          = operation{wire.OpExists, "exists", false}
	opGet             = operation{wire.OpGetData, "get", false}
	opSet             = operation{wire.OpSetData, "set", true}
	opSync            = operation{wire.OpSync, "sync", false}
	opChildren        = operation{wire.OpGetChildren2, "children", false}
	opCheck           = operation{wire.OpCheck, "check", false}
	opTransact        = operation{wire.OpMulti, "transact", true}
	opSetWatches      = operation{wire.OpSetWatches, "watch data", false}
	opAddWatch        = operation{wire.OpAddWatch, "add watch", false}

	opGetACL            = operation{wire.OpGetACL, "get ACL", false}
	opSetACL            = operation{wire.OpSetACL, "set ACL", true}
	opReconfig          = operation{wire.OpReconfig, "reconfig", true}
	opEphemerals        = operation{wire.OpGetEphemerals, "ephemerals", false}
	opAllChildrenNumber = operation{wire.OpGetAllChildrenNumber, "all children number", false}
	opWhoAmI            = operation{wire.OpWhoAmI, "identities", false}
)

// opPipeline is not a request: several reads in one write are measured under its name.
var opPipeline = operation{name: "pipeline"}

// opRequireZooKeeper is not a request of a session.
var opRequireZooKeeper = operation{name: "require ZooKeeper"}

// common is what the options of all verbs set.
type common struct {
	given   optionSet
	retry   retry.Policy // nil for the policy of the surrounding Retry, or the client's
	session *Session     // the only one to run in, nil for any
	history int64        // the only one to run in, 0 for any
}

// optionSet is a set of options: the options of a call, or the options that it accepts.
type optionSet uint32

const (
	withRetry optionSet = 1 << iota
	inSession
	inHistory
	withVersion
	storingStatIn
	storingAbsenceIn
	watched
	withReplyLimit
	decompressed
	undecompressed
	compressed
	uncompressed
	creatingParents
	creatingParentContainers
	idempotent
	withMode
	withTTL
	withACL
	applyingACLToParents
	withProtection
	orSetData
	listingSiblingsIn
	guaranteed
	inBackground
	deletingChildren
	quietly
)

// optionNames are the names of the options, in the order of the constants.
var optionNames = [...]string{
	"WithRetry", "InSession", "InHistory", "WithVersion", "StoringStatIn", "StoringAbsenceIn", "Watched", "WithReplyLimit",
	"Decompressed", "Undecompressed", "Compressed", "Uncompressed",
	"CreatingParentsIfNeeded", "CreatingParentContainersIfNeeded", "Idempotent",
	"WithMode", "WithTTL", "WithACL", "ApplyingACLToParents", "WithProtection", "OrSetData", "ListingSiblingsIn",
	"Guaranteed", "InBackground", "DeletingChildrenIfNeeded", "Quietly",
}

// anyOption is of calls that take all options that compile.
const anyOption = ^optionSet(0)

// ofEveryCall are the options that belong to the whole call, not to one request of several.
const ofEveryCall = withRetry | inSession | inHistory

// String lists the names.
func (s optionSet) String() string {
	var names []string
	for i, name := range optionNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// has reports whether the call was given one of these options.
func (c *common) has(options optionSet) bool { return c.given&options != 0 }

// only refuses the options that a call does not take.
func (s optionSet) only(takes optionSet, call string) error {
	if other := s &^ takes; other != 0 {
		return fmt.Errorf("%w: %v at %s, which takes %v", ErrInvalidOption, other, call, takes)
	}
	return nil
}

// chooses reports what the options say of two opposites, or the default if they say nothing.
func (s optionSet) chooses(on, off optionSet, byDefault bool) bool {
	return s&on != 0 || byDefault && s&off == 0
}
