// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// sendToken and checkToken are the programs of recipes/STOPPING.md.

func sendToken(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	token := strconv.FormatInt(locks.LeaseFrom(ctx).Token(), 10)
	return call(metadata.AppendToOutgoingContext(ctx, fence.Header, token), method, request, reply, conn, opts...)
}

func checkToken(newest *fence.Register) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
		token, err := strconv.ParseInt(strings.Join(metadata.ValueFromIncomingContext(ctx, fence.Header), ","), 10, 64)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		err = newest.Do(ctx, token, func() (err error) {
			reply, err = handle(ctx, request)
			return err
		})
		if errors.Is(err, fence.ErrStale) {
			err = status.Error(codes.FailedPrecondition, err.Error())
		}
		return reply, err
	}
}

// slowService answers when its caller has gone, or at once if it is asked for "now".
type slowService struct {
	grpc_health_v1.UnimplementedHealthServer
	begun, ended chan struct{}
}

func (s slowService) Check(ctx context.Context, request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if request.GetService() == "now" {
		return new(grpc_health_v1.HealthCheckResponse), nil
	}
	close(s.begun)
	<-ctx.Done()
	close(s.ended)
	return nil, ctx.Err()
}

// TestStoppingCallEndsWithTheLock at both sides, and the server refuses an older token.
func TestStoppingCallEndsWithTheLock(t *testing.T) {
	service := slowService{begun: make(chan struct{}), ended: make(chan struct{})}
	var newest fence.Register
	server := grpc.NewServer(grpc.UnaryInterceptor(checkToken(&newest)))
	grpc_health_v1.RegisterHealthServer(server, service)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(sendToken))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	health := grpc_health_v1.NewHealthClient(conn)

	zookeeper := zktest.NewServer(t)
	client := zktest.Client(t, zookeeper)
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		done <- mutex.Do(zktest.Context(t), func(ctx context.Context) error {
			_, err := health.Check(ctx, nil)
			return err
		})
	}()
	zktest.Await(t, service.begun, "the call")
	require.Equal(t, 1, zookeeper.Cut(client.Session().ID(), 1))
	var lost *locks.LostError
	require.ErrorAs(t, zktest.Await(t, done, "the end of the caller"), &lost)
	zktest.Await(t, service.ended, "the end of the call at the server")

	now := &grpc_health_v1.HealthCheckRequest{Service: "now"}
	check := func(ctx context.Context) error { _, err := health.Check(ctx, now); return err }
	require.NoError(t, mutex.Do(zktest.Context(t), check))
	require.NoError(t, newest.Do(t.Context(), newest.Newest()+1000, func() error { return nil }))
	require.Equal(t, codes.FailedPrecondition, status.Code(mutex.Do(zktest.Context(t), check)))
}
