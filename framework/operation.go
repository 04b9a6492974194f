// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/retry"
)

// operation is one of the protocol's requests.
type operation struct {
	code  int32
	write bool
	*measure
}

// measure is what operations are measured under.
type measure struct {
	name string // as an OpError shows it
	span string // "{verb} {object}"
}

// measures are all of them, for counters that begin at 0.
var measures []*measure

func measured(name, span string) *measure {
	m := &measure{name, span}
	measures = append(measures, m)
	return m
}

var (
	opCreate          = operation{wire.OpCreate2, true, measured("create", "create znode")}
	opCreateContainer = operation{wire.OpCreateContainer, true, opCreate.measure}
	opCreateTTL       = operation{wire.OpCreateTTL, true, opCreate.measure}
	opDelete          = operation{wire.OpDelete, true, measured("delete", "delete znode")}
	opExists          = operation{wire.OpExists, false, measured("exists", "check existence")}
	opGet             = operation{wire.OpGetData, false, measured("get", "get data")}
	opSet             = operation{wire.OpSetData, true, measured("set", "set data")}
	opSync            = operation{wire.OpSync, false, measured("sync", "sync znode")}
	opChildren        = operation{wire.OpGetChildren2, false, measured("children", "list children")}
	opCheck           = operation{wire.OpCheck, false, &measure{name: "check"}} // in transactions only
	opTransact        = operation{wire.OpMulti, true, measured("transact", "transact operations")}
	opAddWatch        = operation{wire.OpAddWatch, false, measured("add watch", "add watch")}

	opGetACL     = operation{wire.OpGetACL, false, measured("get ACL", "get access control list")}
	opSetACL     = operation{wire.OpSetACL, true, measured("set ACL", "set access control list")}
	opReconfig   = operation{wire.OpReconfig, true, measured("reconfig", "reconfigure ensemble")}
	opEphemerals = operation{wire.OpGetEphemerals, false, measured("ephemerals", "list ephemerals")}
	opWhoAmI     = operation{wire.OpWhoAmI, false, measured("identities", "list identities")}

	// opPipeline is not a request: several reads in one write are measured under its name.
	opPipeline = operation{measure: measured("pipeline", "pipeline reads")}

	// opRequireZooKeeper is not a request of a session.
	opRequireZooKeeper = operation{measure: measured("require ZooKeeper", "ask for the version")}
)

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

// failed makes sure that an error of a verb is an OpError.
func failed(op operation, path string, err error) error {
	var have *OpError
	if err == nil || errors.As(err, &have) {
		return err
	}
	return &OpError{op.name, path, err}
}

// named returns an OpError. It returns err itself if err is one, as from one of several
// calls.
func named(op operation, path string, err error) error {
	if _, ok := err.(*OpError); ok { //nolint:errorlint // one that is wrapped names something else
		return err
	}
	return &OpError{op.name, path, err}
}

// reasonOf returns the cause in an OpError, for another OpError with verb and path.
func reasonOf(err error) error {
	if op, ok := err.(*OpError); ok { //nolint:errorlint // one that is wrapped names something else
		return op.Err
	}
	return err
}

// parentsAs returns the mode of the parents that a call creates.
func (c *common) parentsAs() CreateMode {
	if c.has(creatingParentContainers) {
		return Container
	}
	return Persistent
}
