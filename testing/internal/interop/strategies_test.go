// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

// chooser is a provider of one side.
type chooser interface {
	choose(n int) []string // ids, "-" for none
	up() []string          // ID:PORT
	note(id string)        // an error
}

// javaChooser is Curator's ServiceProvider.
type javaChooser struct {
	t    *testing.T
	java actor
	name string
}

func (c javaChooser) choose(n int) []string {
	return c.java.do(c.t, "service-choose", servicesPath, c.name, strconv.Itoa(n))
}

func (c javaChooser) up() []string { return c.java.do(c.t, "service-up", servicesPath, c.name) }

func (c javaChooser) note(id string) { c.java.do(c.t, "service-note", servicesPath, c.name, id) }

// ourChooser is ours.
type ourChooser struct {
	t        *testing.T
	provider *discovery.ServiceProvider[string]
}

func (c ourChooser) choose(n int) (all []string) {
	for range n {
		id := "-"
		if i, err := c.provider.Instance(); err == nil {
			id = i.ID
		} else {
			require.ErrorIs(c.t, err, discovery.ErrNoInstance)
		}
		all = append(all, id)
	}
	return all
}

func (c ourChooser) up() (all []string) {
	for _, i := range c.provider.Instances() {
		all = append(all, fmt.Sprintf("%s:%d", i.ID, *i.Port))
	}
	return all
}

func (c ourChooser) note(id string) {
	for _, i := range c.provider.Instances() {
		if i.ID == id {
			copied := *i
			c.provider.NoteError(&copied)
		}
	}
}

// played is a service whose instances a test writes.
type played struct {
	t      *testing.T
	client *framework.Framework
	name   string
	chooser

	want map[string]int // ports of those that are up, by id
	last string         // that was chosen
}

func (p *played) path(id string) string { return servicesPath + "/" + p.name + "/" + id }

func (p *played) write(id string, port int) {
	p.t.Helper()
	i := instance{Name: p.name, ID: id, Address: "10.0.0.7", Port: &port, Type: discovery.Permanent, Registered: time.UnixMilli(1)}
	data, err := discovery.JSONSerializer[string]{}.Serialize(i)
	require.NoError(p.t, err)
	_, err = p.client.Create(zktest.Context(p.t), p.path(id), data, framework.CreatingParentsIfNeeded(), framework.OrSetData())
	require.NoError(p.t, err)
	p.want[id] = port
}

func (p *played) remove(id string) {
	p.t.Helper()
	require.NoError(p.t, p.client.Delete(zktest.Context(p.t), p.path(id)))
	delete(p.want, id)
}

// settle waits until the provider has all that was written before, and those are up that should be.
func (p *played) settle() {
	p.t.Helper()
	p.write("last", 1)
	p.await()
	p.remove("last")
	p.await()
}

func (p *played) await() {
	p.t.Helper()
	want := []string{}
	for id, port := range p.want {
		want = append(want, fmt.Sprintf("%s:%d", id, port))
	}
	slices.Sort(want)
	require.Eventually(p.t, func() bool { return slices.Equal(want, slices.Sorted(slices.Values(p.up()))) }, limit, time.Millisecond, "%q, not %q", want, p.up)
}

// calls chooses many times and says how the calls were spread.
func (p *played) calls() string {
	p.t.Helper()
	const n = 1200
	counts := map[string]int{}
	ids := p.choose(n)
	for _, id := range ids {
		counts[id]++
	}
	before := p.last
	p.last = ids[n-1]
	up := len(p.want)
	switch {
	case counts["-"] == n:
		return "none"
	case len(counts) == 1 && up > 1 && p.last == before:
		return fmt.Sprintf("the same of %d", up)
	case len(counts) == 1 && up > 1:
		return fmt.Sprintf("another one of %d", up)
	}
	for _, got := range counts {
		if mean := n / up; got < mean*7/10 || got > mean*13/10 {
			return fmt.Sprint(counts)
		}
	}
	return fmt.Sprintf("all of %d", len(counts))
}

