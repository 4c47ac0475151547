package editor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/spec"
)

// NewServerCommand returns the command flunq lsp.
func NewServerCommand(sh *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Help editors to write workflows (language server)",
		Long: `Serves the Language Server Protocol on stdin and stdout. Editors start it. It
shows what 'flunq validate' and 'flunq lint' find, completes keys, names of
tasks, parts of use, variables and functions of jq, explains keys, goes to the
task after then and to parts of use, lists tasks, and formats like 'flunq fmt'.
Other YAML files, which are not workflows, mocks or tests, are ignored.

neovim 0.8 or later, in ~/.config/nvim/init.lua:

    vim.api.nvim_create_autocmd('FileType', {
      pattern = 'yaml',
      callback = function()
        vim.lsp.start({name = 'flunq', cmd = {'flunq', 'lsp'}})
      end,
    })

Helix 23.10 or later, in ~/.config/helix/languages.toml (the list replaces
Helix's own list for YAML):

    [language-server.flunq]
    command = "flunq"
    args = ["lsp"]

    [[language]]
    name = "yaml"
    language-servers = ["flunq", "yaml-language-server"]

VS Code, with an extension for any language server, such as "Generic LSP Client
(v2)", zsol.vscode-glspc, in settings.json:

    "glspc.server.command": "flunq",
    "glspc.server.commandArguments": ["lsp"],
    "glspc.server.languageId": ["yaml"]`,
		Example: "  flunq lsp",
		GroupID: cli.GroupDevelop,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			s := &server{connection: connection{bufio.NewReader(sh.In), sh.Out}, texts: map[string]string{}}
			return s.serve(c.Context())
		},
	}
}

// server is one session with an editor.
type server struct {
	connection
	texts map[string]string // of the open files, by URI
	ended bool              // the editor has asked to shut down
}

// serve handles messages until the editor exits or ctx ends.
func (s *server) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		for {
			m, err := s.read()
			if wrong, is := errors.AsType[*rpcError](err); is {
				err = s.respond(json.RawMessage("null"), nil, wrong)
			} else if err == nil && m.Method == "exit" {
				err = io.EOF
			} else if err == nil {
				err = s.handle(m)
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		if errors.Is(err, io.EOF) && s.ended {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return cli.Fail(cli.ExitFailed, errors.New("the editor exited without a shutdown request"))
		}
		return err
	}
}

// position is a place in a file, as editors count it: from 0, in units of UTF-16.
type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// textRange is a part of a file; End is exclusive.
type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

// edit replaces a part of a file.
type edit struct {
	Range   textRange `json:"range"`
	NewText string    `json:"newText"`
}

