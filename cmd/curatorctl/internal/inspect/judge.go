// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/schedule"
)

// judge adds the findings about the recipes at one path.
func (x *explainer) judge(path string, recipes []Recipe, strangers map[string]framework.Stat) error {
	x.said.Recipes = append(x.said.Recipes, recipes...)
	var contended []string
	for _, r := range recipes {
		for _, p := range r.Participants {
			s := x.census.Sessions[p.Session]
			if s == nil {
				x.newcomers = x.newcomers || p.Session != 0 && x.census.led
				continue
			}
			told := *s
			told.Ephemerals = nil // those of all servers are long
			x.said.Sessions[s.ID] = told
		}
		q := &queue{explainer: x, Recipe: r, strangers: strangers}
		switch {
		case r.Kind.IsLock():
			contended = append(contended, string(r.Kind))
			q.judge()
		case r.Kind == Partitions || r.Kind == Jobs:
			if err := q.judgeBelow(); err != nil {
				return err
			}
		default:
			q.find(ReasonOther, false, "", "It is no lock.")
		}
	}
	switch {
	case len(recipes) == 0:
		x.add(Finding{Path: path, Reason: ReasonFree, Text: x.describeFolder(path)})
	case len(contended) > 1:
		slices.Sort(contended)
		x.add(Finding{Path: path, Reason: ReasonMixed, Trouble: true, Text: fmt.Sprintf("%s is used as %s at the same time. They do not exclude each other: "+
			"clients that hold one and clients that hold another work together. Have all clients use one kind.", shownPath(path), strings.Join(contended, " and as "))})
	}
	return nil
}

// describeFolder says of a path without a recipe how many locks are below it.
func (x *explainer) describeFolder(path string) string {
	text := shownPath(path) + " has no contender: it is no recipe, or a lock that is free."
	survey, err := Walk(x.ctx, x.client, path, HeadsOnly(), WithMemoryLimit(belowLimit))
	n := 0
	for _, r := range survey.Recipes {
		if r.Kind.IsLock() {
			n++
		}
	}
	if err != nil || n == 0 {
		return text
	}
	atLeast := ""
	if survey.Partial {
		atLeast = "at least "
	}
	return text + fmt.Sprintf(" Locks and elections with contenders below it: %s%d. curatorctl locks %s lists them.", atLeast, n, quoted(path))
}

// belowLimit bounds what is read to count the locks below a folder.
const belowLimit = 32 << 20

func (x *explainer) add(f Finding) { x.said.Findings = append(x.said.Findings, f) }

// judgeBelow says where a group of partitions or a fleet of jobs stands, and explains the locks below it for which clients wait.
func (q *queue) judgeBelow() error {
	below := framework.JoinPath(q.Path, turnsFolder)
	if q.Kind == Jobs {
		below = q.Path
	}
	survey, err := Walk(q.ctx, q.client, below, append(slices.Clip(q.opts), HeadsOnly())...)
	if err != nil {
		return err
	}
	awaited := slices.DeleteFunc(survey.Recipes, func(r Recipe) bool { return r.Waiters == 0 })
	if q.Kind == Jobs {
		err = q.judgeJobs()
	} else {
		q.find(ReasonOther, false, "", fmt.Sprintf("Members wait for %d of %d partitions.", len(awaited), q.Items))
	}
	for _, r := range awaited {
		if err := q.explain(r.Path); err != nil && !errors.Is(err, framework.ErrNoNode) {
			return err
		}
	}
	return err
}

