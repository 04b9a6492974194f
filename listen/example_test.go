// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/listen"
)

func ExampleSet() {
	var states listen.Set[string]
	registration := states.Add(func(state string) { fmt.Println("now", state) })

	states.Notify("CONNECTED")
	states.Notify("SUSPENDED")
	if err := states.Flush(context.Background()); err != nil {
		fmt.Println(err)
	}

	registration.Remove()
	<-registration.Done()
	states.Notify("LOST") // nobody is told
	fmt.Println(states.Len(), "listeners")
	// Output:
	// now CONNECTED
	// now SUSPENDED
	// 0 listeners
}

func ExampleOnPanic() {
	set := listen.New[int](listen.OnPanic(func(recovered any, _ []byte) {
		fmt.Println("a listener panicked:", recovered)
	}))
	set.Add(func(v int) { fmt.Println(100 / v) })

	set.Notify(0)
	set.Notify(4)
	if err := set.Flush(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a listener panicked: runtime error: integer divide by zero
	// 25
}

// A listener that wants to be told once removes itself.
func ExampleRegistration_Remove() {
	var set listen.Set[string]
	var registration *listen.Registration
	registration = set.Add(func(event string) {
		fmt.Println(event)
		registration.Remove()
	})
	set.Notify("first")
	set.Notify("second")
	<-registration.Done()
	// Output: first
}
