package graph

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// labelLimit is the maximum length of a label.
const labelLimit = 72

// Mermaid writes the graph as a flowchart.
func (g *Graph) Mermaid(w io.Writer) error {
	m := &mermaid{graph: g, ids: map[string]string{}}
	m.line(0, "flowchart TD")
	for i, n := range g.Nodes {
		// Task names can be keywords of Mermaid (end, subgraph …), so the ids are numbers.
		m.ids[n.ID] = fmt.Sprintf("n%d", i)
	}
	m.members("", 1)
	for _, e := range g.Edges {
		m.edge(e)
	}
	if slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Unsupported }) {
		m.line(1, "classDef unsupported stroke-dasharray: 4 3")
	}
	if _, err := io.WriteString(w, m.out.String()); err != nil {
		return fmt.Errorf("write Mermaid: %w", err)
	}
	return nil
}

type mermaid struct {
	graph *Graph
	ids   map[string]string
	out   strings.Builder
}

func (m *mermaid) line(depth int, format string, args ...any) {
	m.out.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&m.out, format, args...)
	m.out.WriteByte('\n')
}

// members writes the nodes and groups inside a group.
func (m *mermaid) members(group string, depth int) {
	for _, n := range m.graph.Nodes {
		if n.Group == group {
			m.node(n, depth)
		}
	}
	for i, sub := range m.graph.Groups {
		if sub.Parent != group {
			continue
		}
		m.line(depth, `subgraph g%d["%s"]`, i, escape(sub.Name))
		m.members(sub.ID, depth+1)
		m.line(depth, "end")
	}
}

func (m *mermaid) node(n Node, depth int) {
	label := escape(n.Detail)
	framed := slices.ContainsFunc(m.graph.Groups, func(g Group) bool { return g.ID == n.ID })
	if n.Name != "" && !framed { // the frame shows the name
		label = escape(n.Name)
		if n.Detail != "" {
			label += "<br/>" + escape(n.Detail)
		}
	}
	open, shut := "[", "]"
	switch n.Kind {
	case kindStart:
		open, shut = "([", "])"
	case kindEnd, kindFaulted:
		open, shut, label = "([", "])", n.Kind
	case kindIf, "switch":
		open, shut = "{", "}"
	case "wait", "listen":
		open, shut = "{{", "}}"
	case "for", "fork", "try", kindJoin:
		open, shut = "(", ")"
	case kindCatch:
		label, open, shut = "catch "+label, "[/", "/]"
	case "call", "run", "emit":
		open, shut = "[[", "]]"
	}
	class := ""
	if n.Unsupported {
		class = ":::unsupported"
	}
	m.line(depth, `%s%s"%s"%s%s`, m.ids[n.ID], open, label, shut, class)
}

func (m *mermaid) edge(e Edge) {
	arrow := "-->"
	if e.Kind == onError || e.Kind == retried {
		arrow = "-.->"
	}
	if e.Label != "" {
		arrow += `|"` + escape(e.Label) + `"|`
	}
	m.line(1, "%s %s %s", m.ids[e.From], arrow, m.ids[e.To])
}

// escape returns text for a quoted label. Characters that Mermaid, its Markdown or HTML
// would interpret become entities.
func escape(label string) string {
	runes := []rune(clip(printable(label), labelLimit))
	var b strings.Builder
	for i, r := range runes {
		if special(runes, i) {
			fmt.Fprintf(&b, "#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func special(label []rune, i int) bool {
	switch r := label[i]; r {
	case '"', '#', '<', '>', '&', '`', '*', '\\', '%', '$':
		return true
	case ':':
		// Mermaid removes entities from lines that look like a style, and turns some words
		// with a colon into icons.
		text := string(label)
		return strings.Contains(text, "style") || strings.Contains(text, "classDef") || strings.Contains(text, ":fa-")
	case '_':
		inner := i > 0 && i+1 < len(label) && wordRune(label[i-1]) && wordRune(label[i+1])
		return !inner
	case '-', '+', '=':
		return i == 0 // would begin a list or a heading
	case '.', ')':
		// "1. x" would begin a list.
		return i > 0 && strings.TrimFunc(string(label[:i]), unicode.IsDigit) == ""
	default:
		return false
	}
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// clip shortens text to limit characters.
func clip(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}