// judgeJobs says which jobs of a fleet do not just wait for their next tick, and why.
func (q *queue) judgeJobs() error {
	jobs, err := schedule.List(q.ctx, q.client, q.Path)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s is %s: %d jobs.", shownPath(q.Path), inWords[q.Kind], len(jobs))
	n := 0
	for _, e := range jobs {
		state := e.Describe()
		switch {
		case state == "waiting":
			continue
		case e.Failures > 0 && len(e.History) > 0 && e.History[0].Error != "":
			state += fmt.Sprintf(" (%d ticks have failed since one succeeded, the last run with %q)", e.Failures, cut(e.History[0].Error, longText))
		}
		if n++; n <= shown {
			fmt.Fprintf(&text, " %s: %s.", Printable(cut(e.Name, longText)), Printable(cut(state, longPath)))
		}
	}
	if n > shown {
		fmt.Fprintf(&text, " %d more are not waiting for a tick.", n-shown)
	}
	q.add(Finding{
		Path: q.Path, Kind: q.Kind, Reason: ReasonOther, Text: text.String(),
		Advice: []Advice{{"curatorctl jobs " + quoted(q.Path), "It only reads: where each job stands. For one job: curatorctl job history " + quoted(q.Path) + " JOB"}},
	})
	return nil
}

// queue is one recipe that is being explained.
type queue struct {
	*explainer
	Recipe
	strangers map[string]framework.Stat
}

// shown is how many holders, and how many waiters, a text names.
const shown = 5

// find adds a finding, with who holds and who waits before the reason.
func (q *queue) find(reason Reason, isTrouble bool, node, why string, advice ...Advice) {
	var text strings.Builder
	fmt.Fprintf(&text, "%s is %s", shownPath(q.Path), inWords[q.Kind])
	if q.Kind.IsLock() || q.Holders+q.Waiters > 0 {
		fmt.Fprintf(&text, ": %d hold, %d wait", q.Holders, q.Waiters)
	}
	if q.MaxLeases > 0 {
		fmt.Fprintf(&text, ", at most %d hold", q.MaxLeases)
	}
	text.WriteString(".")
	described := make(map[int64]bool)
	for _, holds := range []bool{true, false} {
		n := 0
		for _, p := range q.Participants {
			if p.Holds != holds || !q.Kind.IsLock() || q.isInTwoQueues(p) {
				continue
			}
			if n++; n <= shown {
				text.WriteString(" " + q.introduce(p, described))
			}
		}
		if n > shown {
			fmt.Fprintf(&text, " %d more %s.", n-shown, map[bool]string{true: "hold", false: "wait"}[holds])
		}
	}
	q.add(Finding{Path: q.Path, Kind: q.Kind, Reason: reason, Trouble: isTrouble, Node: node, Text: text.String() + " " + why, Advice: advice})
}

// isInTwoQueues reports whether a participant is the permit that a client waits for, whose turn says the same.
func (q *queue) isInTwoQueues(permit locks.Participant) bool {
	return permit.LockName == leaseName && !permit.Holds && slices.ContainsFunc(q.Participants, func(turn locks.Participant) bool {
		return turn.LockName == mutexName && turn.Session == permit.Session
	})
}

// introduce says who a participant is, and describes its session unless that was described before.
func (q *queue) introduce(p locks.Participant, described map[int64]bool) string {
	if p.Token == 0 {
		return shownPath(p.Path) + " may not be read."
	}
	session := "session " + SessionText(p.Session)
	if !described[p.Session] {
		described[p.Session] = true
		session = q.census.Describe(p.Session)
	}
	if !p.Holds {
		return fmt.Sprintf("%s waits for %s; %s.", Name(p), agoOf(p), session)
	}
	what := "it"
	number, isSlot := Slot(p)
	switch {
	case isSlot:
		what = "the number " + number
	case q.Kind.hasPermits():
		what = "a permit"
	}
	return fmt.Sprintf("%s holds %s since %s, for %s, with the token %d; %s.",
		Name(p), what, p.Since.UTC().Format(time.RFC3339), agoOf(p), p.Token, session)
}

// judge finds out why the first waiter waits, and what is wrong behind it.
func (q *queue) judge() {
	waiter, waits := q.first(false)
	switch {
	case q.Holders+q.Waiters == 0:
		q.find(ReasonFree, false, "", "No client holds it or waits for it.")
		return
	case !waits:
		q.judgeHolder(nil)
	default:
		q.judgeWaiter(waiter)
	}
	main := &q.said.Findings[len(q.said.Findings)-1]
	if i := slices.IndexFunc(q.Participants, q.isUnknown); i >= 0 && !main.Trouble && main.Unknown == "" {
		_, why := q.census.of(q.Participants[i].Session)
		main.Unknown = fmt.Sprintf("whether the client of %s is alive (%s). %s", Name(q.Participants[i]), why, q.census.Remedy)
	}
	q.judgeOthers(main.Node)
}

