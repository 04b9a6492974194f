// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// clientEnv makes this program a client process.
const clientEnv = "CURATOR_NEMESIS_CLIENT"

// answerTime bounds how long a client process may take for an order. It is long enough for
// the last turns of its workers.
const answerTime = 2 * time.Minute

// maxAnswer bounds an answer, in bytes. The longest has the stacks of all goroutines that are left.
const maxAnswer = 16 << 20

// process is a client process as the campaign sees it.
type process struct {
	config clientConfig
	host   *ensemble.Host

	ordering sync.Mutex // one order after the other
	silent   bool       // it has once not answered, so the next answer may be the one to another order
	cmd      *exec.Cmd
	in       io.WriteCloser
	answers  chan reply // closed with the process' output
	exited   <-chan error
}

// startProcess starts a client on a host. What it has to say goes to the log.
func startProcess(config clientConfig, host *ensemble.Host, log io.Writer) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	client := exec.Command(program)
	client.Env = append(os.Environ(), clientEnv+"=1")
	p := &process{config: config, host: host, cmd: host.Inside(client), answers: make(chan reply, 1)}
	p.cmd.Stderr = log
	in, err1 := p.cmd.StdinPipe()
	output, out, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	p.in, p.cmd.Stdout = in, out
	p.exited, err = startTied(p.cmd)
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("nemesis: client %s: %w", config.Name, err), output.Close())
	}
	go p.read(output)
	if err := p.send(config); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// read passes the answers on until there are no more.
func (p *process) read(output *os.File) {
	defer close(p.answers)
	defer func() { _ = output.Close() }() // it was only read
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var answer reply
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			answer.Error = err.Error()
		}
		p.answers <- answer
	}
}

func (p *process) send(message any) error {
	line, err := json.Marshal(message)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("nemesis: client %s: %w", p.config.Name, err)
	}
	return nil
}

// order has the process carry an order out, and returns its answer.
func (p *process) order(o order) (reply, error) {
	p.ordering.Lock()
	defer p.ordering.Unlock()
	if p.silent {
		return reply{}, fmt.Errorf("nemesis: client %s gets no order %q, as it has not answered to another", p.config.Name, o.Do)
	}
	if err := p.send(o); err != nil {
		return reply{}, err
	}
	select {
	case answer, ok := <-p.answers:
		switch {
		case !ok:
			return reply{}, fmt.Errorf("nemesis: client %s has ended before it had answered to %q", p.config.Name, o.Do)
		case answer.Error != "":
			return answer, fmt.Errorf("nemesis: client %s: %s: %s", p.config.Name, o.Do, answer.Error)
		}
		return answer, nil
	case <-time.After(answerTime):
		p.silent = true
		return reply{}, fmt.Errorf("nemesis: client %s has not answered to %q within %v", p.config.Name, o.Do, answerTime)
	}
}

// orderAll has processes carry an order out at the same time, and returns their answers, in the same
// order, and all errors.
func orderAll(all []*process, o order) ([]reply, error) {
	answers, errs := make([]reply, len(all)), make([]error, len(all))
	var done sync.WaitGroup
	for i, p := range all {
		done.Go(func() { answers[i], errs[i] = p.order(o) })
	}
	done.Wait()
	return answers, errors.Join(errs...)
}

// kill ends the process as the system does when there is no memory.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("nemesis: client %s: %w", p.config.Name, err)
	}
	if <-p.exited == nil { // Wait has an error for a process that was killed
		return errors.Join(fmt.Errorf("nemesis: client %s has ended before it was killed", p.config.Name), p.closeInput())
	}
	return p.closeInput()
}

// closeInput closes the pipe to the process, unless that was done when it ended.
func (p *process) closeInput() error {
	if err := p.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("nemesis: client %s: %w", p.config.Name, err)
	}
	return nil
}

// end waits for a process that has been told to close.
func (p *process) end() error {
	err := p.closeInput()
	select {
	case status := <-p.exited:
		err = errors.Join(err, status)
	case <-time.After(answerTime):
		err = errors.Join(err, errors.New("it does not end"), p.cmd.Process.Kill())
	}
	if err != nil {
		return fmt.Errorf("nemesis: client %s: %w", p.config.Name, err)
	}
	return nil
}
