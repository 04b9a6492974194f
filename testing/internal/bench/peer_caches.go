// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

// cacheTimeout is the session timeout of followers. Their sessions outlast the cuts.
const cacheTimeout = 40 * time.Second

// connectQuietly connects without a log.
func connectQuietly(ctx context.Context, connect string) (*framework.Framework, error) {
	return framework.Connect(ctx, connect, framework.WithSessionTimeout(cacheTimeout), framework.WithLogger(slog.New(slog.DiscardHandler)))
}

// runSelfCache measures CuratorCache.
func runSelfCache(ctx context.Context, at servers, l load, _ string) (result, error) {
	return runCaches(ctx, at, l, false, func(connect, root, _ string) (treeFollower, error) {
		return newSelfFollower(ctx, connect, root)
	})
}

// selfFollower is a CuratorCache of this library.
type selfFollower struct {
	client *framework.Framework
	cache  *cache.CuratorCache
	root   string
	ending context.CancelFunc
	ended  chan struct{}
	other  []float64
	failed error

	mu    sync.Mutex
	lags  []float64
	more  chan struct{} // closed with the next event
	ready bool
}

func newSelfFollower(ctx context.Context, connect, root string, opts ...cache.Option) (*selfFollower, error) {
	client, err := connectQuietly(ctx, connect)
	if err != nil {
		return nil, err
	}
	f := &selfFollower{client: client, root: root, more: make(chan struct{})}
	f.cache, err = cache.NewCuratorCache(client, root, opts...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	f.cache.Listen(f.note)
	return f, nil
}

// note is the listener.
func (f *selfFollower) note(e cache.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Type == cache.Initialized {
		f.ready = true
	}
	if e.Type == cache.NodeChanged && f.ready {
		f.lags = append(f.lags, lagOf(e.New.Data))
	}
	if e.Type != cache.NodeCreated {
		close(f.more)
		f.more = make(chan struct{})
	}
}

// lagOf is how many microseconds ago the data was stamped.
func lagOf(data []byte) float64 {
	text, _, _ := strings.Cut(string(data), " ")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // the tree has no other data
	}
	return microseconds(time.Duration(wallClock() - at))
}

func (f *selfFollower) fill(ctx context.Context) (filled, error) {
	before := heapInUse()
	began := time.Now()
	if err := f.cache.Start(); err != nil {
		return filled{}, err
	}
	if err := f.await(ctx, func() bool { return f.ready }); err != nil {
		return filled{}, err
	}
	seconds := time.Since(began).Seconds()
	return filled{Seconds: seconds, Nodes: f.cache.Size(), Memory: float64(heapInUse()) - float64(before)}, nil
}

