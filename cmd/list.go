package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// column is a column of a table.
type column[T any] struct {
	title string
	wide  bool // shown only by -o wide
	text  func(T) string
}

// listFlag adds -o to a command that lists.
func listFlag(c *cobra.Command) *choice {
	return outputFlag(c, "table", "wide", "json", "jsonl", "yaml", "ids")
}

// list is a table of rows that can be printed in all formats of listFlag.
type list[T any] struct {
	columns []column[T]
	id      func(T) string
	empty   string // printed to stderr if a table has no rows
}

// print writes rows in a format. The structured formats contain all JSON members of a row.
func (l list[T]) print(sh *shell, format *choice, rows []T) error {
	switch format.String() {
	case "table", "wide":
		if len(rows) == 0 {
			sh.hint("%s", l.empty)
			return nil
		}
		l.table(sh, rows, format.String() == "wide")
		return nil
	case "ids":
		for _, row := range rows {
			fmt.Fprintln(sh.Out, printable(l.id(row)))
		}
		return nil
	case "jsonl":
		for _, row := range rows {
			fmt.Fprintf(sh.Out, "%s\n", event.Encode(withEmptyLists(row)))
		}
		return nil
	default:
		if rows == nil {
			rows = []T{}
		}
		return writeValue(sh.Out, format.String(), rows)
	}
}

// writeValue writes one value as indented JSON or as YAML, under its JSON names.
func writeValue(w io.Writer, format string, v any) error {
	if format != "yaml" {
		return writeJSON(w, v)
	}
	plain, err := expr.Decode(event.Encode(withEmptyLists(v)))
	if err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(plain); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return enc.Close()
}

// table writes rows below the titles of their columns.
func (l list[T]) table(sh *shell, rows []T, wide bool) {
	var lines [][]string
	var titles []string
	var shown []column[T]
	for _, c := range l.columns {
		if wide || !c.wide {
			shown = append(shown, c)
			titles = append(titles, c.title)
		}
	}
	lines = append(lines, titles)
	for _, row := range rows {
		var cells []string
		for _, c := range shown {
			cells = append(cells, cell(c.text(row)))
		}
		lines = append(lines, cells)
	}
	widths := make([]int, len(shown))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], runewidth.StringWidth(text))
		}
	}
	for n, line := range lines {
		var b strings.Builder
		for i, text := range line {
			if i < len(line)-1 {
				text = runewidth.FillRight(text, widths[i]+2)
			}
			b.WriteString(text)
		}
		text := strings.TrimRight(b.String(), " ")
		if n == 0 {
			text = paint(sh.outColor(), bold, text)
		}
		fmt.Fprintln(sh.Out, text)
	}
}

// cell returns data as a table shows it: one line of a bounded width.
func cell(text string) string {
	const widest = 60
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(text))
	if text == "" {
		return "-"
	}
	return runewidth.Truncate(text, widest, "…")
}

// hint prints a note to stderr that is not part of the result.
func (sh *shell) hint(format string, args ...any) {
	if !sh.quiet {
		fmt.Fprintf(sh.Err, format+"\n", args...)
	}
}
