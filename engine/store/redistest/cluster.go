package redistest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/store/wire"
)

// Cluster is a Redis Cluster that only t uses: masters and one replica of each.
type Cluster struct {
	Nodes []*Server // the first half were made masters
}

const (
	clusterMasters = 3
	clusterTime    = time.Minute // for all nodes to agree
	nodeTimeout    = 1500        // milliseconds after which a node counts as gone
)

// StartCluster starts a Redis Cluster of three masters and three replicas, with additional settings
// for each node. It skips the test without redis-server or redis-cli.
func StartCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	return startCluster(t, nil, settings)
}

// StartSkewed is like StartCluster with nodes whose clocks are fast by the given times, in turn. It
// skips the test without a C compiler.
func StartSkewed(t testing.TB, fast ...time.Duration) *Cluster {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	folder := t.TempDir()
	source, library := filepath.Join(folder, "clock.c"), filepath.Join(folder, "clock.so")
	if err := os.WriteFile(source, []byte(skewedClock), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return startCluster(t, func(node int) []string {
		return []string{"LD_PRELOAD=" + library, "FAST_SECONDS=" + strconv.Itoa(int(fast[node%len(fast)].Seconds()))}
	}, nil)
}

// skewedClock replaces the function from which redis-server gets the time. (libfaketime does not work
// with its memory allocator.)
const skewedClock = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
int gettimeofday(struct timeval *tv, void *tz) {
	int err = syscall(SYS_gettimeofday, tv, tz);
	char *fast = getenv("FAST_SECONDS");
	if (err == 0 && fast) tv->tv_sec += atol(fast);
	return err;
}
`

func startCluster(t testing.TB, environment func(node int) []string, settings []string) *Cluster {
	t.Helper()
	binary := find(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		const missing = "REDIS CLUSTER NOT TESTED: no redis-cli in the PATH (apt-get install redis-tools)"
		if os.Getenv(requireVariable) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	settings = append([]string{
		"--cluster-enabled", "yes", "--appendonly", "no", "--cluster-node-timeout", strconv.Itoa(nodeTimeout), "--repl-diskless-sync-delay", "0",
	}, settings...)
	c := &Cluster{Nodes: make([]*Server, 2*clusterMasters)}
	for i := range c.Nodes {
		var own []string
		if environment != nil {
			own = environment(i)
		}
		c.Nodes[i] = serve(t, binary, own, settings...)
	}
	args := []string{"--cluster", "create"}
	for _, node := range c.Nodes {
		args = append(args, node.addr)
	}
	CLI(t, append(args, "--cluster-replicas", "1", "--cluster-yes")...)
	c.settle(t)
	return c
}

// CLI runs redis-cli and returns what it prints.
func CLI(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "redis-cli", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// settle waits until every node knows which node has which slots, and every replica has its master's data.
func (c *Cluster) settle(t testing.TB) {
	t.Helper()
	agreed := func(node *Server) bool {
		rdb := node.Client(t)
		info := rdb.ClusterInfo(t.Context()).Val()
		nodes := rdb.ClusterNodes(t.Context()).Val()
		role := rdb.Info(t.Context(), "replication").Val()
		return strings.Contains(info, "cluster_state:ok") && strings.Count(nodes, " slave ")+strings.Count(nodes, ",slave ") == len(c.Nodes)/2 &&
			(strings.Contains(role, "role:master\r\nconnected_slaves:1") || strings.Contains(role, "master_link_status:up"))
	}
	for began := time.Now(); ; {
		if !slices.ContainsFunc(c.Nodes, func(node *Server) bool { return !agreed(node) }) {
			return
		}
		if time.Since(began) > clusterTime {
			t.Fatalf("the nodes do not agree on the cluster after %v:\n%s", clusterTime, c.Nodes[0].Client(t).ClusterNodes(t.Context()).Val())
		}
		time.Sleep(startPause)
	}
}

// URL returns the address of the cluster, with all its nodes.
func (c *Cluster) URL() string {
	hosts := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		hosts[i] = node.addr
	}
	return "redis-cluster://" + strings.Join(hosts, ",")
}

// Client returns a client that sends no commands by itself. It is closed with t.
func (c *Cluster) Client(t testing.TB) wire.Redis {
	t.Helper()
	opts := &redis.ClusterOptions{
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ClusterStateReloadInterval: 100 * time.Millisecond,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, node := range c.Nodes {
		opts.Addrs = append(opts.Addrs, node.addr)
	}
	rdb := wire.NewCluster(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// MasterOf returns the node that is currently the master of a key.
func (c *Cluster) MasterOf(t testing.TB, key string) *Server {
	t.Helper()
	for _, node := range c.Nodes {
		select {
		case <-node.gone:
			continue
		default:
		}
		// A node that has the key answers; others name the node that has it.
		err := node.Client(t).Type(t.Context(), key).Err()
		if err == nil && strings.Contains(node.Client(t).Info(t.Context(), "replication").Val(), "role:master") {
			return node
		}
	}
	t.Fatalf("no node is the master of %s", key)
	return nil
}

// WaitForReplica waits until the master that has a key has a replica with all that it had when it was
// asked first. A replica that is only "online" may get nothing for a second, until it has confirmed the
// dataset that it began with.
func (c *Cluster) WaitForReplica(t testing.TB, key string) {
	t.Helper()
	has, confirmed := regexp.MustCompile(`master_repl_offset:(\d+)`), regexp.MustCompile(`state=online,offset=(\d+)`)
	want := 0
	for began := time.Now(); time.Since(began) < clusterTime; time.Sleep(startPause) {
		info := c.MasterOf(t, key).Client(t).Info(context.WithoutCancel(t.Context()), "replication").Val()
		if want == 0 {
			want = offsetIn(has, info)
		}
		if want > 0 && offsetIn(confirmed, info) >= want {
			return
		}
	}
	t.Fatalf("the master of %s has no replica after %v", key, clusterTime)
}

// offsetIn returns the offset that a pattern finds in a text; 0 if there is none.
func offsetIn(pattern *regexp.Regexp, text string) int {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1]) // these are digits
	return n
}

// Reshard moves slots from the node that has a key to another master, while the cluster is in use.
func (c *Cluster) Reshard(t testing.TB, key string, slots int) {
	t.Helper()
	from := c.MasterOf(t, key)
	for _, node := range c.Nodes {
		if node == from || !strings.Contains(node.Client(t).Info(t.Context(), "replication").Val(), "role:master") {
			continue
		}
		id := func(s *Server) string { return s.Client(t).ClusterMyID(t.Context()).Val() }
		CLI(t, "--cluster", "reshard", from.addr, "--cluster-from", id(from), "--cluster-to", id(node),
			"--cluster-slots", strconv.Itoa(slots), "--cluster-yes")
		return
	}
	t.Fatal("there is no other master")
}

// Renamed returns a client that renames the keys of its commands. It may repeat commands.
func (c *Cluster) Renamed(t testing.TB, rename func(string) string) wire.Redis {
	t.Helper()
	opts := &redis.ClusterOptions{
		DisableIdentity: true, ReadTimeout: patience, WriteTimeout: patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, node := range c.Nodes {
		opts.Addrs = append(opts.Addrs, node.addr)
	}
	rdb := redis.NewClusterClient(opts)
	rdb.AddHook(Renaming(rename))
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Renaming is a hook that renames keys, and anything that looks like one, in commands.
type Renaming func(string) string

// DialHook implements redis.Hook.
func (Renaming) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (r Renaming) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.rename(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (r Renaming) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.rename(cmd)
		}
		return next(ctx, cmds)
	}
}

func (r Renaming) rename(cmd redis.Cmder) {
	for i, arg := range cmd.Args() {
		if text, ok := arg.(string); ok && i > 0 {
			cmd.Args()[i] = r(text)
		}
	}
}
