// Package listen keeps sets of listeners, functions that are told values of one type, under a written contract about order.
// The state of a connection, the loss of a lease or the events of a cache reach their listeners through a [Set].
//
// # Telling and being told
//
// Whoever has something to tell holds a Set; its zero value is ready for use:
//
//	type Client struct {
//		states listen.Set[State]
//	}
//
//	func (c *Client) OnState(fn func(State)) *listen.Registration { return c.states.Add(fn) }
//
//	c.states.Notify(Connected)
//
// Whoever wants to be told keeps the [Registration], to be rid of the listener later:
//
//	registration := client.OnState(func(s State) { ... })
//	defer registration.Remove()
//
// A Set does not replay what was told before. To know the present state too, add the listener first and read the state after:
// then nothing is missed, though the listener may be told a state that has been read already.
//
// # Order
//
// Notify calls are in a single order, even those of several goroutines: one of two calls is the earlier one, for all listeners
// alike. A call that returned before another began is the earlier one. [Set.Add] and [Registration.Remove] have their places in the
// same order.
//
// Each listener is told, in that order, the value of each Notify after its Add and before its Remove, one value per call. It
// is never called concurrently with itself, and each call happens before the next in the sense of the Go memory model, so that
// what only one listener uses needs no lock. What was written before Notify is visible in the call.
//
// Between listeners there is no order. One may have been told a hundred values while another is still busy with the first.
//
// # Independence
//
// No listener is called on the goroutine of Notify, which therefore never waits for a listener and may be called while holding
// locks. A listener that is slow or blocks delays only itself. One that panics loses only that call: the panic is recovered and
// reported, to the handler given with [OnPanic] or else to slog.Default, and the next value is delivered. The same holds for a call that
// ends with runtime.Goexit, which includes testing.T.FailNow, except that there is nothing to report.
//
// A listener may call every method of the Set and of its own Registration. It must not wait there for what only its own return can
// bring about: [Set.Flush] and [Registration.Done].
//
// # Nothing is dropped
//
// The queue of a listener has no bound, and no value is ever dropped, merged or overtaken. A listener that is
// slower than its Notify calls for good therefore uses more and more memory, and one that blocks for ever keeps all later values until
// it is removed. A value is released once it has been delivered to all listeners, or discarded by their removal.
//
// All listeners are given the same value. If it holds pointers, slices or maps, none of them may change what these refer to.
//
// # The end of a listener
//
// Remove never waits. After it has returned no further call begins: the values still queued are discarded, and at most the one call
// that was then under way goes on. A call is under way from the moment its value is taken off the queue, so even its first
// instruction may run after Remove has returned. No Remove that may not wait can do better. Code that is about to tear down what the
// listener uses waits for [Registration.Done], which is closed when there is no such call, or when it has returned:
//
//	registration.Remove()
//	<-registration.Done()
//
// # Goroutines
//
// A listener has a goroutine only while values are queued for it or a call runs. A Set that is idle has none, and needs no Close.
package listen
