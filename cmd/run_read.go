package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/workflows"
)

// readDocuments reads and checks the document to run, and those it may run.
func (r *runner) readDocuments(ctx context.Context, cfg *sim.Config, file string) error {
	text, err := readWorkflow(ctx, r.sh, file)
	if err != nil {
		return err
	}
	if r.source, err = r.parse(displayName(file), text); err != nil {
		return err
	}
	cfg.Definition = r.source.def
	return r.readWith(ctx, cfg)
}

// readWith reads the documents of --with.
func (r *runner) readWith(ctx context.Context, cfg *sim.Config) error {
	for _, file := range r.with {
		text, err := readWorkflow(ctx, r.sh, file)
		if err != nil {
			return err
		}
		child, err := r.parse(file, text)
		if err != nil {
			return err
		}
		cfg.With = append(cfg.With, child.def)
	}
	return nil
}

// readExample reads an example with its mocks and its input.
func (r *runner) readExample(ctx context.Context, cfg *sim.Config) error {
	e, err := workflows.Load(r.example)
	if err != nil {
		return fail(exitMisuse, err)
	}
	if r.source, err = r.parse(e.Name+".yaml", e.Document); err != nil {
		return err
	}
	cfg.Definition, cfg.Input = r.source.def, e.Input
	for _, name := range slices.Sorted(maps.Keys(e.With)) {
		child, err := r.parse(name, e.With[name])
		if err != nil {
			return err
		}
		cfg.With = append(cfg.With, child.def)
	}
	if e.Mocks != nil {
		if cfg.Mocks, err = mock.Parse(e.Name+".mocks.yaml", e.Mocks); err != nil {
			return fmt.Errorf("mocks of the example: %w", err)
		}
	}
	return r.readWith(ctx, cfg)
}

// checkNames refuses names that must not become part of a key.
func (r *runner) checkNames(context.Context, *sim.Config) error {
	if r.realTime && r.speed != "" {
		return misusef("--real-time and --speed exclude each other")
	}
	if err := store.CheckTenant(r.tenant); err != nil {
		return fail(exitMisuse, err)
	}
	if r.id == "" {
		return nil
	}
	return fail(exitMisuse, store.CheckExecution(r.id))
}

// parse checks a document, and prints its mistakes as validate does.
func (r *runner) parse(name string, text []byte) (document, error) {
	d, err := parseDocument(r.sh, name, text)
	if err == nil {
		if r.names == nil {
			r.names = map[*dsl.Definition]string{}
		}
		r.names[d.def] = name
	}
	return d, err
}

// parseDocument checks a document, and prints its mistakes as validate does.
func parseDocument(sh *shell, name string, text []byte) (document, error) {
	def, warnings, err := dsl.Parse(name, text)
	if mistakes, ok := errors.AsType[*dsl.Mistakes](err); ok {
		mistakes.Render(sh.Err, sh.errColor())
		return document{}, reported(exitInvalid)
	}
	if err != nil {
		return document{}, err
	}
	if !sh.quiet {
		dsl.RenderWarnings(sh.Err, text, warnings, sh.errColor())
	}
	return document{name: name, text: text, def: def}, nil
}

// readInput reads --input, which takes precedence over the input of an example.
func (r *runner) readInput(ctx context.Context, cfg *sim.Config) error {
	input, err := readData(ctx, r.sh, "--input", r.input)
	if input != nil {
		cfg.Input = input
	}
	return err
}

// readData reads the data given to a flag, nil if the flag is empty: JSON, or @FILE with JSON or
// YAML, or - for stdin.
func readData(ctx context.Context, sh *shell, flag, given string) (json.RawMessage, error) {
	text, name := []byte(given), flag
	switch {
	case given == "":
		return nil, nil
	case given == "-", strings.HasPrefix(given, "@"):
		name = strings.TrimPrefix(given, "@")
		var err error
		if text, err = readDocument(ctx, sh, name); err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, misusef("%s: there is nothing in %s", flag, displayName(name))
		}
	default:
		if err := fileWithoutAt(flag, given); err != nil {
			return nil, err
		}
	}
	v, err := dsl.ParseData(displayName(name), text)
	if err != nil {
		return nil, misusef("%s is neither JSON nor YAML: %v", displayName(name), err)
	}
	return expr.Encode(v), nil
}

// fileWithoutAt refuses data that is the name of a file: the user probably forgot the @.
func fileWithoutAt(flag, given string) error {
	info, err := os.Stat(given)
	exists := err == nil && info.Mode().IsRegular()
	switch ext := filepath.Ext(given); {
	case exists:
		return misusef("%s %s is the name of a file: did you mean @%s?", flag, given, given)
	case strings.ContainsAny(given, " \t\n{}[]\"':"):
		return nil
	case ext == ".json" || ext == ".yaml" || ext == ".yml":
		return misusef("%s %s looks like the name of a file, which would be @%s, but there is no such file", flag, given, given)
	default:
		return nil
	}
}

func (r *runner) readMocks(ctx context.Context, cfg *sim.Config) error {
	if r.mocks == "" {
		return nil
	}
	text, err := readDocument(ctx, r.sh, r.mocks)
	if err != nil {
		return err
	}
	cfg.Mocks, err = mock.Parse(r.mocks, text)
	return fail(exitMisuse, err)
}

func (r *runner) readSecrets(ctx context.Context, cfg *sim.Config) error {
	if r.secrets == "" {
		return nil
	}
	var err error
	cfg.Secrets, err = readSecrets(ctx, r.sh, r.secrets)
	return err
}

// readTimes reads the flags about the clock.
func (r *runner) readTimes(_ context.Context, cfg *sim.Config) error {
	if err := r.readStart(cfg); err != nil {
		return err
	}
	if r.maxTime != "" {
		d, err := dsl.ParseDuration(r.maxTime)
		if err != nil {
			return misusef("--max-time %q: %v", r.maxTime, err)
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
		return misusef("--speed %q: want a number of times, such as 60x", r.speed)
	}
	cfg.Pace = pace
	return nil
}

func (r *runner) readStart(cfg *sim.Config) error {
	switch {
	case r.start == "now", r.start == "" && r.realTime, r.redis != "":
		cfg.Start = time.Now().UTC().Truncate(time.Microsecond) // the precision of Redis
	case r.start == "":
		cfg.Start = sim.Epoch()
	default:
		start, err := time.Parse(time.RFC3339Nano, r.start)
		if err != nil {
			return misusef("--start %q: want a time such as 2026-01-01T00:00:00Z, or now", r.start)
		}
		cfg.Start = start.UTC()
	}
	return nil
}

// recorded runs the simulation and writes its recording, also for the report.
func (r *runner) recorded(ctx context.Context, cfg sim.Config) (*sim.Result, error) {
	if r.record == "" {
		return sim.Record(ctx, cfg, r.printed)
	}
	f, err := os.Create(r.record)
	if err != nil {
		return nil, fail(exitMisuse, withoutVerb(r.record, err))
	}
	var out io.Writer = f
	if r.printed != nil {
		out = io.MultiWriter(f, r.printed)
	}
	result, err := sim.Record(ctx, cfg, out)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write the recording: %w", closed)
	}
	return result, err
}