// judgeOthers finds what will hold up those who wait behind the first waiter, beside what was reported of a node.
func (q *queue) judgeOthers(reported string) {
	told := make(map[int64]bool) // sessions
	for _, p := range q.Participants {
		for _, ahead := range p.WaitsFor {
			if _, isStranger := q.strangers[ahead]; isStranger && ahead != reported {
				q.findStranger(ahead, p)
				reported = ahead
			}
		}
		if life, _ := q.census.of(p.Session); !p.Holds && life.isDead() && p.Path != reported && !told[p.Session] {
			told[p.Session] = true
			q.findDead(p, fmt.Sprintf("When the turn of %s comes, contenders behind it wait for its client.", Name(p)))
		}
	}
	for _, name := range q.Foreign {
		if q.Kind == Semaphore && strings.HasPrefix(name, leasesFolder+"/") && q.Waiters > 0 {
			path := framework.JoinPath(q.Path, name)
			q.find(ReasonForeign, true, path, fmt.Sprintf("%s is no permit. Clients in Java count it as one all the same.", shownPath(path)), deleting(path))
		}
	}
}

func (q *queue) first(holds bool) (p locks.Participant, found bool) {
	i := slices.IndexFunc(q.Participants, func(p locks.Participant) bool { return p.Holds == holds })
	if i < 0 {
		return p, false
	}
	return q.Participants[i], true
}

// inFlight is longer than a client that is alive takes to learn that it has a permit.
const inFlight = 10 * time.Second

// judgeWaiter says why the first waiter waits.
func (q *queue) judgeWaiter(waiter locks.Participant) {
	for _, ahead := range waiter.WaitsFor {
		if _, isStranger := q.strangers[ahead]; isStranger {
			q.findStranger(ahead, waiter)
			return
		}
	}
	if q.Holders > 0 {
		q.judgeHolder(&waiter)
		return
	}
	life, _ := q.census.of(waiter.Session)
	grantTakes := inFlight // for longer than half of its timeout a client that is alive is heard
	if s := q.census.Sessions[waiter.Session]; s != nil {
		grantTakes = max(grantTakes, milliseconds(s.Timeout))
	}
	switch {
	case waiter.Token == 0:
		q.findUnreadable(waiter)
	case life.isDead():
		q.findDead(waiter, "It is the first, so the others wait for its client.")
	case waiter.LockName == leaseName && life == LifeAlive && time.Since(waiter.Since) > grantTakes:
		q.find(ReasonPaused, true, waiter.Path, "No client has a permit, and the first waiter gets none. So the maximum is 0: the semaphore is paused, "+
			"or the znode that has its maximum says so.")
	default:
		q.find(ReasonTurn, false, waiter.Path, "The first waiter is about to get it.")
	}
}

// judgeHolder says what holders do that the waiter, if there is one, waits for. The worst comes first.
func (q *queue) judgeHolder(waiter *locks.Participant) {
	oldest := cmp.Or(q.OldestHold(), new(locks.Participant))
	unknown, isTrouble := q.judgeClients()
	switch {
	case isTrouble:
	case q.overstays(waiter): // whether or not its client is known to be alive
		q.judgeOverstay(oldest, unknown, cmp.Or(oldest.Path, waiter.Path))
	case unknown.Path != "":
		q.findUnknown(unknown, waiter != nil)
	case waiter == nil:
		q.find(ReasonHeld, false, oldest.Path, "No client waits.")
	default:
		q.judgeKind(waiter, cmp.Or(oldest.Path, waiter.Path))
	}
}

// judgeClients finds a holder whose client is gone or whose node cannot be read, and reports whether there is one. Otherwise it
// returns the first of which it is not known.
func (q *queue) judgeClients() (unknown locks.Participant, isTrouble bool) {
	for _, p := range q.Participants {
		life, _ := q.census.of(p.Session)
		switch {
		case !p.Holds:
		case p.Token == 0:
			q.findUnreadable(p)
			return unknown, true
		case life.isDead():
			q.findDead(p, "")
			return unknown, true
		case life == LifeUnknown && unknown.Path == "":
			unknown = p
		}
	}
	return unknown, false
}

