package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Report contains all results.
type Report struct {
	Head    Head     `json:"head"`
	Results []Result `json:"results"`
}

// Head describes the machine and the settings.
type Head struct {
	System   string   `json:"system"`
	CPU      string   `json:"cpu,omitempty"`
	Cores    int      `json:"cores"`
	Go       string   `json:"go"`
	Flunq    string   `json:"flunq"`
	Redis    string   `json:"redis"`
	Settings Settings `json:"settings"`
}

// Settings are the settings that affect the results.
type Settings struct {
	Server     string `json:"server"` // the Redis: "own" or its address
	AppendOnly string `json:"append_only"`
	Processes  int    `json:"processes"` // of the services; 0: the process of the bench
	Workers    int    `json:"workers"`
	Executors  int    `json:"executors"`
	Timers     int    `json:"timers"`
	Batch      int    `json:"batch"` // events that a worker reads in one batch
	Fires      int    `json:"fires"` // timers fired in one batch
	Duration   string `json:"duration"`
	Quick      bool   `json:"quick,omitempty"`
}

// Result is a figure and the limit of the machine. The figure is a rate, a time or a size.
type Result struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Unit     string `json:"unit"`

	Rate  float64 `json:"rate,omitempty"`
	P50   float64 `json:"p50,omitempty"`
	P99   float64 `json:"p99,omitempty"`
	Least float64 `json:"least,omitempty"` // the shortest time
	Most  float64 `json:"most,omitempty"`  // the longest time
	Bytes float64 `json:"bytes,omitempty"`

	// Limit is the figure of LimitOf in the same run, such as that of bare commands; 0 if there is
	// none. For Ratio see beside.
	Limit   float64 `json:"limit"`
	LimitOf string  `json:"limit_of"`
	Ratio   float64 `json:"ratio"`

	Count     int      `json:"count,omitempty"` // number of operations measured
	Cost      *Cost    `json:"cost,omitempty"`
	Histogram []Bucket `json:"histogram,omitempty"`

	lessIsBetter bool // the rate is a cost
}

// Cost is the cost of one unit.
type Cost struct {
	Of         string    `json:"of"`                     // the unit
	RedisCPU   float64   `json:"redis_cpu_us"`           // microseconds
	CPU        float64   `json:"cpu_us,omitempty"`       // microseconds of the processes of the services, if known
	Commands   float64   `json:"commands"`               // including those of scripts
	RoundTrips float64   `json:"round_trips"`            // of the services; a pipeline is one
	Allocated  float64   `json:"allocated,omitempty"`    // bytes in this process, if the services run in it
	Top        []Command `json:"top_commands,omitempty"` // the most expensive commands
}

// Command is a command's share of a Cost. The share of a script includes its commands.
type Command struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
	CPU   float64 `json:"us"` // microseconds
}

// Bucket counts the times up to its bound and above that of the previous bucket.
type Bucket struct {
	Upto  float64 `json:"le_ms"` // 0 in the last bucket: unbounded
	Count int     `json:"count"`
}

// Figure returns the number of a result.
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

// beside returns the result with the limit and the ratio: for rates the figure divided by the
// limit, for times, sizes and costs the limit divided by the figure.
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

// besideTimes is beside for times: the limit is their median, and of is followed by their 99th percentile.
func (r Result) besideTimes(limit Result, of string) Result {
	return r.beside(limit.P50, fmt.Sprintf("%s (p99 %.2f ms)", of, limit.P99))
}

// head describes the machine.
func head(ctx context.Context, rdb wire.Redis, opts Options) Head {
	h := Head{
		System: runtime.GOOS + "/" + runtime.GOARCH, CPU: processor(), Cores: runtime.NumCPU(),
		Go: runtime.Version(), Flunq: opts.Engine.Version,
		Settings: Settings{
			Server: store.Redacted(opts.URL), Processes: opts.Processes,
			Workers: opts.Engine.Workers, Executors: opts.Engine.Executors, Timers: opts.Engine.Timers,
			Batch: opts.Engine.Worker.Batch, Fires: opts.Engine.Fires,
			Duration: opts.Duration.String(), Quick: opts.Quick,
		},
	}
	if opts.Own {
		h.Settings.Server = "own"
	}
	// A Redis that does not report its version can also be measured.
	if server, err := store.New(rdb, store.Options{}).Server(ctx); err == nil {
		h.Redis, h.Settings.AppendOnly = server.Version, server.AppendOnly
	}
	return h
}

// processor returns the name of the first core on Linux.
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
