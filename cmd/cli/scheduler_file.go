package cli

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/yaml"
)

// SchedulerFile is the configuration file of the documented scheduler service, converted to
// flunq's settings and the address of Redis.
type SchedulerFile struct {
	Path     string
	Warnings []string // keys without effect

	settings        map[string]configText // by name of the environment variable
	redis, password configText
}

// readSchedulerFile reads the file. The error lists all mistakes with their positions.
func readSchedulerFile(path string) (*SchedulerFile, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, Fail(ExitMisuse, fmt.Errorf("configuration of the scheduler %w", WithoutVerb(path, err)))
	}
	if len(source) > configLimit {
		return nil, Misusef("%s: larger than %d KiB", path, configLimit>>10)
	}
	r := schedulerReader{Reader: yaml.NewReader(path, source), file: &SchedulerFile{Path: path, settings: map[string]configText{}}}
	if root := r.Root(); root != nil {
		r.document(root)
	}
	// The documented service supports no other choices.
	for name, value := range map[string]string{"SCHEDULER_RECORDS": InDynamo, "SCHEDULER_FEED": InKafka, "SCHEDULER_SINK": InKafka, "SCHEDULER_ENABLED": "true"} {
		r.file.settings[name] = configText{value, path}
	}
	return r.file, Fail(ExitMisuse, r.Err())
}

// schedulerReader reads the file.
type schedulerReader struct {
	*yaml.Reader

	file  *SchedulerFile
	query url.Values // of the address of Redis
	tuned []string   // places of the keys that are in query
}

// sets returns a reader of a key that has the meaning of a setting.
func (r *schedulerReader) sets(key, name string) func(*yaml3.Node) {
	return func(n *yaml3.Node) {
		r.file.settings[name] = configText{strings.Join(r.Texts(n, key), ","), r.place(n, key)}
	}
}

// ignores returns a reader of a key that has no effect.
func (r *schedulerReader) ignores(key, why string) func(*yaml3.Node) {
	return func(n *yaml3.Node) {
		r.Text(n, key)
		r.file.Warnings = append(r.file.Warnings, fmt.Sprintf("%s has no effect: %s", r.place(n, key), why))
	}
}

func (r *schedulerReader) place(n *yaml3.Node, key string) string {
	return fmt.Sprintf("%s:%d:%d: %s", r.file.Path, n.Line, n.Column, key)
}

// tunes returns a reader of a non-negative integer that, with a unit, becomes a parameter in the address of
// Redis.
func (r *schedulerReader) tunes(key, parameter, unit string) func(*yaml3.Node) {
	return func(n *yaml3.Node) {
		text := r.Text(n, key)
		if _, err := strconv.ParseUint(text, 10, 31); err == nil {
			r.query.Set(parameter, text+unit)
			r.tuned = append(r.tuned, r.place(n, key))
		} else if text != "" {
			r.Errorf(n, "%s is %s, want a non-negative integer", key, yaml.Spelled(n))
		}
	}
}

func (r *schedulerReader) document(root *yaml3.Node) {
	object := func(what string, fields yaml.Fields) func(*yaml3.Node) {
		return section(r.Reader, what, fields, nil)
	}
	r.Object(root, "the configuration", yaml.Fields{
		"grpc": object("grpc", yaml.Fields{
			"name": r.ignores("grpc.name", "processes have the names of their machines"),
			"host": r.sets("grpc.host", "SCHEDULER_GRPC"),
		}),
		"redis": r.redis,
		"dynamo": object("dynamo", yaml.Fields{
			"region":     r.sets("dynamo.region", "AWS_REGION"),
			"endpoint":   r.sets("dynamo.endpoint", "DYNAMO_ENDPOINT"),
			"table_name": r.sets("dynamo.table_name", "DYNAMO_TABLE"),
		}),
		"kafka": object("kafka", yaml.Fields{
			"brokers":  r.sets("kafka.brokers", "KAFKA_BROKERS"),
			"group_id": r.sets("kafka.group_id", "SCHEDULER_GROUP"),
		}),
		"scheduler": object("scheduler", yaml.Fields{
			"total_partitions": r.sets("scheduler.total_partitions", "SCHEDULER_TOTAL_PARTITIONS"),
			"bucket_size_sec":  r.sets("scheduler.bucket_size_sec", "SCHEDULER_BUCKET_SIZE_SEC"),
		}),
		"scheduler_worker": object("scheduler_worker", yaml.Fields{
			"past_buckets_count": r.ignores("scheduler_worker.past_buckets_count", "events are found however late they are"),
			"semaphore_limit":    r.sets("scheduler_worker.semaphore_limit", "SCHEDULER_SEMAPHORE_LIMIT"),
			"batch_size":         r.sets("scheduler_worker.batch_size", "SCHEDULER_BATCH_SIZE"),
			"backoff_ms":         r.sets("scheduler_worker.backoff_ms", "SCHEDULER_BACKOFF_MS"),
			"max_backoff_ms":     r.sets("scheduler_worker.max_backoff_ms", "SCHEDULER_MAX_BACKOFF_MS"),
		}),
		"retry_worker": object("retry_worker", yaml.Fields{
			"past_buckets_count":     r.ignores("retry_worker.past_buckets_count", "events are found however late they are"),
			"retry_scan_interval_ms": r.sets("retry_worker.retry_scan_interval_ms", "SCHEDULER_RETRY_SCAN_INTERVAL_MS"),
			"retry_batch_size":       r.ignores("retry_worker.retry_batch_size", "stuck events are claimed with the due ones, scheduler_worker.batch_size at once"),
		}),
	}, nil)
}

