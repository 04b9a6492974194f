// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/retry"
)

// CreateOption is an option of [Framework.Create] and [CreateOp].
type CreateOption interface{ applyCreate(*createConfig) error }

// ReadOption is an option of [Framework.Get], [Framework.Exists] and the other reads, and of
// their counterparts in a [Framework.Pipeline]. A read refuses an option that makes no sense
// for it with [ErrInvalidOption], before anything is sent; see OPTIONS.md.
type ReadOption interface{ applyRead(*readConfig) error }

// SetOption is an option of [Framework.Set], [SetDataOp] and [Framework.SetACL].
type SetOption interface{ applySet(*setConfig) error }

// DeleteOption is an option of [Framework.Delete] and [DeleteOp].
type DeleteOption interface{ applyDelete(*deleteConfig) error }

// An option of several kinds of calls has a type of its own, which says of which.
type (
	// CreateReadOption is a [CreateOption] and a [ReadOption].
	CreateReadOption interface {
		CreateOption
		ReadOption
	}

	// CreateSetOption is a [CreateOption] and a [SetOption].
	CreateSetOption interface {
		CreateOption
		SetOption
	}

	// CreateReadSetOption is a [CreateOption], a [ReadOption] and a [SetOption].
	CreateReadSetOption interface {
		CreateOption
		ReadOption
		SetOption
	}

	// SetDeleteOption is a [SetOption] and a [DeleteOption].
	SetDeleteOption interface {
		SetOption
		DeleteOption
	}

	// WriteOption is a [CreateOption], a [SetOption] and a [DeleteOption].
	WriteOption interface {
		CreateOption
		SetOption
		DeleteOption
	}
)

// CallOption is an option of every call: [WithRetry], [InSession] or [InHistory].
type CallOption interface {
	CreateOption
	ReadOption
	SetOption
	DeleteOption
	applyCall(*common) error
}

type retryOption struct{ policy retry.Policy }

// WithRetry sets the retry policy of this one call, instead of the policy of the client or
// of a [Framework.Retry] around it. It does not change which calls may be repeated. With
// retry.None() there is one try.
//
// A [Framework.Pipeline] of several reads and a transaction refuse WithRetry: they are
// repeated as a whole, see Framework.Retry.
func WithRetry(policy retry.Policy) CallOption { return retryOption{policy} }

func (o retryOption) applyCall(c *common) error {
	if o.policy == nil {
		return errors.New("WithRetry(nil), expected a policy such as retry.None()")
	}
	if err := retry.Validate(o.policy); err != nil {
		return fmt.Errorf("WithRetry: %w", err)
	}
	c.given |= withRetry
	c.retry = o.policy
	return nil
}

func (o retryOption) applyCreate(c *createConfig) error { return o.applyCall(&c.common) }
func (o retryOption) applyRead(c *readConfig) error     { return o.applyCall(&c.common) }
func (o retryOption) applySet(c *setConfig) error       { return o.applyCall(&c.common) }
func (o retryOption) applyDelete(c *deleteConfig) error { return o.applyCall(&c.common) }

type sessionOption struct{ session *Session }

// InSession binds the call to this session. Once the session has ended, the call fails with
// [ErrSessionEnded] and sends nothing, even if it was waiting for a connection. Given to
// [Framework.Retry], it binds all calls within, including [Framework.Pipeline] and
// [Framework.Transact].
func InSession(s *Session) CallOption { return sessionOption{s} }

func (o sessionOption) applyCall(c *common) error {
	if o.session == nil {
		return errors.New("InSession(nil), expected a session")
	}
	c.given |= inSession
	c.session = o.session
	return nil
}

func (o sessionOption) applyCreate(c *createConfig) error { return o.applyCall(&c.common) }
func (o sessionOption) applyRead(c *readConfig) error     { return o.applyCall(&c.common) }
func (o sessionOption) applySet(c *setConfig) error       { return o.applyCall(&c.common) }
func (o sessionOption) applyDelete(c *deleteConfig) error { return o.applyCall(&c.common) }

type historyOption int64

// InHistory binds the call to a history of the servers, by the number that [Framework.History] had before
// the read on which the call depends. Once another history has begun, the call fails with
// [ErrSessionEnded] and sends nothing, even if it was waiting for a connection. So a write with
// [WithVersion] does not meet the data of restored servers, which may have this version too. The client must then read again.
// Given to [Framework.Retry], it binds all calls within.
func InHistory(history int64) CallOption { return historyOption(history) }

func (o historyOption) applyCall(c *common) error {
	if o <= 0 {
		return fmt.Errorf("InHistory(%d), expected a number that History has returned", int64(o))
	}
	c.given |= inHistory
	c.history = int64(o)
	return nil
}

func (o historyOption) applyCreate(c *createConfig) error { return o.applyCall(&c.common) }
func (o historyOption) applyRead(c *readConfig) error     { return o.applyCall(&c.common) }
func (o historyOption) applySet(c *setConfig) error       { return o.applyCall(&c.common) }
func (o historyOption) applyDelete(c *deleteConfig) error { return o.applyCall(&c.common) }

// newCommon returns the settings of a call that accepts only the options of every call.
func newCommon(opts []CallOption) (common, error) {
	var c common
	err := applyAll(opts, func(o CallOption) error { return o.applyCall(&c) })
	return c, err
}

