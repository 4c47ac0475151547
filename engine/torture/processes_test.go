//go:build unix

package torture_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// processes are processes of the engine. One that dies is replaced immediately.
type processes struct {
	t   *testing.T
	dir string // of their logs

	mu      sync.Mutex
	roles   []role
	members []*process // one of each role
	dead    map[string]time.Time
	killed  int // by the test
	closed  bool
	living  sync.WaitGroup
}

type process struct {
	name    string
	command *exec.Cmd
	gone    chan struct{}
}

func newProcesses(t *testing.T) *processes {
	t.Helper()
	c := &processes{t: t, dir: t.TempDir(), dead: map[string]time.Time{}}
	t.Cleanup(func() {
		c.close()
		if t.Failed() {
			t.Log(c.distinctLogs())
		}
	})
	return c
}

// add starts a process for each role.
func (c *processes) add(roles ...role) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range roles {
		c.roles, c.members = append(c.roles, r), append(c.members, nil)
		c.spawn(len(c.roles) - 1)
	}
}

// spawn starts the next process of a role; the caller holds the lock.
func (c *processes) spawn(slot int) {
	r := c.roles[slot]
	r.Process = fmt.Sprintf("p%d-%d", slot, len(c.dead))
	p := &process{name: r.Process, command: exec.Command(os.Args[0]), gone: make(chan struct{})}
	p.command.Env = append(os.Environ(), roleVariable+"="+r.String())
	log, err := os.Create(filepath.Join(c.dir, r.Process))
	if err == nil {
		defer log.Close()
		p.command.Stderr = log
		_, err = p.command.StdinPipe() // open while the parent runs
	}
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		c.t.Errorf("start process %s: %v", r.Process, err)
		return
	}
	c.members[slot] = p
	c.living.Go(func() { c.await(slot, p) })
}

// await replaces a process that has died.
func (c *processes) await(slot int, p *process) {
	_ = p.command.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(p.gone)
	c.dead[p.name] = time.Now()
	status, _ := p.command.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
	case c.closed && (status.ExitStatus() == 0 || status.Signaled() && status.Signal() == syscall.SIGTERM):
		// It ended normally, or was stopped before it had begun.
	case c.closed && c.roles[slot].Bridging != nil && c.roles[slot].Bridging.NATS:
		// A stopped nats-server may exit with 1.
	default:
		c.t.Errorf("process %s ended by itself: %v", p.name, p.command.ProcessState)
	}
	if !c.closed {
		c.spawn(slot)
	}
}

// kill ends a process as a crash would, and waits until it is replaced.
func (c *processes) kill(slot int) {
	c.mu.Lock()
	p := c.members[slot]
	c.killed++
	c.mu.Unlock()
	_ = p.command.Process.Kill()
	<-p.gone
}

// signal sends a signal to a process.
func (c *processes) signal(slot int, s syscall.Signal) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.members[slot].command.Process.Signal(s)
	return c.members[slot].name
}

// pid returns the id of a process.
func (c *processes) pid(slot int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[slot].command.Process.Pid
}

// died returns when a process died; zero if it is still running.
func (c *processes) died(name string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead[name]
}

// close stops all processes, and fails the test unless they end normally.
func (c *processes) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		for _, p := range c.members {
			_ = p.command.Process.Signal(syscall.SIGTERM)
		}
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() { c.living.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience()):
		c.t.Error("some processes do not stop")
		for _, p := range c.members {
			_ = p.command.Process.Kill()
		}
		<-ended
	}
}

// distinctLogs returns what the processes have logged, each line once.
func (c *processes) distinctLogs() string {
	said := map[string]string{}
	for _, file := range c.logs() {
		text, _ := os.ReadFile(file)
		for line := range bytes.Lines(text) {
			_, what, _ := bytes.Cut(bytes.TrimSpace(line), []byte("level="))
			said[string(what)] = string(bytes.TrimSpace(line))
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d processes, which logged %d different lines:", len(c.dead), len(said))
	for i, what := range slices.Sorted(maps.Keys(said)) {
		if i == maxLines {
			out.WriteString("\n\t…")
			break
		}
		fmt.Fprintf(&out, "\n\t%s", said[what])
	}
	return out.String()
}

const maxLines = 30

func (c *processes) logs() []string {
	files, _ := filepath.Glob(filepath.Join(c.dir, "*"))
	return files
}
