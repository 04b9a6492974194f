package ensemble_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// Start three servers, kill the leader and wait for the next one. It needs Java.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := ensemble.Start(ctx, ensemble.WithSize(3))
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	leader, err := e.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		log.Fatal(err)
	}
	next, err := e.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("another leader:", next.ID() != leader.ID())
}

// Ask whether a server has a feature.
func ExampleVersion_Has() {
	version, err := ensemble.VersionIn("Zookeeper version: 3.5.10-1, built on 05/31/2022 14:27 GMT\nMode: standalone\n")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(version, version.Has(ensemble.PersistentWatches))
	// Output: 3.5.10 false
}
