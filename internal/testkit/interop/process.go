// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// closeTimeout bounds how long a process may take to end by itself.
const closeTimeout = 10 * time.Second

// maxLine bounds an answer, in which there may be the data of a znode.
const maxLine = 2 << 20

// process is a program that takes commands a line each and answers them in any order.
type process struct {
	name    string                            // in errors
	failure func(class, message string) error // of what a command ended with
	folder  string                            // of its files, removed in the end
	cmd     *exec.Cmd
	in      io.WriteCloser
	log     tail
	gone    chan struct{} // closed when the process has ended and been waited for
	close   func() error

	mu      sync.Mutex // also orders what is written to in
	number  int        // of the last command
	waiting map[string]chan<- []string
}

// launch starts the command. The folder is removed when it fails, or in the end.
func (p *process) launch(name, folder string, cmd *exec.Cmd, failure func(class, message string) error) error {
	p.name, p.folder, p.cmd, p.failure = name, folder, cmd, failure
	p.gone, p.waiting = make(chan struct{}), make(map[string]chan<- []string)
	p.close = sync.OnceValue(p.end)
	if err := p.run(); err != nil {
		return errors.Join(fmt.Errorf("interop: start %s: %w", name, err), os.RemoveAll(folder))
	}
	return nil
}

func (p *process) run() error {
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.read(out)
	return nil
}

// read hands out the answers until there are no more.
func (p *process) read(out io.Reader) {
	defer close(p.gone)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		number, words, _ := strings.Cut(lines.Text(), "\t")
		p.mu.Lock()
		if answer := p.waiting[number]; answer != nil {
			answer <- strings.Split(words, "\t") // has room for its one answer
		}
		delete(p.waiting, number)
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // how it ended is in the state of the process
}

// send writes a command, and returns where its answer will be.
func (p *process) send(words []string) (<-chan []string, error) {
	for _, w := range words {
		if strings.ContainsAny(w, "\t\r\n") {
			return nil, fmt.Errorf("interop: word %q, expected one without tabs and line breaks", w)
		}
	}
	answer := make(chan []string, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	number := strconv.Itoa(p.number)
	p.waiting[number] = answer
	if _, err := io.WriteString(p.in, number+"\t"+strings.Join(words, "\t")+"\n"); err != nil {
		delete(p.waiting, number)
		return nil, fmt.Errorf("interop: %s is gone: %w\n%s", p.name, err, p.log.String())
	}
	return answer, nil
}

func (p *process) end() error {
	_ = p.in.Close() // tells it to end; it may have done so already
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-p.gone:
		if !p.cmd.ProcessState.Success() {
			err = fmt.Errorf("interop: %s: %v\n%s", p.name, p.cmd.ProcessState, p.log.String())
		}
	case <-timer.C:
		err = fmt.Errorf("interop: %s had not ended after %v: killed\n%s", p.name, closeTimeout, p.log.String())
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.gone
	}
	return errors.Join(err, os.RemoveAll(p.folder))
}

// results returns what an answer says.
func (p *process) results(words []string) ([]string, error) {
	switch {
	case words[0] == "ok":
		return words[1:], nil
	case words[0] == "error" && len(words) == 3:
		return nil, p.failure(words[1], words[2])
	default:
		return nil, fmt.Errorf("interop: answer %q, expected ok or error", words)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 8192

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
