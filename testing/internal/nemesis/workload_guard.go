// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

const (
	twoHolders     promise = "two_holders"     // of a lock whose holders are killed
	lateSuccessors promise = "late_successors" // what a killed process had is free at once
)

// guardWorkloads are programs in the care of a guard, which are killed and started again.
var guardWorkloads = []workload{
	{
		name: "guard", workers: 1, exclusive: true, model: mutexModel, policies: []framework.ErrorPolicy{framework.StandardErrorPolicy}, least: 30,
		promises: []promise{twoHolders, lateSuccessors}, calls: map[promise]promise{noOverlap: twoHolders},
		findAtServers: late, prepare: prepareGuard,
	},
}

const (
	wardTimeout = 20 * tick       // of the session of a program, the longest that servers allow
	wardLife    = 6 * time.Second // of a program or a guard, at most
	wardReset   = 20 * time.Millisecond
	lastKills   = 2

	// lateAfter is long enough for a busy machine. Servers end a session no earlier than two thirds of its timeout after the kill.
	lateAfter = wardTimeout / 2

	// knownAgain is how long a program may take to register again with a guard that was started again.
	knownAgain = 3 * time.Second
)

// What is written down of a program besides its holds.
const (
	guardUp    eventKind = "guardUp"    // a guard has begun
	guardDown  eventKind = "guardDown"  // it is killed
	wardKilled eventKind = "wardKilled" // the program in Value was killed
)

// guardProgram builds the command that has the guard.
func guardProgram(folder string) (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gocurator/curator").Output()
	program := filepath.Join(folder, "curatorctl")
	if err == nil {
		build := exec.Command("go", "build", "-C", filepath.Join(strings.TrimSpace(string(module)), "cmd", "curatorctl"), "-o", program, ".")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		return "", fmt.Errorf("nemesis: build curatorctl: %w", err)
	}
	return program, nil
}

// ward is a program in the care of a guard, with the guard.
type ward struct {
	*worker
	socket  string
	guard   *exec.Cmd // nil while it is killed
	ended   <-chan error
	program *process // likewise
	number  int      // of its process
}

// prepareGuard is the program itself, which takes the lock, or what starts it and kills it.
func prepareGuard(w *worker) (func(context.Context), error) {
	if w.client.cfg.Socket != "" {
		return prepareMutex(w)
	}
	folder := fmt.Sprintf("%s-%s", w.client.cfg.Name, w.spec.Name)
	g := &ward{worker: w, socket: filepath.Join(w.client.cfg.Sockets, folder, "guard")}
	return func(context.Context) {
		turn := g.turn
		if w.last {
			turn = g.finish
		}
		if err := turn(); err != nil {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
	}, nil
}

// turn has both at work for a while, and then kills one of them.
func (g *ward) turn() error {
	if err := g.start(); err != nil {
		return err
	}
	g.pause(g.upTo(wardLife))
	switch n := g.random.IntN(10); {
	case n < 2:
		return g.killGuard()
	case n < 5: // while its client connects again
		if err := g.program.send(order{Do: doReset}); err != nil {
			return err
		}
		g.pause(g.upTo(wardReset))
	}
	return g.kill()
}

// finish kills the program a few times more, when nothing disturbs its guard. It then has both end in good order.
func (g *ward) finish() error {
	for range lastKills {
		if err := g.start(); err != nil {
			return err
		}
		<-time.After(200*time.Millisecond + g.upTo(500*time.Millisecond)) // it may be about to connect, to take the lock or to give it back
		if err := g.kill(); err != nil {
			return err
		}
	}
	if err := g.start(); err != nil {
		return err
	}
	answer, err := g.program.order(order{Do: doFinish})
	for _, stuck := range answer.Stuck {
		g.client.giveUpOn(stuck)
	}
	_, closing := g.program.order(order{Do: doClose})
	return errors.Join(err, closing, g.program.end(), g.killGuard())
}

// start starts the guard and the program, whichever does not run.
func (g *ward) start() (err error) {
	if g.guard == nil {
		err = g.startGuard()
	}
	if err != nil || g.program != nil {
		return err
	}
	g.number++
	config := g.client.cfg
	config.Name = fmt.Sprintf("%s-%d", config.Name, g.number)
	config.Seed, config.Proxied, config.Locks, config.SessionTimeout = g.random.Uint64(), false, []lockSpec{g.spec}, wardTimeout
	config.History = filepath.Join(filepath.Dir(config.History), config.Name+".jsonl")
	config.Socket = g.socket
	g.program, err = startProcess(config, nil, os.Stderr)
	return err
}

// startGuard starts a guard, and waits until programs can register.
func (g *ward) startGuard() error {
	g.guard = exec.Command(g.client.cfg.Guard, "guard", "-socket", g.socket)
	g.guard.Stderr = os.Stderr
	if file := g.client.cfg.Certificates; file != "" {
		g.guard.Env = append(os.Environ(), "CURATOR_CA="+file, "CURATOR_CERT="+file, "CURATOR_KEY="+file)
	}
	output, err := g.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if g.ended, err = startTied(g.guard); err != nil {
		return err
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return fmt.Errorf("the guard has ended after %q: %w", line, err)
	}
	g.client.history.add(event{Kind: guardUp, Lock: g.spec.Name})
	return nil
}

func (g *ward) killGuard() error {
	g.client.history.add(event{Kind: guardDown, Lock: g.spec.Name})
	err := g.guard.Process.Kill()
	if <-g.ended == nil { // Wait has an error for a process that was killed
		err = errors.Join(err, errors.New("the guard has ended before it was killed"))
	}
	g.guard = nil
	return err
}

func (g *ward) kill() error {
	err := g.program.kill()
	g.client.history.add(event{Kind: wardKilled, Lock: g.spec.Name, Value: g.program.config.Name})
	g.program = nil
	return err
}

// isWard reports whether a client is a program in the care of a guard.
func isWard(client string) bool { return strings.Contains(client, "-") }

// wardKill is a kill of a program that had nodes, at a moment when its guard was at work.
type wardKill struct {
	at   int64
	took time.Duration // until they were gone
	what string
}

// harmless are faults that hurt neither servers nor a guard's way to them.
var harmless = []string{"N7", "N8", "N13", "N14", "N17"}

// wardKills are the kills of a lock's holders and waiters that no fault beside has disturbed.
func (r *roundReport) wardKills(spec lockSpec) (all []wardKill) {
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		up := int64(0)
		for i, e := range r.events[client] {
			switch {
			case e.Lock != spec.Name:
			case e.Kind == guardUp:
				up = e.At
			case e.Kind == guardDown:
				up = 0
			case e.Kind == wardKilled && up != 0:
				session, since := r.lastSession(e.Value)
				if session != 0 && (since > up || e.At-up > int64(knownAgain)) {
					all = append(all, r.wardKill(spec, e, session, nextDown(r.events[client][i:], spec))...)
				}
			}
		}
	}
	return all
}

