package sim

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// memoryHandlers are the commands that miniredis would answer too slowly, in
// random order, by waiting in real time, twice, or not at all.
func memoryHandlers() map[string]memoryHandler {
	handlers := map[string]memoryHandler{
		"EVAL":       func(m *memory, peer *server.Peer, args []string) { m.lua.eval(peer, args) },
		"EVALSHA":    func(m *memory, peer *server.Peer, args []string) { m.lua.evalSha(peer, args) },
		"SCRIPT":     func(m *memory, peer *server.Peer, args []string) { m.lua.script(peer, args) },
		"XRANGE":     (*memory).xrange,
		"XREVRANGE":  (*memory).xrange,
		"XREAD":      (*memory).xread,
		"XREADGROUP": (*memory).withoutBlock,
		"XLEN":       (*memory).xlen,
		"XINFO":      (*memory).xinfo,
		"INFO":       (*memory).info,
		"SELECT":     (*memory).selectDB,
	}
	for _, name := range []string{
		"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "SET", "SETEX", "PSETEX", "GETEX",
		"HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT", "HSETEX", "HGETEX", "RESTORE",
	} {
		handlers[name] = (*memory).expires
	}
	for _, name := range []string{
		"BLPOP", "BRPOP", "BLMOVE", "BLMPOP", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "WAIT", "WAITAOF",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SWAPDB", "MOVE", "EVAL_RO", "EVALSHA_RO", "FCALL",
	} {
		handlers[name] = (*memory).refuse
	}
	return handlers
}

// refuse answers what would wait in real time, or step out of database 0.
func (*memory) refuse(peer *server.Peer, args []string) {
	peer.WriteError(fmt.Sprintf("ERR the simulator has no '%s' command", strings.ToLower(args[0])))
}

// withoutBlock is XREAD and XREADGROUP, which must not wait for other commands.
func (m *memory) withoutBlock(peer *server.Peer, args []string) {
	for _, arg := range args[1:] {
		if strings.EqualFold(arg, "streams") {
			break
		}
		if strings.EqualFold(arg, "block") {
			peer.WriteError("ERR the simulator cannot block: leave BLOCK out")
			return
		}
	}
	m.server.Dispatch(peer, args)
}

// selectDB knows database 0 only, so that handlers need not ask which it is.
func (m *memory) selectDB(peer *server.Peer, args []string) {
	if len(args) == 2 && args[1] != "0" {
		peer.WriteError("ERR the simulator has database 0 only")
		return
	}
	m.server.Dispatch(peer, args)
}

// expires is any command that can give a key a time to live. Only from the
// first on do keys expire by the clock: looking for them visits every key.
func (m *memory) expires(peer *server.Peer, args []string) {
	if !m.expiring && (len(args) > 3 || !strings.EqualFold(args[0], "set")) {
		m.expiring = true
		m.mini.ClockTTL(true)
	}
	m.server.Dispatch(peer, args)
}

// info says what programs ask a server about itself.
func (m *memory) info(peer *server.Peer, _ []string) {
	peer.WriteBulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n" +
		"# Clients\r\nconnected_clients:1\r\n" +
		"# Persistence\r\naof_enabled:0\r\n" +
		"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
		"# Replication\r\nrole:master\r\n")
}

// xinfo puts the groups in order, and counts what they have not been given yet.
func (m *memory) xinfo(peer *server.Peer, args []string) {
	if len(args) != 3 || !strings.EqualFold(args[1], "groups") {
		m.server.Dispatch(peer, args)
		return
	}
	var reply bytes.Buffer
	other := server.NewPeer(bufio.NewWriter(&reply))
	m.server.Dispatch(other, args)
	other.Flush()
	groups, err := server.ParseReply(bufio.NewReader(bytes.NewReader(reply.Bytes())))
	list, ok := groups.([]any)
	if err != nil || !ok && groups != nil {
		peer.WriteRaw(reply.String())
		return
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(groupField(a, 1), groupField(b, 1)) })
	peer.WriteLen(len(list))
	for _, group := range list {
		m.writeGroup(peer, args[2], group)
	}
}

// writeGroup writes one group of XINFO GROUPS, its lag put right.
func (m *memory) writeGroup(peer *server.Peer, key string, group any) {
	fields, _ := group.([]any)
	lag := 0
	if entries, err := m.mini.DB(0).Stream(key); err == nil {
		lag = len(entries) - streamSearch(entries, parseStreamID(groupField(group, 7)).next())
	}
	peer.WriteMapLen(len(fields) / 2)
	for i, field := range fields {
		switch value := field.(type) {
		case string:
			peer.WriteBulk(value)
		case int:
			if i == len(fields)-1 {
				value = lag
			}
			peer.WriteInt(value)
		default:
			peer.WriteNull()
		}
	}
}

// groupField is the field at a place in a group's reply.
func groupField(group any, place int) string {
	fields, _ := group.([]any)
	if len(fields) <= place {
		return ""
	}
	text, _ := fields[place].(string)
	return text
}
