// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/nodes"
)

const (
	noGhost   promise = "ghosts"  // nothing is registered whose process has left or died
	noMissing promise = "missing" // everything else is
)

// discoveryWorkloads are the recipes by which processes are found.
var discoveryWorkloads = []workload{
	{
		name: "discovery", workers: 1, least: 60, folders: serviceFolders, promises: []promise{noGhost, noMissing},
		findAtServers: wrongPresences(lockSpec.service), done: registrations, prepare: prepareDiscovery,
	},
	{
		name: "group", workers: 1, least: 60, promises: []promise{noGhost, noMissing},
		findAtServers: wrongPresences(lockSpec.path), done: registrations, prepare: prepareGroup,
	},
}

// serviceName is the one service of a discovery.
const serviceName = "service"

// service is where its instances are.
func (s lockSpec) service() string { return s.path() + "/" + serviceName }

func serviceFolders(s lockSpec) []string { return []string{s.service()} }

// What a process writes down of its registrations. Value is the name of the znode, or an
// entry of a picture, or several.
const (
	joining eventKind = "joining" // a registration begins
	joined  eventKind = "joined"  // the server has it
	updated eventKind = "updated" // the server has a change of it
	gone    eventKind = "gone"    // it is over, and the server has confirmed that
	stands  eventKind = "stands"  // all is healed: this is registered, and stays until all have looked
	viewed  eventKind = "viewed"  // what a watcher had in memory at that time
	listed  eventKind = "listed"  // what the server had
)

const (
	finishTime = 100 * time.Second // of the last turn
	lookAgain  = 50 * time.Millisecond
)

// roster is what is registered: the texts by the names of the znodes.
type roster map[string]string

// entries are the registrations in a roster, sorted as texts.
func (p roster) entries() []string {
	var all []string
	for name, text := range p {
		all = append(all, entryOf(name, text))
	}
	slices.Sort(all)
	return all
}

// entryOf is a registration in one line.
func entryOf(name, text string) string { return name + "=" + strconv.Quote(text) }

// presence is one registration after the other by one worker, and a watcher of all.
type presence interface {
	// join registers under a name with a text. When it fails, pending says that the
	// server has not confirmed that there is nothing.
	join(ctx context.Context, name, text string) (pending bool, err error)

	update(ctx context.Context, text string) error
	leave() error                         // nil once the server has confirmed it
	err() error                           // what keeps it from being registered
	data() []byte                         // that its znode must have
	seen() roster                         // by the watcher
	list(context.Context) (roster, error) // by the server
	watchAgain(context.Context) error     // with another watcher
	close() error
}

// participant is a worker with a presence.
type participant struct {
	presence
	worker  *worker
	folder  string
	unique  bool   // each registration has a name of its own
	name    string // of the newest
	text    string
	present bool
	leaving bool // it has failed or ended, and may still be there
}

