// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Recipe is one recipe at one path, at one moment. In JSON its keys are lower case.
type Recipe struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`

	// Holders and Waiters count the participants. A permit of a semaphore counts once. The
	// members of a double barrier hold when it is open, and wait until then.
	Holders int `json:"holders"`
	Waiters int `json:"waiters"`

	// Items counts the items of a queue, the instances of a service, the partitions of a group, or jobs.
	Items int `json:"items,omitempty"`

	// MaxLeases is the maximum of a semaphore, 0 where it is not known. kazoo stores it in the znode.
	// For another semaphore it is what [WithMaxLeases] says. Without it, MaxLeases is known only while
	// an owner waits for a permit. It is then the number of permits that other owners have. It may be
	// one too low while a grant is in flight.
	MaxLeases int `json:"maxLeases,omitempty"`

	// Participants are in the order of the queue. For a semaphore they are the permits, then the
	// contenders for the turn in which one acquires permits. After [HeadsOnly] some are missing. A
	// participant whose node this client may not read has only a path.
	Participants []locks.Participant `json:"participants,omitempty"`

	// Foreign are the names of children that do not take part. Most recipes ignore them. But a znode whose name
	// ends like a contender's keeps out the contenders behind it, although it is persistent or has a name that no
	// library gives. They have it in WaitsFor. And Curator in Java counts each znode in the folder of a
	// semaphore's leases as a permit.
	Foreign []string `json:"foreign,omitempty"`
}

// OldestHold returns the participant that has held for longest, by when it joined the queue, nil if none was read.
func (r Recipe) OldestHold() *locks.Participant { return longest(r.Participants, true) }

// LongestWait returns the participant that has waited for longest, nil if none was read.
func (r Recipe) LongestWait() *locks.Participant { return longest(r.Participants, false) }

func longest(of []locks.Participant, holds bool) (found *locks.Participant) {
	for i := range of {
		p := &of[i]
		if p.Holds == holds && !p.Since.IsZero() && (found == nil || p.Since.Before(found.Since)) {
			found = p
		}
	}
	return found
}

// node is a znode of a recipe and what is read of it.
type node struct {
	path     string
	lockName string
	holds    bool
	waitsFor []string

	isForeign bool // by its name
	position  int
	read      bool // to be read
	data      []byte
	stat      framework.Stat
	err       error
}

func (n *node) gone() bool { return errors.Is(n.err, framework.ErrNoNode) }

// isPersistent reports whether the node was read and belongs to no session.
func (n *node) isPersistent() bool { return n.stat.Czxid != 0 && n.stat.EphemeralOwner == 0 }

// draft is a recipe as the names alone show it.
type draft struct {
	config
	recipe Recipe
	nodes  []*node // that are read
	folder *node   // the znode that says what it is, where its data matters
	finish func(d *draft)
	whole  func() *draft // the same with all participants, where only heads are read

	size                      int // of the queue
	holding, permits, waiting int // participants: permits are waited for, and their owners wait, too
}

// add takes the next node of the queue. A participant that is not read, or for which there is no
// room, only counts. Then add returns nil.
func (d *draft) add(folder, name string, n node, read bool) *node {
	n.position = d.size
	d.size++
	if n.isForeign {
		n.path = framework.JoinPath(folder, name)
		return &n
	}
	if !read && !d.all || !d.room.takes(len(folder)+len(name)+nodeCost) {
		d.count(&n)
		return nil
	}
	n.path, n.read = framework.JoinPath(folder, name), true
	d.nodes = append(d.nodes, &n)
	return &n
}

func (d *draft) count(n *node) {
	switch {
	case n.holds:
		d.holding++
	case n.lockName == leaseName:
		d.permits++
	default:
		d.waiting++
	}
}

// isMixed reports whether a node that was read as a contender is persistent. Then the others must be read, too.
func (d *draft) isMixed() bool {
	return d.recipe.Kind.IsLock() && slices.ContainsFunc(d.nodes, (*node).isPersistent)
}

// done returns the recipe, and false if there is none after all.
func (d *draft) done() (Recipe, bool) {
	if d.finish != nil {
		d.finish(d)
	}
	r := d.recipe
	if r.Kind == "" {
		return r, false
	}
	for _, n := range d.nodes {
		switch {
		case n.gone(): // since it was listed
			continue
		case r.Kind.IsLock() && n.isPersistent(): // no library leaves such a contender
			r.Foreign = append(r.Foreign, strings.TrimPrefix(n.path, r.Path+"/"))
			continue
		}
		d.count(n)
		p := locks.ParticipantOf(n.path, n.lockName, n.data, n.stat)
		p.Position, p.Holds, p.WaitsFor = n.position, n.holds && r.Kind != Service, n.waitsFor
		if n.stat.Czxid == 0 {
			p.Since = time.Time{} // it may not be read
		}
		r.Participants = append(r.Participants, p)
	}
	if d.isMixed() && d.holding+d.permits+d.waiting == 0 {
		return r, false // an application names its znodes like contenders
	}
	if d.heads && d.all {
		r.Participants = headsOf(r.Participants)
	}
	slices.Sort(r.Foreign)
	switch r.Kind {
	case Service:
		r.Items = d.holding + d.waiting
	case Partitions, Jobs: // its members neither hold nor wait by this
	default:
		r.Holders, r.Waiters = d.holding, max(d.waiting, d.permits)
	}
	return r, true
}

// headsOf returns the participants up to the first waiter.
func headsOf(all []locks.Participant) []locks.Participant {
	if first := slices.IndexFunc(all, func(p locks.Participant) bool { return !p.Holds }); first >= 0 {
		return all[:first+1]
	}
	return all
}
