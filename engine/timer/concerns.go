package timer

import "flunq.io/flunq/engine/event"

// Concerns reports whether a timer service handles events of type t. It acknowledges all
// others unread.
func Concerns(t event.Type) bool { return concerns(t) || t == event.TimerSet }
