package sim

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
)

// isolation checks which messages are handled concurrently: a message that has crashed two
// processes must be handled in isolation.
type isolation struct {
	inProgress map[handler]map[handled]int // messages being handled, with their crash counts
	crashes    map[string]int              // of claimed messages, by the key and field that count them
	silent     map[string]int              // how many times each entry was claimed from a silent process, by the same key and field
}

// handler identifies a consumer of a service.
type handler struct{ service, consumer string }

// handled identifies a message.
type handled struct{ tenant, group, id string }

// candidateCrashes is the crash count from which a message is handled in isolation.
const candidateCrashes = 2

// crashKey returns the key and the field that count the crashes of an entry.
func crashKey(stream, group, id string) string { return stream + ":deaths " + group + " " + id }

// recordActivity records what a service does with a message.
func (i *isolation) recordActivity(sh *shared, a delivery.Activity) {
	m := a.Message
	by, id := handler{a.Service, a.Consumer}, handled{m.Tenant, m.Group, m.ID}
	switch a.What {
	case delivery.Claimed:
		at := crashKey(sh.keys.Stream(m.Tenant), m.Group, m.ID)
		i.crashes[at] = max(i.crashes[at], m.Crashes) // of two claims the earlier one may be reported last
		if allowed := i.silent[at]; m.Crashes > allowed {
			sh.report("a crash is counted only if a process fell silent", m.Event.Execution, "%s %s counts %d crashes, but was claimed only %d times from a silent process", m.Event.Type, m.Event.ID, m.Crashes, allowed)
		}
	case delivery.Began:
		if i.inProgress[by] == nil {
			i.inProgress[by] = map[handled]int{}
		}
		for other, crashes := range i.inProgress[by] {
			if other != id && max(crashes, m.Crashes) >= candidateCrashes {
				sh.report("a message that has crashed two processes is handled in isolation", m.Event.Execution, "%s %s was handled by the %s %s together with another one, after %d crashes", m.Event.Type, m.Event.ID, by.service, by.consumer, max(crashes, m.Crashes))
				break
			}
		}
		i.inProgress[by][id] = m.Crashes
	case delivery.Done, delivery.Broken:
		delete(i.inProgress[by], id)
	default:
	}
}

// checkMark checks a command by which a service marks a message as isolated.
func (i *isolation) checkMark(sh *shared, cmd redis.Cmder) {
	if cmd.Name() != "hset" {
		return
	}
	const key, field = 1, 2
	args := cmd.Args()
	if len(args) <= field {
		return
	}
	name, ok := strings.CutPrefix(fmt.Sprint(args[field]), "alone ")
	if crashes := i.crashes[fmt.Sprint(args[key])+" "+name]; ok && crashes < candidateCrashes {
		sh.report("only a message that has crashed two processes is handled in isolation", "", "%s was isolated after %d crashes", name, crashes)
	}
}
