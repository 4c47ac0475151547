package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/store"
)

// Settings configure the services in every command that runs them.
type Settings struct {
	Workers, Executors, Timers int            // instances of each service in this process
	Calls                      int            // concurrent tasks of all tenants
	Worker, Executor, Timer    engine.Reading // how they read their streams

	TimerBatch int           // timers fired in one batch
	MaxSleep   time.Duration // maximum pause between two checks of the timers
	Lookahead  time.Duration // how long before a timer is due the wait for it ends
	Lease      time.Duration // after which the messages of a silent consumer are claimed
	Attempts   int           // deliveries of a message before it becomes a dead letter

	History         int           // entries of one execution's history; 0: unlimited
	HistoryMiB      int           // MiB of their data; 0: unlimited
	Descendants     int           // open descendants of one execution; 0: unlimited
	Open            int           // open executions of one tenant; 0: unlimited
	RedisPercent    int           // percentage of maxmemory above which no execution begins; 0: unlimited
	Answers         int           // MiB of large responses that are being read
	PerWorker       int           // events that one worker holds at a time
	PerHost         int           // concurrent calls to one host; 0: unlimited
	BreakerFailures int           // consecutive failures that open the circuit of a host; 0: never
	BreakerOpen     time.Duration // how long a circuit stays open

	Confirmed int // replicas that writes must reach; wire.AllReplicas: all

	KeepFinished time.Duration // how long ended executions are kept; 0: forever
	KeepCount    int           // ended executions to keep per tenant; 0: all

	Observations bool // record the outcomes of inputs

	SweepEvery time.Duration // interval of sweeps that restore what Redis has lost; 0: never

	HealthEvery  time.Duration // interval of the health checks
	MetricsEvery time.Duration // interval of measuring the depths of streams

	HTTP       string // address of health checks and metrics
	LogLevel   slog.Level
	LogFormat  string // "json" or "text"
	StreamType string // "redis", or where the bridge publishes: "kafka" or "nats"

	Bridge    BridgeSettings
	Scheduler SchedulerSettings
}

// DefaultHTTP is where health checks are answered by default, on this machine only.
const DefaultHTTP = "127.0.0.1:8080"

// DefaultSettings returns the settings of an ordinary deployment.
func DefaultSettings() Settings {
	d := engine.Defaults()
	return Settings{
		Workers: max(4, runtime.NumCPU()), Executors: d.Executors, Timers: d.Timers,
		Worker: d.Worker, Executor: d.Executor, Timer: d.Timer,
		TimerBatch: d.Fires, MaxSleep: d.MaxSleep, Lookahead: d.Lookahead, Lease: d.Lease, Attempts: d.Retry.Attempts,
		History: d.Limits.History, HistoryMiB: d.Limits.HistoryBytes >> 20, // MiB
		Descendants: d.Descendants, Open: d.Open, RedisPercent: d.RedisPercent, Answers: 192, PerWorker: 100, BreakerFailures: 10, BreakerOpen: 30 * time.Second,
		SweepEvery: 30 * time.Second, HealthEvery: 30 * time.Second, MetricsEvery: time.Minute,
		HTTP: DefaultHTTP, LogFormat: "json", StreamType: InRedis, Bridge: defaultBridge(), Scheduler: defaultScheduler(),
	}
}

// Engine applies the settings to the options of an engine.
func (s Settings) Engine(opts engine.Options) engine.Options {
	opts.Workers, opts.Executors, opts.Timers = s.Workers, s.Executors, s.Timers
	opts.ExtraExecutors = max(s.Calls-s.Executors, 0)
	opts.Worker, opts.Executor, opts.Timer = s.Worker, s.Executor, s.Timer
	opts.Fires, opts.MaxSleep, opts.Lookahead = s.TimerBatch, s.MaxSleep, s.Lookahead
	opts.Limits.History, opts.Limits.HistoryBytes = cmp.Or(s.History, -1), cmp.Or(s.HistoryMiB<<20, -1) // MiB
	opts.Answers = call.NewMemory(s.Answers << 20)                                                      // MiB
	opts.Descendants, opts.Open, opts.RedisPercent = s.Descendants, s.Open, s.RedisPercent
	opts.Lease, opts.Retry.Attempts = s.Lease, s.Attempts
	opts.Sweep, opts.Observations = s.SweepEvery, s.Observations
	return opts
}