// turn registers, updates or ends the registration, or leaves it as it is.
func (p *participant) turn(ctx context.Context) {
	w := p.worker
	if w.last {
		ctx, cancel := context.WithTimeout(ctx, finishTime)
		defer cancel()
		if err := errors.Join(p.finish(ctx), p.close()); err != nil {
			w.client.history.add(event{Kind: failed, Lock: w.spec.Name, Error: err.Error()})
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
		return
	}
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	// An error is no news here: what counts is what is registered.
	switch n := w.random.IntN(100); {
	case p.leaving || n < 5 && p.present:
		_ = p.depart()
	case !p.present:
		_ = p.arrive(ctx)
	case n < 35:
		p.text = w.nextText()
		if p.update(ctx, p.text) == nil {
			p.record(event{Kind: updated, Value: p.name})
		}
	case n < 38:
		_ = p.watchAgain(ctx)
	}
}

// nextText is a text that no other registration has.
func (w *worker) nextText() string {
	w.turns++
	return w.client.cfg.Name + "/" + strconv.Itoa(w.turns)
}

// host is the name of a client without the number of its process.
func (w *worker) host() string {
	host, _, _ := strings.Cut(w.client.cfg.Name, ".")
	return host
}

// arrive registers. A process that is started again takes the place of the one before,
// unless each registration has a name of its own.
func (p *participant) arrive(ctx context.Context) error {
	p.text = p.worker.nextText()
	p.name = p.worker.host()
	if p.unique {
		p.name = strings.ReplaceAll(p.text, "/", "-")
	}
	p.record(event{Kind: joining, Value: p.name})
	pending, err := p.join(ctx, p.name, p.text)
	switch {
	case err == nil:
		p.present = true
		p.record(event{Kind: joined, Value: p.name})
	case pending:
		p.leaving = true
	default:
		p.record(event{Kind: gone, Value: p.name, Error: err.Error()})
	}
	return err
}

// depart ends the registration.
func (p *participant) depart() error {
	p.leaving = true
	if err := p.leave(); err != nil {
		return err
	}
	p.record(event{Kind: gone, Value: p.name})
	p.present, p.leaving = false, false
	return nil
}

func (p *participant) record(e event) {
	e.Lock = p.worker.spec.Name
	p.worker.client.history.add(e)
}

// finish is the last turn: all is healed. The worker sees to it that it is registered,
// waits until all others are, looks at what is registered, waits until all others have
// looked, and leaves.
func (p *participant) finish(ctx context.Context) error {
	if err := p.settleDown(ctx); err != nil {
		return errors.Join(err, p.leaveForGood(ctx))
	}
	own := entryOf(p.name, p.text)
	p.record(event{Kind: stands, Value: own})
	all, err := p.gather(ctx, "standing", own)
	if err == nil {
		err = p.look(ctx, all)
		_, late := p.gather(ctx, "looked", own) // also after a failure: the others still look
		err = errors.Join(err, late)
	}
	return errors.Join(err, p.leaveForGood(ctx))
}

// settleDown registers unless that was done. What a vandal has written into the znode
// stays until the next update, and what was refused is not repeated before: that is the
// contract. A registration that says it is there, and that no vandal has spoiled, is left to itself.
func (p *participant) settleDown(ctx context.Context) error {
	if p.leaving {
		if err := p.leaveForGood(ctx); err != nil {
			return err
		}
	}
	if !p.present {
		return p.arrive(ctx)
	}
	data, err := p.worker.client.framework.Get(ctx, p.folder+"/"+p.name)
	spoiled := err == nil && string(data) != string(p.data())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if spoiled || errors.Is(p.err(), framework.ErrNoAuth) {
		return p.update(ctx, p.text)
	}
	return nil
}

// leaveForGood leaves, and repeats that until it succeeds.
func (p *participant) leaveForGood(ctx context.Context) error {
	for p.present || p.leaving {
		err := p.depart()
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, lookAgain)
	}
	return nil
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// gatherFolder is where the workers of a recipe wait for each other.
const gatherFolder = "/nemesis/gathered/"

// gather waits until the workers of all clients have called it, or ctx ends, and returns
// what they have said.
func (p *participant) gather(ctx context.Context, stage, word string) (words []string, err error) {
	w := p.worker
	f, folder := w.client.framework, gatherFolder+w.spec.Name+"/"+stage
	_, err = f.Create(ctx, folder+"/"+w.host(), []byte(word), framework.CreatingParentsIfNeeded(), framework.Idempotent())
	if err != nil {
		return nil, err
	}
	for {
		names, err := f.Children(ctx, folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", stage, err)
		}
		if len(names) < w.client.cfg.Sharers[w.spec.Name] {
			wait(ctx, lookAgain)
			continue
		}
		for _, name := range names {
			data, err := f.Get(ctx, folder+"/"+name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", stage, err)
			}
			words = append(words, string(data))
		}
		slices.Sort(words)
		return words, nil
	}
}

// look waits until the watcher and the server have what they must have, at most for a
// while, and records what they have.
func (p *participant) look(ctx context.Context, want []string) error {
	until := time.Now().Add(patience)
	for {
		watched, at := p.seen().entries(), monotonic()
		there, err := p.list(ctx)
		entries := there.entries()
		right := err == nil && slices.Equal(watched, want) && slices.Equal(entries, want)
		if !right && ctx.Err() == nil && time.Now().Before(until) {
			wait(ctx, lookAgain)
			continue
		}
		p.record(event{At: at, Kind: viewed, Value: strings.Join(watched, "\n")})
		if err == nil {
			p.record(event{Kind: listed, Value: strings.Join(entries, "\n")})
		}
		return err
	}
}

// instances is a presence in a service. The payload of an instance is its text.
type instances struct {
	client   *framework.Framework
	path     string
	services *discovery.ServiceDiscovery[string]
	instance discovery.ServiceInstance[string]
	watcher  *discovery.ServiceCache[string]
}

func prepareDiscovery(w *worker) (func(context.Context), error) {
	i := &instances{client: w.client.framework, path: w.spec.path()}
	if err := i.watch(); err != nil {
		return nil, err
	}
	return (&participant{presence: i, worker: w, folder: w.spec.service(), unique: true}).turn, nil
}

// watch starts a watcher that need not have a picture yet.
func (i *instances) watch() (err error) {
	if i.services, err = discovery.NewServiceDiscovery[string](i.client, i.path, nil); err != nil {
		return err
	}
	if i.watcher, err = i.services.NewCache(serviceName); err != nil {
		return err
	}
	return i.watcher.Start()
}

func (i *instances) watchAgain(ctx context.Context) error {
	next, err := i.services.NewCache(serviceName)
	if err == nil {
		err = i.watcher.Close()
	}
	if err != nil {
		return err
	}
	i.watcher = next
	if err := next.Start(); err != nil {
		return err
	}
	return next.Wait(ctx)
}

func (i *instances) join(ctx context.Context, name, text string) (pending bool, err error) {
	const port = 8080
	i.instance = discovery.NewInstance[string](serviceName, "192.0.2.1", port)
	i.instance.ID, i.instance.Payload = name, &text
	err = i.services.Register(ctx, i.instance)
	return errors.Is(err, framework.ErrCleanupPending), err
}

func (i *instances) update(ctx context.Context, text string) error {
	i.instance.Payload = &text
	return i.services.Update(ctx, i.instance)
}

func (i *instances) leave() error { return i.services.Unregister(i.instance) }

func (i *instances) err() error {
	_, err := i.services.Registered(i.instance)
	return err
}

func (i *instances) data() []byte {
	data, err := discovery.JSONSerializer[string]{}.Serialize(i.instance)
	if err != nil {
		panic(err) // it was written before
	}
	return data
}

func (i *instances) seen() roster {
	p := roster{}
	for _, instance := range i.watcher.Instances() {
		p.add(instance)
	}
	return p
}

func (i *instances) list(ctx context.Context) (roster, error) {
	if err := i.client.Sync(ctx, i.path); err != nil {
		return nil, err
	}
	all, err := i.services.Instances(ctx, serviceName)
	p := roster{}
	for _, instance := range all {
		p.add(&instance)
	}
	return p, err
}

func (p roster) add(instance *discovery.ServiceInstance[string]) {
	if instance.Payload != nil {
		p[instance.ID] = *instance.Payload
	}
}

func (i *instances) close() error { return errors.Join(i.services.Close(), i.watcher.Close()) }

// members is a presence in a group. Its member is the watcher as well.
type members struct {
	client *framework.Framework
	path   string
	member *nodes.GroupMember
	wanted string
}

func prepareGroup(w *worker) (func(context.Context), error) {
	m := &members{client: w.client.framework, path: w.spec.path()}
	return (&participant{presence: m, worker: w, folder: m.path}).turn, nil
}

func (m *members) join(ctx context.Context, name, text string) (pending bool, err error) {
	m.wanted = text
	if m.member, err = nodes.NewGroupMember(m.client, m.path, name, []byte(text)); err != nil {
		return false, err
	}
	if err = m.member.Start(); err == nil {
		err = m.member.WaitUntilJoined(ctx)
	}
	if err == nil {
		return false, nil
	}
	failure := m.member.Close()
	return failure != nil, errors.Join(err, failure)
}

func (m *members) update(ctx context.Context, text string) error {
	m.wanted = text
	return m.member.SetData(ctx, []byte(text))
}

func (m *members) leave() error                   { return m.member.Close() }
func (m *members) err() error                     { return m.member.Err() }
func (m *members) data() []byte                   { return []byte(m.wanted) }
func (*members) watchAgain(context.Context) error { return nil } // each member is a new watcher
func (*members) close() error                     { return nil } // it has left

func (m *members) seen() roster {
	p := roster{}
	for id, data := range m.member.Members() {
		p[id] = string(data)
	}
	return p
}

func (m *members) list(ctx context.Context) (roster, error) {
	if err := m.client.Sync(ctx, m.path); err != nil {
		return nil, err
	}
	names, err := m.client.Children(ctx, m.path)
	if err != nil {
		return nil, err
	}
	p := roster{}
	for _, name := range names {
		data, err := m.client.Get(ctx, m.path+"/"+name)
		if err != nil {
			return nil, err
		}
		p[name] = string(data)
	}
	return p, nil
}
