package top

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// prepareEmit checks the event to send.
func (l *Live) prepareEmit(ctx context.Context, a tui.Action) (*prepared, error) {
	e, err := eventOf(a.Text)
	if err != nil {
		return nil, err
	}
	listeners, err := l.store.Listeners(ctx, l.opts.Tenant, string(e.Type))
	if err != nil {
		return nil, err
	}
	p := &prepared{}
	p.head = fmt.Sprintf("send the event %s from %s to tenant %s", e.Type, e.Source, l.opts.Tenant)
	line := "no execution listens for it: those that begin to listen later do not receive it"
	if n := len(listeners); n > 0 {
		const few = 5
		line = fmt.Sprintf("%s may receive it: %s", history.Count(n, "execution"), strings.Join(listeners[:min(n, few)], ", "))
	}
	p.actions = []plannedAction{{
		id: e.ID, line: line, said: fmt.Sprintf("sent %s: %s for %s", e.ID, actions.Listening(len(listeners)), e.Type),
		do: func(ctx context.Context) (bool, error) { return true, l.emit(ctx, e) },
	}}
	p.notes, err = l.unserved(ctx)
	return p, err
}

func (l *Live) emit(ctx context.Context, e event.Event) (err error) {
	e.Tenant = l.opts.Tenant
	if e.Time, err = l.store.NowOf(ctx, l.opts.Tenant); err != nil {
		return err
	}
	return l.store.Publish(ctx, e)
}

// eventOf parses an event that the user typed as JSON or YAML.
func eventOf(text string) (e event.Event, err error) {
	v, err := dsl.ParseData("event", []byte(text))
	if err != nil {
		return e, fmt.Errorf("it cannot be read as JSON or YAML: %w", err)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return e, errors.New(`want an event such as {type: com.shop.paid, source: /shop, data: {order: 7}}`)
	}
	e = event.Event{ID: strings.ToLower(rand.Text()), Source: "/flunq/cli"}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := setAttribute(&e, name, members[name]); err != nil {
			return e, err
		}
	}
	switch {
	case e.Type == "":
		return e, errors.New("the event has no type, such as com.shop.paid")
	case strings.HasPrefix(string(e.Type), event.Prefix):
		return e, fmt.Errorf("type %s: types that begin with %s are reserved for the engine", e.Type, event.Prefix)
	default:
		return e, nil
	}
}

func setAttribute(e *event.Event, name string, value any) error {
	text, isText := value.(string)
	if into := map[string]*string{"id": &e.ID, "source": &e.Source, "type": (*string)(&e.Type)}[name]; into != nil {
		if !isText || text == "" {
			return fmt.Errorf("%s: want a non-empty string", name)
		}
		*into = text
		return nil
	}
	switch {
	case name == "data":
		e.Data = canonical.Encode(value)
		return nil
	case name == "specversion":
		return nil
	case !event.AttributeName(name):
		return fmt.Errorf("attribute %q: want a name of lower-case letters and digits", name)
	case slices.Contains(event.OwnAttributes(), name):
		return fmt.Errorf("the engine sets attribute %s itself", name)
	}
	switch value.(type) {
	case nil, map[string]any, []any:
		return fmt.Errorf("attribute %s: want a string, a number or a boolean", name)
	}
	if e.Ext == nil {
		e.Ext = map[string]string{}
	}
	e.Ext[name] = canonical.Text(value)
	return nil
}