// Groups returns the consumer groups of the services by service.
func (s Settings) Groups() map[string]string {
	return map[string]string{"worker": s.Worker.Group, "executor": s.Executor.Group, "timer": s.Timer.Group}
}

// Retention returns how long ended executions are kept.
func (s Settings) Retention() engine.Retention {
	r := engine.DefaultRetention()
	r.Finished = store.Keep{Age: s.KeepFinished, Count: int64(s.KeepCount), Least: minKept}
	return r
}

// setting is one setting under the names that users write.
type setting struct {
	name    string   // of the environment variable
	aliases []string // other names; the main name takes precedence
	value   settingValue
	help    string
}

// settingValue is a field of Settings that can be read and written as a string.
type settingValue interface {
	Set(text string) error
	String() string
}

// table binds each setting to its field of s, in the order of 'flunq config show'.
func (s *Settings) table() []setting {
	return slices.Concat([]setting{
		{"WORKER_CONCURRENCY", []string{"WORKER_COUNT"}, whole(&s.Workers, 0, 256), "workers in this process (default: one per core, at least 4)"},
		{"WORKER_CONSUMER_GROUP", nil, named(&s.Worker.Group), "consumer group of the workers"},
		{"WORKER_STREAM_BATCH", []string{"BATCH_SIZE"}, whole(&s.Worker.Batch, 1, 1000), "events that a worker reads in one batch"},
		{"WORKER_STREAM_BLOCK", []string{"POLL_INTERVAL_MS"}, span(&s.Worker.Block, time.Millisecond, 5*time.Second), "how long a worker waits for events in one read"},
		{"WORKER_RECLAIM_ENABLED", nil, truth(&s.Worker.Reclaim), "claim the events of workers that died (documented elsewhere as off)"},
		{"CONCURRENCY_LIMIT", nil, whole(&s.PerWorker, 1, 1000), "events that one worker holds at a time (documented elsewhere as 5)"},
		{"EXECUTOR_CONCURRENCY", nil, whole(&s.Executors, 0, 256), "concurrent tasks of one tenant in this process"},
		{"LIMIT_CALLS", nil, whole(&s.Calls, 0, 1024), "concurrent tasks of all tenants in this process; 0: eight times EXECUTOR_CONCURRENCY"},
		{"LIMIT_HISTORY", nil, whole(&s.History, 0, 1_000_000_000), "entries of a history at which no new task starts; 0: no limit"},
		{"LIMIT_HISTORY_MIB", nil, whole(&s.HistoryMiB, 0, 1<<20), "MiB of data in a history at which no new task starts; 0: no limit"},
		{"RECORD_INPUT_OBSERVATIONS", nil, truth(&s.Observations), "record the outcomes of inputs, for 'flunq inputs ls'"},
		{"LIMIT_DESCENDANTS", nil, whole(&s.Descendants, 0, 1_000_000_000), "open descendants of one execution; 0: no limit"},
		{"LIMIT_EXECUTIONS", nil, whole(&s.Open, 0, 1_000_000_000), "open executions of one tenant at which no new one starts; 0: no limit"},
		{"LIMIT_REDIS_PERCENT", nil, whole(&s.RedisPercent, 0, 100), "percentage of Redis' maxmemory in use above which no execution begins; 0: no limit"},
		{"LIMIT_MEMORY", nil, whole(&s.Answers, 32, 1<<20), "MiB of large responses that are being read, and as much again for their decoded form"},
		{"EXECUTOR_CONSUMER_GROUP", nil, named(&s.Executor.Group), "consumer group of the executors"},
		{"EXECUTOR_STREAM_BATCH", nil, whole(&s.Executor.Batch, 1, 1000), "events that an executor reads in one batch"},
		{"EXECUTOR_STREAM_BLOCK", nil, span(&s.Executor.Block, time.Millisecond, 5*time.Second), "how long an executor waits for events in one read"},
		{"EXECUTOR_RECLAIM_ENABLED", nil, truth(&s.Executor.Reclaim), "claim the tasks of executors that died"},
		{"EXECUTOR_HOST_CONCURRENCY", nil, whole(&s.PerHost, 0, 10_000), "concurrent calls to one host; 0: no limit"},
		{"EXECUTOR_BREAKER_FAILURES", nil, whole(&s.BreakerFailures, 0, 10_000), "consecutive failures that open the circuit of a host; 0: never"},
		{"EXECUTOR_BREAKER_OPEN", nil, span(&s.BreakerOpen, time.Millisecond, 24*time.Hour), "how long a circuit stays open"},
		{"TIMER_CONCURRENCY", nil, whole(&s.Timers, 0, 256), "timer services in this process"},
		{"TIMER_CONSUMER_GROUP", nil, named(&s.Timer.Group), "consumer group of the timer services"},
		{"TIMER_STREAM_BATCH", nil, whole(&s.Timer.Batch, 1, 1000), "events that a timer service reads in one batch"},
		{"TIMER_STREAM_BLOCK", nil, span(&s.Timer.Block, time.Millisecond, 5*time.Second), "how long a timer service waits for events in one read (documented elsewhere as 1s)"},
		{"TIMER_RECLAIM_ENABLED", nil, truth(&s.Timer.Reclaim), "claim the events of timer services that died"},
		{"TIMER_MAX_SLEEP", nil, span(&s.MaxSleep, time.Millisecond, time.Minute), "longest wait between two checks of the timers; only a timer whose service died fires late because of it (documented elsewhere as 1s)"},
		{"TIMER_LOOKAHEAD", nil, span(&s.Lookahead, 0, time.Minute), "how long before a timer is due the wait for it ends; none fires early"},
		{"TIMER_BATCH_SIZE", nil, whole(&s.TimerBatch, 1, 1000), "timers fired in one batch"},
		{"LEASE", nil, span(&s.Lease, time.Second, time.Hour), "how long a process may be silent before its messages are claimed"},
		{"MAX_RETRIES", nil, whole(&s.Attempts, 1, 100), "deliveries of a message before it is dead-lettered"},
		{"KEEP_FINISHED", nil, Keeping(&s.KeepFinished), "how long ended executions and their histories are kept; 0: forever"},
		{"KEEP_FINISHED_COUNT", nil, whole(&s.KeepCount, 0, 1_000_000_000), "ended executions that each tenant keeps: the newest, for at least a minute; 0: all"},
		{"SWEEP_INTERVAL", nil, span(&s.SweepEvery, 0, 24*time.Hour), "interval of sweeps that restore timers, listeners and requests that Redis has lost; 0: never"},
		{"HEALTH_CHECK_INTERVAL_MS", nil, span(&s.HealthEvery, 10*time.Millisecond, 24*time.Hour), "interval of health checks of the services"},
		{"METRICS_REPORTING_INTERVAL_MS", nil, span(&s.MetricsEvery, 10*time.Millisecond, 24*time.Hour), "interval of reports of stream depths and rates"},
		{"HTTP_ADDRESS", nil, Address(&s.HTTP), "address of health checks and metrics"},
		{"REDIS_WAIT", nil, replicas(&s.Confirmed), "replicas that each write must reach within a second to count as done: a number, or all for every connected replica"},
		{"LOG_LEVEL", nil, Level(&s.LogLevel), "debug, info, warn or error"},
		{"LOG_FORMAT", nil, word(&s.LogFormat, "json", "text"), "json or text"},
		{"EVENT_STREAM_TYPE", nil, word(&s.StreamType, InRedis, InKafka, InNATS), "where other programs exchange events with flunq: redis, or a bridge to kafka or nats"},
	}, s.Bridge.table(), s.Scheduler.table())
}

