package memory

import (
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// A Redis Cluster divides its keys among 16,384 slots. Each command and each script may only use
// keys of one slot. With Server.Cluster the server refuses all others, even where a real node
// accepts them because it happens to hold all of their slots.

const (
	slots    = 16384
	anySlot  = -1
	crcShift = 8
)

// slotOf returns the slot of a key, or of its hash tag if it has one.
func slotOf(key string) int {
	if from := strings.IndexByte(key, '{'); from >= 0 {
		if length := strings.IndexByte(key[from+1:], '}'); length > 0 {
			key = key[from+1 : from+1+length]
		}
	}
	crc := uint16(0) // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << crcShift
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// crosses reports whether a cluster refuses a command because its keys, together with those of the
// script that executes it, belong to several slots; refusal is the error reply.
func (s *Server) crosses(args []string) (refusal resp.Reply, refused bool) {
	slot := s.slot
	for _, key := range keysOf(args) {
		switch of := slotOf(key); {
		case slot == anySlot && s.running:
			return resp.Fail("ERR Script attempted to access a non local key in a cluster node: " + key), true
		case slot == anySlot:
			slot = of
		case of != slot && s.running:
			return resp.Fail("ERR Script attempted to access keys that do not hash to the same slot: " + key), true
		case of != slot:
			return resp.Fail("CROSSSLOT Keys in request don't hash to the same slot"), true
		}
	}
	return resp.Reply{}, false
}

// keysOf returns the keys of a command.
func keysOf(args []string) []string {
	const eval = 3
	counted := func(at int) []string {
		n, err := strconv.Atoi(args[at])
		if err != nil || n < 0 || at+1+n > len(args) {
			return nil // the command refuses it
		}
		return args[at+1 : at+1+n]
	}
	switch name := strings.ToLower(args[0]); name {
	case "time", "ping", "echo", "info", "scan", "keys", "script", "flushdb", "flushall", "dbsize":
		return nil
	case "del", "unlink", "exists", "mget":
		return args[1:]
	case "mset":
		var keys []string
		for i := 1; i < len(args); i += 2 {
			keys = append(keys, args[i])
		}
		return keys
	case "rename", "copy":
		return args[1:eval]
	case "eval", "evalsha":
		return counted(eval - 1)
	case "xgroup", "xinfo":
		return args[min(2, len(args)):min(eval, len(args))]
	case "xreadgroup":
		at := slices.IndexFunc(args, func(arg string) bool { return strings.EqualFold(arg, "streams") })
		return args[at+1 : at+1+(len(args)-at-1)/2]
	default:
		return args[1:min(2, len(args))]
	}
}