// await blocks until the condition holds, which is asked with the lock held.
func (f *selfFollower) await(ctx context.Context, holds func() bool) error {
	for {
		f.mu.Lock()
		done, more := holds(), f.more
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *selfFollower) watch(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lags = nil
	return nil
}

func (f *selfFollower) noted(ctx context.Context, atLeast int) (noted, error) {
	if err := f.await(ctx, func() bool { return len(f.lags) >= atLeast }); err != nil {
		return noted{}, err
	}
	f.mu.Lock()
	lags := slices.Clone(f.lags)
	f.mu.Unlock()
	return notedOf(lags), nil
}

func notedOf(times []float64) noted {
	return noted{Events: len(times), P50: percentile(times, 50), P99: percentile(times, 99)}
}

// probeEvery is the pause between other requests of the client.
const probeEvery = 2 * time.Millisecond

func (f *selfFollower) probe(ctx context.Context) error {
	ctx, f.ending = context.WithCancel(ctx)
	f.ended = make(chan struct{})
	go func() {
		defer close(f.ended)
		for connected := false; !connected && ctx.Err() == nil; {
			_, err := f.client.Get(ctx, f.root)
			connected = err == nil
		}
		for f.failed == nil && ctx.Err() == nil {
			began := time.Now()
			if _, f.failed = f.client.Get(ctx, f.root); f.failed == nil {
				f.other = append(f.other, microseconds(time.Since(began)))
			}
			select {
			case <-time.After(probeEvery):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			f.failed = nil
		}
	}()
	return nil
}

func (f *selfFollower) probed(context.Context) (noted, error) {
	f.ending()
	<-f.ended
	other := notedOf(f.other)
	other.Events++ // the first one waited for the connection
	return other, f.failed
}

func (f *selfFollower) close() error { return errors.Join(f.cache.Close(), f.client.Close()) }

// runRawReads measures reads of the same paths, with nothing kept: what no fill can do without.
func runRawReads(ctx context.Context, at servers, l load, _ string) (result, error) {
	return runCaches(ctx, at, l, true, func(connect, root, _ string) (treeFollower, error) {
		client, err := connectQuietly(ctx, connect)
		return &rawReader{selfFollower{client: client}, root, l.Nodes}, err
	})
}

// rawReader fills nothing. It reads what it is told is there.
type rawReader struct {
	selfFollower
	tree  string
	nodes int
}

// Bare reads use the window of the cache.
const (
	rawFlights = 3
	rawReads   = 64
)

func (r *rawReader) fill(ctx context.Context) (f filled, err error) {
	t, err := plantOne(ctx, r.client, r.tree, r.nodes, nodesPerFolder)
	if err != nil {
		return filled{}, err
	}
	parts := make(chan []string)
	errs := make([]error, rawFlights)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range errs {
		wg.Go(func() {
			for part := range parts {
				data, stats := make([][]byte, len(part)), make([]framework.Stat, len(part))
				reads := make([]framework.Read, len(part))
				for k, path := range part {
					reads[k] = framework.ReadData(path, &data[k], framework.StoringStatIn(&stats[k]))
				}
				errs[i] = errors.Join(errs[i], r.client.Pipeline(ctx, reads...))
			}
		})
	}
	for part := range slices.Chunk(t.paths, rawReads) {
		parts <- part
	}
	close(parts)
	wg.Wait()
	return filled{Seconds: time.Since(began).Seconds(), Nodes: len(t.paths)}, errors.Join(errs...)
}

func (r *rawReader) close() error { return r.client.Close() }

var (
	//go:embed external/BenchCache.java
	javaCacheSource []byte
	//go:embed external/bench_cache.py
	pythonCacheSource []byte
)

// runJavaCache measures Curator's CuratorCache, in a process of its own.
func runJavaCache(ctx context.Context, at servers, l load, _ string) (result, error) {
	return runCaches(ctx, at, l, false, func(connect, root, warm string) (treeFollower, error) {
		return startFollower(ctx, javaCacheSource, "BenchCache.java", []string{connect, root, warm},
			"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", classPath())
	})
}

// kazooTime is how long kazoo has to fill a tree. A large one may take it longer.
const kazooTime = time.Minute

// runPythonCache measures the TreeCache of kazoo, in a process of its own. It is only filled.
func runPythonCache(ctx context.Context, at servers, l load, _ string) (result, error) {
	limited, cancel := context.WithTimeout(ctx, kazooTime)
	defer cancel()
	r, err := runCaches(ctx, at, l, true, func(connect, root, _ string) (treeFollower, error) {
		return startFollower(limited, pythonCacheSource, "bench_cache.py", []string{connect, root}, python)
	})
	if limited.Err() != nil && ctx.Err() == nil {
		return result{All: 1, Turns: 1, Seconds: kazooTime.Seconds()}, nil // nothing was measured
	}
	return r, err
}

// otherFollower is a program that takes commands, one a line, and answers each with a line of
// JSON.
type otherFollower struct {
	name   string
	folder string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func startFollower(ctx context.Context, source []byte, name string, args []string, command ...string) (_ *otherFollower, err error) {
	f := &otherFollower{name: name}
	if f.folder, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, err
	}
	file := filepath.Join(f.folder, name)
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.folder))
	}
	f.cmd = exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{file}, args)...)
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.cmd.Stderr = &f.stderr
	in, err1 := f.cmd.StdinPipe()
	out, err2 := f.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.folder))
	}
	f.in, f.out = in, bufio.NewReader(out)
	if err := f.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.folder))
	}
	return f, nil
}

// ask sends a command and reads the answer.
func (f *otherFollower) ask(answer any, command string, args ...int) error {
	for _, arg := range args {
		command += " " + strconv.Itoa(arg)
	}
	if _, err := io.WriteString(f.in, command+"\n"); err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", f.name, command, err, f.stderr.Bytes())
	}
	line, err := f.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", f.name, command, err, f.stderr.Bytes())
	}
	if err := json.Unmarshal(line, answer); err != nil {
		return fmt.Errorf("%s printed %q: %w", f.name, line, err)
	}
	return nil
}

func (f *otherFollower) fill(context.Context) (r filled, err error) { return r, f.ask(&r, "fill") }

func (f *otherFollower) watch(context.Context) error { return f.ask(&noted{}, "watch") }

func (f *otherFollower) noted(_ context.Context, atLeast int) (r noted, err error) {
	return r, f.ask(&r, "noted", atLeast)
}

func (f *otherFollower) probe(context.Context) error { return f.ask(&noted{}, "probe") }

func (f *otherFollower) probed(context.Context) (r noted, err error) { return r, f.ask(&r, "probed") }

// close ends the program, which ends with its input.
func (f *otherFollower) close() error {
	err := errors.Join(f.in.Close(), f.cmd.Wait())
	return errors.Join(err, os.RemoveAll(f.folder))
}
