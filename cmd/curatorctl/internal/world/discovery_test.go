// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/discovery"
)

// discovery prepares a service.
func (m *member) discovery() error {
	services, err := discovery.NewServiceDiscovery[string](m.client, "/services", nil)
	if err != nil {
		return err
	}
	found, err := services.NewCache("orders")
	if err == nil {
		err = found.Start()
	}
	if err != nil {
		return err
	}
	m.services, m.found = services, found
	m.close = append(m.close, found.Close, services.Close)
	m.all.Lock()
	defer m.all.Unlock()
	if m.all.there == nil {
		m.all.there = make(map[string]bool)
	}
	mine := fmt.Sprintf("%d-", m.c.Index)
	for id := range m.all.there { // those of the process before are gone, or will be
		if strings.HasPrefix(id, mine) {
			m.all.there[id] = false
		}
	}
	n := 0
	m.acts["discovery"] = func(ctx context.Context, random *rand.Rand) {
		n++
		instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
		instance.ID = mine + strconv.Itoa(n)
		set := func(there bool) {
			m.all.Lock()
			defer m.all.Unlock()
			m.all.there[instance.ID] = there
		}
		err := services.Register(ctx, instance)
		m.logf("registers %s: %v", instance.ID, err)
		if ctx.Err() != nil { // the process was killed
			return
		}
		if set(err == nil); err != nil || random.IntN(2) == 0 {
			return
		}
		sleep(ctx, upTo(random, 2*time.Second))
		if random.IntN(2) == 0 {
			payload := strconv.Itoa(random.IntN(100))
			instance.Payload = &payload
			m.logf("updates %s: %v", instance.ID, services.Update(ctx, instance))
			return
		}
		if ctx.Err() == nil {
			m.logf("unregisters %s: %v", instance.ID, services.Unregister(instance))
			set(false)
		}
	}
	return nil
}

// settleDiscovery finds instances that are missing or left.
func (all *truth) settleDiscovery(ctx context.Context, m *member) {
	there := make(map[string]bool)
	for _, z := range m.znodes("/services/orders") {
		if id, isInstance := strings.CutPrefix(z.Path, "/services/orders/"); isInstance {
			there[id] = true
		}
	}
	for id, want := range all.there {
		if want {
			all.chance(ruleRegistered)
		} else {
			all.chance(ruleUnregistered)
		}
		if there[id] != want {
			m.w.Findf("instance %s is there: %t, expected %t", id, there[id], want)
		}
	}
	if !m.o.plays("discovery") {
		return
	}
	all.chance(ruleFound)
	read, err := m.services.Instances(ctx, "orders")
	if err != nil || len(read) != len(there) {
		m.findf("reads the instances %v, %v, and there are %v", read, err, there)
	}
	text := func(i *discovery.ServiceInstance[string]) string {
		if i.Payload == nil {
			return i.ID
		}
		return i.ID + " with " + *i.Payload
	}
	want := make(map[string]bool)
	for _, instance := range read {
		want[text(&instance)] = true
	}
	for _, other := range all.members {
		found := make(map[string]bool)
		for _, instance := range other.found.Instances() {
			found[text(instance)] = true
		}
		if !maps.Equal(found, want) {
			other.findf("finds the instances %v, and there are %v", found, want)
		}
	}
}
