package run

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/workflows"
)

// useFilesBeside selects the mocks and the input beside the document, unless flags or tests specify
// others.
func (r *Runner) useFilesBeside(file string) {
	if r.later {
		return
	}
	var used []string
	if mocks := cli.MocksBeside(file); r.Mocks == "" && mocks != "" {
		r.Mocks, used = mocks, append(used, mocks)
	}
	if input := cli.InputBeside(file); r.Input == "" && input != "" {
		r.Input, used = "@"+input, append(used, input)
	}
	if used != nil {
		r.Sh.Hint("using %s", cli.Printable(strings.Join(used, ", ")))
	}
}

// ReadWith reads the documents of --with.
func (r *Runner) ReadWith(ctx context.Context, cfg *sim.Config) error {
	for _, file := range r.With {
		child, err := cli.LoadDocument(ctx, r.Sh, file)
		if err != nil {
			return err
		}
		r.documents, cfg.With = append(r.documents, child), append(cfg.With, child.Def)
	}
	return nil
}

// readExample reads an example with its mocks and its input.
func (r *Runner) readExample(ctx context.Context, cfg *sim.Config) error {
	e, err := workflows.Load(r.example)
	if err != nil {
		return cli.Fail(cli.ExitMisuse, err)
	}
	if r.source, err = cli.ParseDocument(r.Sh, e.Name+".yaml", e.Document); err != nil {
		return err
	}
	r.documents, cfg.Definition, cfg.Input = append(r.documents, r.source), r.source.Def, e.Input
	for _, name := range slices.Sorted(maps.Keys(e.With)) {
		child, err := cli.ParseDocument(r.Sh, name, e.With[name])
		if err != nil {
			return err
		}
		r.documents, cfg.With = append(r.documents, child), append(cfg.With, child.Def)
	}
	if r.mocksText = e.Mocks; e.Mocks != nil {
		if cfg.Mocks, err = mock.Parse(e.Name+".mocks.yaml", e.Mocks); err != nil {
			return fmt.Errorf("mocks of the example: %w", err)
		}
	}
	return r.ReadWith(ctx, cfg)
}

// checkNames checks the tenant and the id.
func (r *Runner) checkNames(context.Context, *sim.Config) error {
	if err := store.CheckTenant(r.tenant); err != nil {
		return cli.Fail(cli.ExitMisuse, err)
	}
	if r.id == "" {
		return nil
	}
	return cli.Fail(cli.ExitMisuse, store.CheckExecution(r.id))
}

// ReadInput reads --input. It takes precedence over the input of an example.
func (r *Runner) ReadInput(ctx context.Context, cfg *sim.Config) error {
	if r.Input == cli.None {
		cfg.Input = nil
		return nil
	}
	input, err := cli.ReadData(ctx, r.Sh, "--input", r.Input)
	if input != nil {
		cfg.Input = input
	}
	return err
}

// ReadMocks reads the file of --mocks.
func (r *Runner) ReadMocks(ctx context.Context, cfg *sim.Config) error {
	switch r.Mocks {
	case "":
		return nil
	case cli.None:
		cfg.Mocks, r.mocksText = nil, nil
		return nil
	}
	text, err := cli.ReadDocument(ctx, r.Sh, r.Mocks)
	if err != nil {
		return err
	}
	r.mocksText = text
	cfg.Mocks, err = mock.Parse(r.Mocks, text)
	return cli.Fail(cli.ExitMisuse, err)
}

// ReadSecrets reads the file of --secrets.
func (r *Runner) ReadSecrets(ctx context.Context, cfg *sim.Config) (err error) {
	cfg.Secrets, err = cli.ReadSecrets(ctx, r.Sh, r.Secrets)
	return err
}

// readTimes reads the flags about the clock.
func (r *Runner) readTimes(_ context.Context, cfg *sim.Config) error {
	if err := r.readStart(cfg); err != nil {
		return err
	}
	if r.maxTime != "" {
		d, err := dsl.ParseSpan(r.maxTime)
		if err != nil {
			return cli.Misusef("--max-time %q: %v", r.maxTime, err)
		}
		cfg.MaxTime = d.From(cfg.Start).Sub(cfg.Start)
	}
	if r.realTime {
		cfg.Pace = 1
	}
	if r.speed == "" {
		return nil
	}
	pace, err := strconv.ParseFloat(strings.TrimSuffix(r.speed, "x"), 64)
	if err != nil || !(pace > 0 && pace < 1e9) {
		return cli.Misusef("--speed %q: want a factor such as 60x", r.speed)
	}
	cfg.Pace = pace
	return nil
}

func (r *Runner) readStart(cfg *sim.Config) error {
	switch {
	case r.start == "now", r.start == "" && r.realTime, r.redis != "":
		cfg.Start = time.Now().UTC().Truncate(time.Microsecond) // the precision of Redis
	case r.start == "":
		cfg.Start = sim.Epoch()
	default:
		start, err := time.Parse(time.RFC3339Nano, r.start)
		if err != nil {
			return cli.Misusef("--start %q: want a time such as 2026-01-01T00:00:00Z, or now", r.start)
		}
		cfg.Start = start.UTC()
	}
	return nil
}

// recordTo runs a simulation and writes its recording to a file, unless the name is empty, and to
// other writers.
func recordTo(ctx context.Context, file string, cfg sim.Config, others ...io.Writer) (*sim.Result, error) {
	if file == "" {
		return recording.Record(ctx, cfg, io.MultiWriter(others...))
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, cli.Fail(cli.ExitMisuse, cli.WithoutVerb(file, err))
	}
	result, err := recording.Record(ctx, cfg, io.MultiWriter(append(others, f)...))
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write the recording: %w", closed)
	}
	return result, err
}

// CheckSecrets returns an error if a document uses a secret that is missing.
func (r *Runner) CheckSecrets(_ context.Context, cfg *sim.Config) error {
	if r.later {
		return nil
	}
	missing := false
	for _, def := range append([]*dsl.Definition{cfg.Definition}, cfg.With...) {
		name := ""
		if i := slices.IndexFunc(r.documents, func(d cli.Document) bool { return d.Def == def }); i >= 0 {
			name = r.documents[i].Name
		}
		if found := cli.MissingSecrets(def, name, cfg.Secrets, r.Secrets); found != nil {
			found.Render(r.Sh.Err, r.Sh.ErrColor())
			missing = true
		}
	}
	if missing {
		return cli.Reported(cli.ExitMisuse)
	}
	return nil
}
