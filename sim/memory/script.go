package memory

import "flunq.io/flunq/sim/resp"

// scriptCommands returns the commands that the server executes itself, see Server.onScripts.
func scriptCommands() map[string]command {
	return map[string]command{"eval": {nil, -3}, "evalsha": {nil, -3}, "script": {nil, -2}}
}

// onScripts executes the commands about scripts.
func (s *Server) onScripts(args []string) resp.Reply {
	defer func(before bool) { s.transient = before }(s.transient)
	s.transient = true
	if s.Cluster {
		if keys := keysOf(args); len(keys) > 0 {
			s.slot = slotOf(keys[0])
		}
		s.running = true
		defer func() { s.running, s.slot = false, anySlot }()
	}
	return s.Scripts.Execute(&s.runner, args[0], args[1:])
}
