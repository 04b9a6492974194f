// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/retry"
)

// verbOption is an option of a call. Its type as an interface says which calls take it.
type verbOption interface{ set(*callConfig) error }

// CreateOption is an option of [Framework.Create] and [CreateOp].
type CreateOption interface {
	verbOption
	ofCreate()
}

// ReadOption is an option of [Framework.Get], [Framework.Exists] and the other reads, and of
// their counterparts in a [Framework.Pipeline]. A read refuses an option that makes no sense
// for it with [ErrInvalidOption], before anything is sent; see OPTIONS.md.
type ReadOption interface {
	verbOption
	ofRead()
}

// SetOption is an option of [Framework.Set], [SetDataOp] and [Framework.SetACL].
type SetOption interface {
	verbOption
	ofSet()
}

// DeleteOption is an option of [Framework.Delete] and [DeleteOp].
type DeleteOption interface {
	verbOption
	ofDelete()
}

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
	ofEveryCall()
}

// anyCall makes a type an option of every kind of call. The result of an exported function narrows that.
type anyCall struct{}

func (anyCall) ofCreate()    {}
func (anyCall) ofRead()      {}
func (anyCall) ofSet()       {}
func (anyCall) ofDelete()    {}
func (anyCall) ofEveryCall() {}

// flag is an option that says nothing but its name, which may contradict another option.
type flag struct {
	anyCall
	is, not optionSet
}

func (o flag) set(c *callConfig) error {
	if other := c.given & o.not; other != 0 {
		return fmt.Errorf("%v and %v, expected one of them", other, o.is)
	}
	c.given |= o.is
	return nil
}

// value is an option with a value that may be refused.
type value struct {
	anyCall
	to func(*callConfig) error
}

func (o value) set(c *callConfig) error { return o.to(c) }

// put notes an option with a place for a result, or with a session, which must not be nil. Each such option is a type of
// its own and not a value, as a function that refers to the place would take memory in every call.
func put[T any](c *callConfig, is optionSet, at **T, value *T, expected string) error {
	if value == nil {
		return fmt.Errorf("%v(nil), expected %s", is, expected)
	}
	c.given |= is
	*at = value
	return nil
}

// WithRetry sets the retry policy of this one call, instead of the policy of the client or
// of a [Framework.Retry] around it. It does not change which calls may be repeated. With
// retry.None() there is one try.
//
// A [Framework.Pipeline] of several reads and a transaction refuse WithRetry: they are
// repeated as a whole, see Framework.Retry.
func WithRetry(policy retry.Policy) CallOption {
	return value{to: func(c *callConfig) error {
		if options.IsNil(policy) {
			return errors.New("WithRetry(nil), expected a policy such as retry.None()")
		}
		if err := retry.Validate(policy); err != nil {
			return fmt.Errorf("WithRetry: %w", err)
		}
		c.given |= withRetry
		c.retry = policy
		return nil
	}}
}

type sessionOption struct {
	anyCall
	session *Session
}

// InSession binds the call to this session. Once the session has ended, the call fails with
// [ErrSessionEnded] and sends nothing, even if it was waiting for a connection. Given to
// [Framework.Retry], it binds all calls within, including [Framework.Pipeline] and
// [Framework.Transact].
func InSession(s *Session) CallOption { return sessionOption{session: s} }

func (o sessionOption) set(c *callConfig) error {
	return put(c, inSession, &c.session, o.session, "a session")
}

// InHistory binds the call to a history of the servers, by the number that [Framework.History] had before
// the read on which the call depends. Once another history has begun, the call fails with
// [ErrSessionEnded] and sends nothing, even if it was waiting for a connection. So a write with
// [WithVersion] does not meet the data of restored servers, which may have this version too. The client must then read again.
// Given to [Framework.Retry], it binds all calls within.
func InHistory(history int64) CallOption {
	return value{to: func(c *callConfig) error {
		if history <= 0 {
			return fmt.Errorf("InHistory(%d), expected a number that History has returned", history)
		}
		c.given |= inHistory
		c.history = history
		return nil
	}}
}

// configure applies the options of a call. It refuses options that the call does not take.
func configure[O verbOption](c *callConfig, opts []O, takes optionSet, call string) error {
	err := applyAll(opts, func(o O) error { return o.set(c) })
	if err == nil {
		err = c.given.only(takes, call)
	}
	return err
}

// newCommon returns the settings of a call that accepts only the options of every call.
func newCommon(opts []CallOption) (common, error) {
	var c callConfig
	err := configure(&c, opts, ofEveryCall, "")
	return c.common, err
}

type statOption struct {
	anyCall
	stat *Stat
}

// StoringStatIn stores the znode's Stat at the time the request was applied. It is
// Curator's storingStatIn. [Framework.Exists], which returns the Stat, refuses it.
func StoringStatIn(stat *Stat) CreateReadSetOption { return statOption{stat: stat} }

func (o statOption) set(c *callConfig) error {
	return put(c, storingStatIn, &c.stat, o.stat, "a *Stat")
}

// WithVersion applies the write only to a znode whose data has this version, and fails with
// [ErrBadVersion] otherwise. For [Framework.SetACL] it is the version of the list,
// Stat.Aversion. Default: [AnyVersion].
func WithVersion(version int32) SetDeleteOption {
	return value{to: func(c *callConfig) error {
		c.given |= withVersion
		c.version = version
		return nil
	}}
}

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
func Idempotent() WriteOption { return flag{is: idempotent} }

// callConfig is what the options of a call set.
type callConfig struct {
	common
	version  int32 // of a set, a delete or an OrSetData
	mode     CreateMode
	ttl      time.Duration
	acl      []ACL // nil for the list of the client's ACLProvider
	stat     *Stat
	siblings *[]string
	watch    **Watch
	absent   *bool
	maxReply int // of a read, 0 for the client's limit
}

// configureCreate applies the options of a create.
func (c *callConfig) configureCreate(opts []CreateOption) error {
	if err := configure(c, opts, anyOption, ""); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return nil
}

func (c *callConfig) validate() error {
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

// isGuaranteed reports whether the deletion goes on in the background.
func (c *callConfig) isGuaranteed() bool { return c.has(guaranteed | inBackground) }

// storeStat stores the Stat where the options say, unless the reply is malformed.
func (c *callConfig) storeStat(d *wire.Decoder, stat Stat) {
	if d.Err() == nil && c.stat != nil {
		*c.stat = stat
	}
}
