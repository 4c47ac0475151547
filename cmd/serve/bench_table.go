package serve

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/cmd/bench"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
)

// table prints a report as text.
func (b *bencher) table(report *bench.Report) {
	h := report.Head
	set := h.Settings
	where := fmt.Sprintf("Redis %s (%s, append-only file %s)", cmp.Or(h.Redis, "of an unknown version"), set.Server, cmp.Or(set.AppendOnly, "unknown"))
	fmt.Fprintf(b.sh.Out, "%s, %s, %s\n", cli.Printable(cmp.Or(h.CPU, h.System)), history.Count(h.Cores, "core"), h.System)
	fmt.Fprintf(b.sh.Out, "flunq %s, %s, %s\n", h.Flunq, h.Go, cli.Printable(where))
	services := "in this process"
	if set.Processes > 0 {
		services = "in each of " + history.Count(set.Processes, "process")
	}
	fmt.Fprintf(b.sh.Out, "%d workers, %d executors, %d timer services %s; %d events are read and %d timers fired at once; %s each\n\n",
		set.Workers, set.Executors, set.Timers, services, set.Batch, set.Fires, set.Duration)
	benchColumns().Table(b.sh, report.Results, false)
	b.histograms(report.Results)
	fmt.Fprintln(b.sh.Out, "\nThe limits, measured in the same run:")
	printed := map[string]bool{}
	for _, r := range report.Results {
		line := r.Scenario + ": " + r.LimitOf
		if r.P50 != 0 { // its limit has times of its own
			line = r.Scenario + ", " + r.Name + ": " + r.LimitOf
		}
		if r.LimitOf != "" && !printed[line] {
			printed[line] = true
			fmt.Fprintf(b.sh.Out, "  %s\n", line)
		}
	}
}

// benchColumns returns the columns of the table of results.
func benchColumns() cli.List[bench.Result] {
	per := func(value func(*bench.Cost) float64) func(bench.Result) string {
		return func(r bench.Result) string {
			if r.Cost == nil {
				return ""
			}
			return rounded(value(r.Cost))
		}
	}
	return cli.List[bench.Result]{Columns: []cli.Column[bench.Result]{
		{Title: "SCENARIO", Text: func(r bench.Result) string { return r.Scenario }},
		{Title: "WHAT", Text: func(r bench.Result) string { return r.Name }},
		{Title: "FIGURE", Text: figure},
		{Title: "LIMIT", Text: func(r bench.Result) string {
			if r.Limit == 0 {
				return ""
			}
			return rounded(r.Limit)
		}},
		{Title: "RATIO", Text: func(r bench.Result) string {
			if r.Ratio == 0 {
				return ""
			}
			return strconv.FormatFloat(r.Ratio, 'f', 2, 64)
		}},
		{Title: "REDIS µs", Text: per(func(c *bench.Cost) float64 { return c.RedisCPU })},
		{Title: "FLUNQ µs", Text: per(func(c *bench.Cost) float64 { return c.CPU })},
		{Title: "COMMANDS", Text: per(func(c *bench.Cost) float64 { return c.Commands })},
		{Title: "TRIPS", Text: per(func(c *bench.Cost) float64 { return c.RoundTrips })},
		{Title: "ALLOCATED", Text: per(func(c *bench.Cost) float64 { return c.Allocated })},
		{Title: "FOR EACH", Text: func(r bench.Result) string {
			if r.Cost == nil {
				return ""
			}
			return r.Cost.Of
		}},
	}}
}

// figure formats the value of a result with its unit.
func figure(r bench.Result) string {
	if r.P50 != 0 {
		return fmt.Sprintf("p50 %s p99 %s ms", rounded(r.P50), rounded(r.P99))
	}
	return rounded(r.Figure()) + " " + r.Unit
}

// rounded formats n with its significant digits.
func rounded(n float64) string {
	switch size := math.Abs(n); {
	case size >= 100:
		return history.Number(int(math.Round(n)))
	case size >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return strconv.FormatFloat(n, 'f', 2, 64)
	}
}

// histograms draws the results that have a histogram.
func (b *bencher) histograms(results []bench.Result) {
	const widest = 40
	full := b.sh.Glyph("█", "#")
	for _, r := range results {
		most := 0
		for _, bucket := range r.Histogram {
			most = max(most, bucket.Count)
		}
		if most == 0 {
			continue
		}
		fmt.Fprintf(b.sh.Out, "\n%s, %s (%s of them, from %s to %s ms)\n", r.Scenario, r.Name, history.Number(r.Count), rounded(r.Least), rounded(r.Most))
		for _, bucket := range r.Histogram {
			upto := "≤ " + rounded(bucket.Upto) + " ms"
			if bucket.Upto == 0 {
				upto = "longer"
			}
			bar := strings.Repeat(full, (bucket.Count*widest+most-1)/most)
			fmt.Fprintf(b.sh.Out, "  %14s  %s %s\n", upto, bar, history.Number(bucket.Count))
		}
	}
}

// benchProgress shows the progress of a bench, as a bar on a terminal.
type benchProgress struct {
	sh      *cli.Shell
	last    time.Time
	printed string
}

func (p *benchProgress) show(now bench.Progress) {
	if p.sh.Quiet {
		return
	}
	if !p.sh.ErrTerminal {
		if line := fmt.Sprintf("%s (%d of %d)", now.Scenario, now.Number, now.Of); line != p.printed {
			p.printed = line
			fmt.Fprintln(p.sh.Err, line)
		}
		return
	}
	if now.Share > 0 && now.Share < 1 && time.Since(p.last) < cli.RedrawEvery {
		return
	}
	p.last = time.Now()
	const width = 24
	full, empty := p.sh.Glyph("█", "#"), p.sh.Glyph("░", ".")
	n := int(now.Share * width)
	fmt.Fprintf(p.sh.Err, "\r\x1b[K%d/%d %-8s %s%s %3.0f%% %s", now.Number, now.Of, now.Scenario,
		strings.Repeat(full, n), strings.Repeat(empty, width-n), now.Share*100, now.Measuring)
}

// end removes the bar.
func (p *benchProgress) end() {
	if p.sh.ErrTerminal && !p.sh.Quiet {
		fmt.Fprint(p.sh.Err, "\r\x1b[K")
	}
}
