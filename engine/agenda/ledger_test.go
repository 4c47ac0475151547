package agenda_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/ledgertest"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// redisServer is an empty Redis whose time passes.
type redisServer struct {
	connect func() *wire.Client
	advance func(time.Duration)
}

// servers starts each kind of Redis.
func servers() map[string]func(t *testing.T) redisServer {
	return map[string]func(t *testing.T) redisServer{
		"redis-server": func(t *testing.T) redisServer {
			addr := redistest.Addr(t)
			return redisServer{func() *wire.Client { return dial(t, addr) }, time.Sleep}
		},
		"miniredis": func(t *testing.T) redisServer {
			mr := miniredis.RunT(t)
			now := time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
			mr.SetTime(now)
			return redisServer{func() *wire.Client { return dial(t, mr.Addr()) }, func(d time.Duration) {
				now = now.Add(d)
				mr.SetTime(now)
			}}
		},
		"memory": func(t *testing.T) redisServer {
			server := memory.New(time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC))
			t.Cleanup(server.Close)
			return redisServer{func() *wire.Client {
				client := memory.Client(server.Dial)
				t.Cleanup(func() { _ = client.Close() })
				return wire.NewClient(client, nil)
			}, func(d time.Duration) { server.SetTime(server.Now().Add(d)) }}
		},
	}
}

func dial(t testing.TB, addr string) *wire.Client {
	t.Helper()
	rdb, err := store.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return wire.NewClient(rdb, nil)
}

// A Ledger is a scheduler.Ledger on each kind of Redis.
func TestLedger(t *testing.T) {
	t.Parallel()
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T) ledgertest.Environment {
				server := start(t)
				ledger := func() scheduler.Ledger { return agenda.NewLedger(server.connect(), agenda.Defaults()) }
				return ledgertest.Environment{Ledger: ledger(), Another: ledger, Advance: server.advance}
			})
		})
	}
}
