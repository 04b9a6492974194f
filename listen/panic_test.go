// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/listen"
)

// panicOn returns a listener that panics with cause when told v, and records every other value.
func panicOn(v int, cause any, rec *recorder) func(int) {
	return func(told int) {
		if told == v {
			panic(cause)
		}
		rec.listen(told)
	}
}

// reports is a panic handler that keeps what it was told.
type reports struct {
	mu        sync.Mutex
	recovered []any
	stacks    []string
}

func (r *reports) handle(recovered any, stack []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recovered = append(r.recovered, recovered)
	r.stacks = append(r.stacks, string(stack))
}

func TestPanicIsReportedAndHurtsNobodyElse(t *testing.T) {
	var (
		got         reports
		rude, quiet recorder
	)
	cause := errors.New("test: boom")
	set := listen.New[int](listen.OnPanic(got.handle))
	set.Add(panicOn(1, cause, &rude))
	set.Add(quiet.listen)
	for v := range 4 {
		set.Notify(v)
	}
	flush(t, set)
	require.Equal(t, []int{0, 2, 3}, rude.told, "the listener that panicked is told the next values")
	require.Equal(t, count(4), quiet.told)
	require.Equal(t, []any{cause}, got.recovered)
	require.Contains(t, got.stacks[0], "panicOn", "the stack must lead to the panic")
}

func TestPanicOfNilIsReported(t *testing.T) {
	var got reports
	var rec recorder
	set := listen.New[int](listen.OnPanic(got.handle))
	set.Add(panicOn(0, nil, &rec))
	set.Notify(0)
	flush(t, set)
	require.Len(t, got.recovered, 1)
	require.IsType(t, new(runtime.PanicNilError), got.recovered[0])
}

func TestRemoveWithinAPanickingCall(t *testing.T) {
	var got reports
	set := listen.New[int](listen.OnPanic(got.handle))
	var registration *listen.Registration
	registration = set.Add(func(int) {
		defer registration.Remove()
		panic("boom")
	})
	set.Notify(0)
	set.Notify(1)
	receive(t, registration.Done(), "Done")
	require.Equal(t, []any{"boom"}, got.recovered)
}

// logged is a slog.Handler that keeps each record, and panics afterwards if told to.
type logged struct {
	mu      sync.Mutex
	records []slog.Record
	panics  bool
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	if l.panics {
		panic("the log is broken")
	}
	return nil
}

// attr returns the value of an attribute of the i-th record.
func (l *logged) attr(t *testing.T, i int, key string) any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Greater(t, len(l.records), i, "too few log records")
	var value any
	l.records[i].Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value.Any()
		}
		return true
	})
	return value
}

// replaceDefaultLog puts handler behind slog.Default until the test ends. Then it does not put the first handler back: that one
// writes through package log, which slog.SetDefault has redirected for good.
func replaceDefaultLog(t *testing.T, handler slog.Handler) {
	t.Helper()
	slog.SetDefault(slog.New(handler))
	t.Cleanup(func() { slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil))) })
}

func TestPanicIsLoggedByDefault(t *testing.T) {
	for name, set := range map[string]*listen.Set[int]{
		"zero value":  {},
		"no options":  listen.New[int](),
		"nil handler": listen.New[int](listen.OnPanic(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			var out logged
			replaceDefaultLog(t, &out)
			var rec recorder
			set.Add(panicOn(0, "boom", &rec))
			set.Notify(0)
			set.Notify(1)
			flush(t, set)
			require.Equal(t, []int{1}, rec.told)
			require.Len(t, out.records, 1)
			require.Equal(t, slog.LevelError, out.records[0].Level)
			require.Equal(t, "listen: recovered from a panic", out.records[0].Message)
			require.Equal(t, "listener", out.attr(t, 0, "of"))
			require.Equal(t, "boom", out.attr(t, 0, "panic"))
			require.Contains(t, out.attr(t, 0, "stack"), "panicOn")
		})
	}
}

func TestPanicOfThePanicHandlerIsLogged(t *testing.T) {
	var out logged
	replaceDefaultLog(t, &out)
	var rec recorder
	set := listen.New[int](listen.OnPanic(func(any, []byte) { panic("handler boom") }))
	set.Add(panicOn(0, "boom", &rec))
	set.Notify(0)
	set.Notify(1)
	flush(t, set)
	require.Equal(t, []int{1}, rec.told)
	require.Len(t, out.records, 2)
	require.Equal(t, "listener", out.attr(t, 0, "of"))
	require.Equal(t, "boom", out.attr(t, 0, "panic"))
	require.Equal(t, "panic handler", out.attr(t, 1, "of"))
	require.Equal(t, "handler boom", out.attr(t, 1, "panic"))
}

func TestListenerSurvivesABrokenLog(t *testing.T) {
	out := logged{panics: true}
	replaceDefaultLog(t, &out)
	var set listen.Set[int]
	var rec recorder
	set.Add(panicOn(0, "boom (expected on standard error)", &rec))
	set.Notify(0)
	set.Notify(1)
	flush(t, &set)
	require.Len(t, out.records, 1)
	require.Equal(t, []int{1}, rec.told)
}

func TestPanicGoexitDoesNotWedgeTheQueue(t *testing.T) {
	var got reports
	set := listen.New[int](listen.OnPanic(got.handle))
	var rec recorder
	registration := set.Add(func(v int) {
		rec.listen(v)
		if v%2 == 0 {
			runtime.Goexit()
		}
	})
	for v := range 5 {
		set.Notify(v) // the last one exits with nothing queued behind it
	}
	flush(t, set)
	set.Notify(5)
	set.Notify(6)
	flush(t, set)
	require.Equal(t, count(7), rec.told)
	require.Empty(t, got.recovered, "Goexit is no panic")
	registration.Remove()
	receive(t, registration.Done(), "Done")
}

func TestRemoveAndGoexitWithinTheCall(t *testing.T) {
	var set listen.Set[int]
	var rec recorder
	var registration *listen.Registration
	registration = set.Add(func(v int) {
		rec.listen(v)
		registration.Remove()
		runtime.Goexit()
	})
	set.Notify(0)
	set.Notify(1)
	receive(t, registration.Done(), "Done")
	require.Equal(t, count(1), rec.told)
}

func TestPanicGoexitOfThePanicHandler(t *testing.T) {
	set := listen.New[int](listen.OnPanic(func(any, []byte) { runtime.Goexit() }))
	var rec recorder
	set.Add(panicOn(0, "boom", &rec))
	set.Notify(0)
	set.Notify(1)
	flush(t, set)
	require.Equal(t, []int{1}, rec.told)
}
