// SPDX-License-Identifier: Apache-2.0

// Package listen keeps sets of listeners, which are functions that receive values of one type. The package has a
// written contract about their order. The state of a connection, the loss of a lease and the events of a cache reach
// their listeners through a [Set].
//
// # Notifying and listening
//
// The notifying side holds a Set, whose zero value is ready for use:
//
//	type Client struct {
//		states listen.Set[State]
//	}
//
//	func (c *Client) OnState(fn func(State)) *listen.Registration { return c.states.Add(fn) }
//
//	c.states.Notify(Connected)
//
// The listening side keeps the [Registration], to remove the listener later:
//
//	registration := client.OnState(func(s State) { ... })
//	defer registration.Remove()
//
// A Set does not replay earlier values. To learn the present state too, add the listener first and then read the state:
// the listener misses nothing, but may receive a state that was read already. The notifying side can do better: it gives
// the present state to [Set.Add], under the lock under which it notifies.
//
// # Order
//
// All Notify calls have a single order, which is the same for all listeners, even when several goroutines make the
// calls. If a call returned before another one began, it is the earlier one. [Set.Add] and [Registration.Remove] have
// their places in the same order.
//
// Each listener receives, in that order, the value of each Notify after its Add and before its Remove, one value per
// call. It is never called concurrently with itself. Each call happens before the next one in the sense of the Go
// memory model, so data that only one listener uses needs no lock. A write before Notify is visible in the call.
//
// Between listeners there is no order. One listener may have received a hundred values while another is still busy with
// the first.
//
// # Independence
//
// No listener is called on the goroutine of Notify. So Notify never waits for a listener, and may be called while
// holding locks. A listener that is slow or blocks delays only itself. A listener that panics loses only that call. The
// panic is recovered and reported, to the handler given with [OnPanic] or else to slog.Default, and the next value is
// delivered. A call that ends with runtime.Goexit, which includes testing.T.FailNow, loses only that call too, and
// reports nothing.
//
// A listener may call every method of the Set and of its own Registration. It must not call [Set.Flush] or wait for
// [Registration.Done], because both wait until the listener has returned.
//
// # Nothing is dropped
//
// The queue of a listener has no bound, and no value is ever dropped, merged or overtaken. So a listener that stays
// slower than its Notify calls uses more and more memory. A listener that blocks forever keeps all later values until
// it is removed. A value is released once it has been delivered to all listeners, or discarded by their removal.
//
// The exception is a Set made with [Latest], whose queues hold one value: the newest.
//
// All listeners receive the same value. If it holds pointers, slices or maps, no listener may change what they refer to.
//
// # The end of a listener
//
// Remove never waits. After it has returned no further call begins. The queued values are discarded, and only the call
// that is under way at that moment goes on. A call is under way from the moment at which its value is taken off the
// queue. So even its first instruction may run after Remove has returned. Code that tears down what the listener uses
// waits for [Registration.Done], which is closed when no call is under way:
//
//	registration.Remove()
//	<-registration.Done()
//
// # Goroutines
//
// A listener has a goroutine only while values are queued for it or a call runs. A Set that is idle has none, and needs no Close.
package listen
