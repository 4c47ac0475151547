package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// Column is a column of a table.
type Column[T any] struct {
	Title string
	Wide  bool // shown only by -o wide
	Text  func(T) string
}

// List prints rows in the formats of OutputFlag, and as text.
type List[T any] struct {
	Columns []Column[T]
	Line    func(T) string // a row as text; "" omits the row from text and ids
	ID      func(T) string // a row's id; "" omits the row from ids
	Empty   string         // printed to stderr if a table or a text has no rows
}

// Print writes rows in a format. The structured formats contain all JSON members of a row.
func (l List[T]) Print(sh *Shell, format *Choice, rows []T) error {
	text := l.ID
	switch format.String() {
	case "table", "wide", "text":
		if len(rows) == 0 {
			if l.Empty != "" {
				sh.Hint("%s", l.Empty)
			}
			return nil
		}
		if format.String() != "text" {
			l.Table(sh, rows, format.String() == "wide")
			return nil
		}
		text = l.Line
		fallthrough
	case "ids":
		for _, row := range rows {
			if line := text(row); line != "" && (l.Line == nil || l.Line(row) != "") {
				fmt.Fprintln(sh.Out, Printable(line))
			}
		}
		return nil
	case "jsonl":
		for _, row := range rows {
			writeJSONLine(sh.Out, row)
		}
		return nil
	default:
		return WriteValue(sh.Out, format.String(), rows)
	}
}

// Stream prints rows as they arrive. -o json and yaml print them at the end, as one list.
type Stream[T any] struct {
	Sh     *Shell
	Format *Choice
	Text   func(T)        // prints a row for people
	ID     func(T) string // a row's id; "" omits the row from ids

	kept []T // for the end
}

// Print prints a row, or keeps it for End.
func (s *Stream[T]) Print(row T) {
	switch s.Format.String() {
	case "json", "yaml":
		s.kept = append(s.kept, row)
	case "jsonl":
		writeJSONLine(s.Sh.Out, row)
	case "ids":
		if id := s.ID(row); id != "" {
			fmt.Fprintln(s.Sh.Out, Printable(id))
		}
	default:
		s.Text(row)
	}
}

// End prints the rows that were kept.
func (s *Stream[T]) End() error {
	switch format := s.Format.String(); format {
	case "json", "yaml":
		return WriteValue(s.Sh.Out, format, s.kept)
	default:
		return nil
	}
}

func writeJSONLine(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(WithEmptyLists(v)) // every row can be encoded
}

// PrintValue prints one value: as a line of text, as its id, or with all its members.
func PrintValue(sh *Shell, format *Choice, text, id string, v any) error {
	if format.String() == "ids" {
		text = id
	}
	return Show(sh, format, v, func() { fmt.Fprintln(sh.Out, Printable(text)) })
}

// Show prints one value: by text for people, or with all its members.
func Show(sh *Shell, format *Choice, v any, text func()) error {
	if word := format.String(); word == "json" || word == "yaml" {
		return WriteValue(sh.Out, word, v)
	}
	text()
	return nil
}

// WriteValue writes one value as indented JSON or as YAML, under its JSON names.
func WriteValue(w io.Writer, format string, v any) error {
	if format != "yaml" {
		return WriteJSON(w, v)
	}
	plain, err := canonical.Decode(event.Encode(WithEmptyLists(v)))
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

// Table writes rows below the titles of their columns.
func (l List[T]) Table(sh *Shell, rows []T, wide bool) {
	var lines [][]string
	var titles []string
	var shown []Column[T]
	for _, c := range l.Columns {
		if wide || !c.Wide {
			shown = append(shown, c)
			titles = append(titles, c.Title)
		}
	}
	lines = append(lines, titles)
	for _, row := range rows {
		var cells []string
		for _, c := range shown {
			cells = append(cells, sh.Cell(c.Text(row)))
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
			text = Paint(sh.OutColor(), Bold, text)
		}
		fmt.Fprintln(sh.Out, text)
	}
}

// Cell returns data as a table shows it: on one line, which only a terminal cuts.
func (sh *Shell) Cell(text string) string {
	const widest = 60
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(text))
	if text == "" {
		return "-"
	}
	if sh.Terminal {
		text = runewidth.Truncate(text, widest, "…")
	}
	return text
}

// Hint prints a note to stderr that is not part of the result.
func (sh *Shell) Hint(format string, args ...any) {
	if !sh.Quiet {
		fmt.Fprintf(sh.Err, format+"\n", args...)
	}
}
