// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Reason is why the first waiter does not have a lock yet, or why there is nothing to wait for.
type Reason string

// These reasons are no trouble.
const (
	ReasonFree   Reason = "free"   // no client holds it or waits
	ReasonHeld   Reason = "held"   // no client waits
	ReasonTurn   Reason = "turn"   // the first waiter is behind a contender whose client is alive
	ReasonLimit  Reason = "limit"  // all permits are out, and their clients are alive
	ReasonWriter Reason = "writer" // readers wait behind a writer, which waits for readers before it
	ReasonOther  Reason = "other"  // it is no lock
)

// ReasonUnknown is neither: whether the client of a holder is alive is not known.
const ReasonUnknown Reason = "unknown"

// These reasons are trouble.
const (
	ReasonOverstays  Reason = "overstays"  // a contender has waited for longer than [LongerThan] for a client that is alive
	ReasonAsked      Reason = "asked"      // as ReasonOverstays, and the holder was asked to give way
	ReasonSilent     Reason = "silent"     // a client is connected, and has missed its pings: it is paused or cut off
	ReasonLost       Reason = "lost"       // a client has no connection to any server, and its session has not expired yet
	ReasonForeign    Reason = "foreign"    // a znode that is no contender keeps contenders out
	ReasonUnreadable Reason = "unreadable" // the client that asks may not read a node of the queue
	ReasonPaused     Reason = "paused"     // no permit is out, and a contender waits: the maximum is 0
	ReasonDeadlock   Reason = "deadlock"   // it is part of a cycle that is certain; see [Deadlocks] and [WithDeadlocks]
	ReasonMixed      Reason = "mixed"      // two recipes at one path, which do not exclude each other
)

// Finding is what [Explain] says of one recipe.
type Finding struct {
	Path   string `json:"path"` // of the recipe
	Kind   Kind   `json:"kind"`
	Reason Reason `json:"reason"`

	// Trouble says that waiting is not enough, or that it takes until a session expires.
	Trouble bool `json:"trouble"`

	// Unknown says what has to be known to say that there is no trouble, why it is not, and what would make it known. It is
	// empty if all is known.
	Unknown string `json:"unknown,omitempty"`

	Node   string   `json:"node,omitempty"` // the znode in the way
	Text   string   `json:"text"`           // the same in words
	Advice []Advice `json:"advice,omitempty"`
}

// Advice is a command that helps, and what it risks.
type Advice struct {
	Command string `json:"command"` // for a shell
	Risk    string `json:"risk"`
}

// Explanation says why the recipes at a path are stuck, or that they are not.
type Explanation struct {
	Path   string `json:"path"`
	Answer Answer `json:"answer"`

	// Findings has one for each recipe first: why its first waiter waits. Others are about trouble
	// behind that.
	Findings []Finding `json:"findings"`

	Recipes  []Recipe           `json:"recipes"`
	Sessions map[string]Session `json:"sessions"` // of the participants, by their ids

	// Unknown says what the servers have not told of their sessions, empty if nothing.
	Unknown string `json:"unknown,omitempty"`
}

// Answer says whether there is trouble.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // some finding lacks what its Unknown says, and none is trouble
)

// Trouble reports whether a finding is trouble.
func (e Explanation) Trouble() bool { return e.Answer == Yes }

// answer says what the findings come to.
func answer(findings []Finding) Answer {
	switch {
	case slices.ContainsFunc(findings, func(f Finding) bool { return f.Trouble }):
		return Yes
	case slices.ContainsFunc(findings, func(f Finding) bool { return f.Unknown != "" }):
		return Unknown
	default:
		return No
	}
}

// String returns the findings as a text, a paragraph for each, with the commands that help.
func (e Explanation) String() string {
	var b strings.Builder
	for _, f := range e.Findings {
		fmt.Fprintf(&b, "%s\n", f.Text)
		if f.Unknown != "" {
			fmt.Fprintf(&b, "Not known: %s\n", f.Unknown)
		}
		for _, a := range f.Advice {
			fmt.Fprintf(&b, "    %s\n        %s\n", a.Command, a.Risk)
		}
	}
	return b.String()
}

// LongerThan says how long a wait for a client that is alive may take before [Explain] calls it
// trouble. Leaders lead for as long as they live, so the wait for a [LeaderLatch] may take any time.
// Without this option the wait for a client that is alive is no trouble.
func LongerThan(d time.Duration) Option {
	return optionFunc(options.Checked(d > 0, func(c *config) { c.longerThan = d }, "LongerThan(%v), expected more than 0", d))
}

// WithDeadlocks makes [Explain] look for deadlocks below root that a lock with waiters is part of, as
// [Deadlocks] does: for those that are certain.
func WithDeadlocks(root string) Option {
	err := framework.ValidatePath(root)
	return optionFunc(options.Checked(err == nil, func(c *config) { c.deadlocksBelow = root }, "%w", err))
}