// redis reads the address of Redis and the parameters of its client.
func (r *schedulerReader) redis(n *yaml3.Node) {
	const noReplicas = "a replica lags behind"
	var hosts []string
	var hostsNode *yaml3.Node
	cluster := false
	r.query = url.Values{}
	// mode returns a reader of a key that is one of some words, one of which means a cluster.
	mode := func(key, ofCluster string, words ...string) func(*yaml3.Node) {
		return func(n *yaml3.Node) {
			text := r.Text(n, key)
			cluster = cluster || text == ofCluster
			if text != "" && !slices.Contains(words, text) {
				r.Errorf(n, "%s is %q, want %s", key, text, OneOf(words))
			}
		}
	}
	r.Object(n, "redis", yaml.Fields{
		"mode":    mode("redis.mode", "cluster", "standalone", "cluster"),
		"cluster": mode("redis.cluster", "true", "true", "false"),
		"hosts": func(n *yaml3.Node) {
			hosts, hostsNode = r.Texts(n, "redis.hosts"), n
			r.file.redis.place = r.place(n, "redis.hosts")
		},
		"password": func(n *yaml3.Node) {
			if yaml.Spelled(n) != "empty" {
				r.file.password = configText{r.Text(n, "redis.password"), r.place(n, "redis.password")}
			}
		},
		"serve_reads_from_slaves":            r.ignores("redis.serve_reads_from_slaves", noReplicas),
		"serve_reads_from_master_and_slaves": r.ignores("redis.serve_reads_from_master_and_slaves", noReplicas),
		"read_timeout":                       r.ignores("redis.read_timeout", "reads that wait for events take longer"),
		"write_timeout":                      r.tunes("redis.write_timeout", "write_timeout", "ms"),
		"dial_timeout":                       r.tunes("redis.dial_timeout", "dial_timeout", "ms"),
		"idle_timeout":                       r.tunes("redis.idle_timeout", "conn_max_idle_time", "ms"),
		"min_idle_conns":                     r.tunes("redis.min_idle_conns", "min_idle_conns", ""),
		"pool_size":                          r.tunes("redis.pool_size", "pool_size", ""),
	}, nil)
	for _, place := range r.tuned {
		switch {
		case hostsNode == nil:
			r.file.Warnings = append(r.file.Warnings, place+" has no effect without redis.hosts")
		case cluster:
			r.file.Warnings = append(r.file.Warnings, place+" has no effect: flunq chooses it for a Redis Cluster")
		}
	}
	for _, host := range hosts {
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			r.Errorf(hostsNode, "redis.hosts has %q, want host:port", host)
			return
		}
	}
	switch {
	case hostsNode == nil:
	case cluster && len(hosts) > 0:
		r.file.redis.Text = "redis-cluster://" + strings.Join(hosts, ",")
		r.file.redis.place += ", a cluster by redis.mode or redis.cluster"
	case len(hosts) != 1:
		r.Errorf(hostsNode, "redis.hosts has %d addresses, want one, host:port; or several with mode: cluster", len(hosts))
	default:
		r.file.redis.Text = (&url.URL{Scheme: "redis", Host: hosts[0], Path: "/0", RawQuery: r.query.Encode()}).String()
	}
}

// SchedulerMode returns the part of the scheduler that APP_MODE names, "" if it is not set.
func SchedulerMode(sh *Shell) (string, error) {
	switch mode := sh.Env("APP_MODE"); mode {
	case "", "api", "consumer", "worker":
		return mode, nil
	default:
		return "", Misusef("%s %q: want api, consumer or worker", fromEnvironment("APP_MODE"), mode)
	}
}

// SchedulerConfig reads the file of the scheduler that a flag or, if the scheduler is asked
// for, CONFIG_PATH names. Without one it returns nil.
func SchedulerConfig(sh *Shell, flag string, asked bool) (*SchedulerFile, error) {
	mode, _ := SchedulerMode(sh)
	enabled := false
	_ = truth(&enabled).Set(sh.Env("SCHEDULER_ENABLED")) // LoadSettings reports what is neither true nor false
	path := flag
	if path == "" && (asked || enabled || mode != "") {
		path = sh.Env("CONFIG_PATH")
	}
	if path == "" {
		return nil, nil
	}
	return readSchedulerFile(path)
}
