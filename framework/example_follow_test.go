// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
)

// Follow the configuration of a service: the loop gets the value as it is, also when there is none,
// and every change.
func ExampleFramework_Follow() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	for node, err := range client.Follow(ctx, "/config") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%t %q\n", node.Exists(), node.Data)
		switch {
		case !node.Exists():
			_, err = client.Create(ctx, "/config", []byte("workers=4"))
		case node.Stat.Version == 0:
			err = client.Set(ctx, "/config", []byte("workers=8"))
		default:
			return // no watch is left
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// false ""
	// true "workers=4"
	// true "workers=8"
}

func ExampleFramework_FollowChildren() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	if err := client.Mkdirs(ctx, "/workers"); err != nil {
		fmt.Println(err)
		return
	}
	for folder, err := range client.FollowChildren(ctx, "/workers") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(folder.Exists(), folder.Names)
		if len(folder.Names) > 0 {
			return // no watch is left
		}
		if _, err := client.Create(ctx, "/workers/a", nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// true []
	// true [a]
}
