package attempt

import (
	"fmt"
	"runtime/debug"

	"github.com/gocurator/curator/framework"
)

// PanicError is a panic of user code, such as a retry policy, that ran on a
// goroutine of a recipe.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("user code panicked: %v", e.Value) }

// Guard calls fn on a goroutine of a recipe, and returns its error. A panic
// of user code that fn calls must not end the process: it is logged with its
// stack and returned as a [*PanicError].
func Guard(client *framework.Framework, fn func() error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			client.Logger().Error("user code panicked", "panic", recovered, "stack", string(debug.Stack()))
			err = &PanicError{Value: recovered}
		}
	}()
	return fn()
}
