package bench

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
)

// Report is what was measured.
type Report struct {
	Head    Head     `json:"head"`
	Results []Result `json:"results"`
}

// Head says on what it was measured, and how.
type Head struct {
	System  string   `json:"system"`
	CPU     string   `json:"cpu,omitempty"`
	Cores   int      `json:"cores"`
	Go      string   `json:"go"`
	Flunq   string   `json:"flunq"`
	Redis   string   `json:"redis"`
	Settled Settings `json:"settings"`
}

// Settings are those that the figures depend on.
type Settings struct {
	Server     string `json:"server"` // whose Redis: "own" or its address
	AppendOnly string `json:"append_only"`
	Processes  int    `json:"processes"` // of services; 0: within the bench itself
	Workers    int    `json:"workers"`
	Executors  int    `json:"executors"`
	Timers     int    `json:"timers"`
	Batch      int    `json:"batch"` // events that a worker reads at once
	Fires      int    `json:"fires"` // timers fired at once
	Duration   string `json:"duration"`
	Quick      bool   `json:"quick,omitempty"`
}

// Result is one figure beside the limit of the machine. Which of the members
// carries it depends on what it is: a rate, a time, or a size.
type Result struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Unit     string `json:"unit"`

	Rate  float64 `json:"rate,omitempty"`
	P50   float64 `json:"p50,omitempty"`
	P99   float64 `json:"p99,omitempty"`
	Least float64 `json:"least,omitempty"` // of times, the shortest …
	Most  float64 `json:"most,omitempty"`  // … and the longest
	Bytes float64 `json:"bytes,omitempty"`

	// Limit is the same by bare commands in the same run, zero where there is no
	// such thing; Ratio is the part of it that was reached: 1 is all.
	Limit   float64 `json:"limit"`
	LimitOf string  `json:"limit_of"`
	Ratio   float64 `json:"ratio"`

	Count     int      `json:"count,omitempty"` // of what was measured
	Cost      *Cost    `json:"cost,omitempty"`
	Histogram []Bucket `json:"histogram,omitempty"`

	lessIsBetter bool // the rate is of something spent: less is better
}

// Cost is what one of something costs.
type Cost struct {
	Of         string    `json:"of"`                     // what there is one of
	RedisCPU   float64   `json:"redis_cpu_us"`           // microseconds
	CPU        float64   `json:"cpu_us,omitempty"`       // likewise, of the processes of the services, where the system tells
	Commands   float64   `json:"commands"`               // those within scripts, too
	RoundTrips float64   `json:"round_trips"`            // of the services, each with one command or many
	Allocated  float64   `json:"allocated,omitempty"`    // bytes in this process, if the services run in it
	Top        []Command `json:"top_commands,omitempty"` // by their time
}

// Command is a command's part of a Cost; that of a script is in it and its commands.
type Command struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
	CPU   float64 `json:"us"` // microseconds
}

// Bucket counts what took at most so many milliseconds, and more than that of the
// bucket before.
type Bucket struct {
	Upto  float64 `json:"le_ms"` // 0 in the last one: all the rest
	Count int     `json:"count"`
}

// Figure is the number that a result is about.
func (r Result) Figure() float64 {
	switch {
	case r.Rate != 0:
		return r.Rate
	case r.P50 != 0:
		return r.P50
	default:
		return r.Bytes
	}
}

// beside sets a figure beside its limit: rates reach a part of it; times, sizes
// and what is spent are a multiple.
func (r Result) beside(limit float64, of string) Result {
	r.Limit, r.LimitOf = limit, of
	switch figure := r.Figure(); {
	case limit <= 0 || figure <= 0:
	case r.Rate != 0 && !r.lessIsBetter:
		r.Ratio = figure / limit
	default:
		r.Ratio = limit / figure
	}
	return r
}

// head is what can be found out about the machine.
func head(ctx context.Context, rdb *redis.Client, opts Options) Head {
	h := Head{
		System: runtime.GOOS + "/" + runtime.GOARCH, CPU: processor(), Cores: runtime.NumCPU(),
		Go: runtime.Version(), Flunq: opts.Engine.Version,
		Settled: Settings{
			Server: store.Redacted(opts.URL), Processes: opts.Processes,
			Workers: opts.Engine.Workers, Executors: opts.Engine.Executors, Timers: opts.Engine.Timers,
			Batch: opts.Engine.Worker.Batch, Fires: opts.Engine.Fires,
			Duration: opts.Duration.String(), Quick: opts.Quick,
		},
	}
	if opts.Own {
		h.Settled.Server = "own"
	}
	// What a Redis hides is not known; it is no reason not to measure.
	if server, err := store.New(rdb, store.Options{}).Server(ctx); err == nil {
		h.Redis, h.Settled.AppendOnly = server.Version, server.AppendOnly
	}
	return h
}

// processor is what Linux calls the first core.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