// confirmed returns the setting REDIS_WAIT.
func confirmed(sh *Shell) (int, error) {
	file, err := ReadConfig(sh)
	if err != nil {
		return 0, err
	}
	s := DefaultSettings()
	one, _ := s.find("REDIS_WAIT")
	if name, text, place, ok := one.given(sh, file); ok {
		if err := one.set(name, text); err != nil {
			return 0, Misusef("%s %q: %v", place, text, err)
		}
	}
	return s.Confirmed, nil
}

// settingKey returns the name of a setting in a configuration file: worker-concurrency.
func settingKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// settingName returns the name of the environment variable for a key of a configuration file.
func settingName(key string) string { return strings.ToUpper(strings.ReplaceAll(key, "-", "_")) }

// is reports whether a key of a configuration file names the setting.
func (s setting) is(key string) bool {
	name := settingName(key)
	return name == s.name || slices.Contains(s.aliases, name)
}

// find returns the setting that a key of a configuration file names, or all keys that name one.
func (s *Settings) find(key string) (found setting, known []string) {
	for _, one := range s.table() {
		if one.is(key) {
			return one, nil
		}
		for _, name := range append([]string{one.name}, one.aliases...) {
			known = append(known, settingKey(name))
		}
	}
	return setting{}, known
}

// set parses a value; a bare number in a variable of milliseconds is milliseconds.
func (s setting) set(name, text string) error {
	if d, ok := s.value.(spanValue); ok && strings.HasSuffix(strings.ToUpper(name), "MS") {
		d.bareMS = true
		return d.Set(text)
	}
	return s.value.Set(text)
}

