package doctor

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
)

// glyphs returns the symbol of a verdict with and without Unicode and its style.
func (h health) glyphs() [3]string {
	switch h {
	case isFine:
		return [3]string{"✔", "+", cli.Green}
	case isDoubtful:
		return [3]string{"!", "!", cli.Yellow}
	case isBad:
		return [3]string{"✘", "x", cli.Red}
	default:
		return [3]string{"?", "?", ""}
	}
}

// write prints the diagnosis as text.
func (d diagnosis) write(sh *cli.Shell, all bool) {
	plain, arrow := 0, "→"
	if sh.ASCII() {
		plain, arrow = 1, "->"
	}
	shown := d.Findings
	if !all {
		shown = condensed(oneUnreachable(shown))
	}
	widest, count := 0, map[health]int{}
	for _, f := range shown {
		widest = max(widest, len(f.Check))
	}
	for _, f := range d.Findings {
		count[f.State]++
	}
	fmt.Fprintf(sh.Out, "%s (%s), %s\n", cli.Printable(d.Redis), cli.Printable(d.From), history.Count(len(d.Tenants), "tenant")+": "+cli.Printable(cli.ShortList(d.Tenants)))
	for _, f := range shown {
		look := f.State.glyphs()
		word := look[plain] + " " + fmt.Sprintf("%-7s", f.State)
		if look[2] != "" {
			word = cli.Paint(sh.OutColor(), look[2], word)
		}
		text := f.Text
		if f.Tenant != "" {
			text = "tenant " + f.Tenant + ": " + text
		}
		fmt.Fprintf(sh.Out, "%s  %-*s  %s\n", word, widest, f.Check, cli.OneLine(text))
		if len(f.Examples) > 0 {
			fmt.Fprintf(sh.Out, "%*s  %s\n", 11+widest, "", cli.OneLine(cli.ShortList(f.Examples)))
		}
		if f.Remedy != "" {
			fmt.Fprintf(sh.Out, "%*s  %s %s\n", 11+widest, "", arrow, cli.OneLine(f.Remedy))
		}
	}
	fmt.Fprintf(sh.Out, "%d ok, %d unknown, %s, %d bad\n", count[isFine], count[isUnknown], history.Count(count[isDoubtful], "warning"), count[isBad])
}

// oneUnreachable replaces the checks that were not possible because Redis did not respond with one line.
func oneUnreachable(all []finding) (out []finding) {
	var checks []string
	at := -1
	for _, f := range all {
		switch {
		case !f.unreachable:
			out = append(out, f)
			continue
		case at < 0:
			at, out = len(out), append(out, f)
		}
		if !slices.Contains(checks, f.Check) {
			checks = append(checks, f.Check)
		}
	}
	if len(checks) > 1 {
		f := &out[at]
		f.Check, f.Tenant, f.Text = "unreachable", "", strings.Join(checks, ", ")+" "+f.Text
		f.Remedy = "flunq doctor --all shows each of them"
	}
	return out
}

// maxAlike is the maximum number of similar findings that are printed.
const maxAlike = 10

// condensed merges the findings of healthy tenants. If many tenants have the same problem, it keeps
// the first findings and counts the others.
func condensed(all []finding) (out []finding) {
	for len(all) > 0 {
		kind := all[0]
		n := slices.IndexFunc(all, func(f finding) bool { return f.Check != kind.Check })
		if n < 0 {
			n = len(all)
		}
		for _, state := range []health{isBad, isDoubtful, isUnknown, isFine} {
			alike := slices.DeleteFunc(slices.Clone(all[:n]), func(f finding) bool { return f.State != state })
			out = append(out, few(alike)...)
		}
		all = all[n:]
	}
	return out
}

// few condenses findings with the same check and verdict.
func few(alike []finding) []finding {
	if len(alike) > 1 && alike[0].State == isFine && alike[0].Tenant != "" {
		return []finding{merged(alike)}
	}
	if alike = sameText(alike); len(alike) <= maxAlike+1 {
		return alike
	}
	rest := finding{Check: alike[0].Check, State: alike[0].State}
	tenants := tenantsOf(alike[maxAlike:])
	rest.Text = history.Number(len(alike)-maxAlike) + " more like these"
	if tenants[0] != "" {
		rest.Text += fmt.Sprintf(", in %s: %s", history.Count(len(tenants), "tenant"), cli.ShortList(tenants))
	}
	rest.Remedy = "flunq doctor -A --all shows each"
	return append(slices.Clone(alike[:maxAlike]), rest)
}

// sameText merges the findings of tenants that differ in nothing else.
func sameText(alike []finding) (out []finding) {
	tenants := map[[2]string][]string{}
	for _, f := range alike {
		of := [2]string{f.Text, f.Remedy}
		if f.Tenant == "" || len(f.Examples) > 0 || tenants[of] == nil {
			out = append(out, f)
		}
		tenants[of] = append(tenants[of], f.Tenant)
	}
	for i := range out {
		f := &out[i]
		if names := tenants[[2]string{f.Text, f.Remedy}]; len(names) > 1 && f.Tenant != "" && len(f.Examples) == 0 {
			f.Tenant, f.Text = "", fmt.Sprintf("%s (%s): %s", history.Count(len(names), "tenant"), cli.ShortList(names), f.Text)
		}
	}
	// few counts the tenants of the last ones.
	slices.SortStableFunc(out, func(a, b finding) int { return min(1, len(a.Tenant)) - min(1, len(b.Tenant)) })
	return out
}

// merged merges the findings of several healthy tenants.
func merged(alike []finding) finding {
	f := finding{Check: alike[0].Check, State: alike[0].State}
	for _, one := range alike {
		f.number, f.bytes = f.number+one.number, f.bytes+one.bytes
	}
	f.Text = history.Count(len(tenantsOf(alike)), "tenant") + " are healthy"
	if f.number > 0 {
		f.Text = fmt.Sprintf("%s of %s", history.Count(int(f.number), "finished execution"), history.Count(len(tenantsOf(alike)), "tenant"))
	}
	if f.bytes > 0 {
		f.Text += ", some " + mebibytes(f.bytes)
	}
	return f
}

// tenantsOf returns the sorted tenants of the findings.
func tenantsOf(findings []finding) (tenants []string) {
	for _, f := range findings {
		tenants = append(tenants, f.Tenant)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}