// judgeOverstay says why a hold has lasted for too long.
func (q *queue) judgeOverstay(oldest *locks.Participant, unknown locks.Participant, node string) {
	what := "The client of the oldest hold is alive: it works, it has forgotten the release, or it waits for something itself."
	if unknown.Path != "" {
		_, why := q.census.of(unknown.Session)
		what = fmt.Sprintf("Whether the client of %s is alive is not known (%s).", Name(unknown), why)
	}
	reason, why := ReasonOverstays, fmt.Sprintf("The first waiter has waited for longer than %v. %s", q.longerThan, what)
	if oldest.RevocationRequested() {
		reason, why = ReasonAsked, why+" It was asked to give way, and has not."
	}
	var advice []Advice
	if oldest.Path != "" { // no client can be asked before a holder is known
		advice = []Advice{asking(*oldest)}
	}
	q.find(reason, true, node, why+" See what that process does.", advice...)
}

// judgeKind says what a recipe lets the first waiter wait for while all holders are alive.
func (q *queue) judgeKind(waiter *locks.Participant, node string) {
	switch {
	case q.Kind == LeaderLatch:
		q.find(ReasonTurn, false, node, "Candidates wait for as long as the leader lives.")
	case q.Kind == Slots:
		q.find(ReasonLimit, false, node, "The first waiter gets the next number that is released, or the next that was lost when its delay is over.")
	case q.Kind.hasPermits():
		q.find(ReasonLimit, false, node, "All permits are out. The first waiter gets the next permit that is released."+q.hoarder())
	case q.isBehindWriter(*waiter):
		q.find(ReasonWriter, false, waiter.Path, "Readers hold it, and readers that have come after the first waiter wait behind that writer.")
	default:
		q.find(ReasonTurn, false, node, "The first waiter gets it when the holder releases it.")
	}
}

// overstays reports whether a waiter has waited for too long, as far as a limit was given.
func (q *queue) overstays(waiter *locks.Participant) bool {
	return waiter != nil && q.longerThan > 0 && time.Since(waiter.Since) > q.longerThan && q.Kind != LeaderLatch
}

func (q *queue) isUnknown(p locks.Participant) bool {
	life, _ := q.census.of(p.Session)
	return life == LifeUnknown && p.Token != 0
}

// findUnknown reports a holder of whose client it is not known whether it is alive.
func (q *queue) findUnknown(p locks.Participant, waits bool) {
	_, why := q.census.of(p.Session)
	text := fmt.Sprintf("Whether the client of %s is alive is not known.", Name(p))
	if waits {
		text += " If it is, the first waiter gets its turn with a release."
	}
	text += " If it is not, its node goes by itself when its session expires: within maxSessionTimeout, by default 40s. " +
		"A node that is still there after that time has a client that was alive at this look."
	q.find(ReasonUnknown, false, p.Path, text)
	q.said.Findings[len(q.said.Findings)-1].Unknown = fmt.Sprintf("whether the client of %s is alive (%s). %s", Name(p), why, q.census.Remedy)
}

// isBehindWriter reports whether readers wait behind a writer that waits for readers.
func (q *queue) isBehindWriter(writer locks.Participant) bool {
	holder, _ := q.first(true)
	return q.Kind == ReadWrite && holder.LockName != writer.LockName && slices.ContainsFunc(q.Participants, func(p locks.Participant) bool {
		return !p.Holds && p.LockName == holder.LockName
	}) && holder.Position < writer.Position && writer.LockName == "__WRIT__"
}

// hoarder names the session that has several permits.
func (q *queue) hoarder() string {
	count := make(map[int64]int)
	most := int64(0)
	for _, p := range q.Participants {
		if p.Holds && p.Session != 0 {
			if count[p.Session]++; count[p.Session] > count[most] {
				most = p.Session
			}
		}
	}
	if count[most] < 2 {
		return ""
	}
	return fmt.Sprintf(" Session %s has %d of them.", SessionText(most), count[most])
}

