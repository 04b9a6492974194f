// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// warnings returns a logger, and a function that returns the warnings so far.
func warnings() (*slog.Logger, func() []string) {
	found := make(chan string, 1000)
	log := slog.New(handlerFunc(func(r slog.Record) {
		if r.Level >= slog.LevelWarn {
			text := r.Message
			r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
			found <- text
		}
	}))
	return log, func() []string {
		var all []string
		for len(found) > 0 {
			all = append(all, <-found)
		}
		return all
	}
}

// TestConnectSaysWhatFails after the first round of attempts, and then rarely.
func TestConnectSaysWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := warnings()
		refusal := errors.New("connection refused")
		tries, early := 0, 0
		dial := func(context.Context, string, string) (net.Conn, error) { //nolint:unparam // a dialer
			if tries++; tries == 3 {
				time.Sleep(time.Second) // in which a warning would be written
				early = len(said())
			}
			return nil, refusal
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error)
		go func() {
			_, err := framework.Connect(ctx, "a:2181,b:2181,c:2181", framework.WithDialer(dial), framework.WithLogger(log))
			ended <- err
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, early, "two of three servers have been tried")
		first := said()
		require.Len(t, first, 1)
		require.Contains(t, first[0], "no server can be reached servers=[a:2181 b:2181 c:2181] error=dial ")
		require.Contains(t, first[0], refusal.Error())
		err := <-ended
		require.Greater(t, tries, 100)
		require.Len(t, said(), 5, "one in ten minutes")
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, refusal.Error())
	})
}

// listenFor accepts connections and hands each to a function.
func listenFor(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close() // the client has what it should have
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-done
	})
	return listener.Addr().String()
}

// TestConnectDoesNotWaitForAnotherCertificate when the only one cannot be verified.
func TestConnectDoesNotWaitForAnotherCertificate(t *testing.T) {
	stranger := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{stranger.issue(t, "server")}}
	address := listenFor(t, func(conn net.Conn) { _ = tls.Server(conn, cfg).HandshakeContext(t.Context()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := framework.Connect(ctx, address, framework.WithTLS(&tls.Config{RootCAs: newAuthority(t).pool()}))
	require.NoError(t, ctx.Err())
	require.ErrorIs(t, err, framework.ErrNotConnected)
	certificate := new(tls.CertificateVerificationError)
	require.ErrorAs(t, err, &certificate)
}

// TestUnreachedPortForTLSIsGuessed, and one without.
func TestUnreachedPortForTLSIsGuessed(t *testing.T) {
	hangUp := listenFor(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 8)) }) // as either does that understands nothing
	for hint, opts := range map[string][]framework.Option{
		"(is it without a quorum, at its limit maxClientCnxns, or a port for encrypted connections?)":   nil,
		"(is it without a quorum, at its limit maxClientCnxns, or a port for unencrypted connections?)": {framework.WithTLS(&tls.Config{RootCAs: newAuthority(t).pool()})},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var found string
		log := slog.New(handlerFunc(func(r slog.Record) {
			if r.Level == slog.LevelWarn && found == "" {
				r.Attrs(func(a slog.Attr) bool { found += a.String(); return true })
				cancel()
			}
		}))
		_, err := framework.Connect(ctx, hangUp, append(opts, framework.WithLogger(log))...)
		cancel()
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.Contains(t, err.Error(), hint)
		require.Contains(t, found, hint)
	}
}

// TestUnreachedShortSessionIsToldOnce for each process, at the first hold, and not on a standalone server.
func TestUnreachedShortSessionIsToldOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		framework.ForgetTheTiming()
		log, said := warnings()
		hold := func(policy framework.ErrorPolicy) []string {
			f := n.client(t, framework.WithLogger(log))
			synctest.Wait()
			require.Empty(t, said(), "before the hold")
			for range 2 {
				_, release, err := f.Session().Hold(t.Context(), policy)
				require.NoError(t, err)
				synctest.Wait()
				release()
			}
			require.NoError(t, f.Close())
			return said()
		}
		require.Empty(t, hold(framework.StandardErrorPolicy), "a standalone server")
		n.server.Intercept(withoutConfig)
		require.Empty(t, hold(framework.SessionErrorPolicy), "another policy")
		warned := hold(framework.StandardErrorPolicy)
		require.Len(t, warned, 1)
		require.Equal(t, "The session timeout is short for the error policy. "+
			"A lock may have two holders while a server is cut off from its leader.", warned[0])
		require.Empty(t, hold(framework.StandardErrorPolicy), "told already")
	})
}
