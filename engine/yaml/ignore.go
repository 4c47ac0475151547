package yaml

import (
	"bytes"
	"slices"
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
)

// Ignore is a comment in a file that silences rules:
//
//	# flunq-lint: ignore retry-limit, listen-timeout
//
// At the end of a line it applies to that line, on a line of its own to the next one; in both cases
// also to the lines below that are indented further, such as those of a task. Above the first line of
// a file it applies to the whole file.
type Ignore struct {
	Pos          // of the first rule
	From, To int // the lines
	Rules    []string
}

// Ignores are the comments of a file that silence rules.
type Ignores []Ignore

var (
	ignoring = lazyregexp.New(`#\s*flunq-lint:\s*ignore\s+([\w-]+(?:\s*,\s*[\w-]+)*)`)
	ruleName = lazyregexp.New(`[\w-]+`)
)

// Ignored returns the comments in a file that silence rules.
func Ignored(source []byte) Ignores {
	if !bytes.Contains(source, []byte("flunq-lint:")) {
		return nil
	}
	lines := strings.Split(string(source), "\n")
	indent := func(i int) int {
		text := strings.TrimLeft(lines[i], " ")
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			return -1 // belongs to the surrounding block
		}
		return len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
	}
	first := 0
	for first < len(lines)-1 && indent(first) < 0 {
		first++
	}
	var out Ignores
	for i, line := range lines {
		m := ignoring().FindStringSubmatchIndex(line)
		if m == nil {
			continue
		}
		from := i
		for from < len(lines)-1 && indent(from) < 0 {
			from++
		}
		to := from + 1
		for to < len(lines) && (indent(to) < 0 || indent(to) > indent(from)) {
			to++
		}
		if from == first && i < first {
			to = len(lines)
		}
		rules := ruleName().FindAllString(line[m[2]:m[3]], -1)
		out = append(out, Ignore{Pos{i + 1, len([]rune(line[:m[2]])) + 1}, from + 1, to, rules})
	}
	return out
}

// has reports whether a warning is ignored.
func (list Ignores) has(w Mistake) bool {
	return slices.ContainsFunc(list, func(i Ignore) bool {
		return w.Line >= i.From && w.Line <= i.To && slices.Contains(i.Rules, w.Rule)
	})
}
