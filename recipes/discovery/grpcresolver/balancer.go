// SPDX-License-Identifier: Apache-2.0

package grpcresolver

import (
	"math/rand/v2"
	"slices"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
)

// Weighted is the name of a balancer that gives each instance a share of the calls in proportion to
// the Weight of its [Attributes]. The package registers it:
//
//	grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + grpcresolver.Weighted + `": {}}]}`)
//
// An instance with the weight 0 gets no calls while an instance with more is connected. If all have
// 0, all have the same share. A changed weight counts from the next call on, over the same
// connections. gRPC's weighted_round_robin takes its weights from reports of the servers, and no
// balancer of gRPC takes them from a resolver outside of it.
const Weighted = "zookeeper_weighted"

func init() { balancer.Register(weightedBuilder{}) } //nolint:gochecknoinits // gRPC registers balancers at no other time

type weightedBuilder struct{}

func (weightedBuilder) Name() string { return Weighted }

// Build leaves the connections to gRPC, one pick_first for each endpoint.
func (weightedBuilder) Build(conn balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return endpointsharding.NewBalancer(weightedConn{conn}, opts, balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
}

// weightedConn replaces the round robin of endpointsharding.
type weightedConn struct{ balancer.ClientConn }

func (c weightedConn) UpdateState(state balancer.State) {
	if state.ConnectivityState == connectivity.Ready {
		state.Picker = newPicker(endpointsharding.ChildStatesFromPicker(state.Picker))
	}
	c.ClientConn.UpdateState(state)
}

// picker chooses among the endpoints that are ready.
type picker struct {
	pickers []balancer.Picker
	sums    []uint64 // of the weights up to each endpoint
}

func newPicker(children []endpointsharding.ChildState) *picker {
	p := new(picker)
	sum := uint64(0)
	for _, child := range children {
		if child.State.ConnectivityState != connectivity.Ready {
			continue
		}
		known, _ := AttributesOf(child.Endpoint)
		sum += uint64(known.Weight)
		p.pickers, p.sums = append(p.pickers, child.State.Picker), append(p.sums, sum)
	}
	if sum == 0 {
		for i := range p.sums {
			p.sums[i] = uint64(i) + 1
		}
	}
	return p
}

func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	index, _ := slices.BinarySearch(p.sums, rand.Uint64N(p.sums[len(p.sums)-1])+1)
	return p.pickers[index].Pick(info)
}
