package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/excerpt"
)

// Bounds of the data of a page: of one value, of all data kept during a run, and of all
// data of the run in the file.
const (
	maxOfValue  = 64 << 10
	maxData     = 96 << 20
	maxOfPage   = 2 << 20
	excerptSize = 400
)

// datum is a value on a page: its JSON, possibly truncated.
type datum struct {
	text string
	size int // of the whole value; the text is truncated if it is shorter
}

// datum truncates a value to the bounds.
func (r *Recording) datum(raw []byte) *datum {
	if len(raw) == 0 {
		return nil
	}
	space := maxOfValue
	if r.size > maxData {
		space = excerptSize
	}
	d := cutTo(string(raw), len(raw), space)
	r.size += len(d.text)
	return d
}

// cutTo truncates text at a character boundary.
func cutTo(text string, size, space int) *datum {
	if len(text) <= space {
		return &datum{text, size}
	}
	end := space
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return &datum{strings.Clone(text[:end]), size}
}

// pool contains each value of a page once: many values occur in several steps, such as an
// output that is the next input. Its first entry means no value.
type pool struct {
	texts []string
	sizes []int // of truncated values, otherwise 0
	known map[string]int
	size  int
	cut   int // number of truncated values
}

// add returns the index of a value in the pool, 0 for none.
func (p *pool) add(d *datum) int {
	if d == nil {
		return 0
	}
	if i, ok := p.known[d.text]; ok && d.size == len(d.text) && p.sizes[i] == 0 {
		return i
	}
	if p.size+len(d.text) > maxOfPage {
		d = cutTo(d.text, d.size, excerptSize)
	}
	size := 0
	if d.size > len(d.text) {
		size = d.size
		p.cut++
	} else {
		p.known[d.text] = len(p.texts)
	}
	p.size += len(d.text)
	p.texts, p.sizes = append(p.texts, d.text), append(p.sizes, size)
	return len(p.texts) - 1
}

// secretMark encloses the placeholder of a secret.
const secretMark = "\ue000"

var secretToken = regexp.MustCompile(secretMark + `secret[^` + secretMark + `]*#[0-9a-f]{12}` + secretMark)

// redacted replaces the placeholders of secrets in a line, which contain their names.
func redacted(line []byte) []byte {
	if !bytes.Contains(line, []byte(secretMark)) {
		return line
	}
	line = secretToken.ReplaceAll(line, []byte("***"))
	return bytes.ReplaceAll(line, []byte(secretMark+secretMark), []byte(secretMark))
}

// short returns the beginning of text on one line.
func short(text string, limit int) string {
	text = strings.Join(strings.Fields(excerpt.Escaped(text)), " ")
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// encode returns JSON that cannot end the HTML element that contains it.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("report: encode %T: %v", v, err))
	}
	return []byte(excerpt.Escaped(string(out)))
}
