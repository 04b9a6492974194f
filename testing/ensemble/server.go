// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrNotRunning is returned for what only a running server can do.
var ErrNotRunning = errors.New("ensemble: server is not running")

// Server is one ZooKeeper server of an [Ensemble]. It keeps its address, id and data however often it is killed and restarted. Its
// methods may be called from any goroutine.
type Server struct {
	id       int
	observer bool
	ports    ports
	dir      string
	settings *settings
	ip       string
	host     *Host // in the ensemble's network; nil without one
	dial     dialer

	mu     sync.Mutex // guards what follows; held while a process is started, stopped or killed, never while one is asked
	run    *process   // the latest; nil before the first
	paused bool
	closed bool
}

// Addr returns the host:port on which clients connect.
func (s *Server) Addr() string { return net.JoinHostPort(s.ip, strconv.Itoa(s.ports.client)) }

// ID returns the server's id in its ensemble (myid), from 1.
func (s *Server) ID() int { return s.id }

// String returns the id and the address, for messages.
func (s *Server) String() string { return fmt.Sprintf("server %d (%s)", s.id, s.Addr()) }

// Line returns the server in the form in which a client lets it join with a reconfiguration: "4=host:2888:3888:participant;host:2181".
func (s *Server) Line() string {
	role := "participant"
	if s.observer {
		role = "observer"
	}
	return fmt.Sprintf("%d=%s:%d:%d:%s;%s", s.id, s.ip, s.ports.quorum, s.ports.election, role, s.Addr())
}

// Host returns the server's place in the network of an ensemble, or nil without [WithNetwork].
func (s *Server) Host() *Host { return s.host }

// DataDir returns the folder of the snapshots and transaction logs (below version-2). Close removes it.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data") }

// LogFile returns the file that gets the output of all runs of the server. Close removes it.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "output.log") }

func (s *Server) configFile() string { return filepath.Join(s.dir, "zoo.cfg") }

// PID returns the process id of the server, or 0 when it is not running.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return s.run.os.Pid
}

// running is asked with mu held.
func (s *Server) running() bool { return s.run != nil && s.run.alive() }

// answers reports whether it makes sense to ask the server anything.
func (s *Server) answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running() && !s.paused
}

// Kill ends the server with SIGKILL, paused or not, and returns when the process is gone. It does nothing to a server that does not run.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if !s.running() {
		return nil
	}
	return s.run.kill()
}

// Stop asks the server to end, with SIGTERM, and returns when the process is gone. A paused server is resumed for it, since it
// could not hear. A server that has not ended after ten seconds is killed, which is an error. Stop does nothing to a server
// that does not run.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	if err := s.run.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if s.paused {
		if err := s.resume(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	const grace = 10 * time.Second
	select {
	case <-s.run.exited:
		return nil
	case <-time.After(grace):
		return errors.Join(fmt.Errorf("ensemble: %v did not stop in %v and was killed", s, grace), s.run.kill())
	}
}

// Pause stops the server with SIGSTOP: its port accepts connections, its data stays, nothing is answered. On Linux no thread of it
// runs any more when Pause returns. It does nothing to a paused server and returns [ErrNotRunning] for one that is down.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("%w: cannot pause %v", ErrNotRunning, s)
	}
	if s.paused {
		return nil
	}
	if err := s.run.pause(); err != nil {
		return err
	}
	s.paused = true
	return nil
}

// Resume ends a pause, with SIGCONT. What clients sent during the pause is processed then. It does nothing to a server that is not paused and
// returns [ErrNotRunning] for one that is down.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("%w: cannot resume %v", ErrNotRunning, s)
	}
	if !s.paused {
		return nil
	}
	return s.resume()
}

func (s *Server) resume() error {
	if err := s.run.resume(); err != nil {
		return err
	}
	s.paused = false
	return nil
}

// Restart starts the server on the same address and data, after killing it if it runs, and returns when it serves
// clients. A member of a quorum serves only with another one; see [Ensemble.Restart] for starting all. It fails when
// the server ends again, with the end of its output. It also fails when the context ends, at the latest after a minute.
// The process is then left as it is. After Close it is [ErrClosed].
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	run, err := s.launch()
	if err != nil {
		return err
	}
	return s.awaitService(ctx, run)
}

// launch starts a process, after killing the one that runs.
func (s *Server) launch() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: cannot start %v", ErrClosed, s)
	}
	if err := s.kill(); err != nil {
		return nil, err
	}
	cmd := s.settings.command(s.configFile(), s.jaasFile())
	cmd.Dir = s.dir
	if s.host != nil {
		cmd = s.host.Inside(cmd)
	}
	run, err := launch(cmd, s.LogFile())
	if err != nil {
		return nil, err
	}
	s.run, s.paused = run, false
	return run, nil
}

// end kills the server and keeps it from being started again.
func (s *Server) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.kill()
}