// source is a value and its origin.
type source struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
	Help  string `json:"help,omitempty"`
}

// fromDefault is the origin of a value that is not set.
const fromDefault = "default"

// fromEnvironment returns the origin of a value from a variable.
func fromEnvironment(name string) string { return "environment variable " + name }

// ReadSettings returns the settings of the environment and the configuration file.
func ReadSettings(sh *Shell) (Settings, error) {
	file, err := ReadConfig(sh)
	if err != nil {
		return Settings{}, err
	}
	s, _, err := LoadSettings(sh, file)
	return s, err
}

// LoadSettings takes each setting from the environment, from the file of the scheduler if
// there is one, from the configuration (which may be nil) or from the defaults, in this
// order. The error lists all bad values.
func LoadSettings(sh *Shell, file *configFile) (Settings, []source, error) {
	s := DefaultSettings()
	var sources []source
	var errs []error
	for _, one := range s.table() {
		from := fromDefault
		if name, text, place, ok := one.given(sh, file); ok {
			from = place
			s.Scheduler.PartitionsGiven = s.Scheduler.PartitionsGiven || one.name == "SCHEDULER_TOTAL_PARTITIONS"
			if err := one.set(name, text); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: %w", place, text, err))
			}
		}
		sources = append(sources, source{Name: one.name, From: from, Help: one.help})
	}
	if len(errs) == 0 {
		errs = []error{placed(errors.Join(append(s.Scheduler.check(), s.checkBridge())...), sources)}
	}
	because := s.settle()
	for i, one := range s.table() {
		sources[i].Value = one.value.String()
		if why := because[one.name]; why != "" {
			sources[i].From = why
		}
	}
	return s, sources, Fail(ExitMisuse, errors.Join(errs...))
}

// placed appends to each line of err the origins of the settings that it names. Those from the
// environment need none: the name says it.
func placed(err error, sources []source) error {
	if err == nil {
		return nil
	}
	var out []error
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		var places []string
		for _, word := range strings.FieldsFunc(line, func(c rune) bool { return c != '_' && (c < 'A' || c > 'Z') }) {
			for _, one := range sources {
				if one.Name == word && one.From != fromDefault && one.From != fromEnvironment(word) && !slices.Contains(places, one.From) {
					places = append(places, one.From)
				}
			}
		}
		if len(places) > 0 {
			line += " (" + strings.Join(places, ", ") + ")"
		}
		out = append(out, errors.New(line))
	}
	return errors.Join(out...)
}

// callsPerTenant is the default of LIMIT_CALLS as a multiple of EXECUTOR_CONCURRENCY.
const callsPerTenant = 8

// settle computes the values that depend on other settings. It returns the origin of each
// by its name.
func (s *Settings) settle() (because map[string]string) {
	because = map[string]string{}
	if s.Calls == 0 {
		s.Calls, because["LIMIT_CALLS"] = callsPerTenant*s.Executors, fmt.Sprintf("%d times EXECUTOR_CONCURRENCY", callsPerTenant)
	}
	if s.Executors > s.Calls {
		s.Executors, because["EXECUTOR_CONCURRENCY"] = s.Calls, "at most LIMIT_CALLS"
	}
	if s.Worker.Batch > s.PerWorker {
		s.Worker.Batch, because["WORKER_STREAM_BATCH"] = s.PerWorker, "at most CONCURRENCY_LIMIT"
	}
	return because
}

// given returns the value given for a setting, the name used and the origin.
func (s setting) given(sh *Shell, file *configFile) (name, text, place string, ok bool) {
	names := append([]string{s.name}, s.aliases...)
	for _, n := range names {
		if v := sh.Env(n); v != "" {
			return n, v, fromEnvironment(n), true
		}
	}
	if file == nil {
		return "", "", "", false
	}
	if file.Scheduler != nil {
		if v, found := file.Scheduler.settings[s.name]; found {
			return s.name, v.Text, v.place, true
		}
	}
	for _, n := range names {
		if v, found := file.Settings[n]; found {
			return n, v.Text, v.place + ": " + settingKey(n), true
		}
	}
	return "", "", "", false
}