type statOption struct{ stat *Stat }

// StoringStatIn stores the znode's Stat at the time the request was applied. It is
// Curator's storingStatIn. [Framework.Exists], which returns the Stat, refuses it.
func StoringStatIn(stat *Stat) CreateReadSetOption {
	return statOption{stat}
}

func (o statOption) store(c *common, into **Stat) error {
	if o.stat == nil {
		return errors.New("StoringStatIn(nil), expected a *Stat")
	}
	c.given |= storingStatIn
	*into = o.stat
	return nil
}

func (o statOption) applyCreate(c *createConfig) error { return o.store(&c.common, &c.stat) }
func (o statOption) applyRead(c *readConfig) error     { return o.store(&c.common, &c.stat) }
func (o statOption) applySet(c *setConfig) error       { return o.store(&c.common, &c.stat) }

type versionOption int32

// WithVersion applies the write only to a znode whose data has this version, and fails with
// [ErrBadVersion] otherwise. For [Framework.SetACL] it is the version of the list,
// Stat.Aversion. Default: [AnyVersion].
func WithVersion(version int32) SetDeleteOption {
	return versionOption(version)
}

func (o versionOption) applySet(c *setConfig) error {
	c.given |= withVersion
	c.version = int32(o)
	return nil
}

func (o versionOption) applyDelete(c *deleteConfig) error {
	c.given |= withVersion
	c.version = int32(o)
	return nil
}

type idempotentOption struct{}

// Idempotent treats a write as successful when the server refuses it because its effect is
// already there. So the write can be repeated after a try whose outcome is unknown. It
// accepts:
//
//   - a create of a znode that exists with version 0 and the same data; an
//     ephemeral znode must also belong to this client's session;
//   - a set [WithVersion] n of a znode that has version n+1 and the same data;
//   - a delete of a znode that does not exist.
//
// The comparison needs permission to read the znode: without it the call fails with
// [ErrNoAuth].
//
// Idempotent does not check which client made the change. Between two tries of one call
// other clients may read, change or delete the value of the first try, and the second try
// writes it again. Use it for values that every client would write alike, or that have one
// writer.
//
// It is refused for a create in a sequential mode or [WithProtection], for
// [Framework.SetACL], and within a transaction. It is Curator's idempotent().
func Idempotent() WriteOption {
	return idempotentOption{}
}

func (idempotentOption) applyCreate(c *createConfig) error { c.given |= idempotent; return nil }

func (idempotentOption) applySet(c *setConfig) error { c.given |= idempotent; return nil }

func (idempotentOption) applyDelete(c *deleteConfig) error { c.given |= idempotent; return nil }

// createConfig is what the options of Create set.
type createConfig struct {
	common
	mode       CreateMode
	ttl        time.Duration
	acl        []ACL // nil for the list of the client's ACLProvider
	setVersion int32
	stat       *Stat
	siblings   *[]string
}

func (c *createConfig) apply(opts []CreateOption) error {
	if err := applyAll(opts, func(o CreateOption) error { return o.applyCreate(c) }); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return nil
}

func (c *createConfig) validate() error {
	switch ofExisting := c.given & (orSetData | idempotent); {
	// Either alone is a mistake: a mode without its time, or a time without its mode.
	case c.mode.hasTTL() && c.ttl == 0:
		return fmt.Errorf("WithMode(%d) without WithTTL, expected both", c.mode)
	case c.ttl != 0 && !c.mode.hasTTL():
		return fmt.Errorf("WithTTL(%v) with mode %d, expected WithMode(PersistentWithTTL) or WithMode(PersistentSequentialWithTTL)", c.ttl, c.mode)
	case ofExisting != 0 && c.has(withProtection):
		return fmt.Errorf("%v with WithProtection: the name is always new", ofExisting)
	case ofExisting != 0 && c.mode.isSequential():
		return fmt.Errorf("%v with WithMode(%d), which is sequential: the name is always new", ofExisting, c.mode)
	case c.has(applyingACLToParents) && !c.has(withACL):
		return errors.New("ApplyingACLToParents without WithACL, expected both")
	case c.has(applyingACLToParents) && !c.has(creatingParents|creatingParentContainers):
		return errors.New("ApplyingACLToParents without CreatingParentsIfNeeded or CreatingParentContainersIfNeeded, expected one of them")
	default:
		return nil
	}
}

// deleteConfig is what the options of Delete set.
type deleteConfig struct {
	common
	version int32
}

// isGuaranteed reports whether the deletion goes on in the background.
func (c *deleteConfig) isGuaranteed() bool { return c.has(guaranteed | inBackground) }

// readConfig is what the options of the reading verbs set.
type readConfig struct {
	common
	stat   *Stat
	watch  **Watch
	absent *bool

	maxReply int // of this read, 0 for the client's limit
}

// storeStat stores the Stat where the options say, unless the reply is malformed.
func (c *readConfig) storeStat(d *wire.Decoder, stat Stat) {
	if d.Err() == nil && c.stat != nil {
		*c.stat = stat
	}
}

// setConfig is what the options of Set set.
type setConfig struct {
	common
	version int32
	stat    *Stat
}
