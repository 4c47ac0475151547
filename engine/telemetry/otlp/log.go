package otlp

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
)

// Log returns a logger that also exports its records.
func (e *Exporter) Log(log *slog.Logger) *slog.Logger {
	if e == nil || e.logs == nil {
		return log
	}
	sent := otelslog.NewHandler(name, otelslog.WithLoggerProvider(e.logs), otelslog.WithVersion(e.opts.Version))
	return slog.New(slog.NewMultiHandler(log.Handler(), leveled{sent, log.Handler()}))
}

// leveled is a handler with the level of another one.
type leveled struct {
	slog.Handler

	level slog.Handler
}

// Enabled implements slog.Handler.
func (l leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return l.level.Enabled(ctx, level)
}

// WithAttrs returns a handler with the same level.
func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.level}
}

// WithGroup returns a handler with the same level.
func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.level}
}
