package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Only the first commands to a master that hangs wait for it; later ones fail at once until it responds
// again, in pipelines, too, and commands to the other masters are not affected.
func TestMasterHangs(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	opts := &redis.ClusterOptions{MaxRetries: -1, PipelinePoolSize: -1, DialerRetries: 1, DisableIdentity: true, ReadTimeout: 300 * time.Millisecond, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	for _, node := range cluster.Nodes {
		opts.Addrs = append(opts.Addrs, node.Addr())
	}
	rdb := wire.NewCluster(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, hung, key, other := t.Context(), cluster.MasterOf(t, "a"), "a", ""
	for n := 0; other == ""; n++ {
		if name := fmt.Sprint("b", n); cluster.MasterOf(t, name) != hung {
			other = name
		}
	}
	for _, key := range []string{key, other} {
		if err := rdb.Set(ctx, key, "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(hung.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pipelined := func() (there, elsewhere error) {
		pipe := rdb.Pipeline()
		one, two := pipe.Get(ctx, key), pipe.Get(ctx, other)
		_, _ = pipe.Exec(ctx)
		return one.Err(), two.Err()
	}
	if err, otherErr := pipelined(); err == nil || strings.Contains(err.Error(), "does not respond") || otherErr != nil {
		t.Errorf("at first: %v and %v", err, otherErr)
	}
	const says = "does not respond: "
	for range 3 {
		if err, otherErr := pipelined(); err == nil || !strings.Contains(err.Error(), hung.Addr()+" "+says) || otherErr != nil {
			t.Errorf("in a pipeline: %v and %v", err, otherErr)
		}
		if err := rdb.Get(ctx, key).Err(); err == nil || !strings.Contains(err.Error(), hung.Addr()+" "+says) || !store.Temporary(store.Failed("read", err)) {
			t.Errorf("alone: %v", err)
		}
	}
	if err := syscall.Kill(hung.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for err := rdb.Get(ctx, key).Err(); err != nil; err = rdb.Get(ctx, key).Err() {
		if !strings.Contains(err.Error(), says) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Guarantees that apply only to a Redis Cluster. One cluster serves all of these tests.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	t.Run("the address says that it is a cluster", func(t *testing.T) {
		node := cluster.Nodes[0].Addr()
		_, err := store.Dial(t.Context(), "redis://"+node)
		if err == nil || errors.Is(err, store.ErrUnreachable) || store.Unavailable(err) || !strings.Contains(err.Error(), "redis-cluster://host:port") {
			t.Errorf("a plain address: error %v", err)
		}
		_, err = store.Dial(t.Context(), "redis-cluster://"+redistest.Serve(t).Addr())
		if err == nil || store.Unavailable(err) || !strings.Contains(err.Error(), "write redis://host:port") {
			t.Errorf("a cluster's address of a single Redis: error %v", err)
		}
		rdb, err := store.Dial(t.Context(), "redis-cluster://127.0.0.1:1,"+node)
		must(t, err)
		defer rdb.Close()
		if st := store.New(rdb, store.Options{}); !st.Keys().Clustered() {
			t.Error("the keys have no tags")
		}
	})
	t.Run("a write whose reply is lost is not repeated", func(t *testing.T) { writeOnce(t, cluster) })
	t.Run("tenants on all masters", func(t *testing.T) { tenantsOnAllMasters(t, cluster) })
	t.Run("each master is examined", func(t *testing.T) {
		st := store.New(cluster.Client(t), store.Options{})
		must(t, st.CheckServer(t.Context()))
		c, err := st.Cluster(t.Context())
		must(t, err)
		if len(c.Masters) != 3 || c.Uncovered != 0 || len(c.Gone) != 0 {
			t.Fatalf("the cluster is %+v", c)
		}
		for _, m := range c.Masters {
			if m.Err != nil || m.Version == "" || m.Time.IsZero() || len(m.Replicas) != 1 || m.Replicas[0] == m.Address {
				t.Errorf("a master is %+v", m)
			}
		}
	})
	t.Run("a write that is redirected waits for replicas, too", func(t *testing.T) { redirectedWrite(t, cluster) })
}

// redirectedWrite lets a replica take over so that the client asks the wrong node.
func redirectedWrite(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	opts := &redis.ClusterOptions{MaxRetries: -1, DisableIdentity: true, ClusterStateReloadInterval: time.Hour}
	for _, node := range cluster.Nodes {
		opts.Addrs = append(opts.Addrs, node.Addr())
	}
	rdb := wire.NewCluster(opts)
	defer rdb.Close()
	store.ConfirmWrites(rdb, wire.AllReplicas)
	write := func() {
		t.Helper()
		err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "{moved}", Values: []string{"v", "1"}}).Err()
		for ; store.Temporary(store.Failed("write", err)); time.Sleep(5 * time.Millisecond) { // not all nodes know of the new master yet
			err = rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "{moved}", Values: []string{"v", "1"}}).Err()
		}
		must(t, err)
	}
	write()
	old := cluster.MasterOf(t, "{moved}")
	_, port, _ := net.SplitHostPort(old.Addr())
	for _, node := range cluster.Nodes {
		if strings.Contains(node.Client(t).Info(t.Context(), "replication").Val(), "master_port:"+port) {
			must(t, node.Client(t).ClusterFailover(t.Context()).Err())
		}
	}
	master := old
	for ; master == old; time.Sleep(5 * time.Millisecond) {
		master = cluster.MasterOf(t, "{moved}")
	}
	cluster.WaitForReplica(t, "{moved}")
	write()
	if calls := master.Client(t).InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_wait"); !strings.HasPrefix(calls, "calls=1,") {
		t.Errorf("WAIT of the new master: %q, want one call", calls)
	}
}

