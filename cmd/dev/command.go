package dev

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mini"
)

// Command is an additional command of this Redis: SHOW, PAUSE and RESUME return a Clock as
// JSON, ADVANCE <ms> returns a Move.
const Command = "FLUNQ.CLOCK"

// Clock is the state of the clock.
type Clock struct {
	Mode    Mode      `json:"mode"`
	Now     time.Time `json:"now"`
	Paused  bool      `json:"paused"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// Move is the result of advancing the clock. A long advance takes several moves.
type Move struct {
	From   time.Time     `json:"from"`
	Now    time.Time     `json:"now"`
	Target time.Time     `json:"target"`
	Done   bool          `json:"done"`             // the target is reached and no work is left
	Fired  int           `json:"fired"`            // number of timers
	Timers []event.Timer `json:"timers"`           // the first ones
	Events int           `json:"events,omitempty"` // number of scheduled events that were published
	Dead   int           `json:"dead,omitempty"`   // number of scheduled events that could not be published
	Busy   string        `json:"busy,omitempty"`   // what keeps the clock from advancing
}

// command executes FLUNQ.CLOCK.
func (r *Redis) command(peer *server.Peer, _ string, args []string) {
	if mini.Nested(peer) {
		peer.WriteError("ERR " + Command + " cannot be called from scripts")
		return
	}
	if len(args) == 0 {
		args = []string{"SHOW"}
	}
	verb := strings.ToUpper(args[0])
	switch {
	case verb == "SHOW" && len(args) == 1:
	case r.clock.mode == Real:
		peer.WriteError("ERR this flunq dev uses the clock of the machine: start it with --clock virtual")
		return
	case verb == "PAUSE" && len(args) == 1:
		r.clock.pause(true)
	case verb == "RESUME" && len(args) == 1:
		r.clock.pause(false)
	case verb == "ADVANCE" && len(args) == 2:
		r.commandAdvance(peer, args[1])
		return
	default:
		peer.WriteError("ERR want " + Command + " SHOW, ADVANCE <ms>, PAUSE or RESUME")
		return
	}
	answer(peer, r.Clock())
}

func (r *Redis) commandAdvance(peer *server.Peer, text string) {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > longest {
		peer.WriteError("ERR want milliseconds from 0 to " + strconv.FormatInt(longest, 10))
		return
	}
	if !r.moving.TryLock() {
		peer.WriteError("ERR another client is moving the clock")
		return
	}
	defer r.moving.Unlock()
	move, err := r.advance(r.ctx, time.Duration(ms)*time.Millisecond)
	if err != nil {
		peer.WriteError("ERR " + strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	answer(peer, move)
}

func answer(peer *server.Peer, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		peer.WriteError("ERR " + err.Error())
		return
	}
	peer.WriteBulk(string(text))
}
