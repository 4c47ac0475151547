package top

import (
	"context"
	"slices"
	"strings"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// How many rows one page searches if a filter matches few of them.
const (
	deepScan     = 20_000 // where only ids are compared
	readScan     = 4000   // where each row is read
	streamScan   = 2000   // in a stream
	streamAtOnce = 500
)

// Page returns a part of a table. Its cost does not depend on the size of the table.
func (l *Live) Page(ctx context.Context, q tui.Query) (page tui.Page, err error) {
	switch q.Table {
	case tui.Executions:
		page, err = l.executions(ctx, q)
	case tui.Timers:
		page, err = l.timers(ctx, q)
	case tui.DeadLetters:
		page, err = l.deadLetters(ctx, q)
	case tui.Events:
		page, err = l.events(ctx, q)
	}
	return page, lost(ctx, err)
}

// executions leaves out damaged executions, which doctor reports.
func (l *Live) executions(ctx context.Context, q tui.Query) (page tui.Page, err error) {
	query := store.ExecutionQuery{After: q.After, Limit: q.Limit, Back: q.Back, MaxScanned: readScan, Damaged: func(string, error) {}}
	if q.Filter.Empty() {
		query.MaxScanned = q.Limit + maxScanned
	}
	if text := q.Filter.Fields["status"]; text != "" {
		for _, state := range tui.StatesWith(text) {
			if state != tui.Overdue && state != tui.Broken && state != tui.Dead {
				query.Statuses = append(query.Statuses, string(state))
			}
		}
		if len(query.Statuses) == 0 {
			return page, nil
		}
	}
	text := q.Filter.Fields["id"]
	if text != "" {
		query.MaxScanned = deepScan
	}
	query.PassID = func(id string) bool {
		page.Scanned++
		return text == "" || strings.Contains(strings.ToLower(id), text)
	}
	if !q.Filter.Empty() {
		query.Pass = func(x store.Execution) bool { return q.Filter.Match(executionRow(x)) }
	}
	found, next, err := l.store.Executions(ctx, l.opts.Tenant, query)
	for _, x := range found {
		page.Rows = append(page.Rows, executionRow(x))
	}
	page.Next = next
	return page, err
}

func (l *Live) timers(ctx context.Context, q tui.Query) (page tui.Page, err error) {
	now, err := l.store.NowOf(ctx, l.opts.Tenant)
	if err != nil {
		return page, err
	}
	query := timers.Query{Filter: timers.Filter{Tenant: l.opts.Tenant}, After: q.After, Limit: q.Limit, Back: q.Back, MaxScanned: deepScan / 2}
	if !q.Filter.Empty() {
		query.Match = func(p timers.Pending) bool { return q.Filter.Match(timerRow(p, now)) }
	}
	found, err := timers.New(l.store).Page(ctx, query)
	for _, p := range found.Timers {
		page.Rows = append(page.Rows, timerRow(p, now))
	}
	page.Next, page.Scanned = found.Next, found.Scanned
	return page, err
}

func (l *Live) deadLetters(ctx context.Context, q tui.Query) (page tui.Page, err error) {
	return streamPage(q, func(after string) (rows []tui.Row, more bool, err error) {
		deadLetters, next, err := stream.New(l.store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: l.opts.Tenant, Range: entries(q, after)})
		for _, deadLetter := range deadLetters {
			rows = append(rows, deadLetterRow(deadLetter))
		}
		return rows, next != "", err
	})
}

func (l *Live) events(ctx context.Context, q tui.Query) (page tui.Page, err error) {
	return streamPage(q, func(after string) (rows []tui.Row, more bool, err error) {
		found, next, err := inspect.New(l.store).Events(ctx, l.opts.Tenant, entries(q, after))
		for _, p := range found {
			rows = append(rows, eventRow(p))
		}
		return rows, next != "", err
	})
}

// entries returns the range of the next entries of a stream. A table begins with the
// newest.
func entries(q tui.Query, after string) store.Range {
	query := store.Range{Count: q.Limit, Brief: true, Oldest: q.Back}
	if !q.Filter.Empty() {
		query.Count = streamAtOnce
	}
	if after != "" {
		query = query.At("(" + after)
	}
	return query
}

// streamPage fills a page with the rows of a stream that match the filter.
func streamPage(q tui.Query, read func(after string) (rows []tui.Row, more bool, err error)) (page tui.Page, err error) {
	page.Next = q.After
	if q.Back {
		defer func() { slices.Reverse(page.Rows) }()
	}
	for page.Scanned < streamScan {
		rows, more, err := read(page.Next)
		if err != nil {
			return page, err
		}
		left := take(&page, q, rows)
		if !more && left == 0 {
			page.Next = ""
		}
		if !more || len(page.Rows) == q.Limit {
			break
		}
	}
	return page, nil
}

// take adds the rows that match the filter. It returns how many it has not examined because
// the page is full.
func take(page *tui.Page, q tui.Query, rows []tui.Row) (left int) {
	for i, row := range rows {
		page.Scanned++
		page.Next = row.Cursor
		if q.Filter.Match(row) {
			page.Rows = append(page.Rows, row)
		}
		if len(page.Rows) == q.Limit {
			return len(rows) - i - 1
		}
	}
	return 0
}