// A write that is redirected to a node that the cluster does not list yet fails, and may be repeated.
func TestUnknownNode(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	node := fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$2\r\nid\r\n", len(host), host, port)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := make([]byte, 4096)
				for n, err := conn.Read(in); err == nil; n, err = conn.Read(in) {
					reply := "-ERR unknown command\r\n"
					switch text := strings.ToLower(string(in[:n])); {
					case strings.Contains(text, "slots"):
						reply = node
					case strings.Contains(text, "xadd"):
						reply = "-MOVED 1 127.0.0.1:1\r\n"
					}
					_, _ = conn.Write([]byte(reply))
				}
			}()
		}
	}()
	rdb := wire.NewCluster(&redis.ClusterOptions{Addrs: []string{l.Addr().String()}, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer rdb.Close()
	_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		return p.XAdd(t.Context(), &redis.XAddArgs{Stream: "{moved}", Values: []string{"v", "1"}}).Err()
	})
	if !store.Temporary(store.Failed("write", err)) || !strings.Contains(err.Error(), "is being rearranged") {
		t.Errorf("the write ends with %v", err)
	}
}

// lossy is a connection that loses every third reply, and itself with it.
type lossy struct {
	net.Conn

	sent *atomic.Int64
	lost bool
}

var errLost = fmt.Errorf("the reply was lost: %w", io.EOF)

func (c *lossy) Write(text []byte) (int, error) {
	c.lost = c.lost || c.sent.Add(1)%3 == 0
	return c.Conn.Write(text)
}

func (c *lossy) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into) // the node has executed the command
	if c.lost && err == nil {
		_ = c.Close()
		return 0, errLost
	}
	return n, err
}

// writeOnce adds 300 entries each by single commands, pipelines and scripts.
func writeOnce(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	var sent atomic.Int64
	opts := &redis.ClusterOptions{MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}
	for _, node := range cluster.Nodes {
		opts.Addrs = append(opts.Addrs, node.Addr())
	}
	opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &lossy{Conn: conn, sent: &sent}, err
	}
	rdb := wire.NewCluster(opts)
	defer rdb.Close()
	add := func(pipe redis.Cmdable, key, value string) error {
		return pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"v", value}}).Err()
	}
	script := redis.NewScript(`return redis.call('XADD', KEYS[1], '*', 'v', ARGV[1])`)
	const writes, together = 300, 5
	for name, write := range map[string]func(key string, i int) map[string]error{
		"single": func(key string, i int) map[string]error {
			value := strconv.Itoa(i)
			return map[string]error{value: add(rdb, key, value)}
		},
		"script": func(key string, i int) map[string]error {
			value := strconv.Itoa(i)
			return map[string]error{value: script.Run(t.Context(), rdb, []string{key}, value).Err()}
		},
		"pipeline": func(key string, i int) map[string]error {
			out := map[string]error{}
			if i%together != 0 {
				return out
			}
			pipe := rdb.Pipeline()
			for n := range together {
				_ = add(pipe, key, strconv.Itoa(i+n))
			}
			cmds, _ := pipe.Exec(t.Context())
			for n, cmd := range cmds {
				out[strconv.Itoa(i+n)] = cmd.Err()
			}
			return out
		},
	} {
		outcomes, key := map[string]error{}, "{"+name+"}:written"
		for i := range writes {
			maps.Copy(outcomes, write(key, i))
		}
		lost := 0
		found := map[string]int{}
		entries, err := cluster.Client(t).XRange(t.Context(), key, "-", "+").Result()
		must(t, err)
		for _, entry := range entries {
			found[entry.Values["v"].(string)]++
		}
		for value, err := range outcomes {
			if n := found[value]; n > 1 || n == 0 && err == nil {
				t.Errorf("%s: %s was written %d times, with error %v", name, value, n, err)
			}
			if err != nil {
				lost++
			}
		}
		if lost == 0 || len(outcomes) != writes {
			t.Errorf("%s: %d of %d replies were lost", name, lost, len(outcomes))
		}
	}
}

