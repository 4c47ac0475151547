package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
)

func newWorkflowsCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "workflows",
		Short: "Register, list and show workflows",
		Long: `Registered workflows have a name and a version, and can be started, or run by other
workflows. An execution keeps the document it began with, whatever is registered later,
unless 'flunq migrate' moves it.`,
		Example: `  flunq workflows register order.yaml
  flunq workflows ls
  flunq workflows show shop.order:1.0.0 > order.yaml`,
		GroupID: groupOperate,
		Args:    knownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newWorkflowsListCommand(sh), newWorkflowsShowCommand(sh), newWorkflowsRegisterCommand(sh))
	return c
}

// workflowRow is a registered workflow in a listing.
type workflowRow struct {
	Workflow string       `json:"workflow"`
	Latest   string       `json:"latest"`
	Hash     string       `json:"hash"` // of the latest version
	Versions []versionRow `json:"versions"`
}

type versionRow struct {
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

func newWorkflowsListCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Short:   "List the registered workflows",
		Example: `  flunq workflows ls -o wide`,
		Aliases: []string{"list"},
		Args:    noArguments,
	}
	t, format := targetFlags(c, sh), listFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return listWorkflows(c.Context(), t, format) }
	return c
}

func listWorkflows(ctx context.Context, t *target, format *choice) error {
	r, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	found, err := r.store.Workflows(ctx, r.tenant)
	if err != nil {
		return err
	}
	var rows []workflowRow
	for _, w := range found {
		row := workflowRow{Workflow: w.ID, Latest: w.Latest}
		for _, v := range w.Versions {
			row.Versions = append(row.Versions, versionRow{v.Version, v.Hash})
			if v.Version == w.Latest {
				row.Hash = v.Hash
			}
		}
		rows = append(rows, row)
	}
	return list[workflowRow]{
		columns: []column[workflowRow]{
			{"WORKFLOW", false, func(w workflowRow) string { return w.Workflow }},
			{"LATEST", false, func(w workflowRow) string { return w.Latest }},
			{"HASH", false, func(w workflowRow) string { return shortHash(w.Hash) }},
			{"VERSIONS", true, workflowRow.versions},
		},
		id:    func(w workflowRow) string { return w.Workflow },
		empty: "no workflows; 'flunq workflows register FILE' registers one",
	}.print(t.sh, format, rows)
}

func (w workflowRow) versions() string {
	var out []string
	for _, v := range w.Versions {
		out = append(out, v.Version)
	}
	return strings.Join(out, ", ")
}

// shortHash returns the beginning of a hash, enough to compare.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

// workflowText is one version of a registered workflow.
type workflowText struct {
	Workflow string `json:"workflow"`
	Version  string `json:"version"`
	Hash     string `json:"hash"`
	Text     string `json:"text"`
}

func newWorkflowsShowCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "show NAME[:VERSION]",
		Short:   "Print the document of a registered workflow",
		Example: `  flunq workflows show shop.order:1.0.0 | flunq validate -`,
		Args:    oneArgument("workflow"),
	}
	t, format := targetFlags(c, sh), outputFlag(c, "text", "json", "yaml")
	c.ValidArgsFunction = completeWorkflows(t, cobra.ShellCompDirectiveNoFileComp)
	c.RunE = func(c *cobra.Command, args []string) error {
		r, err := t.connect(c.Context())
		if err != nil {
			return err
		}
		defer r.close()
		found, err := findWorkflow(c.Context(), r, args[0])
		if err != nil {
			return err
		}
		if format.String() != "text" {
			return writeValue(sh.Out, format.String(), found)
		}
		fmt.Fprint(sh.Out, sh.harmless(found.Text))
		return nil
	}
	return c
}

// harmless returns text verbatim for programs, and escaped on a terminal.
func (sh *shell) harmless(text string) string {
	if sh.Terminal {
		return printable(text)
	}
	return text
}

// findWorkflow finds a workflow by NAME[:VERSION]. The namespace may be omitted if the name is
// unambiguous.
func findWorkflow(ctx context.Context, r *remote, given string) (workflowText, error) {
	name, version, _ := strings.Cut(given, ":")
	known, err := r.store.Versions(ctx, r.tenant, name)
	if err == nil && len(known) == 0 {
		known, err = namesake(ctx, r, name)
	}
	if err != nil {
		return workflowText{}, err
	}
	w := known[0]
	if version == "" || version == "latest" {
		version = w.Latest
	}
	hash, text, err := r.store.Definition(ctx, r.tenant, w.ID, version)
	if errors.Is(err, store.ErrNotFound) {
		var versions []string
		for _, v := range w.Versions {
			versions = append(versions, v.Version)
		}
		return workflowText{}, fmt.Errorf("workflow %s has no version %s%s; there is %s", w.ID, version,
			didYouMean(version, versions, ""), strings.Join(versions, ", "))
	}
	return workflowText{Workflow: w.ID, Version: version, Hash: hash, Text: text}, err
}

// namesake finds the only workflow of a name without its namespace.
func namesake(ctx context.Context, r *remote, name string) ([]store.Workflow, error) {
	all, err := r.store.Workflows(ctx, r.tenant)
	if err != nil {
		return nil, err
	}
	var names []string
	var same []store.Workflow
	for _, w := range all {
		_, short, _ := strings.Cut(w.ID, ".")
		names = append(names, w.ID)
		if short == name {
			same = append(same, w)
		}
	}
	switch len(same) {
	case 1:
		return same, nil
	case 0:
		meant := didYouMean(name, names, "")
		for _, w := range all {
			if _, short, _ := strings.Cut(w.ID, "."); meant == "" && didYouMean(name, []string{short}, "") != "" {
				meant = "; did you mean " + w.ID + "?"
			}
		}
		return nil, fmt.Errorf("workflow %s is not registered%s ('flunq workflows ls' lists those that are)", name, meant)
	default:
		return nil, fmt.Errorf("workflow %s is %w: there is %s and %s", name, store.ErrAmbiguous, same[0].ID, same[1].ID)
	}
}