// parameters holds the parameters of all messages that are handled.
type parameters struct {
	TextDocument struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"textDocument"`
	ContentChanges []struct {
		Text string `json:"text"`
	} `json:"contentChanges"`
	Position position `json:"position"`
}

// handle handles a request or a notification. Its error ends the session.
func (s *server) handle(m message) error {
	var p parameters
	if m.Method != "" && m.Params != nil {
		if err := json.Unmarshal(m.Params, &p); err != nil && m.ID != nil {
			return s.respond(m.ID, nil, &rpcError{codeParams, err.Error()})
		}
	}
	uri := p.TextDocument.URI
	switch m.Method {
	case "textDocument/didOpen":
		s.texts[uri] = p.TextDocument.Text
		return s.diagnoseAll(uri)
	case "textDocument/didChange":
		if n := len(p.ContentChanges); n > 0 {
			s.texts[uri] = p.ContentChanges[n-1].Text
		}
		return s.diagnoseAll(uri)
	case "textDocument/didClose":
		delete(s.texts, uri)
		return errors.Join(s.notify("textDocument/publishDiagnostics", map[string]any{"uri": uri, "diagnostics": []any{}}), s.diagnoseTests(uri))
	}
	if m.ID == nil || m.Method == "" {
		return nil // a notification that does not matter, or a response
	}
	result, err := s.request(m.Method, p)
	return s.respond(m.ID, result, err)
}

// request answers a request.
func (s *server) request(method string, p parameters) (any, error) {
	text, open := s.texts[p.TextDocument.URI]
	d := newDocument(kindOf(pathOf(p.TextDocument.URI)), text)
	switch method {
	case "initialize":
		return map[string]any{
			"serverInfo": map[string]any{"name": "flunq"},
			"capabilities": map[string]any{
				"textDocumentSync":           map[string]any{"openClose": true, "change": 1},
				"completionProvider":         map[string]any{"triggerCharacters": []string{" ", "$", "{"}},
				"hoverProvider":              true,
				"definitionProvider":         true,
				"documentSymbolProvider":     true,
				"documentFormattingProvider": true,
			},
		}, nil
	case "shutdown":
		s.ended = true
		return nil, nil
	}
	answer := map[string]func() any{
		"textDocument/completion":     func() any { return d.complete(p.Position) },
		"textDocument/hover":          func() any { return d.hover(p.Position) },
		"textDocument/documentSymbol": func() any { return d.symbols(d.root) },
		"textDocument/definition": func() any {
			if target := d.definition(p.Position); target != nil {
				return map[string]any{"uri": p.TextDocument.URI, "range": d.keyRange(target)}
			}
			return nil
		},
		"textDocument/formatting": func() any {
			formatted, err := Format("", []byte(text))
			if err != nil || string(formatted) == text {
				return []edit{} // mistakes are shown already
			}
			return []edit{{textRange{End: position{Line: len(d.lines)}}, string(formatted)}}
		},
	}[method]
	switch {
	case answer == nil:
		return nil, &rpcError{codeUnknownMethod, "unknown method " + method}
	case !open || !d.ours():
		return nil, nil
	default:
		return answer(), nil
	}
}

// pathOf returns the path of a file.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	return filepath.FromSlash(u.Path)
}

// diagnostic is a finding in a file.
type diagnostic struct {
	Range    textRange `json:"range"`
	Severity int       `json:"severity"` // 1: an error, 2: a warning
	Code     string    `json:"code,omitempty"`
	Source   string    `json:"source"`
	Message  string    `json:"message"`
}

// diagnoseAll sends the editor the diagnostics of a changed file, and of the open tests that may use it.
func (s *server) diagnoseAll(uri string) error {
	return errors.Join(s.diagnose(uri), s.diagnoseTests(uri))
}

// diagnoseTests sends the editor the diagnostics of the open tests beside a changed workflow or mocks.
func (s *server) diagnoseTests(changed string) error {
	if kindOf(pathOf(changed)) == "test" {
		return nil
	}
	for _, uri := range slices.Sorted(maps.Keys(s.texts)) {
		if kindOf(pathOf(uri)) == "test" {
			if err := s.diagnose(uri); err != nil {
				return err
			}
		}
	}
	return nil
}

// diagnose sends the editor the diagnostics of an open file.
func (s *server) diagnose(uri string) error {
	text := s.texts[uri]
	d := newDocument(kindOf(pathOf(uri)), text)
	found := []diagnostic{}
	if d.ours() {
		mistakes, warnings := s.check(d.kind, pathOf(uri), []byte(text))
		for _, m := range mistakes {
			found = append(found, d.diagnostic(m, 1))
		}
		for _, w := range warnings {
			found = append(found, d.diagnostic(yaml.Mistake(w), 2))
		}
	}
	return s.notify("textDocument/publishDiagnostics", map[string]any{"uri": uri, "diagnostics": found})
}

// check returns what is wrong in a file of a kind.
func (s *server) check(kind, file string, text []byte) ([]yaml.Mistake, []yaml.Warning) {
	switch kind {
	case "mocks":
		_, err := mock.Parse(file, text)
		return mistakesIn(file, err), nil
	case "test":
		_, _, err := spec.NewLoader(s.readFile).Load(file)
		return mistakesIn(file, err), nil
	default:
		warnings, err := Lint(file, text, false)
		return mistakesIn(file, err), warnings
	}
}

// readFile reads a file as the editor shows it, or from disk if it is not open.
func (s *server) readFile(name string) ([]byte, error) {
	for uri, text := range s.texts {
		if filepath.Clean(pathOf(uri)) == filepath.Clean(name) {
			return []byte(text), nil
		}
	}
	return os.ReadFile(name)
}

// mistakesIn returns the mistakes of one file in an error about several.
func mistakesIn(file string, err error) []yaml.Mistake {
	return slices.DeleteFunc(slices.Clone(cli.AllMistakes(err)), func(m yaml.Mistake) bool { return m.File != file })
}
