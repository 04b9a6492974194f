// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// errPortTaken tells Start that other ports may help.
var errPortTaken = errors.New("ensemble: a port was taken by another process")

// awaitService waits until the server that run is serves clients, or cannot any more.
func (s *Server) awaitService(ctx context.Context, run *process) error {
	for {
		err := s.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-run.exited:
			return s.failure(run, fmt.Errorf("it ended: %s", run.status))
		case <-ctx.Done():
			return s.failure(run, errors.Join(ErrNotServing, context.Cause(ctx), err))
		case <-time.After(pollInterval):
		}
		if strings.Contains(run.outputTail(), bindFailure) {
			return s.failure(run, errPortTaken) // some ports are tried again forever, so do not wait for an exit
		}
	}
}

// bindFailure is in the output of a JVM that could not listen: the first part of the text of Java's BindException.
const bindFailure = "Address already in use"

// probeTimeout bounds one question to a server that may be starting: asked at the wrong moment it never ends its answer
// (ZOOKEEPER-5051), so it is better asked again.
const probeTimeout = time.Second

// probe returns nil if the server serves clients. A stranger's server on a port that ours failed to get does not count.
func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := s.Mode(ctx); err != nil {
		return err
	}
	conf, err := s.FourLetterWord(ctx, "conf")
	if err != nil {
		return err
	}
	if want := "dataDir=" + filepath.ToSlash(s.DataDir()); !strings.Contains(filepath.ToSlash(conf), want) {
		return fmt.Errorf("%w: at %s answers a server without %s", errPortTaken, s.Addr(), want)
	}
	return nil
}

func (s *Server) failure(run *process, err error) error {
	if strings.Contains(run.outputTail(), bindFailure) {
		err = errors.Join(errPortTaken, err)
	}
	return fmt.Errorf("ensemble: %v does not serve: %w\n--- end of its output:\n%s", s, err, run.outputTail())
}