// steps are what happens to the instances of a service.
var steps = []struct {
	name string
	do   func(p *played)
	// How Java's strategies spread the calls after it, by name.
	java map[string]string
}{
	{"five instances", func(p *played) {
		for n := range 5 {
			p.write(fmt.Sprint("i", n), 8000+n)
		}
	}, map[string]string{"round robin": "all of 5", "random": "all of 5", "sticky": "another one of 5"}},
	{
		"an error of the one that was chosen last", func(p *played) { p.note(p.last) },
		map[string]string{"round robin": "all of 5", "random": "all of 5", "sticky": "the same of 5"},
	},
	{"the second error of one", func(p *played) {
		p.note("i0")
		p.note("i0")
		delete(p.want, "i0")
		if p.last == "i0" {
			p.last = "down"
		}
	}, map[string]string{"round robin": "all of 4", "random": "all of 4", "sticky": ""}},
	{"two errors of the one that was chosen last", func(p *played) {
		p.note(p.last)
		p.note(p.last)
		delete(p.want, p.last)
	}, map[string]string{"round robin": "all of 3", "random": "all of 3", "sticky": "another one of 3"}},
	{
		"another one comes", func(p *played) { p.write("a", 9000) },
		map[string]string{"round robin": "all of 4", "random": "all of 4", "sticky": "the same of 4"},
	},
	{"one that is down goes and comes again unchanged", func(p *played) {
		p.remove("i0")
		p.write("i0", 8000)
		delete(p.want, "i0")
	}, map[string]string{"round robin": "all of 4", "random": "all of 4", "sticky": "the same of 4"}},
	{
		"one that is down changes", func(p *played) { p.write("i0", 9001) },
		map[string]string{"round robin": "all of 5", "random": "all of 5", "sticky": "the same of 5"},
	},
	{"the one that was chosen last goes and comes again unchanged", func(p *played) {
		port := p.want[p.last]
		p.remove(p.last)
		p.write(p.last, port)
	}, map[string]string{"round robin": "all of 5", "random": "all of 5", "sticky": "the same of 5"}},
	{
		"the one that was chosen last changes", func(p *played) { p.write(p.last, 9002) },
		map[string]string{"round robin": "all of 5", "random": "all of 5", "sticky": "another one of 5"},
	},
	{"all go but for the one that was chosen last and one more", func(p *played) {
		for more := 1; len(p.want) > 2; {
			for id := range p.want {
				switch {
				case id == p.last:
				case more > 0:
					more--
				case len(p.want) > 2:
					p.remove(id)
				}
			}
		}
	}, map[string]string{"round robin": "all of 2", "random": "all of 2", "sticky": "the same of 2"}},
	{"all go", func(p *played) {
		for id := range p.want {
			p.remove(id)
		}
	}, map[string]string{"round robin": "none", "random": "none", "sticky": "none"}},
}

// TestStrategiesOfBothSides: each strategy of both sides spreads calls as in the table, while
// instances go down, come, go and change.
func TestStrategiesOfBothSides(t *testing.T) {
	needsJava(t)
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	java := newActorAt(t, server.Addr())
	ours := newServices(t, client)
	for name, newStrategy := range map[string]func() discovery.Strategy{
		"round robin": discovery.RoundRobin, "random": discovery.Random,
		"sticky": func() discovery.Strategy { return discovery.Sticky(discovery.RoundRobin()) },
	} {
		for _, side := range []string{"java", "go"} {
			t.Run(name+"/"+side, func(t *testing.T) {
				p := &played{t: t, client: client, name: strings.ReplaceAll(name, " ", "-") + "-" + side, want: map[string]int{}}
				if side == "java" {
					java.do(t, "service-open", servicesPath, p.name, name, "2", "3600000")
					p.chooser = javaChooser{t, java, p.name}
				} else {
					provider, err := ours.NewProvider(p.name, discovery.ProviderConfig[string]{
						Strategy: newStrategy(), Down: discovery.DownInstancePolicy{Threshold: 2, Timeout: time.Hour},
					})
					require.NoError(t, err)
					require.NoError(t, provider.Start())
					require.NoError(t, provider.Wait(zktest.Context(t)))
					defer func() { require.NoError(t, provider.Close()) }()
					p.chooser = ourChooser{t, provider}
				}
				for _, step := range steps {
					step.do(p)
					p.settle()
					if spread := p.calls(); step.java[name] != "" {
						require.Equal(t, step.java[name], spread, step.name)
					}
				}
			})
		}
	}
}

// TestStrategiesDownInstancesOfBothSides: an instance is up again after the timeout of its policy, which Java
// notices up to half a timeout later.
func TestStrategiesDownInstancesOfBothSides(t *testing.T) {
	needsJava(t)
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	java := newActorAt(t, server.Addr())
	const timeout = 2 * time.Second
	provider, err := newServices(t, client).NewProvider("go", discovery.ProviderConfig[string]{Down: discovery.DownInstancePolicy{Threshold: 1, Timeout: timeout}})
	require.NoError(t, err)
	require.NoError(t, provider.Start())
	require.NoError(t, provider.Wait(zktest.Context(t)))
	defer func() { require.NoError(t, provider.Close()) }()
	java.do(t, "service-open", servicesPath, "java", "round robin", "1", strconv.FormatInt(timeout.Milliseconds(), 10))
	for _, p := range []*played{
		{t: t, client: client, name: "go", chooser: ourChooser{t, provider}, want: map[string]int{}},
		{t: t, client: client, name: "java", chooser: javaChooser{t, java, "java"}, want: map[string]int{}},
	} {
		p.write("a", 1)
		p.write("b", 1)
		p.await()
		begin := time.Now()
		p.note("a")
		p.note("a") // which is down: there is none of this id
		delete(p.want, "a")
		p.await()
		require.Equal(t, []string{"b"}, p.choose(1))
		p.want["a"] = 1
		p.await()
		require.GreaterOrEqual(t, time.Since(begin), timeout-10*time.Millisecond, p.name)
	}
}
