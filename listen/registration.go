// SPDX-License-Identifier: Apache-2.0

package listen

// Registration is a listener's place in a [Set]. [Set.Add] makes it; its zero value is not usable. All methods may be called by any
// number of goroutines at once. It need not be kept: a listener that is never removed stays as long as its Set.
type Registration struct {
	remove func()
	done   <-chan struct{}
}

// Remove takes the listener out of its set. After it has returned no further call of the listener begins, and the
// values still queued for it are discarded. A call that is under way goes on, and [Registration.Done] is closed when
// the call has returned. The package documentation says what exactly "under way" means.
//
// Remove does not wait for the listener, so the listener itself may call it. Further calls do nothing.
func (r *Registration) Remove() { r.remove() }

// Done returns a channel that is closed when the listener has been removed and its last call has returned. The last
// call happens before the close. Without a Remove it is never closed. The listener itself must not wait for it.
func (r *Registration) Done() <-chan struct{} { return r.done }