// completeWorkflows completes the names of registered workflows.
func completeWorkflows(t *target, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		r, err := t.connect(ctx)
		if err != nil || len(given) > 0 {
			return nil, directive
		}
		defer r.close()
		found, err := r.store.Workflows(ctx, r.tenant)
		if err != nil {
			return nil, directive
		}
		var names []string
		for _, w := range found {
			names = append(names, printable(w.ID+"\tlatest is "+w.Latest))
		}
		return names, directive
	}
}

// registered is the result of registering a document.
type registered struct {
	Workflow string `json:"workflow"`
	Version  string `json:"version"`
	Hash     string `json:"hash"`
	File     string `json:"file,omitempty"`
	Replaces string `json:"replaces,omitempty"` // hash of another text of the same version
}

func newWorkflowsRegisterCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "register FILE…",
		Short: "Register workflow documents",
		Long: `Checks workflow documents and, if all are valid, registers them under their names and
versions. FILE may be a folder, or "-" for stdin.

A released version keeps its text: a changed text needs a new version, or --replace. The
text of a preview such as 1.0.0-rc1 may change. Running executions keep the old text.`,
		Example: `  flunq workflows register order.yaml bill.yaml
  flunq workflows register workflows/ -o json | jq -r '.[].hash'`,
		Args: someArguments("file"),
	}
	t, format := targetFlags(c, sh), outputFlag(c, "text", "json", "yaml", "ids")
	replace := replaceFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return registerFiles(c.Context(), t, format, args, *replace)
	}
	return c
}

// replaceFlag adds the flag that allows replacing the text of a released version.
func replaceFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("replace", false, "replace the text of a registered version")
}

func registerFiles(ctx context.Context, t *target, format *choice, args []string, replace bool) error {
	documents, err := readDocuments(ctx, t.sh, args)
	if err != nil {
		return err
	}
	r, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if !replace {
		if err := refuseReplacing(ctx, r, documents); err != nil {
			return err
		}
	}
	var done []registered
	for _, d := range documents {
		one, err := register(ctx, t.sh, r, d)
		if err != nil {
			return err
		}
		done = append(done, one)
	}
	switch format.String() {
	case "text":
		for _, one := range done {
			fmt.Fprintf(t.sh.Out, "%s:%s  %s\n", one.Workflow, one.Version, shortHash(one.Hash))
		}
		return nil
	case "ids":
		for _, one := range done {
			fmt.Fprintf(t.sh.Out, "%s:%s\n", one.Workflow, one.Version)
		}
		return nil
	default:
		return writeValue(t.sh.Out, format.String(), done)
	}
}

// readDocuments reads and checks documents, and prints all their mistakes.
func readDocuments(ctx context.Context, sh *shell, args []string) ([]document, error) {
	var documents []document
	var invalid error
	for _, arg := range args {
		files, err := documentFiles(arg)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := readWorkflow(ctx, sh, file)
			if err != nil {
				return nil, err
			}
			d, err := parseDocument(sh, displayName(file), text)
			if err != nil && exitCode(err) != exitInvalid {
				return nil, err
			}
			if err != nil {
				invalid = err
			}
			documents = append(documents, d)
		}
	}
	return documents, invalid
}

// refuseReplacing refuses a document whose released version is registered with another text.
func refuseReplacing(ctx context.Context, r *remote, documents []document) error {
	var wrong []error
	for _, d := range documents {
		id, version := d.def.ID(), d.def.Document.Version
		core, _, _ := strings.Cut(version, "+")
		if strings.Contains(core, "-") {
			continue // a preview
		}
		hash, _, err := r.store.Definition(ctx, r.tenant, id, version)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case hash != store.DefinitionHash(string(d.def.Source)):
			wrong = append(wrong, fmt.Errorf("%s: %s:%s is registered with another text (%s): raise document.version, or use --replace",
				d.name, id, version, shortHash(hash)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fail(exitMisuse, errors.Join(wrong...))
}

// register registers a document, and tells if its version had another text.
func register(ctx context.Context, sh *shell, r *remote, d document) (registered, error) {
	id, version := d.def.ID(), d.def.Document.Version
	out := registered{Workflow: id, Version: version, File: d.name}
	before, err := r.store.Versions(ctx, r.tenant, id)
	if err != nil {
		return out, err
	}
	if out.Hash, err = r.store.Define(ctx, r.tenant, id, version, string(d.def.Source)); err != nil {
		return out, fmt.Errorf("register workflow %s: %w", id, err)
	}
	if len(before) == 0 {
		return out, nil
	}
	i := slices.IndexFunc(before[0].Versions, func(v store.Version) bool { return v.Version == version })
	if i >= 0 && before[0].Versions[i].Hash != out.Hash {
		out.Replaces = before[0].Versions[i].Hash
		sh.hint("%s:%s had another text (%s); executions that have begun keep it", id, version, shortHash(out.Replaces))
	}
	return out, nil
}

// storedDocument returns a document as it is registered; one that this flunq cannot parse has only
// its text.
func storedDocument(name, text string) document {
	d := document{name: name, text: []byte(text)}
	if def, _, err := dsl.Parse(name, d.text); err == nil {
		d.def = def
		d.name = name + ":" + def.Document.Version
	}
	return d
}
