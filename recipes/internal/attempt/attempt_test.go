// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAttemptConditionalWriteIsAppliedAtMostOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		faults  []zkserver.Fault // of the first writes
		unknown bool
		version int32
	}{
		{"no fault", nil, false, 1},
		{"the request is lost", []zkserver.Fault{zkserver.LoseRequest}, false, 1},
		{"the reply is lost", []zkserver.Fault{zkserver.LoseReply}, true, 1},
		{"both are lost, one after the other", []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			must.Get(client.Create(t.Context(), "/a", nil))(t)
			for _, fault := range c.faults { // the first that is left decides
				server.Intercept(zkserver.Nth(1, zkserver.OpSetData, fault))
			}

			err := attempt.Conditional(func() error {
				return client.Set(t.Context(), "/a", []byte("x"), framework.WithVersion(0))
			})

			require.Equal(t, c.unknown, framework.OutcomeUnknown(err), "%v", err)
			require.Equal(t, c.unknown, err != nil, "%v", err)
			require.False(t, attempt.Overtaken(err), "in doubt, not overtaken")
			require.Equal(t, c.version, must.Get(client.Exists(t.Context(), "/a"))(t).Version)
		})
	}
}

func TestAttemptOvertakenWriteIsToldFromOneInDoubt(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(t.Context(), "/a", nil))(t)

	err := attempt.Conditional(func() error { return client.Set(t.Context(), "/a", nil, framework.WithVersion(7)) })

	require.True(t, attempt.Overtaken(err))
	require.ErrorIs(t, err, framework.ErrBadVersion)
}

func TestReplaceIsOvertakenByWhatCameFirst(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(t.Context(), "/a", []byte("first")))(t)
	history := client.History()
	for name, c := range map[string]struct {
		path    string
		version int32
		history int64
	}{
		"a write":         {"/a", 7, history},
		"a deletion":      {"/gone", 0, history},
		"another history": {"/a", 0, history + 1},
	} {
		overtaken, err := attempt.Replace(t.Context(), client, c.path, []byte("x"), c.version, c.history)
		require.NoError(t, err, name)
		require.True(t, overtaken, name)
	}
	_, err := attempt.Replace(t.Context(), client, "/a", []byte("x"), framework.AnyVersion, history)
	require.ErrorIs(t, err, attempt.ErrVersionExhausted)
	require.Equal(t, "first", string(must.Get(client.Get(t.Context(), "/a"))(t)))

	require.False(t, must.Get(attempt.Replace(t.Context(), client, "/a", []byte("x"), 0, history))(t))
}

func TestInterruptedMatchesErrorAndCause(t *testing.T) {
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	require.ErrorIs(t, attempt.Interrupted(ctx), context.Canceled)
	require.ErrorIs(t, attempt.Interrupted(ctx), reason)
	plain, end := context.WithCancel(t.Context())
	end()
	require.EqualError(t, attempt.Interrupted(plain), context.Canceled.Error())
	require.Equal(t, attempt.Interrupted(plain), attempt.InterruptedAfter(plain, nil))
	after := attempt.InterruptedAfter(ctx, framework.ErrNoAuth)
	require.ErrorIs(t, after, framework.ErrNoAuth)
	require.ErrorIs(t, after, reason)
}

func TestAttemptCallerThatLeavesAWriteIsInDoubt(t *testing.T) {
	err := attempt.InDoubt(context.Canceled)
	require.True(t, framework.OutcomeUnknown(err))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, framework.ErrNoNode)
	require.ErrorContains(t, err, "outcome is unknown")
}

// User code that panics or ends its goroutine costs the call, and not the goroutine of a recipe.
func TestUserCodeThatMisbehavesEndsItsCall(t *testing.T) {
	for name, test := range map[string]struct {
		misbehave func()
		want      string
	}{
		"panic":  {func() { panic("the user's own fault") }, "user code panicked: the user's own fault"},
		"Goexit": {runtime.Goexit, "user code panicked: runtime.Goexit was called"},
	} {
		t.Run(name, func(t *testing.T) {
			err := attempt.Catch(func() error { test.misbehave(); return nil })
			panicked := must.As[*attempt.PanicError](t, err)
			require.EqualError(t, err, test.want)
			require.Contains(t, panicked.Stack, "TestUserCodeThatMisbehavesEndsItsCall")
		})
	}
	require.NoError(t, attempt.Catch(func() error { return nil }))
	require.ErrorIs(t, attempt.Catch(func() error { return context.Canceled }), context.Canceled)
}

func TestAttemptErrorsNameAPathOnce(t *testing.T) {
	set := func(path string, err error) error { return &framework.OpError{Op: "set", Path: path, Err: err} }
	lost, newer := set("/a", zk.ErrConnectionClosed), set("/a", framework.ErrBadVersion)
	for want, err := range map[string]error{
		"atomic: " + lost.Error():        attempt.At("atomic", "/a", lost),
		"atomic: /b: " + lost.Error():    attempt.At("atomic", "/b", lost),
		`atomic: invalid path "bad":`:    attempt.At("atomic", "bad", framework.ValidatePath("bad")),
		lost.Error() + " (and then zk: ": attempt.Then(lost, newer),
		" (and then framework: set /b: ": attempt.Then(lost, set("/b", framework.ErrBadVersion)),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, attempt.At("atomic", "/a", nil))
	require.ErrorIs(t, attempt.Then(lost, newer), framework.ErrBadVersion)
	require.ErrorIs(t, attempt.Then(lost, newer), zk.ErrConnectionClosed)
}
