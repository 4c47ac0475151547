package bench

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// servicesRequest is the request to run services in a process.
type servicesRequest struct {
	URL       string   `json:"url"`
	Tenant    string   `json:"tenant"`
	Others    []string `json:"others"` // other tenants
	Workers   bool     `json:"workers"`
	Executors bool     `json:"executors"`
	Timers    bool     `json:"timers"`
	Remote    bool     `json:"remote"` // pure tasks also go through the stream
	Idle      bool     `json:"idle"`   // reads block as long as in a deployment; stopping may take long
}

// engine returns an engine with the services of a request.
func (d servicesRequest) engine(rdb wire.Redis, opts engine.Options) (*engine.Engine, error) {
	opts.Process = "bench-" + strings.ToLower(rand.Text()[:8])
	opts.Tenants, opts.Discover, opts.Remote = append([]string{d.Tenant}, d.Others...), false, d.Remote
	for n, on := range map[*int]bool{&opts.Workers: d.Workers, &opts.Executors: d.Executors, &opts.Timers: d.Timers} {
		if !on {
			*n = 0
		}
	}
	opts.Transport, opts.Breakers = httpcall.NewTransport(httpcall.AnyNetwork), nil
	if !d.Idle {
		opts.Block(shortBlock)
	} else if !d.Workers {
		opts.Retention = engine.Retention{} // timer services do not trim
	}
	return engine.New(rdb, opts)
}

// shortBlock is how long reads block if stopping should be quick.
const shortBlock = 100 * time.Millisecond

// services are the running services of a request, in this process or others.
type services struct {
	trips trips // of the services of this process

	begin func()
	end   func() error
	pids  []int // of the other processes
}

// within reports whether the services run in this process.
func (s *services) within() bool { return len(s.pids) == 0 }

func (s *scenarioRun) starter(d servicesRequest) func(context.Context) (*services, error) {
	return func(ctx context.Context) (*services, error) { return s.startServices(ctx, d) }
}

// startServices prepares services. The caller must call begin to run and end to stop them.
func (s *scenarioRun) startServices(ctx context.Context, d servicesRequest) (*services, error) {
	d.URL, d.Tenant = s.opts.URL, s.tenant
	if s.opts.Processes > 0 {
		return s.processes(ctx, d)
	}
	c := &services{}
	rdb, err := store.Dial(ctx, d.URL)
	if err != nil {
		return nil, err
	}
	rdb.AddHook(&c.trips)
	e, err := d.engine(rdb, s.opts.Engine)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	c.runs(ctx, func(ctx context.Context) error { return e.Run(ctx, s.opts.Log) }, rdb.Close)
	if err := e.Prepare(ctx); err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return c, nil
}

// runs makes begin start run in the background, and end stop it and then close what it used.
func (s *services) runs(ctx context.Context, run func(context.Context) error, closeAll func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	s.begin = sync.OnceFunc(func() { go func() { done <- run(ctx) }() })
	s.end = sync.OnceValue(func() error {
		s.begin()
		cancel()
		return errors.Join(<-done, closeAll())
	})
}

// background runs bare commands, like services, until the end.
func background(ctx context.Context, run func(context.Context) error) *services {
	c := &services{}
	c.runs(ctx, func(ctx context.Context) error {
		if err := run(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, func() error { return nil })
	return c
}

// processes starts services in separate processes, each with the whole request. It sends the
// request over standard input so that other users cannot see the password of Redis.
func (s *scenarioRun) processes(ctx context.Context, d servicesRequest) (*services, error) {
	c := &services{}
	var inputs []io.WriteCloser
	var commands []*exec.Cmd
	c.begin = sync.OnceFunc(func() {
		for _, in := range inputs {
			_, _ = io.WriteString(in, "begin\n") // end reports a process that has exited
		}
	})
	c.end = sync.OnceValue(func() error {
		var errs []error
		for i, in := range inputs {
			errs = append(errs, in.Close(), commands[i].Wait())
		}
		return errors.Join(errs...)
	})
	for range s.opts.Processes {
		command := exec.CommandContext(context.WithoutCancel(ctx), s.opts.Command[0], s.opts.Command[1:]...)
		command.Stderr = os.Stderr
		detach(command)
		in, err := command.StdinPipe()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start a process: %w", err), c.end())
		}
		out, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start a process: %w", err), c.end())
		}
		inputs, commands, c.pids = append(inputs, in), append(commands, command), append(c.pids, command.Process.Pid)
		if err := d.send(in, out); err != nil {
			return nil, errors.Join(err, c.end())
		}
	}
	return c, nil
}

// send sends a process its request and waits until the process is ready.
func (d servicesRequest) send(in io.Writer, out io.Reader) error {
	if err := json.NewEncoder(in).Encode(d); err != nil {
		return fmt.Errorf("send a process its services: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for a process to be ready: %w", err)
	}
	return nil
}

// RunServices runs the services that a bench in another process requests, until in ends.
func RunServices(ctx context.Context, in io.Reader, out io.Writer, opts engine.Options, log *slog.Logger) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the services to run: %w", err)
	}
	var d servicesRequest
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("read the services to run: %w", err)
	}
	rdb, err := store.Dial(ctx, d.URL)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	e, err := d.engine(rdb, opts)
	if err != nil {
		return err
	}
	if err := e.Prepare(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("report readiness: %w", err)
	}
	if _, err := lines.ReadString('\n'); err != nil {
		return nil // the bench has ended
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	return e.Run(ctx, log)
}
