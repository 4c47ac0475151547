package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/store/timers"
)

// NewWorkflowsCommand returns the command flunq workflows.
func NewWorkflowsCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "workflows",
		Short: "Register, list, show and remove workflows",
		Long: `Registered workflows have a name and a version, and can be started, or run by other
workflows. An execution keeps the document it began with, whatever is registered later,
unless 'flunq migrate' moves it.`,
		Example: `  flunq workflows register order.yaml
  flunq workflows ls
  flunq workflows show shop.order:1.0.0 > order.yaml`,
		GroupID: cli.GroupOperate,
	}, newWorkflowsListCommand(sh), newWorkflowsShowCommand(sh), newWorkflowsRegisterCommand(sh),
		newWorkflowsRemoveCommand(sh))
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

func newWorkflowsListCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Short:   "List the registered workflows",
		Example: `  flunq workflows ls -o wide`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	t := newCommand(c, sh)
	c.RunE = t.target.Run(t.listWorkflows)
	return c
}

func (c command) listWorkflows(ctx context.Context, r *cli.Remote, _ []string) error {
	found, err := registry.New(r.Store).Workflows(ctx, r.Tenant)
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
	return cli.List[workflowRow]{
		Columns: []cli.Column[workflowRow]{
			{Title: "WORKFLOW", Text: func(w workflowRow) string { return w.Workflow }},
			{Title: "LATEST", Text: func(w workflowRow) string { return w.Latest }},
			{Title: "HASH", Text: func(w workflowRow) string { return shortHash(w.Hash) }},
			{Title: "VERSIONS", Wide: true, Text: workflowRow.versions},
		},
		ID:    func(w workflowRow) string { return w.Workflow },
		Empty: "no workflows; 'flunq workflows register FILE' registers one",
	}.Print(c.sh, c.format, rows)
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

func newWorkflowsShowCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "show NAME[:VERSION]",
		Short:   "Print the document of a registered workflow",
		Example: `  flunq workflows show shop.order:1.0.0 | flunq validate -`,
		Args:    cli.OneArgument("workflow"),
	}
	t := newCommand(c, sh, "text", "json", "yaml")
	c.ValidArgsFunction = completeWorkflows(t.target, cobra.ShellCompDirectiveNoFileComp)
	c.RunE = t.target.Run(func(ctx context.Context, r *cli.Remote, args []string) error {
		found, err := findWorkflow(ctx, r, args[0])
		if err != nil {
			return err
		}
		return cli.Show(sh, t.format, found, func() { fmt.Fprint(sh.Out, sh.Harmless(found.Text)) })
	})
	return c
}

// findWorkflow finds a workflow by NAME[:VERSION], by default in its latest version.
func findWorkflow(ctx context.Context, r *cli.Remote, given string) (workflowText, error) {
	name, version, _ := strings.Cut(given, ":")
	id, unknown, err := workflowID(ctx, r, name, r.Tenant)
	if err != nil {
		return workflowText{}, err
	}
	known, err := registry.New(r.Store).Versions(ctx, r.Tenant, id)
	if err != nil {
		return workflowText{}, err
	}
	if len(known) == 0 {
		return workflowText{}, errors.New(cmp.Or(unknown, "workflow "+id+" is not registered any more"))
	}
	w := known[0]
	if version == "" || version == "latest" {
		version = w.Latest
	}
	hash, text, err := registry.New(r.Store).Definition(ctx, r.Tenant, w.ID, version)
	if errors.Is(err, store.ErrNotFound) {
		var versions []string
		for _, v := range w.Versions {
			versions = append(versions, v.Version)
		}
		return workflowText{}, fmt.Errorf("workflow %s has no version %s; versions: %s", w.ID, version, strings.Join(versions, ", "))
	}
	return workflowText{Workflow: w.ID, Version: version, Hash: hash, Text: text}, err
}

