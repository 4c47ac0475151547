package memory

import (
	"strconv"

	"flunq.io/flunq/sim/resp"
)

// serverCommands returns the commands about the server and the connection.
func serverCommands() map[string]command {
	return map[string]command{
		"ping":     {ping, -1},
		"echo":     {func(_ *Database, args []string) resp.Reply { return resp.Text(args[1]) }, 2},
		"time":     {clock, 1},
		"info":     {info, -1},
		"dbsize":   {func(db *Database, _ []string) resp.Reply { return resp.Int(len(db.matching("*", ""))) }, 1},
		"flushdb":  {flush, -1},
		"flushall": {flush, -1},
	}
}

func ping(_ *Database, args []string) resp.Reply {
	if len(args) > 1 {
		return resp.Text(args[1])
	}
	return resp.Reply{Kind: resp.Status, Text: "PONG"}
}

// clock implements TIME.
func clock(db *Database, _ []string) resp.Reply {
	micros := int64(db.now.Nanosecond()) / 1000
	return resp.Strings([]string{strconv.FormatInt(db.now.Unix(), 10), strconv.FormatInt(micros, 10)})
}

// info returns the parts of INFO that clients usually read.
func info(*Database, []string) resp.Reply {
	return resp.Text("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n" +
		"# Clients\r\nconnected_clients:1\r\n" +
		"# Persistence\r\naof_enabled:0\r\n" +
		"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
		"# Replication\r\nrole:master\r\n")
}

func flush(db *Database, _ []string) resp.Reply {
	clear(db.keys)
	return resp.OK()
}
