// SPDX-License-Identifier: Apache-2.0

// Package listen keeps sets of listeners: functions that receive values of one type, under a written contract about order.
// The state of a connection, the loss of a lease and the events of a cache reach their listeners through a [Set].
//
// # Notifying and listening
//
// The notifying side holds a Set; its zero value is ready for use:
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
// the listener misses nothing, but may receive a state that was read already.
//
// # Order
//
// All Notify calls have a single order, which is the same for all listeners, even when several goroutines make the calls. A call
// that returned before another began is the earlier one. [Set.Add] and [Registration.Remove] have their places in the
// same order.
//
// Each listener receives, in that order, the value of each Notify after its Add and before its Remove, one value per call. It
// is never called concurrently with itself, and each call happens before the next in the sense of the Go memory model: data
// that only one listener uses needs no lock. What was written before Notify is visible in the call.
//
// Between listeners there is no order. One may have received a hundred values while another is still busy with the first.
//
// # Independence
//
// No listener is called on the goroutine of Notify, which therefore never waits for a listener and may be called while holding
// locks. A listener that is slow or blocks delays only itself. One that panics loses only that call: the panic is recovered and
// reported, to the handler given with [OnPanic] or else to slog.Default, and the next value is delivered. The same holds for a call that
// ends with runtime.Goexit, which includes testing.T.FailNow, except that there is nothing to report.
//
// A listener may call every method of the Set and of its own Registration. It must not call [Set.Flush] or wait for [Registration.Done]:
// both wait for its own return.
//
// # Nothing is dropped
//
// The queue of a listener has no bound, and no value is ever dropped, merged or overtaken. A listener that stays
// slower than its Notify calls therefore uses more and more memory, and a listener that blocks forever keeps all later values until
// it is removed. A value is released once it has been delivered to all listeners, or discarded by their removal.
//
// The exception is a Set made with [Latest], whose queues hold one value: the newest.
//
// All listeners receive the same value. If it holds pointers, slices or maps, no listener may change what they refer to.
//
// # The end of a listener
//
// Remove never waits. After it has returned no further call begins: the values still queued are discarded, and at most the one call
// that was then under way goes on. A call is under way from the moment its value is taken off the queue, so even its first
// instruction may run after Remove has returned: a Remove that never waits can do no better. Code that tears down what the
// listener uses waits for [Registration.Done], which is closed when no call is under way:
//
//	registration.Remove()
//	<-registration.Done()
//
// # Goroutines
//
// A listener has a goroutine only while values are queued for it or a call runs. A Set that is idle has none, and needs no Close.
package listen
