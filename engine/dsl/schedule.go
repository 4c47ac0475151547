package dsl

import (
	"regexp"
	"strings"

	"flunq.io/flunq/engine/expr"
)

var cronField = regexp.MustCompile(`^[0-9A-Za-z*/,?#-]+$`)

// schedule validates the workflow's schedule.
func (p *parser) schedule(n *node) {
	p.def.Schedule = expr.Literal(n.data)
	if !p.object(n, "schedule", keys("every", "cron", "after", "on", "read")) {
		return
	}
	s := workflowInput()
	p.duration(n.get("every"), "every", s)
	p.duration(n.get("after"), "after", s)
	if cron := n.get("cron"); cron != nil {
		p.cron(cron)
	}
	if on := n.get("on"); on != nil {
		p.consumption(on, "on", s, false)
	}
	if read := n.get("read"); read != nil {
		p.word(read, "read", "data", "data", "envelope", "raw")
		if n.get("on") == nil {
			p.mistake(read.Pos, "remove it, or add `on: …`", "read has no meaning without on")
		}
	}
}

func (p *parser) cron(n *node) {
	s, ok := p.text(n, "cron")
	if !ok {
		return
	}
	parts := strings.Fields(s)
	fine := len(parts) == 5
	for _, part := range parts {
		fine = fine && cronField.MatchString(part)
	}
	if !fine {
		p.mistake(n.Pos, "write five fields: '0 8 * * 1' is Mondays at 8:00 (minute, hour, day, month, weekday)",
			"cron: %s has not the five fields of a cron expression", quote(s))
	}
}