// findDead reports a contender whose client does not answer.
func (q *queue) findDead(p locks.Participant, why string) {
	s := q.census.Sessions[p.Session]
	expiry := "when its session expires"
	if s.ExpiresIn > 0 {
		expiry = fmt.Sprintf("when its session expires, in %v at most if the client does not come back", milliseconds(s.ExpiresIn).Round(time.Second))
	}
	reason := ReasonLost
	text := fmt.Sprintf("The client of %s has no connection to any server. Its node goes by itself %s.", Name(p), expiry)
	if s.Life == LifeSilent {
		reason = ReasonSilent
		of := ""
		if s.Timeout > 0 {
			of = fmt.Sprintf(" of its timeout of %v", milliseconds(s.Timeout))
		}
		text = fmt.Sprintf("The client of %s has not been heard for %v%s: it is paused, overloaded or cut off. Its node goes by itself %s.",
			Name(p), milliseconds(s.Silence).Round(time.Millisecond), of, expiry)
	}
	q.find(reason, true, p.Path, strings.TrimSpace(text+" "+why), breaking(p))
}

// findStranger reports a znode that is no contender and keeps a contender out.
func (q *queue) findStranger(path string, out locks.Participant) {
	stat := q.strangers[path]
	text := fmt.Sprintf("%s is no contender, but its name ends like one, so %s waits for it.", shownPath(path), Name(out))
	switch {
	case stat.Czxid == 0:
		q.find(ReasonUnreadable, true, path, text+" This client may not read it.", Advice{"curatorctl acl " + quoted(path), "It only reads. An identity that may read the znode is needed."})
	case stat.EphemeralOwner == 0:
		q.find(ReasonForeign, true, path, fmt.Sprintf("%s It belongs to no session, so it stays until it is deleted. It is there since %s.",
			text, time.UnixMilli(stat.Ctime).UTC().Format(time.RFC3339)), deleting(path))
	default: // perhaps of a library that is not known here
		life, _ := q.census.of(stat.EphemeralOwner)
		q.find(ReasonForeign, life.isDead(), path,
			text+" It belongs to "+q.census.Describe(stat.EphemeralOwner)+", and goes with it.", deleting(path))
	}
}

func (q *queue) findUnreadable(p locks.Participant) {
	q.find(ReasonUnreadable, true, p.Path, fmt.Sprintf("This client may not read %s, so its owner is not known. Waiters that may not read it either fail, or miss its end.", shownPath(p.Path)),
		Advice{"curatorctl acl " + quoted(p.Path), "It only reads. An identity that may read the znode is needed."})
}

func deleting(path string) Advice {
	return Advice{"curatorctl rm " + quoted(path), "If an application needs the znode, it loses it. Look first: curatorctl stat " + quoted(path)}
}

// asking is what helps against a holder that is alive. To break its lock is for one that was asked before.
func asking(p locks.Participant) Advice {
	if p.RevocationRequested() {
		return breaking(p)
	}
	return Advice{
		"curatorctl lock revoke -yes " + quoted(p.Path),
		"The request replaces the name in the node. Only a client that listens for it gives way. If it does not, explain names what is left.",
	}
}

func breaking(p locks.Participant) Advice {
	return Advice{
		"curatorctl lock break -yes -token " + strconv.FormatInt(p.Token, 10) + " " + quoted(p.Path),
		"The next contender enters. If the old client only was cut off or paused, both may work until it learns of it, and only a store that checks tokens is safe.",
	}
}

// inWords are the kinds in a sentence.
var inWords = map[Kind]string{
	Mutex: "a mutex", ReadWrite: "a read/write lock", Semaphore: "a semaphore", Slots: "a set of numbers", LeaderLatch: "an election",
	KazooLock: "a lock of kazoo", KazooSemaphore: "a semaphore of kazoo", Queue: "a queue", DoubleBarrier: "a double barrier",
	Service: "a service", Partitions: "a group that divides partitions",
	Jobs: "a fleet with jobs on a schedule",
}
