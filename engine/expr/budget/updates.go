package budget

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// update is one evaluation of an update operator. gojq copies a container once per update,
// however many paths pass through it, so it is charged once.
type update struct {
	*Meter
	paid  []uintptr // container charged last, by depth
	slice bool      // the current path selects a slice of a list
	found bool      // there is a value at the current path
}

func newUpdate(m *Meter, _ any, _ []any) (any, error) { return &update{Meter: m}, nil }

// guardPath charges for an update at a path, the argument, within the value.
func guardPath(u *update, dot any, args []any) (any, error) { return args[0], u.pay(dot, args[0]) }

// guardSetpath is like guardPath for a single update.
func guardSetpath(m *Meter, dot any, args []any) (any, error) {
	return guardPath(&update{Meter: m}, dot, args)
}

func (u *update) pay(dot, path any) error {
	keys, _ := path.([]any)
	u.spend(len(keys))
	u.found = true
	for depth, key := range keys {
		_, u.slice = key.(map[string]any)
		u.payContainer(depth, dot)
		if err := u.payGrowth(dot, key); err != nil {
			return err
		}
		u.found = u.found && holdsKey(dot, key)
		dot = member(dot, key)
	}
	return nil
}

// wasFound reports whether there is a value at the path that was charged last.
func wasFound(u *update, _ any, _ []any) (any, error) { return u.found, nil }

// holdsKey reports whether a path's key selects a value; a slice of a list always exists.
func holdsKey(v, key any) bool {
	switch v := v.(type) {
	case map[string]any:
		name, _ := key.(string)
		_, ok := v[name]
		return ok
	case []any:
		i, isIndex := gojq.ToInt(key)
		if i < 0 {
			i += len(v)
		}
		return !isIndex || i >= 0 && i < len(v)
	default:
		return v != nil // the update itself will fail
	}
}

func (u *update) payContainer(depth int, container any) {
	if !composed(container) {
		return
	}
	for len(u.paid) <= depth {
		u.paid = append(u.paid, 0)
	}
	if at := reflect.ValueOf(container).Pointer(); u.paid[depth] != at {
		u.paid[depth] = at
		u.copying(container)
	}
}

// payGrowth bounds how far an index may be beyond a list's end.
func (u *update) payGrowth(container, key any) error {
	if slice, ok := key.(map[string]any); ok {
		return u.payGrowth(container, slice["start"])
	}
	switch key.(type) {
	case int, float64, *big.Int:
	default:
		return nil
	}
	index, _ := gojq.ToInt(key)
	list, _ := container.([]any)
	grow := index - len(list)
	if grow > maxGrowth {
		return fmt.Errorf("index %d is too far beyond the end of a list of %d", index, len(list))
	}
	u.spend(max(grow, 0))
	return nil
}

// member returns the value that a path's key selects, or nil.
func member(v, key any) any {
	switch key := key.(type) {
	case string:
		if fields, ok := v.(map[string]any); ok {
			return fields[key]
		}
	case int, float64, *big.Int:
		i, _ := gojq.ToInt(key)
		list, _ := v.([]any)
		if i < 0 {
			i += len(list)
		}
		if i >= 0 && i < len(list) {
			return list[i]
		}
	case map[string]any:
		return partOf(v, key)
	}
	return nil
}

// partOf returns the part of a list that a slice selects.
func partOf(v any, slice map[string]any) any {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	from, to, _, err := located(0, len(list), []any{slice})
	if err != nil {
		return nil
	}
	return list[from:to]
}

// between splits a string at the matches of a regular expression, the argument. gojq would count
// the characters from the start for every match.
func between(m *Meter, dot any, args []any) (any, error) {
	text, _ := dot.(string)
	matches, _ := args[0].([]any)
	m.spend(len(text)/grain + len(matches))
	parts := make([]any, 0, len(matches)+1)
	at, chars := 0, 0
	skip := func(until int) int {
		for chars < until && at < len(text) {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			chars++
		}
		return at
	}
	for _, match := range matches {
		from := at
		start, _ := member(match, "offset").(int)
		length, _ := member(match, "length").(int)
		parts = append(parts, text[from:skip(start)])
		skip(start + length)
	}
	return append(parts, text[at:]), nil
}

// replace joins the parts between matches, the first argument, with replacements. The second
// argument has a list of replacements for each match; the k-th of each form the k-th result.
func replace(m *Meter, dot any, args []any) (any, error) {
	parts, _ := args[0].([]any)
	instead, _ := args[1].([]any)
	var texts []*strings.Builder
	for i, choice := range instead {
		replacements, _ := choice.([]any)
		for k, replacement := range replacements {
			text, ok := replacement.(string)
			if !ok && replacement != nil {
				return nil, fmt.Errorf("cannot add: %s and %s", Describe(parts[i]), Describe(replacement))
			}
			if k >= len(texts) {
				texts = append(texts, &strings.Builder{})
			}
			write(m, texts[k], parts[i], text)
		}
	}
	if len(texts) == 0 {
		return []any{dot}, nil
	}
	out := make([]any, len(texts))
	for k, text := range texts {
		write(m, text, parts[len(parts)-1], "")
		out[k] = text.String()
	}
	return out, nil
}

func write(m *Meter, to *strings.Builder, part any, text string) {
	before, _ := part.(string)
	m.spend(1 + (len(before)+len(text))/grain)
	to.WriteString(before)
	to.WriteString(text)
}
