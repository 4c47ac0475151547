package sim

import "errors"

// fault is what becomes of a command on its way.
type fault int

const (
	noFault     fault = iota
	lostRequest       // it never reaches Redis
	lostReply         // Redis carries it out, and nobody hears of it
)

// errLost is what a service sees of a fault.
var errLost = errors.New("the connection was lost")

// nextFault is the fault of the next command of a service.
func (w *world) nextFault() fault {
	if w.current == nil || w.cfg.fault == nil {
		return noFault
	}
	w.commands++
	return w.cfg.fault(w.commands)
}