// tenantsOnAllMasters reads, lists and fires what belongs to tenants on different nodes.
func tenantsOnAllMasters(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	st := store.New(cluster.Client(t), store.Options{})
	var tenants []string
	masters := map[string]bool{}
	for i := 0; len(masters) < 3 || i < 5; i++ {
		name := fmt.Sprint("t-", i)
		must(t, stream.New(st).Groups(t.Context(), name))
		at, err := st.AddressOf(t.Context(), name)
		must(t, err)
		tenants, masters[at] = append(tenants, name), true
	}
	found, err := st.FindTenants(t.Context())
	must(t, err)
	for _, name := range tenants {
		if !strings.Contains(" "+strings.Join(found, " ")+" ", " "+name+" ") {
			t.Errorf("tenant %s is not among those found, %v", name, found)
		}
	}
	reader := stream.Reader{Group: store.WorkerGroup, Consumer: "one", Tenants: tenants, Continuous: true, SkipQuiet: true}
	publish := func(tenant, id string) {
		must(t, st.Publish(t.Context(), event.Event{ID: id, Type: "com.example.x", Source: "/x", Tenant: tenant, Execution: "x"}))
	}
	for _, name := range tenants {
		publish(name, "first")
	}
	read := map[string]string{}
	collect := func(want int) {
		t.Helper()
		for n := 0; n < want; {
			got, err := stream.New(st).Read(t.Context(), reader, 10, time.Minute)
			msgs, now := got.Messages, got.Now
			must(t, err)
			if len(msgs) == 0 || now.IsZero() {
				t.Fatalf("a read returned %d messages at %v", len(msgs), now)
			}
			reader.Handled = nil
			for _, m := range msgs {
				read[m.Tenant] += m.Event.ID + " "
				if m.Read.IsZero() {
					t.Errorf("tenant %s has no time", m.Tenant)
				}
				reader.Handled = append(reader.Handled, stream.Handled{Tenant: m.Tenant, ID: m.ID})
				n++
			}
		}
	}
	collect(len(tenants))
	// The reader rests until a stream is written, and finds the events of one tenant, and later of the other.
	for _, name := range []string{tenants[3], tenants[0], tenants[1]} {
		done := make(chan struct{})
		go func() { defer close(done); time.Sleep(50 * time.Millisecond); publish(name, "later") }()
		collect(1)
		<-done
	}
	want := map[string]string{}
	for _, name := range tenants {
		want[name] = "first "
	}
	for _, name := range []string{tenants[3], tenants[0], tenants[1]} {
		want[name] += "later "
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("what was read (-want +got):\n%s", diff)
	}
	timersOfAllTenants(t, st, tenants)
}

// timersOfAllTenants lists timers page by page and finds one of another tenant.
func timersOfAllTenants(t *testing.T, st *store.Store, tenants []string) {
	t.Helper()
	ts := timers.New(st)
	var ids []string
	for i, name := range tenants {
		m := event.Event{ID: "x/set", Type: event.TimerScheduled, Source: "/x", Tenant: name, Execution: "x"}
		must(t, st.Publish(t.Context(), m))
		got, err := stream.New(st).Read(t.Context(), stream.Reader{Group: store.TimerGroup, Consumer: "one", Tenants: []string{name}}, 10, 0)
		msgs, now := got.Messages, got.Now
		must(t, err)
		timer := event.Timer{Tenant: name, Workflow: "w", Execution: "x", TaskID: "/do/0/w", Kind: event.WaitTimer, FireAt: now.Add(time.Hour + time.Duration(i)*time.Second)}
		mine(t, true)(applied(t, st, timers.Request{Message: &msgs[len(msgs)-1], Timer: timer}))
		id, _ := timers.ID(timer)
		ids = append(ids, id)
	}
	var listed []string
	for after, more := "", true; more; more = after != "" {
		page, next, err := ts.List(t.Context(), timers.Filter{}, after, 2)
		must(t, err)
		for _, p := range page {
			listed = append(listed, p.ID)
		}
		after = next
	}
	if diff := cmp.Diff(ids, listed); diff != "" {
		t.Errorf("the timers of all tenants (-want +got):\n%s", diff)
	}
	if p, err := ts.Find(t.Context(), tenants[0], ids[2]); err != nil || p.Tenant != tenants[2] {
		t.Errorf("a timer of another tenant: %v, error %v", p.Tenant, err)
	}
}

// Replies of CLUSTER NODES.
func TestReadCluster(t *testing.T) {
	t.Parallel()
	const text = `aa 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460 [5461->-bb]
bb 127.0.0.1:7002@17002,host master - 0 0 2 connected 5461-10000 10002
cc 127.0.0.1:7003@17003 master,fail - 0 0 3 disconnected 10923-16383
dd 127.0.0.1:7004@17004 slave aa 0 0 1 connected
ee 127.0.0.1:7005@17005 slave,fail bb 0 0 2 connected
`
	got := store.ReadCluster(text)
	want := store.Cluster{
		Masters: []store.Master{
			{Address: "127.0.0.1:7001", Slots: 5461, Replicas: []string{"127.0.0.1:7004"}},
			{Address: "127.0.0.1:7002", Slots: 4541},
			{Address: "127.0.0.1:7003", Slots: 5461},
		},
		Uncovered: store.Slots - 5461 - 4541, Gone: []string{"127.0.0.1:7003", "127.0.0.1:7005"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the cluster (-want +got):\n%s", diff)
	}
}
