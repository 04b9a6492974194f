// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

func ExampleDynamicEnsembleProvider() {
	server, err := zkserver.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	provider, err := framework.NewDynamicEnsembleProvider("127.0.0.1:1") // where nobody is
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := framework.New("", framework.WithEnsembleProvider(provider))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	// Somebody has found out where the servers are.
	if err := provider.SetConnectionString(server.Addr()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.BlockUntilConnected(context.Background()), client.State())
	// Output: <nil> CONNECTED
}

func ExampleFramework_Retry() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	var names []string
	err := client.Retry(ctx, func(ctx context.Context) (err error) {
		if err := client.Mkdirs(ctx, "/jobs/done"); err != nil {
			return err
		}
		names, err = client.Children(ctx, "/jobs")
		return err
	}, framework.WithRetry(retry.NTimes(3, retry.MinWait)))
	fmt.Println(names, err)
	// Output: [done] <nil>
}
