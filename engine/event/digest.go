package event

import (
	"slices"
	"time"
)

// AppendFields appends the strings of Fields to b, each followed by a zero byte. It does
// not allocate them.
func (e Event) AppendFields(b []byte) []byte {
	add := func(name, value string) {
		if value != "" {
			b = append(append(append(append(b, name...), 0), value...), 0)
		}
	}
	add("id", e.ID)
	add("source", e.Source)
	add("specversion", SpecVersion)
	add("type", string(e.Type))
	if !e.Time.IsZero() {
		b = append(b, "time\x00"...)
		b = append(e.Time.UTC().AppendFormat(b, time.RFC3339Nano), 0)
	}
	add("tenantid", e.Tenant)
	add("workflowid", e.Workflow)
	add("executionid", e.Execution)
	add("taskid", e.Task)
	if len(e.Data) > 0 {
		b = append(append(append(b, "data\x00"...), e.Data...), 0)
	}
	if len(e.Ext) == 0 {
		return b
	}
	names := make([]string, 0, len(e.Ext))
	for name := range e.Ext {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(name, e.Ext[name])
	}
	return b
}
