// SPDX-License-Identifier: Apache-2.0

package ensemble_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// Start three servers, kill the leader and wait for the next one. It needs Java.
func Example() { //nolint:testableexamples // it needs Java, and examples with output run without it too
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := ensemble.Start(ctx, ensemble.WithSize(3))
	if err != nil {
		panic(err)
	}
	defer e.Close()
	leader, err := e.Leader(ctx)
	if err != nil {
		panic(err)
	}
	if err := leader.Kill(); err != nil {
		panic(err)
	}
	next, err := e.Leader(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("another leader:", next.ID() != leader.ID())
}

// Ask whether a server has a feature.
func ExampleVersion_Has() {
	version, err := ensemble.VersionIn("Zookeeper version: 3.5.10-1, built on 05/31/2022 14:27 GMT\nMode: standalone\n")
	if err != nil {
		panic(err)
	}
	fmt.Println(version, version.Has(ensemble.PersistentWatches))
	// Output: 3.5.10 false
}