// workflowID returns the id of the registered workflow with a name, with or without its namespace. If
// no tenant has one, it returns the name, and unknown says so.
func workflowID(ctx context.Context, r *cli.Remote, name string, tenants ...string) (id, unknown string, err error) {
	var ids, shorts, named []string
	for _, tenant := range tenants {
		here, err := registry.New(r.Store).IDs(ctx, tenant)
		if err != nil {
			return "", "", err
		}
		ids = append(ids, here...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, id := range ids {
		_, short, _ := strings.Cut(id, ".")
		shorts = append(shorts, short)
		if event.IsWorkflow(id, name) {
			named = append(named, id)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], "", nil
	case len(named) > 1:
		return "", "", cli.Misusef("workflow %s is ambiguous: want %s", name, cli.OneOf(named))
	case len(ids) == 0:
		return name, fmt.Sprintf("workflow %s is not registered; 'flunq workflows register FILE' registers one", name), nil
	default:
		return name, fmt.Sprintf("workflow %s is not registered%s; registered: %s", cli.Printable(name),
			cli.DidYouMean(name, slices.Concat(ids, shorts), ""), cli.Printable(cli.ShortList(ids))), nil
	}
}

// completeWorkflows completes the name of a registered workflow, as the first argument or a flag.
func completeWorkflows(t *cli.Target, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	complete := cli.Complete(t, func(ctx context.Context, r *cli.Remote) (names []string, err error) {
		found, err := registry.New(r.Store).Workflows(ctx, r.Tenant)
		for _, w := range found {
			names = append(names, cli.Printable(w.ID+"\tlatest is "+w.Latest))
		}
		return names, err
	})
	return func(c *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, directive
		}
		names, _ := complete(c, given, word)
		return names, directive
	}
}

// registered is the result of registering a document.
type registered struct {
	Workflow string `json:"workflow"`
	Version  string `json:"version"`
	Hash     string `json:"hash"`
	File     string `json:"file,omitempty"`
	Replaces string `json:"replaces,omitempty"` // hash of the previous text of this version
}

func newWorkflowsRegisterCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:        "register FILE…",
		SuggestFor: []string{"deploy", "apply", "create", "publish"},
		Short:      "Register workflow documents",
		Long: `Checks workflow documents and, if all are valid, registers them under their names and
versions. FILE may be a folder, or "-" for stdin.

The document of a released version cannot change: a change needs a new version or --replace.
The document of a pre-release such as 1.0.0-rc1 may change. Running executions keep the old
one.`,
		Example: `  flunq workflows register order.yaml bill.yaml
  flunq workflows register workflows/ -o json | jq -r '.[].hash'`,
		Args: cli.SomeArguments("file"),
	}
	t := newCommand(c, sh, "text", "json", "yaml", "ids")
	replace, as := replaceFlag(c), operatorFlag(c, sh)
	c.RunE = func(c *cobra.Command, args []string) error {
		return t.registerFiles(c.Context(), args, *replace, as)
	}
	return c
}

// replaceFlag adds --replace.
func replaceFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("replace", false, "replace the text of a registered version")
}

func (c command) registerFiles(ctx context.Context, args []string, replace bool, as *operator) error {
	documents, err := readDocuments(ctx, c.sh, args)
	if err != nil {
		return err
	}
	r, err := c.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	if !replace {
		if err := refuseReplacing(ctx, r, documents); err != nil {
			return err
		}
	}
	var done []registered
	for _, d := range documents {
		one, err := register(ctx, r, d, as)
		if err != nil {
			return err
		}
		done = append(done, one)
	}
	return cli.List[registered]{
		Line: func(d registered) string { return d.Workflow + ":" + d.Version + "  " + shortHash(d.Hash) },
		ID:   func(d registered) string { return d.Workflow + ":" + d.Version },
	}.Print(c.sh, c.format, done)
}

