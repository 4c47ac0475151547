package editor

import (
	"fmt"
	"slices"
	"strings"
)

// around is the number of unchanged lines that a difference shows before and after changed ones.
const around = 3

// change is a line of one text or of both.
type change struct {
	sign        byte // ' ' in both texts, '-' only before, '+' only after
	text        string
	left, right int // the number of lines before it, in each text
}

// changes compares a text with its formatted form, which lacks blank lines at most.
func changes(before, after string) []change {
	var out, added []change // those added follow those removed
	left, right := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	i, j := 0, 0
	line := func(sign byte, text string) []change {
		if text == "" { // behind the last line
			return nil
		}
		return []change{{sign, strings.TrimRight(text, "\n"), i, j}}
	}
	for i < len(left) || j < len(right) {
		switch {
		case i < len(left) && j < len(right) && left[i] == right[j]:
			out = slices.Concat(out, added, line(' ', left[i]))
			added = nil
			i, j = i+1, j+1
		case j == len(right) || i < len(left) && strings.TrimSpace(left[i]) == "" && strings.TrimSpace(right[j]) != "":
			out = append(out, line('-', left[i])...)
			i++
		default:
			if i < len(left) {
				out = append(out, line('-', left[i])...)
				i++
			}
			added = append(added, line('+', right[j])...)
			j++
		}
	}
	return append(out, added...)
}

// difference returns the changed lines of a text that is formatted, in the unified format.
func difference(name, before, after string) string {
	all := changes(before, after)
	changed := func(c change) bool { return c.sign != ' ' }
	var out strings.Builder
	for at := 0; ; {
		first := slices.IndexFunc(all[at:], changed)
		if first < 0 {
			return out.String()
		}
		first += at
		last := first
		for k := first; k < len(all) && k <= last+2*around; k++ {
			if changed(all[k]) {
				last = k
			}
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
		}
		from := max(at, first-around)
		at = min(len(all), last+around+1)
		count := map[byte]int{}
		var lines strings.Builder
		for _, c := range all[from:at] {
			count[c.sign]++
			fmt.Fprintf(&lines, "%c%s\n", c.sign, c.text)
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n%s", all[from].left+1, count[' ']+count['-'], all[from].right+1, count[' ']+count['+'], lines.String())
	}
}
