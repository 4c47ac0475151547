package graph

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"

	"flunq.io/flunq/engine/dsl"
)

// TextOptions configures a drawing for the terminal.
type TextOptions struct {
	ASCII bool // only ASCII characters
	Color bool
	Width int // columns; 0: unlimited
}

// nameLimit is the maximum width of a name that moves the column of details.
const nameLimit = 28

// Text writes the workflow as a tree: one line per task in the order of execution, with jumps as
// arrows.
func Text(w io.Writer, def *dsl.Definition, opts TextOptions) error {
	t := &tree{opts: opts}
	head := def.Document.Namespace + "/" + def.Document.Name + " " + def.Document.Version
	t.row("", "", printable(head), documentDetail(def))
	t.rows("", taskRows(def.Do))
	t.row(t.glyph("└● ", "`* "), "", "end", "")
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}
	return nil
}

// row is a line of the tree and the lines below it.
type row struct {
	name, detail string
	below        []row
}

func taskRows(tasks dsl.TaskList) []row {
	rows := make([]row, len(tasks))
	for i, t := range tasks {
		rows[i] = taskRow(t)
	}
	return rows
}

func taskRow(t *dsl.Task) row {
	r := row{name: t.Name, detail: Detail(t)}
	if t.If != nil {
		r.detail += ", if " + t.If.Source()
	}
	// The "then" of a switch is drawn below, as its last case.
	if t.Kind != dsl.Switch {
		r.detail += arrow(t.Then)
	}
	switch t.Kind {
	case dsl.Switch:
		r.below = caseRows(t)
	case dsl.Try:
		r.below = append(taskRows(t.Try.Try), catchRow(t.Try.Catch))
	default:
		r.below = taskRows(slices.Concat(t.Lists()...))
	}
	return r
}

func caseRows(t *dsl.Task) []row {
	var rows []row
	otherwise := true
	for _, c := range t.Switch {
		r := row{name: c.Name, detail: "default"}
		if c.When != nil {
			r.detail = "when " + c.When.Source()
		} else {
			otherwise = false
		}
		r.detail += arrow(cmp.Or(c.Then, dsl.Continue))
		rows = append(rows, r)
	}
	if otherwise {
		rows = append(rows, row{name: "otherwise", detail: strings.TrimSpace(arrow(cmp.Or(t.Then, dsl.Continue)))})
	}
	return rows
}

func catchRow(c dsl.Catch) row {
	r := row{name: "catch", detail: catchDetail(c), below: taskRows(c.Do)}
	if c.Retry != nil {
		r.detail += ", " + retryDetail(c.Retry)
	}
	r.detail += arrow(c.Then)
	return r
}

func arrow(then string) string {
	if then == "" {
		return ""
	}
	return " → " + then
}

type tree struct {
	opts TextOptions
	out  strings.Builder
}

// rows draws a list of rows after prefix. The outermost list is followed by the end of the
// workflow, so none of its rows is the last one.
func (t *tree) rows(prefix string, rows []row) {
	column := 0
	for _, r := range rows {
		column = max(column, min(width(t.legible(r.name)), nameLimit))
	}
	for i, r := range rows {
		branch, below := t.glyph("├─ ", "|- "), t.glyph("│  ", "|  ")
		if prefix != "" && i == len(rows)-1 {
			branch, below = t.glyph("└─ ", "`- "), "   "
		}
		name := t.legible(r.name)
		pad := strings.Repeat(" ", max(0, column-width(name))+2)
		t.row(prefix+branch, pad, name, r.detail)
		t.rows(prefix+below, r.below)
	}
}

func (t *tree) row(prefix, pad, name, detail string) {
	pad = cmp.Or(pad, "  ")
	if t.opts.Width > 0 {
		space := t.opts.Width - width(prefix) - width(name) - len(pad)
		detail = t.fit(t.legible(detail), space)
	} else {
		detail = t.legible(detail)
	}
	if t.opts.Color {
		prefix, name = "\x1b[2m"+prefix+"\x1b[0m", "\x1b[1m"+name+"\x1b[0m"
	}
	if detail == "" {
		pad = ""
	}
	fmt.Fprintf(&t.out, "%s%s%s%s\n", prefix, name, pad, detail)
}

// fit truncates text to a number of columns, but not below a readable minimum.
func (t *tree) fit(text string, columns int) string {
	columns = max(columns, 16)
	return measure().Truncate(text, columns, t.glyph("…", "..."))
}

func (t *tree) glyph(fine, ascii string) string {
	if t.opts.ASCII {
		return ascii
	}
	return fine
}

// legible returns text without control characters that the terminal can show.
func (t *tree) legible(text string) string {
	text = printable(text)
	if t.opts.ASCII {
		text = ASCII(text)
	}
	return text
}

// ASCII returns text in ASCII characters only: an arrow, an ellipsis and a multiplication sign in other
// signs, any other character as its number.
func ASCII(text string) string {
	text = strings.NewReplacer("→", "->", "…", "...", "×", "x").Replace(text)
	var b strings.Builder
	for _, r := range text {
		if r > unicode.MaxASCII {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func width(text string) int { return measure().StringWidth(text) }

// measure returns a measure of width that does not depend on the locale.
func measure() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

// printable returns text on one line: white space becomes a blank, and an invisible
// character becomes its escape.
func printable(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
