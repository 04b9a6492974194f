package interop

import (
	"bufio"
	"context"
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

// closeTimeout bounds how long Close waits for Java to end by itself.
const closeTimeout = 10 * time.Second

// maxLine bounds an answer, in which there may be the data of a znode.
const maxLine = 2 << 20

// Java is a running process of the program. Its methods may be called from any
// goroutine. It ends with [Java.Close], and with the process that has started it.
type Java struct {
	folder string
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    tail
	gone   chan struct{} // closed when the process has ended and been waited for
	close  func() error

	mu      sync.Mutex // also orders what is written to in
	number  int        // of the last command
	waiting map[string]chan<- []string
}

// Start compiles the program and starts it. The context bounds the compilation,
// which takes a second or two.
func Start(ctx context.Context) (*Java, error) {
	found, err := find(jarFolder)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "interop-")
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	if err := found.compile(ctx, folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	j := &Java{
		folder: folder, cmd: found.command(folder),
		gone: make(chan struct{}), waiting: make(map[string]chan<- []string),
	}
	j.close = sync.OnceValue(j.end)
	if err := j.run(); err != nil {
		return nil, errors.Join(fmt.Errorf("interop: start java: %w", err), os.RemoveAll(folder))
	}
	return j, nil
}

func (j *Java) run() error {
	var err error
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	j.cmd.Stderr = &j.log
	if err := j.cmd.Start(); err != nil {
		return err
	}
	go j.read(out)
	return nil
}

// read hands out the answers until there are no more.
func (j *Java) read(out io.Reader) {
	defer close(j.gone)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		number, words, _ := strings.Cut(lines.Text(), "\t")
		j.mu.Lock()
		if answer := j.waiting[number]; answer != nil {
			answer <- strings.Split(words, "\t") // has room for its one answer
		}
		delete(j.waiting, number)
		j.mu.Unlock()
	}
	_ = j.cmd.Wait() // how it ended is in the state of the process
}

// send writes a command, and returns where its answer will be.
func (j *Java) send(words []string) (<-chan []string, error) {
	for _, w := range words {
		if strings.ContainsAny(w, "\t\r\n") {
			return nil, fmt.Errorf("interop: word %q, expected one without tabs and line breaks", w)
		}
	}
	answer := make(chan []string, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	number := strconv.Itoa(j.number)
	j.waiting[number] = answer
	if _, err := io.WriteString(j.in, number+"\t"+strings.Join(words, "\t")+"\n"); err != nil {
		delete(j.waiting, number)
		return nil, fmt.Errorf("interop: java is gone: %w\n%s", err, j.log.String())
	}
	return answer, nil
}

// Close ends the process, if need be by force, and removes its files. Sessions that
// are still open are left to expire. Only the first call does something; all return
// its result.
func (j *Java) Close() error { return j.close() }

func (j *Java) end() error {
	_ = j.in.Close() // tells it to end; it may have done so already
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-j.gone:
		if !j.cmd.ProcessState.Success() {
			err = fmt.Errorf("interop: java: %v\n%s", j.cmd.ProcessState, j.log.String())
		}
	case <-timer.C:
		err = fmt.Errorf("interop: java had not ended after %v: killed\n%s", closeTimeout, j.log.String())
		err = errors.Join(err, j.cmd.Process.Kill())
		<-j.gone
	}
	return errors.Join(err, os.RemoveAll(j.folder))
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