// readDocuments reads and parses documents, and prints all their mistakes.
func readDocuments(ctx context.Context, sh *cli.Shell, args []string) ([]cli.Document, error) {
	var documents []cli.Document
	var invalid error
	for _, arg := range args {
		files, err := cli.DocumentFiles(arg)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			d, err := cli.LoadDocument(ctx, sh, file)
			if err != nil && cli.ExitCode(err) != cli.ExitInvalid {
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

// refuseReplacing returns an error if a released version is registered with a different
// text.
func refuseReplacing(ctx context.Context, r *cli.Remote, documents []cli.Document) error {
	var wrong []error
	for _, d := range documents {
		id, version := d.Def.ID(), d.Def.Document.Version
		core, _, _ := strings.Cut(version, "+")
		if strings.Contains(core, "-") {
			continue // a pre-release
		}
		hash, _, err := registry.New(r.Store).Definition(ctx, r.Tenant, id, version)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case hash != registry.Hash(string(d.Def.Source)):
			wrong = append(wrong, fmt.Errorf("%s: %s:%s is registered with a different document (%s): raise document.version, or use --replace",
				d.Name, id, version, shortHash(hash)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.Fail(cli.ExitMisuse, errors.Join(wrong...))
}

// register registers a document. It prints a hint if the version had a different one.
func register(ctx context.Context, r *cli.Remote, d cli.Document, as *operator) (registered, error) {
	id, version, source := d.Def.ID(), d.Def.Document.Version, string(d.Def.Source)
	out := registered{Workflow: id, Version: version, File: d.Name}
	before, _, err := registry.New(r.Store).Definition(ctx, r.Tenant, id, version)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return out, err
	}
	if before != registry.Hash(source) {
		if err := as.trail(ctx, r, r.Tenant, "workflows register", id+":"+version); err != nil {
			return out, err
		}
	}
	if out.Hash, err = registry.New(r.Store).Define(ctx, r.Tenant, id, version, source); err != nil {
		return out, fmt.Errorf("register workflow %s: %w", id, err)
	}
	if before != "" && before != out.Hash {
		out.Replaces = before
		as.shell.Hint("%s:%s had a different document (%s); executions that have begun keep it", id, version, shortHash(before))
	}
	return out, nil
}

// removedWorkflow is a removed version in the JSON output.
type removedWorkflow struct {
	Workflow string `json:"workflow"`
	Version  string `json:"version"`
	Removed  bool   `json:"removed"`
}

func (w removedWorkflow) name() string { return w.Workflow + ":" + w.Version }

func newWorkflowsRemoveCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "rm NAME[:VERSION]",
		Short: "Remove a registered workflow, or one version of it",
		Long: `Removes a version of a registered workflow, or without VERSION all of them. It refuses while
an execution uses it, even one that has ended, whose history could not be read afterwards,
or one that a timer will start. This cannot be undone, so the command asks for
confirmation; scripts use --yes.`,
		Example: `  flunq workflows rm shop.order:1.0.0
  flunq rm --workflow shop.order --yes && flunq workflows rm shop.order --yes`,
		Aliases: []string{"remove", "delete"},
		Args:    cli.OneArgument("workflow"),
	}
	ch := newChange(c, sh, "text", "json", "yaml", "ids")
	c.ValidArgsFunction = completeWorkflows(ch.target, cobra.ShellCompDirectiveNoFileComp)
	c.RunE = ch.target.Run(ch.removeWorkflow)
	return c
}

func (ch *change) removeWorkflow(ctx context.Context, r *cli.Remote, args []string) error {
	given := args[0]
	found, err := findWorkflow(ctx, r, given)
	if err != nil {
		return err
	}
	all, err := registry.New(r.Store).Versions(ctx, r.Tenant, found.Workflow)
	if err != nil {
		return err
	}
	var rows []removedWorkflow
	whole := !strings.Contains(given, ":")
	for _, w := range all {
		for _, v := range w.Versions {
			if whole || v.Version == found.Version {
				rows = append(rows, removedWorkflow{Workflow: w.ID, Version: v.Version})
			}
		}
	}
	used := func(x store.Execution) bool { return x.Definition == "" || whole || x.Definition == found.Hash }
	if err := refuseUsed(ctx, r, found, whole, used); err != nil {
		return err
	}
	if ch.Dry {
		return ch.printRemovedWorkflows(rows)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = "remove " + row.name()
	}
	if err := ch.confirm(ctx, "workflows rm", lines...); err != nil {
		return err
	}
	hashes := []string{found.Hash}
	if whole {
		if hashes, err = registry.New(r.Store).SourceHashes(ctx, r.Tenant, found.Workflow); err != nil {
			return err
		}
	}
	for i, row := range rows {
		if err := ch.trail(ctx, r, r.Tenant, "workflows rm", row.name()); err != nil {
			return err
		}
		if rows[i].Removed, err = registry.New(r.Store).Undefine(ctx, r.Tenant, row.Workflow, row.Version); err != nil {
			return err
		}
	}
	// No execution can begin with it any more. One that has just begun keeps its text.
	if err := refuseUsed(ctx, r, found, whole, used); err != nil {
		return fmt.Errorf("the document is kept: %w", err)
	}
	if err := registry.New(r.Store).RemoveSources(ctx, r.Tenant, found.Workflow, hashes...); err != nil {
		return err
	}
	return ch.printRemovedWorkflows(rows)
}

// refuseUsed returns an error if executions use a workflow, or timers will start some.
func refuseUsed(ctx context.Context, r *cli.Remote, w workflowText, whole bool, used func(store.Execution) bool) error {
	const few = 1000 // more are not counted
	name := w.Workflow
	if !whole {
		name += ":" + w.Version
	}
	found, next, err := new(selection).page(ctx, r, r.Tenant, store.ExecutionQuery{Workflow: w.Workflow, Pass: used, Limit: few})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		starts, err := pendingStarts(ctx, r, w, whole)
		if err != nil || len(starts) == 0 {
			return err
		}
		return fmt.Errorf("%s is used by %s, such as that of %s: cancel them (flunq timers ls --kind start --workflow %s)",
			name, history.Count(len(starts), "pending start"), starts[0], w.Workflow)
	}
	count := history.Count(len(found), "execution")
	if next != "" {
		count = "more than " + count
	}
	return fmt.Errorf("%s is used by %s, such as %s (%s): cancel those that have not ended, and remove all (flunq rm --workflow %s)",
		name, count, found[0].ID, found[0].Status, name)
}

// pendingStarts returns the executions that timers will start with a workflow, or with one version of it.
func pendingStarts(ctx context.Context, r *cli.Remote, w workflowText, whole bool) (ids []string, err error) {
	found, _, err := timers.New(r.Store).List(ctx, timers.Filter{Tenant: r.Tenant, Workflow: w.Workflow, Kind: event.StartTimer}, "", math.MaxInt)
	for _, p := range found {
		var start event.Started
		in, _ := p.ReadInput() // it was read already
		if whole || json.Unmarshal(in.Data, &start) == nil && start.Version == w.Version {
			ids = append(ids, p.Execution)
		}
	}
	return ids, err
}

func (ch *change) printRemovedWorkflows(rows []removedWorkflow) error {
	return cli.List[removedWorkflow]{
		ID: removedWorkflow.name,
		Line: func(row removedWorkflow) string {
			switch {
			case ch.Dry:
				return "would remove " + row.name()
			case row.Removed:
				return row.name() + " is removed"
			default:
				return ""
			}
		},
	}.Print(ch.sh, ch.format, rows)
}
