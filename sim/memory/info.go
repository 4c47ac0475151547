package memory

import (
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// serverCommands returns the commands about the server and the connection.
func serverCommands() map[string]command {
	all := map[string]command{
		"ping": {ping, -1},

		"echo":     {func(_ *Server, args []string) resp.Reply { return resp.Text(args[1]) }, 2},
		"select":   {selectDB, 2},
		"client":   {func(*Server, []string) resp.Reply { return resp.OK() }, -2},
		"time":     {(*Server).clock, 1},
		"info":     {info, -1},
		"dbsize":   {func(s *Server, _ []string) resp.Reply { return resp.Int(len(s.matching("*", ""))) }, 1},
		"flushdb":  {(*Server).flush, -1},
		"flushall": {(*Server).flush, -1},
	}
	// These would block in real time, leave database 0, or watch other keys.
	for _, name := range []string{
		"blpop", "brpop", "blmove", "blmpop", "brpoplpush", "bzpopmin", "bzpopmax", "bzmpop", "wait", "waitaof",
		"subscribe", "psubscribe", "ssubscribe", "monitor", "swapdb", "move", "eval_ro", "evalsha_ro", "fcall", "watch",
	} {
		all[name] = command{refuse, -1}
	}
	return all
}

func refuse(_ *Server, args []string) resp.Reply {
	return resp.Fail("ERR the simulator has no '" + strings.ToLower(args[0]) + "' command")
}

func ping(_ *Server, args []string) resp.Reply {
	if len(args) > 1 {
		return resp.Text(args[1])
	}
	return resp.Reply{Kind: resp.Status, Text: "PONG"}
}

func selectDB(_ *Server, args []string) resp.Reply {
	if args[1] != "0" {
		return resp.Fail("ERR the simulator has database 0 only")
	}
	return resp.OK()
}

// clock implements TIME.
func (s *Server) clock([]string) resp.Reply {
	if s.time == nil {
		micros := int64(s.now.Nanosecond()) / 1000
		s.time = []string{strconv.FormatInt(s.now.Unix(), 10), strconv.FormatInt(micros, 10)}
	}
	return resp.Strings(s.time)
}

// info returns what clients usually ask a server about itself.
func info(*Server, []string) resp.Reply {
	return resp.Text("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n" +
		"# Clients\r\nconnected_clients:1\r\n" +
		"# Persistence\r\naof_enabled:0\r\n" +
		"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
		"# Replication\r\nrole:master\r\n")
}

func (s *Server) flush([]string) resp.Reply {
	clear(s.keys)
	return resp.OK()
}