// Explain says why the recipes at a path are stuck: who holds each, who waits, whether their clients
// are alive, why the first waiter waits, and what helps. For a group that divides partitions it
// explains the locks of partitions that have waiters. For a fleet of jobs it says which jobs fail, are
// paused, or have no replica, and explains the locks that have waiters.
//
// It makes the requests of [At] and of [Sessions], and one for each znode that is no contender and
// keeps contenders out. Where the servers do not tell of a session, Explain says so in the findings. The error is that of [At].
func Explain(ctx context.Context, client *framework.Framework, path string, opts ...Option) (Explanation, error) {
	cfg, err := newConfig(path, opts)
	if err != nil {
		return Explanation{}, at(path, err)
	}
	x := &explainer{config: cfg, ctx: ctx, client: client, opts: opts}
	for range maxLooks {
		x.said, x.newcomers = Explanation{}, false
		if x.census, err = Sessions(ctx, client); err != nil {
			x.said.Unknown = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if err := x.explainFrom(path); err != nil {
			return Explanation{}, err
		}
		if !x.newcomers { // sessions that began after the servers were asked
			break
		}
	}
	if cfg.looksTwice {
		if ids := x.unknown(); len(ids) > 0 {
			x.census.lookAgain(ctx, client, ids)
			if err := x.explainFrom(path); err != nil {
				return Explanation{}, err
			}
		}
	}
	if err := x.findDeadlocks(); err != nil {
		return Explanation{}, err
	}
	x.said.Answer = answer(x.said.Findings)
	return x.said, nil
}

// maxLooks bounds how often the servers are asked for sessions that are not in their answers yet.
const maxLooks = 3

// LookingTwice makes [Explain] ask the leader for its sessions again, where a server does not answer. A client that is alive
// renews its session meanwhile. It takes as long as clients take to ping, and half of a session timeout at most.
func LookingTwice() Option {
	return optionFunc(options.Plain(func(c *config) { c.looksTwice = true }))
}

// explainer is an [Explain] that is under way.
type explainer struct {
	config
	ctx       context.Context //nolint:containedctx // of one call
	client    *framework.Framework
	opts      []Option
	census    Census
	newcomers bool // contenders whose sessions the census has not
	said      Explanation
}

// explainFrom begins again.
func (x *explainer) explainFrom(path string) error {
	x.said = Explanation{Path: path, Sessions: make(map[string]Session), Unknown: x.said.Unknown}
	return x.explain(path)
}

// unknown returns the sessions of contenders of which it is not known whether they are alive.
func (x *explainer) unknown() (ids []int64) {
	for _, r := range x.said.Recipes {
		for _, p := range r.Participants {
			if life, _ := x.census.of(p.Session); r.Kind.IsLock() && p.Session != 0 && life == LifeUnknown {
				ids = append(ids, p.Session)
			}
		}
	}
	return ids
}

// explain adds what there is to say of one path.
func (x *explainer) explain(path string) error {
	recipes, err := At(x.ctx, x.client, path, x.opts...)
	if err != nil {
		return err
	}
	strangers, err := x.strangers(recipes)
	if err != nil {
		return at(path, err)
	}
	return x.judge(path, recipes, strangers)
}

// strangers reads the znodes that contenders wait for and that are no contenders. A contender that has left since the queue
// was listed is none of them.
func (x *explainer) strangers(recipes []Recipe) (map[string]framework.Stat, error) {
	found, known := make(map[string]framework.Stat), make(map[string]bool)
	var ahead []string
	for _, r := range recipes {
		for _, p := range r.Participants {
			known[p.Path] = true
			if len(r.Participants) >= r.Holders+r.Waiters { // or those that were not read would seem to be strangers
				ahead = append(ahead, p.WaitsFor...)
			}
		}
	}
	for _, path := range ahead {
		if _, isRead := found[path]; known[path] || isRead {
			continue
		}
		stat, err := x.client.Exists(x.ctx, path)
		switch {
		case errors.Is(err, framework.ErrNoAuth):
			found[path] = framework.Stat{}
		case err != nil:
			return nil, err
		case stat != nil:
			found[path] = *stat
		}
	}
	return found, nil
}

// findDeadlocks changes what was said of locks that clients wait for in a cycle.
func (x *explainer) findDeadlocks() error {
	isWaited := func(f Finding) bool {
		return slices.Contains([]Reason{ReasonTurn, ReasonLimit, ReasonWriter, ReasonOverstays, ReasonAsked, ReasonUnknown}, f.Reason)
	}
	if x.deadlocksBelow == "" || !slices.ContainsFunc(x.said.Findings, isWaited) {
		return nil
	}
	found, err := Deadlocks(x.ctx, x.client, x.deadlocksBelow)
	for _, d := range found {
		for i := range x.said.Findings {
			f := &x.said.Findings[i]
			at := slices.IndexFunc(d.Waits, func(w Wait) bool { return w.Path == f.Path })
			if at < 0 || !isWaited(*f) {
				continue
			}
			holder := d.Waits[at].Holder
			f.Reason, f.Trouble, f.Node, f.Unknown = ReasonDeadlock, true, holder.Path, ""
			f.Text += " It does not go on by itself: " + d.String()
			f.Advice = []Advice{asking(holder)}
		}
	}
	return err
}