// nextDown is when the guard is killed next.
func nextDown(events []event, spec lockSpec) int64 {
	for _, e := range events {
		if e.Lock == spec.Name && e.Kind == guardDown {
			return e.At
		}
	}
	return forever
}

// lastSession is the last session of a client, and since when it had it. It is 0 if that may have ended.
func (r *roundReport) lastSession(client string) (session, since int64) {
	for _, e := range r.events[client] {
		switch e.Kind {
		case connected:
			session, since = e.Session, e.At
		case expired:
			session = 0
		default: // leaves it
		}
	}
	return session, since
}

// wardKill returns what became of the nodes of a session whose process was killed; nothing if it had none, or something has
// disturbed its guard.
func (r *roundReport) wardKill(spec lockSpec, e event, session, down int64) []wardKill {
	log := r.logAt(e.At)
	if log == nil || r.record.WallOffset == 0 {
		return nil
	}
	over, node := int64(0), "" // by the clock of the log
	for _, n := range log.all {
		ended := n.ended
		if n.deleted == 0 {
			ended = math.MaxInt64
		}
		if n.session == session && filepath.Dir(n.path) == spec.path() && n.created <= r.wall(e.At) && ended > max(r.wall(e.At), over) {
			over, node = ended, n.path
		}
	}
	if node == "" {
		return nil
	}
	end := forever
	if over != math.MaxInt64 {
		end = over*int64(time.Millisecond) - r.record.WallOffset
	}
	until := min(end, e.At+int64(lateAfter))
	disturbed := slices.ContainsFunc(r.active(e.At, until), func(f faultRecord) bool {
		return !slices.Contains(harmless, strings.TrimPrefix(f.Fault, combined+" "))
	})
	if disturbed || down <= until {
		return nil
	}
	return []wardKill{{at: e.At, took: time.Duration(end - e.At), what: fmt.Sprintf("%s of %s, session %#x", node, e.Value, session)}}
}

// late finds programs whose nodes stayed after a kill, although their guard was at work.
func late(r *roundReport, spec lockSpec) (found []violation) {
	for _, k := range r.wardKills(spec) {
		if k.took > lateAfter {
			found = append(found, violation{
				promise: lateSuccessors, round: r, at: k.at,
				what: fmt.Sprintf("%s was there for more than %v after the kill", k.what, lateAfter),
			})
		}
	}
	return found
}
