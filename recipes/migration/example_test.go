// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/migration"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The second release of a program adds a migration. Each replica calls Migrate when it starts.
func ExampleManager_Migrate() {
	server, err := zkserver.Start()
	check(err)
	client, err := framework.Connect(context.Background(), server.Addr())
	check(err)
	defer func() { check(errors.Join(client.Close(), server.Close())) }()
	ctx := context.Background()
	manager, err := migration.NewManager(client, "/migrations/locks")
	check(err)
	first := migration.Migration{migration.Create("/orders", nil), migration.Create("/orders/config", []byte("v1"))}
	second := migration.Migration{migration.SetData("/orders/config", []byte("v2"))}

	for _, release := range [][]migration.Migration{{first}, {first, second}, {first, second}} {
		check(manager.Migrate(ctx, migration.Set{ID: "orders", MetadataPath: "/migrations/orders", Migrations: release}))
		data, err := client.Get(ctx, "/orders/config")
		check(err)
		fmt.Println(string(data))
	}
	// Output:
	// v1
	// v2
	// v2
}
