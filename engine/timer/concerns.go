package timer

import "flunq.io/flunq/engine/event"

// Concerns reports whether there is something to do for a timer service about
// events of a type: all others it only acknowledges.
func Concerns(t event.Type) bool { return concerns(t) || t == event.TimerSet }
