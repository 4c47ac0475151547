package store

import (
	"context"
	"strconv"
	"time"
)

// AuditEntry is an action of an operator that no execution's history records.
type AuditEntry struct {
	At      time.Time
	Action  string // such as "rm" or "dlq drop"
	Subject string // what it was done to: ids, separated by spaces
	Detail  string // further details, or ""
	By      string
}

// auditKept is the approximate number of entries kept per tenant.
const auditKept = 10_000

// Audit adds an entry to a tenant's trail, even if Redis is full. Callers do so before they act.
func (s *Store) Audit(ctx context.Context, tenant string, e AuditEntry) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	key := s.keys.Audit(tenant)
	_, err := s.WriteEvenIfFull(ctx, key, "xadd", key, "maxlen", "~", auditKept, "*", "action", e.Action, "subject", e.Subject, "detail", e.Detail, "by", e.By)
	return Failed("record what is done", err)
}

// AuditTrail reads a tenant's entries since a time, the oldest first.
func (s *Store) AuditTrail(ctx context.Context, tenant string, since time.Time) (out []AuditEntry, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	from := "-"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	for {
		page, err := s.rdb.XRangeN(ctx, s.keys.Audit(tenant), from, "+", ScanCount).Result()
		if err != nil {
			return nil, Failed("read what operators did", err)
		}
		for _, entry := range page {
			text := func(name string) string { value, _ := entry.Values[name].(string); return value }
			out = append(out, AuditEntry{
				At: IDTime(entry.ID), Action: text("action"), Subject: text("subject"), Detail: text("detail"), By: text("by"),
			})
			from = "(" + entry.ID
		}
		if len(page) < ScanCount {
			return out, nil
		}
	}
}
