package executor

import (
	"strconv"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// requested reads the data of a request.
func requested(e event.Event) (r event.Requested, err error) {
	err = decide.DecodeData(e, &r)
	return r, err
}

// completed writes the data of a report as event.Encode does, but without reflection.
func completed(c *event.Completed) []byte {
	if c.Error != nil || c.Status != "" {
		return event.Encode(c)
	}
	const most = 128 // bytes of the constant parts
	out := make([]byte, 0, most+len(c.TaskID)+len(c.TaskName)+len(c.Output))
	out = append(out, `{"task_id":`...)
	out = canonical.Append(out, c.TaskID)
	out = append(out, `,"task_name":`...)
	out = canonical.Append(out, c.TaskName)
	if c.TaskType != "" {
		out = append(out, `,"task_type":`...)
		out = canonical.Append(out, c.TaskType)
	}
	out = append(out, `,"success":`...)
	out = strconv.AppendBool(out, c.Success)
	if len(c.Output) > 0 {
		out = append(out, `,"output":`...)
		out = append(out, c.Output...)
	}
	if c.Then != "" {
		out = append(out, `,"then":`...)
		out = canonical.Append(out, c.Then)
	}
	out = append(out, `,"duration_ms":`...)
	out = strconv.AppendInt(out, c.DurationMS, 10)
	if c.Call != nil {
		out = append(append(out, `,"call":`...), event.Encode(c.Call)...)
	}
	return append(out, '}')
}
