package store_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// Fields that INFO omits are unknown, in every version.
func TestReadServer(t *testing.T) {
	t.Parallel()
	unknown := store.Server{
		Uptime: -1, Replicas: -1, Guarded: -1, Unsaved: -1, Used: -1, Limit: -1, Machine: -1, Fragmentation: -1,
		Evicted: -1, Clients: -1, MostClients: -1,
	}
	with := func(change func(*store.Server)) store.Server {
		v := unknown
		change(&v)
		return v
	}
	current, err := os.ReadFile("testdata/info-7.0.15.txt")
	must(t, err)
	for _, test := range []struct {
		name, info string
		config     map[string]string
		want       store.Server
	}{
		{"nothing", "", nil, unknown},
		{"nonsense", "a:b\r\n\r\n# x\r\nused_memory:many\nno colon\n:\n", nil, unknown},
		{"7.0.15", string(current), map[string]string{
			"appendfsync": "everysec", "save": "3600 1 300 100 60 10000", "min-replicas-to-write": "0", "maxmemory-policy": "noeviction",
		}, store.Server{
			Version: "7.0.15", Mode: "standalone", Uptime: 116 * time.Second, Role: "master", Replicas: 0, Guarded: 0, Loading: "no",
			AppendOnly: "off", Saves: "3600 1 300 100 60 10000", LastSave: time.Unix(1795249565, 0).UTC(), Unsaved: 0,
			Policy: "noeviction", Used: 966176, Limit: 0, Machine: 25276502016, Fragmentation: 7.7, Clients: 1, MostClients: 10000,
		}},
		{"7.0.15 that hides its settings", string(current), nil, store.Server{
			Version: "7.0.15", Mode: "standalone", Uptime: 116 * time.Second, Role: "master", Replicas: 0, Guarded: -1, Loading: "no",
			AppendOnly: "off", LastSave: time.Unix(1795249565, 0).UTC(), Unsaved: 0,
			Policy: "noeviction", Used: 966176, Limit: 0, Machine: 25276502016, Fragmentation: 7.7, Clients: 1, MostClients: 10000,
		}},
		{
			"2.8, without policy, limit and loading",
			"redis_version:2.8.24\r\nredis_mode:standalone\r\nuptime_in_seconds:77\r\nconnected_clients:3\r\nused_memory:1024\r\n" +
				"mem_fragmentation_ratio:1.25\r\naof_enabled:1\r\nrdb_last_save_time:1450000000\r\nrdb_last_bgsave_status:err\r\n" +
				"role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6380\r\nconnected_slaves:0\r\nevicted_keys:7\r\n",
			nil, with(func(v *store.Server) {
				v.Version, v.Mode, v.Uptime, v.Clients, v.Used = "2.8.24", "standalone", 77*time.Second, 3, 1024
				v.Fragmentation, v.AppendOnly, v.LastSave = 1.25, "on", time.Unix(1450000000, 0).UTC()
				v.Trouble = "the last snapshot failed"
				v.Role, v.Master, v.Replicas, v.Evicted = "replica", "10.0.0.1:6380", 0, 7
			}),
		},
		{
			"settings alone", "",
			map[string]string{"save": "", "maxmemory": "100", "maxmemory-policy": "allkeys-lru", "appendfsync": "always"},
			with(func(v *store.Server) { v.Saves, v.Limit, v.Policy = "off", 100, "allkeys-lru" }),
		},
		{
			"append-only file", "aof_enabled:1\naof_last_write_status:err\n",
			map[string]string{"appendfsync": "always"},
			with(func(v *store.Server) {
				v.AppendOnly, v.Trouble = "always", "the last write of the append-only file failed"
			}),
		},
	} {
		if diff := cmp.Diff(test.want, store.ReadServer(test.info, test.config)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// The interval between snapshots is that of a single change.
func TestSnapshotInterval(t *testing.T) {
	t.Parallel()
	for saves, want := range map[string]time.Duration{
		"": 0, "off": 0, "3600 1 300 100 60 10000": time.Hour, "900 1": 15 * time.Minute, "x 1": 0,
	} {
		if got, known := (store.Server{Saves: saves}).SnapshotInterval(); got != want || known != (want > 0) {
			t.Errorf("%q: %v, %v, want %v", saves, got, known, want)
		}
	}
}

// A Redis that evicts keys is rejected, with the remedy.
func TestCheckServer(t *testing.T) {
	t.Parallel()
	for policy, refused := range map[string]bool{"allkeys-lru": true, "allkeys-random": true, "volatile-lru": false, "noeviction": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Serve(t, "--maxmemory", "50mb", "--maxmemory-policy", policy).Client(t)
			st := store.New(rdb, store.Options{})
			err := st.CheckServer(t.Context())
			if !refused {
				must(t, err)
				return
			}
			if err == nil || store.Temporary(err) || !strings.Contains(err.Error(), policy) ||
				!strings.Contains(err.Error(), "CONFIG SET maxmemory-policy noeviction") {
				t.Errorf("error %v", err)
			}
			v, err := st.Server(t.Context())
			must(t, err)
			if v.Limit != 50<<20 || v.Policy != policy {
				t.Errorf("limit %d, policy %s", v.Limit, v.Policy)
			}
		})
	}
}

// A node of a Redis Cluster is rejected: scripts with keys of several slots fail there.
func TestCheckServerCluster(t *testing.T) {
	t.Parallel()
	st := store.New(redistest.Serve(t, "--cluster-enabled", "yes").Client(t), store.Options{})
	if err := st.CheckServer(t.Context()); err == nil || store.Temporary(err) || !strings.Contains(err.Error(), "Redis Cluster") {
		t.Errorf("error %v", err)
	}
}

// If the sentinels answer, but do not know the master, the error says so.
func TestDialUnknownMaster(t *testing.T) {
	t.Parallel()
	sentinel, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer sentinel.Close()
	go func() {
		for conn, err := sentinel.Accept(); err == nil; conn, err = sentinel.Accept() {
			go func() {
				sent := make([]byte, 4096)
				for n, err := conn.Read(sent); err == nil; n, err = conn.Read(sent) {
					reply := "-ERR unknown command\r\n"
					if strings.Contains(string(sent[:n]), "sentinel") {
						reply = "*-1\r\n"
					}
					_, _ = conn.Write([]byte(reply))
				}
			}()
		}
	}()
	_, err = store.Dial(t.Context(), "redis-sentinel://"+sentinel.Addr().String()+"/main")
	if !errors.Is(err, store.ErrUnreachable) || !strings.HasSuffix(err.Error(), "; a sentinel answers, but monitors no master with the name in the address") {
		t.Error(err)
	}
}

// A sentinel that hangs does not keep a client from its master, whichever of its addresses is used.
func TestDialHangingSentinel(t *testing.T) {
	t.Parallel()
	hangs, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and never answers
	must(t, err)
	defer hangs.Close()
	sentinel, err := server.NewServer("127.0.0.1:0")
	must(t, err)
	defer sentinel.Close()
	master, port, _ := net.SplitHostPort(redistest.Addr(t))
	must(t, sentinel.Register("SENTINEL", func(c *server.Peer, _ string, args []string) {
		if args[0] == "sentinels" {
			host, port, _ := net.SplitHostPort(hangs.Addr().String())
			c.WriteLen(1)
			c.WriteStrings([]string{"ip", host, "port", port})
		} else {
			c.WriteStrings([]string{master, port})
		}
	}))
	_, hanging, _ := net.SplitHostPort(hangs.Addr().String())
	rdb, err := store.Dial(t.Context(), "redis-sentinel://localhost:"+hanging+","+sentinel.Addr().String()+"/main")
	must(t, err)
	must(t, rdb.Ping(t.Context()).Err())
	must(t, rdb.Close())
}

// The address of a Sentinel is no address of a Redis.
func TestDialSentinel(t *testing.T) {
	t.Parallel()
	sentinel, err := server.NewServer("127.0.0.1:0")
	must(t, err)
	defer sentinel.Close()
	must(t, sentinel.Register("PING", func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") }))
	must(t, sentinel.Register("INFO", func(c *server.Peer, _ string, args []string) {
		if args[0] == "sentinel" {
			c.WriteBulk("# Sentinel\r\nsentinel_masters:1\r\n")
		} else {
			c.WriteBulk("")
		}
	}))
	_, err = store.Dial(t.Context(), "redis://"+sentinel.Addr().String())
	if err == nil || !strings.HasSuffix(err.Error(), ": this is a Sentinel, which holds no data: write redis-sentinel://host:26379/MASTER") {
		t.Error(err)
	}
}

// If only one side uses TLS, the error says so.
func TestDialTLS(t *testing.T) {
	t.Parallel()
	closing, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // as Redis with TLS does
	must(t, err)
	defer closing.Close()
	go func() {
		for conn, err := closing.Accept(); err == nil; conn, err = closing.Accept() {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	for address, want := range map[string]string{
		"redis://" + closing.Addr().String():         "must begin with rediss",
		"rediss://" + redistest.Serve(t).Addr():      "must begin with redis",
		"redis-cluster://" + closing.Addr().String(): "must begin with rediss",
	} {
		timeout := 30 * time.Second
		if want == "must begin with redis" {
			timeout = 300 * time.Millisecond // Redis waits for the rest of what it takes for a command
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := store.Dial(ctx, address)
		if cancel(); !errors.Is(err, store.ErrUnreachable) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", address, err, want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"host", "host:1", "redis://u:p@host:1/2", "rediss://host", "redis-sentinel://host/main", "rediss-sentinel://u:p%40w@host:1,[::1]:2/main/3",
		"redis-cluster://host", "redis-cluster://u:p@w@host:1,other/", "rediss-cluster://[::1]",
	} {
		if err := store.CheckAddress(address); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{
		"https://host", "redis://host:0", "redis://host/x", "redis-sentinel://host", "redis-sentinel://host/main/x", "redis-sentinel://host:0/main",
		"redis-sentinel:///main", "http-sentinel://host/main", "redis-sentinel://u:%zz@host/main", "redis-cluster://", "redis-cluster://host,",
		"redis-cluster://host/1", "redis-cluster://host?db=1", "redis-cluster://host:99999", "http-cluster://host",
	} {
		if err := store.CheckAddress(address); err == nil || !strings.HasPrefix(err.Error(), "redis address ") {
			t.Errorf("%s: %v, want an error", address, err)
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis://:pw@host:1/2":                "redis://***@host:1/2",
		"pw@host":                             "***@host",
		"host:6379":                           "host:6379",
		"redis://host?password=pw&db=3":       "redis://host?password=***&db=3",
		"redis://host?username=u&Password=p%": "redis://host?username=***&Password=***",
		"redis://:a?b@host":                   "redis://***",
		"redis://host?password=a@b":           "redis://***",
		"redis-sentinel://u:p@h1,h2/main":     "redis-sentinel://***@h1,h2/main",
	} {
		if got := store.Redacted(address); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", address, got, want)
		}
	}
}

// A Redis that does not reveal its settings, as at some providers, is judged by
// what it does reveal.
func TestServerOfAProvider(t *testing.T) {
	t.Parallel()
	provider := redistest.Serve(t, "--rename-command", "CONFIG", "", "--appendonly", "yes", "--maxmemory-policy", "allkeys-lfu")
	st := store.New(provider.Client(t), store.Options{})
	v, err := st.Server(t.Context())
	must(t, err)
	if v.Version == "" || v.AppendOnly != "on" || v.Saves != "" || v.Guarded != -1 || v.Policy != "allkeys-lfu" {
		t.Errorf("it says %+v", v)
	}
	if err := st.CheckServer(t.Context()); err == nil {
		t.Error("its policy was not refused")
	}
	provider.Kill()
	if _, err := st.Server(t.Context()); err == nil || !store.Temporary(err) {
		t.Errorf("after its end: error %v, want a temporary one", errors.Unwrap(err))
	}
}

// A Redis that would refuse a write says why, and nothing is written to find out.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	s := store.New(rdb, store.Options{})
	refused := func(want string, set ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), set...).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := store.RefusedWrites(t.Context(), s)
		if err != nil || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("after %v: %q, %v; want %q", set, got, err, want)
		}
	}
	refused("", "PING")
	refused("memory is full", "CONFIG", "SET", "maxmemory", "1")
	refused("", "CONFIG", "SET", "maxmemory", "0")
	refused("too few replicas", "CONFIG", "SET", "min-replicas-to-write", "1")
	refused("", "CONFIG", "SET", "min-replicas-to-write", "0")
	refused("read-only replica", "REPLICAOF", "127.0.0.1", "1")
	refused("", "REPLICAOF", "NO", "ONE")
	if n, err := rdb.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	if reason, err := store.RefusedWrites(t.Context(), s); reason != "" || !redis.IsPermissionError(err) {
		t.Errorf("without a permission: %q, %v", reason, err)
	}
}
