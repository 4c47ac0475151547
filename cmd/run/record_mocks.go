package run

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// prepareMocks prepares --record-mocks: the calls that no mock answers go out, through a
// recorder. The file is opened before any call is made.
func (r *Runner) prepareMocks(_ context.Context, cfg *sim.Config) error {
	if r.recordMocks == "" {
		return nil
	}
	if r.redis != "" {
		return cli.Misusef("--record-mocks requires the virtual clock, not --redis-url")
	}
	f, err := os.OpenFile(r.recordMocks, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(r.recordMocks, err))
	}
	r.recorder = mock.NewRecorder(cfg.Transport, time.Now, store.NewSealer(cfg.Secrets).Redact)
	cfg.Transport, cfg.Onward = r.recorder, true
	return nil
}

// writeMocks writes the file of --record-mocks.
func (r *Runner) writeMocks() error {
	if r.recorder == nil {
		return nil
	}
	text, left, err := r.recorder.File(r.mocksText)
	if err == nil {
		err = os.WriteFile(r.recordMocks, text, 0o600)
	}
	if err != nil {
		return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(r.recordMocks, err))
	}
	r.Sh.Hint("%s written to %s", history.Count(r.recorder.Len(), "call"), cli.Printable(r.recordMocks))
	if len(left) > 0 {
		return errors.New("binary responses cannot be mocked, so their bodies are left out: " + cli.Printable(strings.Join(left, ", ")))
	}
	return nil
}
