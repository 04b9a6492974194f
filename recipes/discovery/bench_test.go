package discovery_test

import (
	"fmt"
	"testing"

	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

// BenchmarkLookUp measures how long a call takes to choose one of a hundred instances.
// TestALookUpCostsNothing asserts that it allocates and sends nothing.
func BenchmarkLookUp(b *testing.B) {
	d := newServices(b, zktest.Client(b, zktest.NewServer(b)))
	var all []string
	for n := range 100 {
		all = append(all, fmt.Sprintf("%03d", n))
		register(b, d, newInstance(all[n]))
	}
	for name, strategy := range map[string]discovery.Strategy{
		"round-robin": discovery.RoundRobin(), "random": discovery.Random(), "sticky": discovery.Sticky(discovery.Random()),
	} {
		b.Run(name, func(b *testing.B) {
			p := newProvider(b, d, discovery.ProviderConfig[string]{Strategy: strategy})
			awaitIDs(b, p, all...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Instance(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
