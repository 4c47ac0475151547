package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/yaml"
)

// documents keeps the documents of a folder registered.
type documents struct {
	sh     *cli.Shell
	store  *store.Store
	folder string // or a single file; "" if there is none
	tenant string

	seen  string            // signature of the files at the last check
	texts map[string]string // documents by file
	files map[string]string // files by workflow and version

	secrets map[string]any // of the engine
	from    string         // the file of the secrets, "" if there is none
}

// look registers the documents that have changed since the last check.
func (d *documents) look(ctx context.Context) {
	if d.folder == "" || ctx.Err() != nil {
		return
	}
	seen := d.signature()
	if seen == d.seen {
		return
	}
	first := d.seen == ""
	d.seen = seen
	files, err := cli.DocumentFiles(d.folder)
	if err != nil {
		d.sh.Report(err)
		files = nil
	}
	texts := make(map[string]string, len(files))
	for _, file := range files {
		text, err := cli.ReadDocument(ctx, d.sh, file)
		if err != nil {
			d.sh.Report(err)
			continue
		}
		texts[file] = string(text)
		if before, known := d.texts[file]; !known || before != string(text) {
			d.register(ctx, file, text)
		}
	}
	for file := range d.texts {
		if _, still := texts[file]; !still && !first {
			d.sh.Hint("%s is gone; its workflows stay registered", cli.Printable(file))
		}
	}
	d.texts = texts
}

// signature returns a string that changes when a file that may be a document changes.
func (d *documents) signature() string {
	var b strings.Builder
	b.WriteString("at\n") // differs from the initial signature
	// An error is reported by look.
	files, _, _ := cli.FilesOf(d.folder, cli.MayBeDocument)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// register registers a document under its name and version, or prints its mistakes.
func (d *documents) register(ctx context.Context, file string, text []byte) {
	def, warnings, err := dsl.Parse(file, text)
	if err != nil {
		cli.ExplainMistakes(d.sh, err)
		fmt.Fprintf(d.sh.Err, "%s is not registered\n", cli.Printable(file))
		return
	}
	if !d.sh.Quiet {
		yaml.RenderWarnings(d.sh.Err, text, warnings, d.sh.ErrColor())
	}
	name := def.ID() + ":" + def.Document.Version
	if _, err := registry.New(d.store).Define(ctx, d.tenant, def.ID(), def.Document.Version, string(def.Source)); err != nil {
		if !errors.Is(err, context.Canceled) {
			d.sh.Report(fmt.Errorf("%s: register %s: %w", file, name, err))
		}
		return
	}
	if d.files == nil {
		d.files = map[string]string{}
	}
	if other := d.files[name]; other != "" && other != file {
		fmt.Fprintf(d.sh.Err, "%s replaces %s, which has the same name and version\n", cli.Printable(file), cli.Printable(other))
	}
	d.files[name] = file
	if missing := cli.MissingSecrets(def, file, d.secrets, d.from); missing != nil {
		missing.RenderAsWarnings(d.sh.Err, d.sh.ErrColor())
	}
	d.sh.Hint("registered %s (%s)", cli.Printable(name), cli.Printable(file))
}
