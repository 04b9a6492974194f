// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// servers is where the peers keep their locks.
type servers struct {
	zookeeper string // connect string
	etcd      string // URL
	redis     string // host:port
	size      int    // how many of ZooKeeper
	fsync     bool   // they force what they write to disk
	tap       *tap   // of our clients

	ensemble *ensemble.Ensemble
	others   []*exec.Cmd
	folders  []string
}

// start starts what the peers need. ZooKeeper is a standalone server or three. With
// fsync, all of them force what they write to disk, as is their default; etcd always
// does, and a Redis lock is never on disk.
func start(ctx context.Context, chosen []peer, size int, fsync bool) (s servers, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.size, s.fsync = size, fsync
	needed := make(map[store]bool)
	for _, p := range chosen {
		needed[p.store] = true
	}
	if needed[zookeeper] {
		opts := []ensemble.Option{ensemble.WithSize(size), ensemble.WithJVMFlags("-Xmx512m", "-XX:TieredStopAtLevel=4")}
		if fsync {
			opts = append(opts, ensemble.WithFsync(true))
		}
		if s.ensemble, err = ensemble.Start(ctx, opts...); err != nil {
			return s, err
		}
		s.zookeeper = s.ensemble.ConnectString()
	}
	if needed[etcd] {
		if err := s.startEtcd(ctx); err != nil {
			return s, err
		}
	}
	if needed[redis] {
		if err := s.startRedis(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func etcdMissing() error  { return commandMissing("etcd", "etcd-server") }
func redisMissing() error { return commandMissing("redis-server", "redis-server") }

func commandMissing(command, debian string) error {
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Errorf("%w: %s (Debian): %w", errMissing, debian, err)
	}
	return nil
}

func (s *servers) startEtcd(ctx context.Context) error {
	folder, addrs, err := s.place(2)
	if err != nil {
		return err
	}
	client, internal := addrs[0], addrs[1]
	s.etcd = "http://" + client
	return s.run(ctx, client, "etcd", "--data-dir", folder, "--log-level", "error",
		"--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
		"--listen-peer-urls", "http://"+internal, "--initial-advertise-peer-urls", "http://"+internal,
		"--initial-cluster", "default=http://"+internal)
}

func (s *servers) startRedis(ctx context.Context) error {
	folder, addrs, err := s.place(1)
	if err != nil {
		return err
	}
	s.redis = addrs[0]
	host, port, err := net.SplitHostPort(s.redis)
	if err != nil {
		return err
	}
	return s.run(ctx, s.redis, "redis-server", "--dir", folder, "--bind", host, "--port", port, "--save", "")
}

// place returns a folder and free addresses on the loopback interface, no two of which are the same.
func (s *servers) place(n int) (folder string, addrs []string, err error) {
	if folder, err = os.MkdirTemp("", "bench-"); err != nil {
		return "", nil, err
	}
	s.folders = append(s.folders, folder)
	var open closers // until all are found
	defer func() { err = errors.Join(err, open.close()) }()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		open = append(open, l.Close)
		addrs = append(addrs, l.Addr().String())
	}
	return folder, addrs, nil
}

// run starts a server and waits until it takes connections.
func (s *servers) run(ctx context.Context, addr, command string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.Command(command, args...) // it outlives this call; close stops it
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", command, err)
	}
	s.others = append(s.others, cmd)
	for dialer := (net.Dialer{}); ; {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s: %w", command, addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *servers) close() error {
	var errs []error
	for _, cmd := range s.others {
		errs = append(errs, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	if s.ensemble != nil {
		errs = append(errs, s.ensemble.Close())
	}
	for _, folder := range s.folders {
		errs = append(errs, os.RemoveAll(folder))
	}
	return errors.Join(errs...)
}

// traffic is what all servers of the ensemble, and the loopback interface, have seen.
type traffic struct{ received, sent, bytes float64 }

// traffic returns zeros where there is no ZooKeeper.
func (s *servers) traffic(ctx context.Context) (t traffic, err error) {
	if s.ensemble == nil {
		return t, nil
	}
	for _, server := range s.ensemble.Servers() {
		mntr, err := server.Mntr(ctx)
		if err != nil {
			return t, err
		}
		for key, into := range map[string]*float64{"zk_packets_received": &t.received, "zk_packets_sent": &t.sent} {
			n, err := strconv.ParseFloat(mntr[key], 64)
			if err != nil {
				return t, fmt.Errorf("mntr %s: %w", key, err)
			}
			*into += n
		}
	}
	t.bytes, err = loopbackBytes()
	return t, err
}

// loopbackBytes returns how many bytes the loopback interface has carried, TCP/IP
// headers and acknowledgements included.
func loopbackBytes() (float64, error) {
	data, err := os.ReadFile("/sys/class/net/lo/statistics/rx_bytes")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
}

// perTurn sets what the servers had to do for each turn, also of those that were not
// counted. Connecting is included.
func (r *result) perTurn(before, after traffic) {
	if turns := float64(r.All); turns > 0 {
		r.Requests = (after.received - before.received) / turns
		r.Notifications = (after.sent - after.received - before.sent + before.received) / turns
		r.Bytes = (after.bytes - before.bytes) / turns
	}
}
